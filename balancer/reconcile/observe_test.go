package reconcile

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// crowd counts who is inside, and lets nobody out before there are enough.
type crowd struct {
	enough int

	mu           sync.Mutex
	inside, most int
	full         chan struct{} // closed when there are enough
}

func (c *crowd) pass(*http.Request) {
	c.mu.Lock()
	c.inside++
	c.most = max(c.most, c.inside)
	if c.most == c.enough {
		select {
		case <-c.full:
		default:
			close(c.full)
		}
	}
	c.mu.Unlock()
	select {
	case <-c.full:
	case <-time.After(time.Minute): // they came one by one
	}
	c.mu.Lock()
	c.inside--
	c.mu.Unlock()
}

// Targets are read several at a time, but not all of them; one that cannot be read keeps no other from it, and each is told in
// its place.
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
	c := &crowd{enough: readsAtATime, full: make(chan struct{})}
	b.server.change(func() { b.server.gate = c.pass })
	found, err := b.observe(t.Context(), b.get("web"))
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
