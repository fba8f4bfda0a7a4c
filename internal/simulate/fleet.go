package simulate

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/predicates"
)

// Moment is what a loop of a run sees.
type Moment struct {
	// Groups are the node groups by name, with the templates that are compared: from nodes, from the
	// cloud, and completed ones.
	Groups []autoscaler.Group
	// Nodes are the registered nodes, each with the pods on it.
	Nodes []predicates.Node
	// Pending are the pods that nodes are ordered for, in order of arrival.
	Pending []*v1.Pod
	// Checker answers for the scheduler.
	Checker *predicates.Checker
}

// See plays a setup and returns what a round at an instant of the run's clock sees, before it orders
// anything; at 0 that is the first round. If nothing more happens before, it is what there is at the
// end.
func See(ctx context.Context, setup *Setup, at time.Duration) (*Moment, error) {
	s, err := newSimulation(ctx, setup)
	if err != nil {
		return nil, err
	}
	end := epoch.Add(at)
	if s.end().Before(end) {
		end = s.end()
	}
	for at > 0 {
		if err := s.step(ctx); err != nil {
			return nil, fmt.Errorf("scenario %s at +%s: %w", setup.Name, s.elapsed(), err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !s.jump(end) || s.clock.Now().Equal(end) {
			break
		}
	}
	if err := s.settle(); err != nil {
		return nil, err
	}
	survey, err := s.model.ca.Survey()
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", setup.Name, err)
	}
	return &Moment{Groups: survey.Groups, Nodes: s.cluster.seen(), Pending: survey.Pending, Checker: s.checker}, nil
}
