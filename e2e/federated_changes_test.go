package e2e

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// The object is edited again and again while replicas move: in the end it is as the last edit says,
// and all the time as many run as every edit asked for.
func (w *federation) edited(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "edited", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 40, 0, evenly)
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 14, 13, 13), nil)
	s.begin(ctx, t)
	for i, of := range [][]int32{{8, 1, 1}, {1, 8, 1}, {1, 1, 8}, {1, 1, 1}, {2, 1, 1}, {0, 1, 1}, {6, 3, 1}} {
		s.edit(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) {
			spec.Replicas, spec.Preferences.Clusters = new(int32(40+i)), weights(of...)
		})
		pause, cancel := context.WithTimeout(ctx, time.Duration(1+i%3)*300*time.Millisecond)
		<-pause.Done()
		cancel()
	}
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 27, 14, 5), nil)
	s.bounds(t, "edited", 40, 100)      // the largest share of each cluster
	s.wroteAtMost(ctx, t, "edited", 14) // for each of the seven edits once, and once more when the replicas that it moved leave
	s.close(ctx, t)
}

// New credentials while replicas are added: each local object is written once.
func (s *stage) rotated(ctx context.Context, t *testing.T) {
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Replicas = new(int32(48)) })
	s.join(t, "berlin")
	s.edit(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Replicas = new(int32(60)) })
	s.settles(ctx, t, []int32{20, 20, 20}, nil)
	s.bounds(t, "rotated", 30, 60)
	s.wroteAtMost(ctx, t, "rotated", 2)
	s.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Replicas = new(int32(30)) })
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	s.wrote(ctx, t, "with the new credentials", 1, 1, 1)
}

// A cluster marked NoSchedule keeps what it has, and gets no more.
func (s *stage) noSchedule(ctx context.Context, t *testing.T) {
	mark := func(taints ...v1alpha1.ClusterTaint) {
		var m v1alpha1.MemberCluster
		if err := s.client.Get(ctx, client.ObjectKey{Name: "cork"}, &m); err != nil {
			t.Fatal(err)
		}
		before := m.DeepCopy()
		m.Spec.Taints = taints
		if err := s.client.Patch(ctx, &m, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	s.begin(ctx, t)
	mark(v1alpha1.ClusterTaint{Key: "maintenance", Effect: v1.TaintEffectNoSchedule})
	s.until(ctx, t, "the object knows", func() bool {
		for _, c := range s.get(ctx, t).Status.Clusters {
			if c.Name == "cork" && c.Reason == "Max" {
				return true
			}
		}
		return false
	})
	s.quiet(ctx, t)
	s.wrote(ctx, t, "marked", 0, 0, 0)
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Replicas = new(int32(50)) })
	s.settles(ctx, t, []int32{20, 20, 10}, nil)
	s.wrote(ctx, t, "more replicas", 1, 1, 0)
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Replicas = new(int32(48)) })
	s.settles(ctx, t, []int32{19, 19, 10}, nil)
	s.begin(ctx, t)
	mark()
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 16, 16, 16), nil)
	s.wrote(ctx, t, "not marked any more", 1, 1, 1)
	s.bounds(t, "not marked any more", 48, 54)
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Replicas = new(int32(30)) })
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
}

// What runs in a cluster that leaves stays there and is not counted any more. When it joins again,
// its pods are counted again.
func (s *stage) leavesAndJoins(ctx context.Context, t *testing.T) {
	s.begin(ctx, t)
	s.run(t, 0, "cluster", "leave", "berlin", "--member-kubeconfig="+s.members["berlin"].Kubeconfig)
	s.until(ctx, t, "its replicas run elsewhere", func() bool {
		sizes, ready := s.sizes(ctx)
		return s.settled(ctx, t) && sizes[0] == 15 && ready[0] == 15 && ready[1] == 10 && ready[2] == 15
	})
	s.quiet(ctx, t)
	s.wrote(ctx, t, "berlin has left", 1, 0, 1)
	s.bounds(t, "berlin has left", 30, 60)
	s.begin(ctx, t)
	s.join(t, "berlin", "--region=eu", "--zone=eu-berlin")
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	s.wrote(ctx, t, "berlin has joined", 1, 0, 1)
	s.bounds(t, "berlin has joined", 30, 60)
	if _, _, gone := s.ledger.pods(s.namespace); gone[1] != 0 {
		t.Errorf("pods went away: %v", gone)
	}
}
