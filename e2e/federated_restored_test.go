package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// After the data of the host were restored from a backup the controllers end, so that they start anew and know what is
// there now. What runs in a member for an object that was lost is listed, and the objects that were not go on.
func TestRestoredHostIsNoticedAndOrphansAreListed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	bare := func(name string) *controlplane.ControlPlane {
		return controlplane.Start(t, controlplane.Options{Bare: true, Name: name})
	}
	f := &fleetOfClusters{host: bare("host"), members: map[string]*controlplane.ControlPlane{"berlin": bare("berlin")}}
	f.install(ctx, t)
	f.join(t, "berlin")
	berlin := f.members["berlin"].Client
	for _, c := range []client.Client{f.client, berlin} {
		if err := c.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
			t.Fatal(err)
		}
	}
	// A leader that does not answer for as long as a restore takes is not what is shown here.
	f.control(t, append(slices.Clone(soon), "--leader-elect-lease-duration=5m", "--leader-elect-renew-deadline=4m")...)
	f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	arrives := func(name string, replicas int32) {
		t.Helper()
		until(ctx, t, name+" is in the member", func() bool {
			var local appsv1.ReplicaSet
			return berlin.Get(ctx, client.ObjectKey{Namespace: "shop", Name: name}, &local) == nil && *local.Spec.Replicas == replicas
		})
	}
	create := func(name string) {
		t.Helper()
		app := map[string]v1alpha1.LabelValue{"app": v1alpha1.LabelValue(name)}
		o := &v1alpha1.FederatedReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		o.Spec.Replicas = new(int32(3))
		o.Spec.Selector.MatchLabels, o.Spec.Template.Metadata.Labels = app, app
		o.Spec.Template.Spec.Raw = []byte(`{"containers": [{"name": "web", "image": "web:1"}]}`)
		if err := f.client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
		arrives(name, 3)
	}
	done := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	create("kept")
	done(f.controller.Stop())
	done(f.host.Save(ctx))
	done(f.controller.Start())
	done(f.controller.Await(ctx))
	create("lost")
	done(f.host.Restore(ctx))
	until(ctx, t, "the controllers end", func() bool { return !f.controller.Runs() })
	if said := f.controller.Tail(20); !strings.Contains(said, "restored from a backup") {
		t.Errorf("they end without saying why:\n%s", said)
	}
	done(f.controller.Start())
	done(f.controller.Await(ctx))
	f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)

	out, _ := f.run(t, 0, "cluster", "orphans", "--no-headers")
	if got := strings.Fields(out); !slices.Equal(got, []string{"berlin", "shop", "replicaset/lost", "3"}) {
		t.Errorf("orphans: %s", out)
	}
	var kept v1alpha1.FederatedReplicaSet
	done(f.client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "kept"}, &kept))
	before := kept.DeepCopy()
	kept.Spec.Replicas = new(int32(5))
	done(f.client.Patch(ctx, &kept, client.MergeFrom(before)))
	arrives("kept", 5)
	arrives("lost", 3)
}
