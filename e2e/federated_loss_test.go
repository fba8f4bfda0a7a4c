package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// Nothing moves in a short loss.
func (s *stage) shortLoss(ctx context.Context, t *testing.T) {
	for range 3 {
		s.begin(ctx, t)
		before := s.events(ctx, t, "cork", "ClusterLost")
		short := s.restart(ctx, t, "cork")
		s.settles(ctx, t, []int32{10, 10, 10}, nil)
		if short {
			if lost := s.events(ctx, t, "cork", "ClusterLost") - before; lost != 0 {
				t.Errorf("%d events of a loss", lost)
			}
			s.wrote(ctx, t, "a short loss", 0, 0, 0)
			s.bounds(t, "a short loss", 30, 30)
			return
		}
	}
	t.Skip("the API server takes too long to start for a short loss")
}

func (s *stage) launch(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	if err := plane.Process(controlplane.APIServer).Launch(ctx); err != nil {
		t.Fatal(err)
	}
}

// In a long loss the replicas of the cluster start elsewhere. Nothing is deleted there, and the
// surplus leaves once when it is back.
func (s *stage) longLoss(ctx context.Context, t *testing.T) {
	s.begin(ctx, t)
	s.members["cork"].Process(controlplane.APIServer).Kill()
	s.until(ctx, t, "its replicas run elsewhere", func() bool {
		sizes, ready := s.sizes(ctx)
		return slices.Equal(sizes, []int32{15, 15, -1}) && slices.Equal(ready, []int32{15, 15, -1}) && s.settled(ctx, t)
	})
	s.quiet(ctx, t)
	s.launch(ctx, t, s.members["cork"])
	if d := s.local(ctx, "cork"); d == nil || *d.Spec.Replicas != 10 {
		t.Errorf("cork was written: %+v", d)
	}
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	until(ctx, t, "events say so", func() bool {
		return s.events(ctx, t, "cork", "ClusterLost") > 0 && s.events(ctx, t, "cork", "ClusterBack") > 0
	})
	s.wrote(ctx, t, "a long loss", 2, 2, 0)
	s.bounds(t, "a long loss", 30, 60)
	if _, _, gone := s.ledger.pods(s.namespace); !slices.Equal(gone, []int{5, 5, 0}) {
		t.Errorf("went away: %v pods", gone)
	}
}

// A cluster that accepts connections and never answers does not delay the others, which can get new
// credentials meanwhile, and is left alone.
func (s *stage) hangs(ctx context.Context, t *testing.T) {
	s.begin(ctx, t)
	if err := s.members["cork"].Process(controlplane.APIServer).Pause(); err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume := func() {
		if err := s.members["cork"].Process(controlplane.APIServer).Resume(); !resumed && err != nil {
			t.Error(err)
		}
		resumed = true
	}
	t.Cleanup(resume)
	s.edit(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Replicas = new(int32(36)) })
	start := time.Now()
	s.until(ctx, t, "the others have their share", func() bool {
		for _, name := range clusterNames[:2] {
			if d := s.local(ctx, name); d == nil || *d.Spec.Replicas < 12 {
				return false
			}
		}
		return true
	})
	t.Logf("after %v", time.Since(start).Round(time.Millisecond))
	s.join(t, "berlin")
	m := s.becomes(ctx, t, "cork", v1alpha1.ReasonOffline, v1alpha1.ReasonAccepted)
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable); !strings.Contains(c.Message,
		"did not answer in time") {
		t.Errorf("%+v", c)
	}
	s.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	resume()
	s.edit(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Replicas = new(int32(30)) })
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	s.bounds(t, "a cluster that hangs", 30, 60)
	if _, _, gone := s.ledger.pods(s.namespace); gone[2] > 2 {
		t.Errorf("pods of the cluster that hung went away: %v", gone)
	}
}

// moving changes the preferences, and returns when the first replicas are about to move.
func (s *stage) moving(ctx context.Context, t *testing.T, of ...int32) {
	t.Helper()
	before, _ := s.sizes(ctx)
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Preferences.Clusters = weights(of...) })
	untilBriefly(ctx, t, "moves have begun", func() bool {
		sizes, _ := s.sizes(ctx)
		return !slices.Equal(sizes, before)
	})
}

// The moves go on when the API server of the host is back. A controller that had to end meanwhile is
// started again, as in a cluster.
func (s *stage) hostRestarted(ctx context.Context, t *testing.T) {
	s.moving(ctx, t, 4, 1, 1)
	s.host.Process(controlplane.APIServer).Kill()
	start := time.Now()
	s.launch(ctx, t, s.host)
	t.Logf("the API server is back after %v", time.Since(start).Round(time.Millisecond))
	s.restartEnded(t)
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 20, 5, 5), nil)
	s.restartEnded(t)
	s.wrote(ctx, t, "the host is back", 1, 1, 1)
	s.bounds(t, "the host is back", 30, 60)
}

// restartEnded starts the controller again if it has ended.
func (w *federation) restartEnded(t *testing.T) {
	t.Helper()
	if syscall.Kill(w.controller.PID(), 0) == nil {
		return
	}
	t.Log("the controller has ended")
	if err := w.controller.Start(); err != nil {
		t.Fatal(err)
	}
}

// Another controller finishes the moves of a leader that was killed; and of one that is frozen, which
// writes nothing when it wakes, and ends.
func (s *stage) leaders(ctx context.Context, t *testing.T) {
	first := s.controller
	untilLeading(ctx, t, first)
	s.control(t, soon...)
	second := s.controller
	s.controller = first
	s.moving(ctx, t, 1, 4, 1)
	first.Kill()
	untilLeading(ctx, t, second) // the moves may have ended before the kill, so that nothing else waits for it
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 5, 20, 5), nil)
	s.wrote(ctx, t, "the leader was killed", 1, 1, 0)
	s.bounds(t, "the leader was killed", 30, 60)

	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if err := first.Await(ctx); err != nil {
		t.Fatal(err)
	}
	s.moving(ctx, t, 1, 1, 4)
	if err := second.Pause(); err != nil {
		t.Fatal(err)
	}
	untilLeading(ctx, t, first)
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 5, 5, 20), nil)
	marks := s.mark(t)
	if err := second.Resume(); err != nil {
		t.Fatal(err)
	}
	ended(ctx, t, second)
	s.quiet(ctx, t)
	for _, plane := range s.planes() {
		// What it was about to write when it was frozen is of an object that has changed since: that is refused.
		writes := slices.DeleteFunc(s.written(t, marks, plane), func(w controlplane.Write) bool { return w.Code == http.StatusConflict })
		if len(writes) > 0 {
			t.Errorf("the leader that was frozen has written %+v", writes)
		}
	}
	s.wrote(ctx, t, "the leader was frozen", 0, 1, 1)
	s.bounds(t, "the leader was frozen", 30, 60)
}

// ended waits until a controller has ended.
func ended(ctx context.Context, t *testing.T, c *evenkeel.Controller) {
	t.Helper()
	until(ctx, t, "it has ended", func() bool { return syscall.Kill(c.PID(), 0) != nil })
}
