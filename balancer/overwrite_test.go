package balancer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// What package replica says of other writers.
const (
	maxOverwrites          = 3
	lastPause, forgetAfter = 10 * time.Minute, 10 * time.Minute
)

// contest has two targets of three replicas each, and an autoscaler that wants five of the first.
type contest struct {
	*fakeCluster
	t *testing.T
	// wants is what the other writer wants of the first target; negative for nothing.
	wants int32
}

func newContest(t *testing.T) *contest {
	t.Helper()
	w := newFakeCluster(specOf(6, withFallback(proportional(map[string]int32{"a": 1, "b": 1})), targetOf("a", -1, -1), targetOf("b", -1, -1)),
		3, 3)
	must(t, w.converge())
	return &contest{fakeCluster: w, t: t, wants: 5}
}

// play has the other writer look every 15 seconds, and the Balancer after each change and when it
// wants to, for a time. It returns how often the Balancer wrote.
func (c *contest) play(d time.Duration) (writes int) {
	c.t.Helper()
	before := c.writes
	for end := c.in.Now.Add(d); c.in.Now.Before(end); c.in.Now = c.in.Now.Add(15 * time.Second) {
		if c.wants >= 0 {
			c.sizes[0] = c.wants
		}
		c.run()
		must(c.t, c.converge())
	}
	return c.writes - before
}

// What a second writer adds to a target takes nothing away from the others; what it takes away runs there.
func TestSecondWriterKeepsItsShare(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	if n := c.play(5 * time.Minute); n > 2*maxOverwrites || fmt.Sprint(c.sizes) != "[5 3]" {
		t.Errorf("%d writes, sizes %v", n, c.sizes)
	}
	s := c.in.Status
	if s.Targets[0].Reason != ReasonSecondWriter || !strings.Contains(s.Targets[0].Message, "HorizontalPodAutoscaler") {
		t.Errorf("%+v", s.Targets[0])
	}
	for _, kind := range []string{v1alpha1.ConditionBalanced, v1alpha1.ConditionTargetsReadable} {
		if got := meta.FindStatusCondition(s.Conditions, kind); got.Status != metav1.ConditionFalse || got.Reason != ReasonSecondWriter {
			t.Errorf("%+v", got)
		}
	}
	if n := c.play(24 * time.Hour); n > 150 {
		t.Errorf("%d writes in a day", n)
	}
	c.wants = 1 // it goes on, with fewer
	if n := c.play(time.Minute); fmt.Sprint(c.sizes) != "[1 5]" || n > 2 {
		t.Errorf("%d writes, sizes %v", n, c.sizes)
	}
}

// The event is reported once.
func TestSecondWriterIsToldOnce(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	events := 0
	for range 8 {
		c.sizes[0] = 5
		c.in.Now = c.in.Now.Add(15 * time.Second)
		for range 3 {
			c.run()
			d, err := c.pass()
			must(t, err)
			if told(d, ReasonSecondWriter) {
				events++
			}
		}
	}
	if events != 1 {
		t.Errorf("%d events", events)
	}
}

// When the other writer stops, the target is written again after a while, and at once when the
// Balancer is changed.
func TestSecondWriterStops(t *testing.T) {
	t.Parallel()
	t.Run("by itself", func(t *testing.T) {
		t.Parallel()
		c := newContest(t)
		c.play(5 * time.Minute)
		c.wants = -1
		c.play(lastPause + time.Minute)
		if fmt.Sprint(c.sizes) != "[3 3]" {
			t.Errorf("sizes %v", c.sizes)
		}
		c.play(forgetAfter + time.Minute)
		if s := c.in.Status.Targets[0]; s.Overwrites != nil {
			t.Errorf("remembered: %+v", s.Overwrites)
		}
	})
	t.Run("and the Balancer is changed", func(t *testing.T) {
		t.Parallel()
		c := newContest(t)
		c.play(5 * time.Minute)
		c.wants = -1
		c.in.Generation++
		c.play(15 * time.Second)
		if fmt.Sprint(c.sizes) != "[3 3]" {
			t.Errorf("sizes %v", c.sizes)
		}
	})
}

// Changes now and then, by hand, are put right every time; so are sizes that the Balancer wrote and
// did not get to note.
func TestWhatIsNoSecondWriter(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	for range 10 {
		c.sizes[0] = 5
		c.run()
		must(t, c.converge())
		c.wants = -1
		c.play(forgetAfter + time.Minute)
	}
	if fmt.Sprint(c.sizes) != "[3 3]" {
		t.Errorf("sizes %v", c.sizes)
	}
	for i := range int32(10) {
		c.in.Spec.Replicas = new(8 + i)
		status := c.in.Status
		_, err := c.pass()
		must(t, err)
		c.in.Status = status // it is lost
		c.observe()
		for j := range c.in.Targets {
			c.in.Targets[j].Written = new(c.sizes[j])
		}
		d, err := Decide(c.in)
		must(t, err)
		c.apply(d)
		if d.Status.Targets[0].Overwrites != nil {
			t.Fatalf("%+v", d.Status.Targets[0])
		}
	}
}
