package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
)

// ledger decides about one object after the other where the room of a cluster is known, so that no
// two of them choose the same room.
type ledger struct {
	mu     sync.Mutex
	ledger *federation.Ledger // nil until room is known
}

// decide makes a decision. The first one with known room takes in what all objects were given
// before the program started.
func (r *reconciler) decide(ctx context.Context, in federation.Input) (federation.Decision, error) {
	l := &r.ledger
	l.mu.Lock()
	// Looked at under the lock: the ledger forgets what a later look has shown.
	rooms := r.rooms(in.Clusters)
	if l.ledger == nil && len(rooms) == 0 {
		l.mu.Unlock()
		return federation.Decide(in)
	}
	defer l.mu.Unlock()
	if l.ledger == nil {
		if err := l.recall(ctx, r.client, in.Now); err != nil {
			return federation.Decision{}, err
		}
	}
	return l.ledger.Decide(in, rooms)
}

func (l *ledger) recall(ctx context.Context, all client.Reader, now time.Time) error {
	var list v1alpha1.FederatedReplicaSetList
	if err := all.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing FederatedReplicaSets: %w", err)
	}
	l.ledger = federation.NewLedger()
	for i := range list.Items {
		f := &list.Items[i]
		if f.DeletionTimestamp == nil {
			l.ledger.Recall(client.ObjectKeyFromObject(f).String(), &f.Spec, &f.Status, now)
		}
	}
	return nil
}

func (l *ledger) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ledger != nil {
		l.ledger.Forget(key)
	}
}

// rooms are the rooms that are known, of the clusters that can be reached.
func (r *reconciler) rooms(clusters []federation.Cluster) map[string]federation.Room {
	out := map[string]federation.Room{}
	for _, cluster := range clusters {
		if cluster.Reach != federation.Reachable {
			continue
		}
		if c := r.members.Get(cluster.Name); c != nil {
			if room, known := c.Room(); known {
				out[cluster.Name] = room
			}
		}
	}
	return out
}
