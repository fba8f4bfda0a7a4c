package simulate

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/scaleup"
)

// Fleet returns the node groups of a setup as its first round sees them, by name, with the
// templates that are compared there: from nodes, from the cloud, and completed ones.
func Fleet(ctx context.Context, setup *Setup) ([]scaleup.Group, error) {
	s, err := newSimulation(ctx, setup)
	if err != nil {
		return nil, err
	}
	s.scaleWorkloads()
	world, err := s.scaler.Observe(ctx, s.clock.Now(), s.seenCluster(s.cluster.helped()))
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", setup.Name, err)
	}
	return world.Groups, nil
}

// seenCluster returns the cluster as a round sees it, with the pending pods.
func (s *simulation) seenCluster(pending []*pod) scaleup.Cluster {
	return scaleup.Cluster{Nodes: s.cluster.seen(), Pending: objectsOf(pending), DaemonSets: s.setup.DaemonSets, Shifts: s.setup.Shifts}
}
