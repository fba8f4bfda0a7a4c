package join

import (
	"context"
	"fmt"
)

// Orphan is a local object in a member whose FederatedReplicaSet does not exist.
type Orphan struct {
	Cluster   string `json:"cluster"`
	Object    string `json:"object"` // kind and name
	Namespace string `json:"namespace"`
	Replicas  int32  `json:"replicas"`
}

// Orphans are the local objects in a member that were written for FederatedReplicaSets that the host does
// not have: deleted ones with cascade: Orphan, those of another host, or what was lost with the host's data.
func Orphans(ctx context.Context, host, member Cluster, name string) ([]Orphan, error) {
	all, err := (&joiner{host: host}).federated(ctx)
	if err != nil {
		return nil, err
	}
	left, err := locals(ctx, member.Client)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var orphans []Orphan
	for _, l := range left {
		if !exists(all, l.owner) {
			orphans = append(orphans, Orphan{name, nameOf(l.object), l.object.GetNamespace(), l.replicas})
		}
	}
	return orphans, nil
}
