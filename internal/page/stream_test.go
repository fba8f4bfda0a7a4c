package page_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/internal/page"
)

// counter is a state that changes when somebody counts.
type counter struct{ n, asked atomic.Int64 }

func (c *counter) state() any {
	c.asked.Add(1)
	return map[string]any{"server": "test", "time": time.Now(), "held": []page.Held{{What: "it", Why: strings.Repeat("x", int(c.n.Load()))}}}
}

// reader reads a stream. While blocked is not nil a write waits for it, as one to a client that does not read.
type reader struct {
	*httptest.ResponseRecorder
	mu      sync.Mutex
	blocked chan struct{}
	done    chan struct{}
}

func (r *reader) Write(b []byte) (int, error) {
	if r.blocked != nil {
		<-r.blocked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ResponseRecorder.Write(b)
}

func (r *reader) events() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Count(r.Body.Bytes(), []byte("\n\n"))
}

func follow(ctx context.Context, p *page.Page, blocked chan struct{}) *reader {
	r := &reader{ResponseRecorder: httptest.NewRecorder(), blocked: blocked, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		p.ServeHTTP(r, httptest.NewRequestWithContext(ctx, http.MethodGet, "/status?format=events", http.NoBody))
	}()
	return r
}

// step lets virtual time pass.
func step(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A change is shown within a second, no change is shown after ten seconds, and the state is read once for all streams.
func TestStreamsShowChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counter
		p := page.New(c.state)
		first, second := follow(t.Context(), p, nil), follow(t.Context(), p, nil)
		synctest.Wait()
		want := func(events int) {
			t.Helper()
			if a, b := first.events(), second.events(); a != events || b != events {
				t.Errorf("%d and %d events, want %d", a, b, events)
			}
		}
		want(1)
		step(5 * time.Second)
		want(1)
		c.n.Add(1)
		step(2 * time.Second)
		want(2)
		step(12 * time.Second)
		want(3)
		if asked := c.asked.Load(); asked > 21 {
			t.Errorf("the state was read %d times in 19 seconds", asked)
		}
		p.Close()
		<-first.done
		<-second.done
		late := follow(t.Context(), p, nil)
		<-late.done
		if late.Code != http.StatusServiceUnavailable {
			t.Errorf("a stream after the end answers %d", late.Code)
		}
	})
}

// A client that does not read delays nobody: neither other streams, nor pages, nor what decides.
func TestSlowReadersDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counter
		p := page.New(c.state)
		blocked := make(chan struct{})
		var slow []*reader
		for range page.MaxStreams - 1 {
			slow = append(slow, follow(t.Context(), p, blocked))
		}
		synctest.Wait()
		quick := follow(t.Context(), p, nil)
		for range 10 {
			c.n.Add(1)
			step(2 * time.Second)
		}
		if n := quick.events(); n != 11 {
			t.Errorf("%d events beside slow readers, want 11", n)
		}
		refused := follow(t.Context(), p, nil)
		<-refused.done
		if refused.Code != http.StatusServiceUnavailable || refused.Header().Get("Retry-After") == "" {
			t.Errorf("one stream too many answers %d", refused.Code)
		}
		p.Close()
		<-quick.done
		close(blocked)
		for _, r := range slow {
			<-r.done
		}
	})
}

// A stream ends when its client has gone, and then another may begin.
func TestStreamsEndWithTheirClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counter
		p := page.New(c.state)
		for range 3 * page.MaxStreams {
			ctx, leave := context.WithCancel(t.Context())
			r := follow(ctx, p, nil)
			synctest.Wait()
			leave()
			<-r.done
			if r.Code != http.StatusOK || r.events() != 1 {
				t.Fatalf("%d, %d events", r.Code, r.events())
			}
		}
	})
}
