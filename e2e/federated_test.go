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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// memberAccount writes in the members.
const memberAccount = "system:serviceaccount:evenkeel-system:evenkeel-member"

// FederatedReplicaSets over three clusters, each a real control plane. After each step the numbers
// are those of package apportion, and every write is counted in the audit logs: nothing is written
// twice, and nothing when all is settled.
func TestFederatedReplicaSets(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	w := newFederation(ctx, t)
	if !together(ctx, t, map[string]func(context.Context, *testing.T){
		"preferences": w.preferences,
		"somebody deletes or changes a local object": w.meddled,
		"a new template":                                 w.rollout,
		"deleted without its pods":                       w.orphaned,
		"somebody else's object of that name":            w.overwritten,
		"a cluster has no room":                          w.smallCluster,
		"only in trouble elsewhere":                      w.mainCluster,
		"what runs does not move":                        w.sticky,
		"minimums that do not fit":                       w.minimums,
		"nodes vanish and return":                        w.nodesVanish,
		"a quota":                                        w.quota,
		"admission refuses the local object":             w.refused,
		"edited while moves are in flight":               w.edited,
		"an autoscaler drives the sum over all clusters": w.autoscaled,
		// What members do not take, and what tenants may have written there.
		"a dead webhook": w.deadWebhook,
		"the template is exactly what the object says": w.exactTemplate,
		"a tenant":                 w.tenant,
		"deleted with its orphans": w.orphanWins,
		"somebody else sizes the Deployment in one member": w.sizedByOthers,
		"a local object is deleted that has a finalizer":   w.deletedSlowly,
	}) {
		t.FailNow()
	}
	w.inTurn(ctx, t, []step{
		{"credentials are rotated while it is scaled", (*stage).rotated},
		{"a cluster is marked NoSchedule", (*stage).noSchedule},
		{"a cluster leaves and joins", (*stage).leavesAndJoins},
		{"an API server is away for a short time", (*stage).shortLoss},
		{"an API server is away for a long time", (*stage).longLoss},
		{"an API server hangs", (*stage).hangs},
		{"the API server of the host is restarted in the middle of moves", (*stage).hostRestarted},
		{"the leader is killed, and another one frozen, in the middle of moves", (*stage).leaders},
	})
}

// federation is a fleet whose clusters have joined, with what is known of their pods.
type federation struct {
	*fleetOfClusters
	ledger *podLedger
}

func newFederation(ctx context.Context, t *testing.T) *federation {
	t.Helper()
	w := &federation{fleetOfClusters: newFleetOfClusters(ctx, t)}
	w.ledger = watchPods(ctx, t, w.members)
	for _, name := range clusterNames {
		w.join(t, name, "--region=eu", "--zone=eu-"+name)
	}
	for _, name := range clusterNames {
		w.becomes(ctx, t, name, v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	}
	return w
}

// A step is what happens to one object that goes on as the step before has left it.
type step struct {
	name string
	run  func(*stage, context.Context, *testing.T)
}

// inTurn takes one object with thirty replicas through steps that disturb a whole cluster.
func (w *federation) inTurn(ctx context.Context, t *testing.T, steps []step) {
	t.Helper()
	s := w.open(ctx, t, "web", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 30, 0, v1alpha1.FederatedPreferences{Rebalance: true})
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(s, ctx, t) }) {
			t.FailNow() // the next ones go on from here
		}
	}
}

// evenly is preferences without entries.
var evenly = v1alpha1.FederatedPreferences{Rebalance: true}

// entryOf is a preference; -1 is unset.
func entryOf(weight, least, most int32) (p v1alpha1.FederatedPreference) {
	for field, n := range map[**int32]int32{&p.Weight: weight, &p.MinReplicas: least, &p.MaxReplicas: most} {
		if n >= 0 {
			*field = &n
		}
	}
	return p
}

// entriesOf are entries for the clusters in their order.
func entriesOf(entries ...v1alpha1.FederatedPreference) map[string]v1alpha1.FederatedPreference {
	all := map[string]v1alpha1.FederatedPreference{}
	for i, e := range entries {
		all[clusterNames[i]] = e
	}
	return all
}

// weights are entries with these weights.
func weights(of ...int32) map[string]v1alpha1.FederatedPreference {
	var entries []v1alpha1.FederatedPreference
	for _, weight := range of {
		entries = append(entries, entryOf(weight, -1, -1))
	}
	return entriesOf(entries...)
}

// Without trouble every change writes each local object that changes once.
func (w *federation) preferences(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "preferences", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 50, 0, evenly)
	last := []int32{0, 0, 0}
	step := func(when string, runs []int32) {
		t.Helper()
		s.settles(ctx, t, runs, nil)
		var once []int
		for i := range runs {
			once = append(once, 0)
			if runs[i] != last[i] {
				once[i] = 1
			}
		}
		s.wrote(ctx, t, when, once...)
		least := s.sum(last)
		if s.sum(runs) < least {
			least = s.sum(runs)
		}
		s.bounds(t, when, least, 2*max(s.sum(runs), s.sum(last)))
		last = runs
	}
	step("50 over three equal clusters", s.apportioned(ctx, t, nil, nil, 17, 17, 16))
	if f := s.get(ctx, t); f.Status.Replicas != 50 || f.Status.Selector != "app=web" {
		t.Errorf("%+v", f.Status)
	}
	for _, c := range []struct {
		when       string
		replicas   int32
		clusters   map[string]v1alpha1.FederatedPreference
		documented []int32
	}{
		{"6:3:1", 50, weights(6, 3, 1), []int32{30, 15, 5}},
		{"2:1:1", 50, weights(2, 1, 1), []int32{25, 13, 12}},
		{"at most 20 in one", 50, map[string]v1alpha1.FederatedPreference{"*": entryOf(1, -1, -1), "cork": entryOf(1, -1, 20)},
			[]int32{17, 17, 16}},
		{"minimum and maximum together", 50, entriesOf(entryOf(6, -1, 12), entryOf(3, 5, -1), entryOf(1, 20, 30)), []int32{12, 18, 20}},
		{"no weight, a minimum of 20", 50, map[string]v1alpha1.FederatedPreference{"*": entryOf(0, 20, -1)}, []int32{20, 20, 10}},
		{"two in each, by maximum", 50, map[string]v1alpha1.FederatedPreference{"*": entryOf(1, -1, 2)}, []int32{2, 2, 2}},
		{"2:1 with a minimum of 1", 2, entriesOf(entryOf(2, 1, -1), entryOf(1, 1, -1), entryOf(0, -1, -1)), []int32{1, 1, 0}},
	} {
		s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) {
			spec.Replicas, spec.Preferences.Clusters = &c.replicas, c.clusters
		})
		step(c.when, s.apportioned(ctx, t, nil, nil, c.documented...))
	}
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Preferences.Clusters = nil })
	s.begin(ctx, t)
	size := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 42}}
	if err := w.client.SubResource("scale").Update(ctx, s.get(ctx, t), client.WithSubResourceBody(size)); err != nil {
		t.Fatal(err)
	}
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 14, 14, 14), nil)
	s.close(ctx, t)
}

// sum is how many replicas there are.
func (s *stage) sum(sizes []int32) (n int) {
	for _, size := range sizes {
		n += int(size)
	}
	return n
}

func (w *federation) meddled(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "meddled", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 12, 0, evenly)
	all := []int32{4, 4, 4}
	s.settles(ctx, t, all, nil)
	berlin := w.members["berlin"].Client
	before := s.local(ctx, "berlin")
	s.begin(ctx, t)
	if err := berlin.Delete(ctx, before); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, t, "it is created again", func() bool { d := s.local(ctx, "berlin"); return d != nil && d.UID != before.UID })
	s.settles(ctx, t, all, nil)
	s.wrote(ctx, t, "deleted", 0, 1, 0)

	d := s.local(ctx, "berlin")
	changed := d.DeepCopy()
	changed.Spec.Replicas = new(int32(3))
	changed.Spec.Template.Spec.Containers[0].Image = "other:1"
	if err := berlin.Patch(ctx, changed, client.MergeFrom(d)); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, t, "it is overwritten", func() bool {
		d := s.local(ctx, "berlin")
		return d != nil && d.Spec.Template.Spec.Containers[0].Image == "web:1" && *d.Spec.Replicas == 4
	})
	s.settles(ctx, t, all, nil)
	s.close(ctx, t)
}

// All clusters get a new template one after the other, each once, and no replica moves.
func (w *federation) rollout(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "rollout", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 12, 0, evenly)
	s.settles(ctx, t, []int32{4, 4, 4}, nil)
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) {
		spec.Rollout, spec.Template.Spec.Raw = v1alpha1.RolloutOneByOne, s.pods(t, "web:2")
	})
	s.until(ctx, t, "all clusters have it, one after the other", func() bool {
		var have, rolling []string
		for _, name := range clusterNames {
			d := s.local(ctx, name)
			if d == nil {
				return false
			}
			if *d.Spec.Replicas != 4 {
				t.Errorf("%s has %d replicas", name, *d.Spec.Replicas)
			}
			if d.Spec.Template.Spec.Containers[0].Image == "web:2" {
				have = append(have, name)
			}
		}
		for _, name := range have { // as they are after the last of them got it
			if d := s.local(ctx, name); d == nil || d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < 4 || d.Status.ReadyReplicas < 4 {
				rolling = append(rolling, name)
			}
		}
		if len(rolling) > 1 {
			t.Errorf("it is rolled out in %v at the same time", rolling)
		}
		return len(have) == 3
	})
	s.settles(ctx, t, []int32{4, 4, 4}, nil)
	s.wrote(ctx, t, "a new template", 1, 1, 1)
	s.close(ctx, t)
}

// By default the local objects and their pods stay when the object is deleted.
func (w *federation) orphaned(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "orphaned", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 6, 0, evenly)
	s.settles(ctx, t, []int32{2, 2, 2}, nil)
	s.edit(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Cascade = v1alpha1.CascadeOrphan })
	s.until(ctx, t, "the finalizer is gone", func() bool { return len(s.get(ctx, t).Finalizers) == 0 })
	s.begin(ctx, t)
	if err := w.client.Delete(ctx, s.get(ctx, t)); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, t, "it is gone", func() bool {
		err := w.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "web"}, &v1alpha1.FederatedReplicaSet{})
		return apierrors.IsNotFound(err)
	})
	s.quiet(ctx, t)
	s.wrote(ctx, t, "deleted", 0, 0, 0)
	s.bounds(t, "deleted", 6, 6)
}

// A ReplicaSet of that name is overwritten, and its pods are adopted: they run on and count.
func (w *federation) overwritten(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "overwritten", anyRoom, anyRoom, anyRoom)
	berlin := w.members["berlin"].Client
	labels := map[string]string{"app": "shop"}
	r := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	r.Spec.Replicas, r.Spec.Selector, r.Spec.Template.Labels = new(int32(4)), &metav1.LabelSelector{MatchLabels: labels}, labels
	r.Spec.Template.Spec.Containers = []v1.Container{{Name: "shop", Image: "shop:1"}}
	r.Spec.Template.Spec.NodeSelector = map[string]string{"stage": s.namespace}
	if err := berlin.Create(ctx, r); err != nil {
		t.Fatal(err)
	}
	ready := func(name string) int32 {
		r := &appsv1.ReplicaSet{}
		if err := w.members[name].Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "shop"}, r); err != nil {
			return -1
		}
		return r.Status.ReadyReplicas
	}
	s.until(ctx, t, "it runs", func() bool { return ready("berlin") == 4 })
	pods := func() (names []string) {
		var list v1.PodList
		if err := berlin.List(ctx, &list, client.InNamespace(s.namespace), client.MatchingLabels(labels)); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		return names
	}
	before := pods()
	f := &v1alpha1.FederatedReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	own := map[string]v1alpha1.LabelValue{"app": "shop"}
	f.Spec.Replicas, f.Spec.Selector.MatchLabels, f.Spec.Template.Metadata.Labels = new(int32(12)), own, own
	f.Spec.Template.Spec.Raw = fmt.Appendf(nil, `{"nodeSelector": {"stage": %q}, "containers": [{"name": "shop", "image": "shop:2"}]}`,
		s.namespace)
	if err := w.client.Create(ctx, f); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, t, "four are ready in each cluster", func() bool {
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(f), f); err != nil {
			t.Fatal(err)
		}
		return ready("amsterdam") == 4 && ready("berlin") == 4 && ready("cork") == 4 && f.Status.ReadyReplicas == 12 &&
			meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionSettled)
	})
	s.quiet(ctx, t)
	if after := pods(); !slices.Equal(before, after) {
		t.Errorf("the pods were %v and are %v", before, after)
	}
	reasons := map[string]string{}
	s.until(ctx, t, "events of all clusters", func() bool {
		var events eventsv1.EventList
		if err := w.client.List(ctx, &events, client.InNamespace(s.namespace)); err != nil {
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
