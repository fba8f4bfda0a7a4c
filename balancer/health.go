package balancer

import (
	"cmp"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/replica"
)

// healthOf is the health of a target as the status has it.
func healthOf(s *v1alpha1.BalancerTargetStatus) replica.Health {
	return replica.Health{
		Size: s.Current, Running: s.Running, NotStarted: s.NotStarted, BelowSizeSince: s.BelowSizeSince,
		Capacity: s.Capacity, BlockedSince: s.BlockedSince, FineSince: s.FineSince,
	}
}

// record writes the health of the target to its status.
func (t *target) record() {
	s, h := &t.status, t.health.Now
	s.Current, s.Running, s.NotStarted, s.BelowSizeSince = h.Size, h.Running, h.NotStarted, h.BelowSizeSince
	s.Capacity, s.BlockedSince, s.FineSince = h.Capacity, h.BlockedSince, h.FineSince
}

// startupTimeout is how long replicas may take to start; 0 without a fallback, where they may take
// any time.
func startupTimeout(f *v1alpha1.Fallback) time.Duration {
	if f == nil {
		return 0
	}
	return f.StartupTimeout.Duration
}

// stabilization is how long a target has to run well until it counts as recovered; 0 without a
// fallback.
func stabilization(f *v1alpha1.Fallback) time.Duration {
	if f == nil {
		return 0
	}
	return cmp.Or(f.StabilizationTime.Duration, v1alpha1.DefaultStabilizationTime)
}
