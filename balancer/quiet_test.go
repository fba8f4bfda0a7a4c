package balancer

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// loops is how many random closed loops are played for each kind of relief; make worlds plays ten
// thousand.
var (
	loops = flag.Uint64("loops", 700, "random closed loops for each kind of relief")
	from  = flag.Uint64("from", 0, "the seed of the first one")
)

const (
	// horizon is how long a loop is played, settledBy when the last write must have been made:
	// forty replicas that move one at a time, and take seventeen minutes each to start, need twelve
	// hours.
	horizon, settledBy = 24 * time.Hour, 12 * time.Hour
)

// slowly is a world whose pods take their time.
type slowly struct {
	*fakeCluster
	// delay is how long the pods of a target take to start where there is room, jitter how much
	// longer some of them take.
	delay  []time.Duration
	jitter time.Duration
	// glances draws when there are passes for no reason at all; nil for never.
	glances *rand.Rand
}

// startAt is when a pod that has room starts.
func (s *slowly) startAt(target, pod int) time.Time {
	late := time.Duration(pod*7%5) * s.jitter / 5
	return s.pods[target][pod].Created.Add(s.delay[target] + late)
}

// run brings the pods to the sizes: those that do not run leave first, and those for which there is
// room start in time. It returns when the next one will; zero for never.
func (s *slowly) run() (next time.Time) {
	for i, size := range s.sizes {
		pods := s.pods[i]
		for surplus := len(pods) - int(size); surplus > 0; surplus-- {
			pods = leave(pods)
		}
		for len(pods) < int(size) {
			pods = append(pods, podhealth.Pod{Created: s.in.Now, Phase: v1.PodPending})
		}
		s.pods[i] = pods
		room := int(s.able[i])
		for j := range pods {
			if pods[j].Ready {
				room--
			}
		}
		for j := range pods {
			if pods[j].Ready || room <= 0 {
				continue
			}
			room--
			at := s.startAt(i, j)
			if at.After(s.in.Now) {
				if next.IsZero() || at.Before(next) {
					next = at
				}
				continue
			}
			pods[j].Phase, pods[j].Ready, pods[j].WasReady, pods[j].ReadySince = v1.PodRunning, true, true, s.in.Now
		}
	}
	return next
}

// leave drops the youngest pod, one that does not run if there is any.
func leave(pods []podhealth.Pod) []podhealth.Pod {
	at := len(pods) - 1
	for j := range pods {
		if !pods[j].Ready {
			at = j
		}
	}
	return append(append([]podhealth.Pod{}, pods[:at]...), pods[at+1:]...)
}

// play plays the world up to a time, and reports when the last write was made.
func (s *slowly) play(until time.Time) (last time.Time, err error) {
	for s.in.Now.Before(until) {
		starts := s.run()
		var d Decision
		for range 1000 {
			if d, err = s.pass(); err != nil {
				return last, err
			}
			starts = s.run()
			if len(d.Writes) == 0 {
				break
			}
			last = s.in.Now
		}
		if len(d.Writes) > 0 {
			return last, fmt.Errorf("no end of writes at %v: %v", s.in.Now, s.sizes)
		}
		next := d.Next
		if !starts.IsZero() && (next.IsZero() || starts.Before(next)) {
			next = starts
		}
		if next.IsZero() {
			return last, nil // nothing will ever happen again
		}
		if wait := next.Sub(s.in.Now); s.glances != nil && s.glances.IntN(4) == 0 {
			next = s.in.Now.Add(1 + time.Duration(s.glances.Int64N(int64(wait))))
		}
		s.in.Now = next
	}
	return last, nil
}

// slowLoop is a random Balancer in a random fakeCluster: some targets are able to run only so many, and
// some pods take longer to start than the timeout allows.
func slowLoop(seed uint64, relief v1alpha1.Relief) *slowly {
	r := rand.New(rand.NewPCG(seed, 21))
	spec := randomSpec(r, 6)
	for relief == v1alpha1.ReliefLaterOnly && spec.Policy.Priorities == nil {
		spec = randomSpec(r, 6)
	}
	spec.Policy.Relief = relief
	if r.IntN(3) == 0 {
		spec.Policy.MaxMovesPerMinute = new(1 + r.Int32N(5))
	}
	var sizes []int32
	for range spec.Targets {
		sizes = append(sizes, r.Int32N(16))
	}
	s := &slowly{fakeCluster: newFakeCluster(spec, sizes...), jitter: time.Duration(r.IntN(3)) * time.Minute}
	s.forgetful = r.IntN(4) == 0
	if r.IntN(2) == 0 {
		s.glances = r
	}
	for i := range s.able {
		s.delay = append(s.delay, []time.Duration{0, time.Second, time.Minute, timeout - time.Second, timeout + time.Minute,
			3 * timeout}[r.IntN(6)])
		if r.IntN(2) == 0 {
			s.able[i] = r.Int32N(16)
			s.pods[i] = nil
		}
	}
	return s
}

// Whatever the relief, the policy, the bounds, the limit of moves and the time that pods take to
// start: where nothing changes from outside the sizes settle, and then not one is written any more.
func TestClosedLoopIsQuiet(t *testing.T) {
	t.Parallel()
	for _, relief := range []v1alpha1.Relief{v1alpha1.ReliefAny, v1alpha1.ReliefLaterOnly, v1alpha1.ReliefHealthyOnly} {
		t.Run(string(relief), func(t *testing.T) {
			t.Parallel()
			bad := 0
			for seed := range *loops {
				seed += *from
				s := slowLoop(seed, relief)
				last, err := s.play(noon.Add(horizon))
				if err == nil && last.After(noon.Add(settledBy)) {
					err = fmt.Errorf("written after %v: %v", last.Sub(noon), s.sizes)
				}
				if err != nil {
					bad++
					if bad < 6 {
						t.Errorf("seed %d: %v\n%s, able %v, delays %v + %v", seed, err, describe(s.fakeCluster), s.able, s.delay, s.jitter)
					}
				}
			}
			if bad > 0 {
				t.Errorf("%d of %d never settle", bad, *loops)
			}
		})
	}
}

// slowPair is a target that is able to run nothing, and one whose pods start one after another, the
// last long after the timeout.
func slowPair(t *testing.T, policy v1alpha1.BalancerPolicy) *slowly {
	t.Helper()
	s := &slowly{
		fakeCluster: newFakeCluster(specOf(10, withFallback(policy), targetOf("a", -1, -1), targetOf("b", -1, -1)), 5, 5),
		delay:       []time.Duration{0, timeout + time.Minute},
		jitter:      10 * time.Minute,
	}
	s.able[0], s.pods[0] = 0, nil
	return s
}

// Pods that are slow to take over are not withdrawn where there is nowhere else to go: they would
// begin anew.
func TestSlowReliefIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	for _, relief := range []v1alpha1.Relief{v1alpha1.ReliefAny, v1alpha1.ReliefLaterOnly, v1alpha1.ReliefHealthyOnly} {
		policy := proportional(map[string]int32{"a": 1, "b": 1})
		if relief == v1alpha1.ReliefLaterOnly {
			policy = priority("a", "b")
		}
		policy.Relief = relief
		s := slowPair(t, policy)
		reached := false
		for s.in.Now.Before(noon.Add(2 * time.Hour)) {
			if _, err := s.play(s.in.Now.Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			s.in.Now = s.in.Now.Add(time.Minute)
			reached = reached || s.sizes[1] == 10
			if reached && s.sizes[1] != 10 {
				t.Fatalf("%s: withdrawn after %v: %v", relief, s.in.Now.Sub(noon), s.sizes)
			}
		}
		if running := s.in.Status.Targets[1].Running; running != 10 {
			t.Errorf("%s: %d run: %v", relief, running, s.sizes)
		}
	}
}

// Relief that is pending goes as soon as there is a place for it elsewhere.
func TestSlowReliefGoesWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	s := slowPair(t, proportional(map[string]int32{"a": 1, "b": 1}))
	s.able[1] = 7
	if _, err := s.play(noon.Add(2 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(s.sizes) != "[5 10]" {
		t.Fatalf("nowhere else to go: %v", s.sizes)
	}
	s.in.Now = noon.Add(2 * time.Hour)
	s.able[0] = 3
	if _, err := s.play(noon.Add(4 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(s.sizes) != "[5 7]" { // three and seven run
		t.Errorf("three have a place on a: %v", s.sizes)
	}
}

// A target that turns out to be unable to run all that it took over keeps what runs there, and
// relief goes on to the next.
func TestHealthyOnlySettles(t *testing.T) {
	t.Parallel()
	for _, able := range [][]int32{{0, 50, 3}, {0, 2, 3}, {0, 3, 0}, {1, 2, 1}, {0, 0, 3}, {0, 0, 0}} {
		policy := withFallback(proportional(map[string]int32{"a": 2, "b": 3, "c": 1}))
		policy.Relief = v1alpha1.ReliefHealthyOnly
		s := &slowly{
			fakeCluster: newFakeCluster(specOf(4, policy, targetOf("a", -1, -1), targetOf("b", -1, -1), targetOf("c", -1, -1)), 0, 0, 0),
			delay:       []time.Duration{0, timeout + time.Minute, timeout + 2*time.Minute},
		}
		s.able = able
		last, err := s.play(noon.Add(horizon))
		if err != nil {
			t.Fatal(err)
		}
		var running int32
		for _, target := range s.in.Status.Targets {
			running += target.Running
		}
		if want := min(4, able[0]+able[1]+able[2]); running != want || last.After(noon.Add(2*time.Hour)) {
			t.Errorf("able %v: %d run of %d, last write after %v: %v", able, running, want, last.Sub(noon), s.sizes)
		}
	}
}
