package autoscaler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
)

// draining is a cluster in which a-0001 is to go and its pods are held back.
func draining(t *testing.T, down removal.Options, outages ...v1alpha1.Outage) *shrinking {
	config := shrinkables(shrinkable("a", 2, 0))
	config.Outages = outages
	s := newShrinking(t, config, down, nil)
	s.held = map[string]string{"a-0001": "a budget"}
	s.fill("500m", "a-0001")
	s.fill("3", "a-0002")
	s.after(0)
	if begun := s.after(10 * time.Minute); len(begun.Drains) != 1 || begun.Drains[0].Held != "a budget" || len(begun.Attempts) > 0 {
		t.Fatalf("drains %v, calls %v", begun.Drains, begun.Attempts)
	}
	return s
}

// TestDrainsGoOn: evictions that a budget refuses are tried again every ten seconds, and the machine
// is deleted when all pods are gone. Until then the node is on its way out.
func TestDrainsGoOn(t *testing.T) {
	s := draining(t, removal.Options{})
	down := s.after(9 * time.Second)
	expect(t, "before the next try", down, "InUse 1, Leaving 1")
	if len(down.Drains)+len(down.Attempts) > 0 {
		t.Errorf("tries too early: %v, %v", down.Drains, down.Attempts)
	}
	if at, waits := s.ca.Next(); !waits || !at.Equal(s.clock.Now().Add(time.Second)) {
		t.Errorf("looks again at %s", at)
	}
	if down = s.after(time.Second); len(down.Drains) != 1 {
		t.Errorf("the next try: %v", down.Drains)
	}
	delete(s.held, "a-0001")
	if down = s.after(10 * time.Second); len(down.Attempts) != 1 || down.Attempts[0].Shrank != 1 {
		t.Errorf("no pod is left: %v", down.Attempts)
	}
}

// TestDrainsAreGivenUp: the node stays, and nothing goes for a while.
func TestDrainsAreGivenUp(t *testing.T) {
	limit := 25 * time.Second
	s := draining(t, removal.Options{PodEvictionTime: &limit})
	s.after(10 * time.Second)
	s.after(10 * time.Second)
	down := s.after(5 * time.Second)
	if len(down.Attempts) != 1 || down.Attempts[0].Err == nil ||
		!strings.Contains(down.Attempts[0].Err.Error(), "a-0001 was not drained in time: a budget") {
		t.Fatalf("%v", down.Attempts)
	}
	expect(t, "soon after", s.after(time.Second), "InUse 1, WaitsForTime 1")
	delete(s.held, "a-0001")
	expect(t, "later", s.after(10*time.Minute), "Goes 1, InUse 1")
}

// TestNodesThatVanishAreNotDrained, nor deleted.
func TestNodesThatVanishAreNotDrained(t *testing.T) {
	s := draining(t, removal.Options{}, v1alpha1.Outage{Zones: []string{"zone-a"}, Mode: v1alpha1.OutageVanish,
		FaultWindow: during(10*time.Minute+time.Second, 0)})
	if down := s.after(10 * time.Second); len(down.Drains)+len(down.Attempts) > 0 {
		t.Errorf("%v, %v", down.Drains, down.Attempts)
	}
}
