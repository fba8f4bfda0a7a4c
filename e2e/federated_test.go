package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// memberAccount writes in the members.
const memberAccount = "system:serviceaccount:evenkeel-system:evenkeel-member"

// The life of a FederatedReplicaSet over three clusters, each a real control plane.
func TestFederatedReplicaSets(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	w := &federatedWorld{fleetOfClusters: newFleetOfClusters(ctx, t)}
	for name, plane := range w.members {
		w.join(t, name, "--region=eu", "--zone=eu-"+name)
		if err := plane.AddNodes(ctx, roomy("one")); err != nil {
			t.Fatal(err)
		}
	}
	for name := range w.members {
		w.becomes(ctx, t, name, v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	}
	for _, step := range []struct {
		name string
		run  func(context.Context, *testing.T)
	}{
		{"evenly", w.evenly},
		{"scaled", w.scaled},
		{"by weight, within bounds", w.byWeight},
		{"somebody deletes or changes a local object", w.meddled},
		{"an API server is away for a short time", w.shortLoss},
		{"an API server is away for a long time", w.longLoss},
		{"an API server hangs", w.hangs},
		{"a cluster has no room", w.noRoom},
		{"a new template", w.rollout},
		{"deleted with its local objects", w.deleted},
		{"somebody else's object of that name", w.overwritten},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(ctx, t) }) {
			t.FailNow() // the next ones go on from here
		}
	}
}

type federatedWorld struct{ *fleetOfClusters }

// roomy is a node with room for a hundred pods.
func roomy(name string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("100"), v1.ResourceMemory: resource.MustParse("100Gi"), v1.ResourcePods: resource.MustParse("100"),
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

// change changes the object.
func (w *federatedWorld) change(ctx context.Context, t *testing.T, change func(*v1alpha1.FederatedReplicaSetSpec)) {
	t.Helper()
	f := w.get(ctx, t)
	before := f.DeepCopy()
	change(&f.Spec)
	if err := w.client.Patch(ctx, f, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func (w *federatedWorld) get(ctx context.Context, t *testing.T) *v1alpha1.FederatedReplicaSet {
	t.Helper()
	f := &v1alpha1.FederatedReplicaSet{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web"}, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// local is the local object in a member; nil if there is none.
func (w *federatedWorld) local(ctx context.Context, name string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	if err := w.members[name].Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web"}, d); err != nil {
		return nil
	}
	return d
}

// sizes are the numbers of replicas, and of those that are ready.
func (w *federatedWorld) sizes(ctx context.Context) (sizes, ready []int32) {
	for _, name := range []string{"amsterdam", "berlin", "cork"} {
		size, runs := int32(-1), int32(-1)
		if d := w.local(ctx, name); d != nil {
			size, runs = *d.Spec.Replicas, d.Status.ReadyReplicas
		}
		sizes, ready = append(sizes, size), append(ready, runs)
	}
	return sizes, ready
}

// settles waits until the local objects have these numbers and the object says that it is settled.
// Then it expects that nothing is written any more.
func (w *federatedWorld) settles(ctx context.Context, t *testing.T, want ...int32) {
	t.Helper()
	var sizes []int32
	defer func() {
		if t.Failed() {
			f := w.get(ctx, t)
			for _, c := range f.Status.Clusters {
				t.Logf("%+v", c)
			}
			for _, c := range f.Status.Conditions {
				t.Logf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
			}
			t.Logf("sizes %v, want %v", sizes, want)
		}
	}()
	until(ctx, t, fmt.Sprintf("the sizes are %v", want), func() bool {
		var ready []int32 // pods of an object that was deleted may run for a moment
		sizes, ready = w.sizes(ctx)
		f := w.get(ctx, t)
		return slices.Equal(sizes, want) && slices.Equal(ready, want) && f.Status.ObservedGeneration == f.Generation && meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionSettled)
	})
	w.quiet(ctx, t)
}

// quiet expects that nothing is written for two seconds.
func (w *federatedWorld) quiet(ctx context.Context, t *testing.T) {
	t.Helper()
	begin := time.Now()
	marks := map[*controlplane.ControlPlane]controlplane.Mark{}
	for _, plane := range []*controlplane.ControlPlane{w.host, w.members["amsterdam"], w.members["berlin"], w.members["cork"]} {
		mark, err := plane.Mark()
		if err != nil {
			t.Fatal(err)
		}
		marks[plane] = mark
	}
	pause, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	<-pause.Done()
	for plane, mark := range marks {
		for _, user := range []string{controllerAccount, memberAccount} {
			writes, err := plane.Writes(user, mark)
			if err != nil {
				t.Fatal(err)
			}
			for _, write := range writes {
				if write.At.Before(begin) {
					continue // the log is behind: it is the write that settled the object
				}
				if write.Resource != "leases" && write.Resource != "memberclusters" && write.Resource != "events" {
					t.Errorf("%s wrote %+v", user, write)
				}
			}
		}
	}
}

func (w *federatedWorld) evenly(ctx context.Context, t *testing.T) {
	f := &v1alpha1.FederatedReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	labels := map[string]v1alpha1.LabelValue{"app": "web"}
	f.Spec.Replicas, f.Spec.LocalKind = new(int32(30)), v1alpha1.LocalDeployment
	f.Spec.Selector.MatchLabels, f.Spec.Template.Metadata.Labels = labels, labels
	f.Spec.Template.Spec.Raw = []byte(`{"terminationGracePeriodSeconds": 0, "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1000m"}}}]}`)
	f.Spec.Preferences = &v1alpha1.FederatedPreferences{Rebalance: true}
	seconds := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	f.Spec.Fallback = v1alpha1.FederatedFallback{NormalTime: seconds(2), StartupTimeout: seconds(8), StabilizationTime: seconds(3)}
	if err := w.client.Create(ctx, f); err != nil {
		t.Fatal(err)
	}
	w.settles(ctx, t, 10, 10, 10)
	if s := w.get(ctx, t).Status; s.Replicas != 30 || s.ReadyReplicas != 30 || s.Selector != "app=web" {
		t.Errorf("%+v", s)
	}
	for name, plane := range w.members { // every object was written once
		if d := w.local(ctx, name); d.Generation != 1 {
			t.Errorf("%s has generation %d", plane.Config.Host, d.Generation)
		}
	}
}

func (w *federatedWorld) scaled(ctx context.Context, t *testing.T) {
	size := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 42}}
	if err := w.client.SubResource("scale").Update(ctx, w.get(ctx, t), client.WithSubResourceBody(size)); err != nil {
		t.Fatal(err)
	}
	w.settles(ctx, t, 14, 14, 14)
}

func (w *federatedWorld) byWeight(ctx context.Context, t *testing.T) {
	entry := func(weight int32) v1alpha1.FederatedPreference {
		return v1alpha1.FederatedPreference{ClusterPreference: v1alpha1.ClusterPreference{Weight: &weight}}
	}
	w.change(ctx, t, func(s *v1alpha1.FederatedReplicaSetSpec) {
		s.Replicas = new(int32(20))
		s.Preferences.Clusters = map[string]v1alpha1.FederatedPreference{"amsterdam": entry(6), "berlin": entry(3), "*": entry(1)}
	})
	w.settles(ctx, t, 12, 6, 2)
	w.change(ctx, t, func(s *v1alpha1.FederatedReplicaSetSpec) {
		amsterdam, cork := entry(6), entry(1)
		amsterdam.MaxReplicas, cork.MinReplicas = new(int32(8)), new(int32(6))
		s.Preferences.Clusters = map[string]v1alpha1.FederatedPreference{"amsterdam": amsterdam, "berlin": entry(3), "cork": cork}
	})
	w.settles(ctx, t, 8, 6, 6)
	w.change(ctx, t, func(s *v1alpha1.FederatedReplicaSetSpec) { s.Replicas, s.Preferences.Clusters = new(int32(30)), nil })
	w.settles(ctx, t, 10, 10, 10)
}

func (w *federatedWorld) meddled(ctx context.Context, t *testing.T) {
	berlin := w.members["berlin"].Client
	before := w.local(ctx, "berlin")
	if err := berlin.Delete(ctx, before); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "it is created again", func() bool { d := w.local(ctx, "berlin"); return d != nil && d.UID != before.UID })
	w.settles(ctx, t, 10, 10, 10)

	d := w.local(ctx, "berlin")
	changed := d.DeepCopy()
	changed.Spec.Replicas = new(int32(3))
	changed.Spec.Template.Spec.Containers[0].Image = "other:1"
	if err := berlin.Patch(ctx, changed, client.MergeFrom(d)); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "it is overwritten", func() bool {
		d := w.local(ctx, "berlin")
		return d.Spec.Template.Spec.Containers[0].Image == "web:1" && *d.Spec.Replicas == 10
	})
	w.settles(ctx, t, 10, 10, 10)
}

func (w *federatedWorld) shortLoss(ctx context.Context, t *testing.T) {
	w.members["cork"].Kill(controlplane.APIServer)
	w.becomes(ctx, t, "cork", v1alpha1.ReasonNotAnswering, v1alpha1.ReasonAccepted)
	if err := w.members["cork"].Launch(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	w.becomes(ctx, t, "cork", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	w.settles(ctx, t, 10, 10, 10)
}

func (w *federatedWorld) longLoss(ctx context.Context, t *testing.T) {
	w.members["cork"].Kill(controlplane.APIServer)
	until(ctx, t, "its replicas run elsewhere", func() bool {
		sizes, ready := w.sizes(ctx)
		return slices.Equal(sizes, []int32{15, 15, -1}) && slices.Equal(ready, []int32{15, 15, -1})
	})
	if err := w.members["cork"].Launch(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	if d := w.local(ctx, "cork"); d == nil || *d.Spec.Replicas != 10 {
		t.Errorf("cork was written: %+v", d)
	}
	w.settles(ctx, t, 10, 10, 10)
}

// A cluster that hangs does not delay the others, and is left alone.
func (w *federatedWorld) hangs(ctx context.Context, t *testing.T) {
	if err := w.members["cork"].Pause(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume := func() {
		if err := w.members["cork"].Resume(controlplane.APIServer); !resumed && err != nil {
			t.Error(err)
		}
		resumed = true
	}
	t.Cleanup(resume)
	w.change(ctx, t, func(s *v1alpha1.FederatedReplicaSetSpec) { s.Replicas = new(int32(36)) })
	start := time.Now()
	until(ctx, t, "the others have their share", func() bool {
		for _, name := range []string{"amsterdam", "berlin"} {
			if d := w.local(ctx, name); d == nil || *d.Spec.Replicas < 12 {
				return false
			}
		}
		return true
	})
	t.Logf("after %v", time.Since(start).Round(time.Millisecond))
	w.becomes(ctx, t, "cork", v1alpha1.ReasonOffline, v1alpha1.ReasonAccepted)
	resume()
	w.change(ctx, t, func(s *v1alpha1.FederatedReplicaSetSpec) { s.Replicas = new(int32(30)) })
	w.settles(ctx, t, 10, 10, 10)
}

// Cork loses its node and gets one with room for four.
func (w *federatedWorld) noRoom(ctx context.Context, t *testing.T) {
	cork := w.members["cork"]
	small := roomy("small")
	small.Status.Allocatable[v1.ResourceCPU], small.Status.Capacity[v1.ResourceCPU] = resource.MustParse("4"), resource.MustParse("4")
	if err := cork.AddNodes(ctx, small); err != nil {
		t.Fatal(err)
	}
	if err := cork.Client.Delete(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "all run, and two wait in cork", func() bool {
		// The scheduler may learn late that the node is gone, and choose it once more.
		if err := cork.Client.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace("default"), client.MatchingFields{"spec.nodeName": "one"}, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		sizes, ready := w.sizes(ctx)
		settled := meta.IsStatusConditionTrue(w.get(ctx, t).Status.Conditions, v1alpha1.ConditionSettled)
		return settled && slices.Equal(sizes, []int32{13, 13, 6}) && slices.Equal(ready, []int32{13, 13, 4})
	})
	w.quiet(ctx, t)
	if err := cork.AddNodes(ctx, roomy("two")); err != nil {
		t.Fatal(err)
	}
	w.settles(ctx, t, 10, 10, 10)
}

func (w *federatedWorld) rollout(ctx context.Context, t *testing.T) {
	w.change(ctx, t, func(s *v1alpha1.FederatedReplicaSetSpec) {
		s.Rollout = v1alpha1.RolloutOneByOne
		s.Template.Spec.Raw = []byte(`{"terminationGracePeriodSeconds": 0, "containers": [{"name": "web", "image": "web:2", "resources": {"requests": {"cpu": "1"}}}]}`)
	})
	until(ctx, t, "all clusters have it, one after the other", func() bool {
		got := ""
		for _, name := range []string{"amsterdam", "berlin", "cork"} {
			d := w.local(ctx, name)
			if *d.Spec.Replicas != 10 {
				t.Errorf("%s has %d replicas", name, *d.Spec.Replicas)
			}
			if d.Spec.Template.Spec.Containers[0].Image == "web:2" {
				got += name[:1]
			}
		}
		if !slices.Contains([]string{"", "a", "ab", "abc"}, got) {
			t.Errorf("the order is %s", got)
		}
		return got == "abc"
	})
	w.settles(ctx, t, 10, 10, 10)
}

func (w *federatedWorld) deleted(ctx context.Context, t *testing.T) {
	w.change(ctx, t, func(s *v1alpha1.FederatedReplicaSetSpec) { s.Cascade = v1alpha1.CascadeDelete })
	w.settles(ctx, t, 10, 10, 10)
	if err := w.client.Delete(ctx, w.get(ctx, t)); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "all is gone", func() bool {
		sizes, _ := w.sizes(ctx)
		err := w.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web"}, &v1alpha1.FederatedReplicaSet{})
		return slices.Equal(sizes, []int32{-1, -1, -1}) && apierrors.IsNotFound(err)
	})
}

// A ReplicaSet of that name is overwritten, and its pods are adopted: they run on and count.
func (w *federatedWorld) overwritten(ctx context.Context, t *testing.T) {
	berlin := w.members["berlin"].Client
	labels := map[string]string{"app": "shop"}
	r := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}}
	r.Spec.Replicas, r.Spec.Selector, r.Spec.Template.Labels = new(int32(4)), &metav1.LabelSelector{MatchLabels: labels}, labels
	r.Spec.Template.Spec.Containers = []v1.Container{{Name: "shop", Image: "shop:1"}}
	if err := berlin.Create(ctx, r); err != nil {
		t.Fatal(err)
	}
	ready := func(name string) int32 {
		r := &appsv1.ReplicaSet{}
		if err := w.members[name].Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "shop"}, r); err != nil {
			return -1
		}
		return r.Status.ReadyReplicas
	}
	until(ctx, t, "it runs", func() bool { return ready("berlin") == 4 })
	pods := func() (names []string) {
		var list v1.PodList
		if err := berlin.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels(labels)); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		return names
	}
	before := pods()
	f := &v1alpha1.FederatedReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}}
	own := map[string]v1alpha1.LabelValue{"app": "shop"}
	f.Spec.Replicas, f.Spec.Selector.MatchLabels, f.Spec.Template.Metadata.Labels = new(int32(12)), own, own
	f.Spec.Template.Spec.Raw = []byte(`{"containers": [{"name": "shop", "image": "shop:2"}]}`)
	if err := w.client.Create(ctx, f); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "four are ready in each cluster", func() bool {
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(f), f); err != nil {
			t.Fatal(err)
		}
		return ready("amsterdam") == 4 && ready("berlin") == 4 && ready("cork") == 4 && f.Status.ReadyReplicas == 12 &&
			meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionSettled)
	})
	w.quiet(ctx, t)
	if after := pods(); !slices.Equal(before, after) {
		t.Errorf("the pods were %v and are %v", before, after)
	}
	reasons := map[string]string{}
	until(ctx, t, "events of all clusters", func() bool {
		var events eventsv1.EventList
		if err := w.client.List(ctx, &events, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Regarding.UID == f.UID && e.Related != nil {
				reasons[e.Related.Name] = e.Reason
			}
		}
		return len(reasons) == 3
	})
	if want := map[string]string{"amsterdam": "Created", "berlin": "Overwritten", "cork": "Created"}; !maps.Equal(reasons, want) {
		t.Errorf("events %v, want %v", reasons, want)
	}
}
