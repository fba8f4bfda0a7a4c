package replica

import (
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/podhealth"
)

const (
	// patience is for how long pods may be deleted for a smaller size, if it does not show that they have been.
	patience = 30 * time.Second
	// lag is by how much what is known of pods may be behind what is known of sizes.
	lag = 2 * time.Second
)

// Sizes are the sizes of a target that its workload controller may still act on. If the size becomes smaller, the
// controller deletes pods a moment later, and until then those pods seem to run. If it becomes larger meanwhile,
// they would count as if they were to stay, and others would leave elsewhere in their place. The zero value is for
// a target that was never read.
type Sizes struct {
	last    int32
	smaller []smaller
}

// smaller is a size that was smaller than the one before it.
type smaller struct {
	size int32
	// read is when it was read first, and acted since when all pods that it takes away are known to be gone.
	read, acted time.Time
}

// over is when no pod is deleted for the size any more.
func (s smaller) over() time.Time {
	over := s.read.Add(patience)
	if at := s.acted.Add(lag); !s.acted.IsZero() && at.Before(over) {
		return at
	}
	return over
}

// Read records the size that was read last, and whether all is known to be done that a smaller size asked for.
func (s *Sizes) Read(size int32, acted func(smaller int32) bool, now time.Time) {
	if size < s.last {
		s.smaller = append(s.smaller, smaller{size: size, read: now})
	}
	s.last = size
	for i := range s.smaller {
		switch to := &s.smaller[i]; {
		case !acted(to.size):
			to.acted = time.Time{}
		case to.acted.IsZero():
			to.acted = now
		}
	}
	s.smaller = slices.DeleteFunc(s.smaller, func(to smaller) bool { return !now.Before(to.over()) })
}

// Staying is how many pods no smaller size takes away; nil for all of them.
func (s *Sizes) Staying(t *podhealth.Timer) (least *int32) {
	for _, to := range s.smaller {
		if over := to.over(); to.size < s.last && t.Now.Before(over) {
			t.At(over)
			if least == nil || to.size < *least {
				least = &to.size
			}
		}
	}
	return least
}
