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

func lostMember(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	f.members["cork"].Process(controlplane.APIServer).Kill()
	m := f.becomes(ctx, t, "cork", v1alpha1.ReasonOffline, v1alpha1.ReasonAccepted)
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable)
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "connection") {
		t.Errorf("%+v", c)
	}
	until(ctx, t, "an event says so", func() bool { return f.events(ctx, t, "cork", "ClusterLost") == 1 })
	if err := f.controller.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := f.members["cork"].Process(controlplane.APIServer).Launch(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.controller.Start(); err != nil {
		t.Fatal(err)
	}
	f.becomes(ctx, t, "cork", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	// Until then it is stabilizing, which may be over before anybody looks.
	until(ctx, t, "an event says that it has answered for a while", func() bool { return f.events(ctx, t, "cork", "ClusterBack") == 1 })
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
