package reconcile

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/balancer"
)

const (
	// patience is for how long pods may be deleted for a smaller size, if it does not show that they
	// have been: a Scale does not say what its controllers know of it.
	patience = 30 * time.Second
	// lag is by how much the cache of pods may be behind the Scales.
	lag = 2 * time.Second
)

// shrunk is what is known of the size of a target. If it becomes smaller, the controllers of the target
// delete pods a moment later. Until then those pods seem to run. If it becomes larger meanwhile, they
// would count as if they were to stay, and others would leave elsewhere in their place.
type shrunk struct {
	// size is the one that was read last.
	size int32
	// to are the smaller sizes that pods may still be deleted for.
	to []smaller
}

// smaller is a size that was smaller than the one before it, and when it was read.
type smaller struct {
	size int32
	at   time.Time
}

// read takes in a size, and how many pods there are.
func (s *shrunk) read(size int32, pods int, now time.Time) {
	s.to = slices.DeleteFunc(s.to, func(to smaller) bool {
		ago := now.Sub(to.at)
		return ago >= patience || ago > lag && pods <= int(to.size)
	})
	if size < s.size {
		s.to = append(s.to, smaller{size, now})
	}
	s.size = size
}

// staying is how many pods no smaller size takes away, and for how long that is so at least; nil for all
// of them.
func (s *shrunk) staying(now time.Time) (least *int32, left time.Duration) {
	for _, to := range s.to {
		if ago := now.Sub(to.at); to.size < s.size && ago < patience {
			least = new(min(to.size, ptr.Deref(least, to.size)))
			left = min(patience-ago, cmp.Or(left, patience))
		}
	}
	return least, left
}

// shrinks are the sizes of the targets, by name; none are known after a start of the controller.
type shrinks map[string]shrunk

// observe notes how many pods of each target stay for sure, and returns after how long that changes; 0
// if time alone does not change it.
func (s *shrinks) observe(targets []balancer.TargetObservation, now time.Time) (again time.Duration) {
	after := make(shrinks, len(targets))
	for i := range targets {
		t := &targets[i]
		known := (*s)[t.Name]
		if t.Err == nil {
			known.read(t.Replicas, len(t.Pods), now)
		}
		after[t.Name] = known
		var left time.Duration
		if t.Staying, left = known.staying(now); left > 0 {
			again = min(left, cmp.Or(again, left))
		}
	}
	*s = after
	return again
}
