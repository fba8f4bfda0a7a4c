package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

func shortLoss(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	for range 3 {
		before := f.events(ctx, t, "cork", "ClusterLost")
		if short := f.restart(ctx, t, "cork"); !short {
			continue
		}
		if lost := f.events(ctx, t, "cork", "ClusterLost") - before; lost != 0 {
			t.Errorf("%d events of a loss", lost)
		}
		return
	}
	t.Skip("the API server takes too long to start for a short loss")
}

func longLoss(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	f.members["cork"].Kill(controlplane.APIServer)
	m := f.becomes(ctx, t, "cork", v1alpha1.ReasonOffline, v1alpha1.ReasonAccepted)
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable)
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "connection") {
		t.Errorf("%+v", c)
	}
	if err := f.members["cork"].Launch(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	f.becomes(ctx, t, "cork", v1alpha1.ReasonStabilizing, v1alpha1.ReasonAccepted)
	f.becomes(ctx, t, "cork", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	until(ctx, t, "events say so", func() bool {
		return f.events(ctx, t, "cork", "ClusterLost") == 1 && f.events(ctx, t, "cork", "ClusterBack") == 1
	})
}

// It accepts connections and never answers. The others are not affected.
func hangs(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	others := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	if err := f.members["amsterdam"].Pause(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	resume := func() {
		if err := f.members["amsterdam"].Resume(controlplane.APIServer); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(resume)
	m := f.becomes(ctx, t, "amsterdam", v1alpha1.ReasonOffline, v1alpha1.ReasonAccepted)
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable); !strings.Contains(c.Message, "did not answer in time") {
		t.Errorf("%+v", c)
	}
	// Another cluster gets new credentials meanwhile.
	f.join(t, "berlin")
	if now := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted); reachableSince(now).Sub(reachableSince(others)) > 2*time.Minute {
		t.Errorf("%+v", now.Status)
	}
	resume()
	f.becomes(ctx, t, "amsterdam", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
}

func restartedWhileLost(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	f.members["cork"].Kill(controlplane.APIServer)
	f.becomes(ctx, t, "cork", v1alpha1.ReasonOffline, v1alpha1.ReasonAccepted)
	if err := f.controller.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := f.members["cork"].Launch(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := f.controller.Start(); err != nil {
		t.Fatal(err)
	}
	f.becomes(ctx, t, "cork", v1alpha1.ReasonStabilizing, v1alpha1.ReasonAccepted)
	f.becomes(ctx, t, "cork", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
}

func quietMembers(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	for name := range f.members {
		f.becomes(ctx, t, name, v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	}
	planes := map[*controlplane.ControlPlane]controlplane.Mark{}
	for _, p := range append([]*controlplane.ControlPlane{f.host}, f.members["amsterdam"], f.members["berlin"], f.members["cork"]) {
		mark, err := p.Mark()
		if err != nil {
			t.Fatal(err)
		}
		planes[p] = mark
	}
	quiet, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	<-quiet.Done()
	for plane, since := range planes {
		for _, user := range []string{controllerAccount, "system:serviceaccount:evenkeel-system:evenkeel-member"} {
			writes, err := plane.Writes(user, since)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range writes {
				if w.Resource != "leases" {
					t.Errorf("%s wrote %+v", user, w)
				}
			}
		}
	}
}
