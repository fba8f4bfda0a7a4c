package reconcile

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// crowd keeps anyone who asks for a Scale inside until somebody opens.
type crowd struct {
	enough int

	mu           sync.Mutex
	inside, most int
	assembled    chan struct{} // closed when there are enough
	open         chan struct{}
}

func (c *crowd) pass(r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/scale") {
		return
	}
	c.mu.Lock()
	c.inside++
	c.most = max(c.most, c.inside)
	if c.most == c.enough && c.inside == c.enough {
		select {
		case <-c.assembled:
		default:
			close(c.assembled)
		}
	}
	c.mu.Unlock()
	<-c.open
	c.mu.Lock()
	c.inside--
	c.mu.Unlock()
}

// Targets are read several at a time, but not all of them; one that cannot be read keeps no other
// from it, and each is reported in its place.
func TestTargetsAreReadSeveralAtATime(t *testing.T) {
	var names []string
	for i := range 3 * readsAtATime {
		names = append(names, fmt.Sprintf("t%02d", i))
	}
	b := newBench(t, balancerOf("web", 0, names...))
	for i, name := range names {
		if i != 5 {
			b.server.deploy(name, int32(i))
		}
	}
	b.pass("web") // learns what there is
	c := &crowd{enough: readsAtATime, assembled: make(chan struct{}), open: make(chan struct{})}
	b.server.change(func() { b.server.gate = c.pass })
	var others sync.WaitGroup
	others.Go(func() {
		defer close(c.open)
		select {
		case <-c.assembled:
		case <-time.After(time.Minute):
			return // they come one by one
		}
		for range 100 { // time for more to come
			if response, err := http.Get(b.server.URL + "/api"); err == nil {
				_ = response.Body.Close()
			}
		}
	})
	found, err := b.observe(t.Context(), b.get("web"))
	others.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if c.most != readsAtATime {
		t.Errorf("%d reads at a time, want %d", c.most, readsAtATime)
	}
	for i, got := range found.input.Targets {
		switch {
		case got.Name != names[i]:
			t.Errorf("target %s is told in place of %s", got.Name, names[i])
		case i == 5 && (got.Err == nil || !strings.Contains(got.Err.Error(), "t05")):
			t.Errorf("%s is not there, but %v", names[i], got.Err)
		case i != 5 && (got.Err != nil || got.Replicas != b.server.scales[names[i]].Spec.Replicas):
			t.Errorf("%s: %+v", names[i], got)
		}
	}
	if len(found.scales) != len(names)-1 || found.input.Targets[0].Name != found.scales["t00"].Reference.Name {
		t.Errorf("scales are %v", found.scales)
	}
}
