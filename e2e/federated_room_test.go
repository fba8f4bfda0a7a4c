package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// startup is how long pods may take to start where some cannot. On a busy machine hundreds of pods
// start at the same time, and none that can start may count as late.
const startup = 20 * time.Second

// Cork has room for six of fifty replicas, also in a rollout, and then for all.
func (w *federation) smallCluster(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "small", anyRoom, anyRoom, 6)
	s.create(ctx, t, 50, startup, evenly)
	s.settles(ctx, t, s.apportioned(ctx, t, map[string]int64{"cork": 6}, nil, 22, 22, 6), map[string]int32{"cork": 2})
	s.wrote(ctx, t, "cork has room for six", 2, 2, 2)

	// Cork gives the probe up until it has the new template, and has it again. No replica moves.
	at, _ := s.sizes(ctx)
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) {
		spec.Rollout, spec.Template.Spec.Raw = v1alpha1.RolloutOneByOne, s.pods(t, "web:2")
	})
	s.until(ctx, t, "all have the new template", func() bool {
		sizes, _ := s.sizes(ctx)
		if !slices.Contains(sizes, -1) && (!slices.Equal(sizes[:2], at[:2]) || sizes[2] < 6 || sizes[2] > 8) {
			t.Errorf("a rollout moved replicas: %v", sizes)
		}
		for _, name := range clusterNames {
			if d := s.local(ctx, name); d == nil || d.Spec.Template.Spec.Containers[0].Image != "web:2" {
				return false
			}
		}
		return true
	})
	s.settles(ctx, t, []int32{22, 22, 6}, map[string]int32{"cork": 2})
	s.wrote(ctx, t, "a new template", 1, 1, 2)
	s.begin(ctx, t)
	s.addNode(ctx, t, "cork", anyRoom)
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 17, 17, 16), nil)
	s.wrote(ctx, t, "cork has room for all", 1, 1, 1)
	s.bounds(t, "cork has room for all", 50, 100)
	s.close(ctx, t)
}

// All run in amsterdam, as far as there is room.
func (w *federation) mainCluster(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "main", 40, anyRoom, anyRoom)
	s.create(ctx, t, 50, startup, v1alpha1.FederatedPreferences{Rebalance: true, Clusters: weights(1000000, 1, 1)})
	s.settles(ctx, t, s.apportioned(ctx, t, map[string]int64{"amsterdam": 40}, nil, 40, 5, 5), map[string]int32{"amsterdam": 2})
	s.wrote(ctx, t, "amsterdam has room for 40", 2, 1, 1)
	s.begin(ctx, t)
	s.addNode(ctx, t, "amsterdam", anyRoom)
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 50, 0, 0), nil)
	s.wrote(ctx, t, "amsterdam has room for all", 1, 1, 1)
	s.bounds(t, "amsterdam has room for all", 50, 100)
	s.close(ctx, t)
}

// Twenty run in amsterdam, and stay there. Cork has room for six.
func (w *federation) sticky(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "sticky", anyRoom, anyRoom, 6)
	s.create(ctx, t, 20, startup, v1alpha1.FederatedPreferences{Clusters: map[string]v1alpha1.FederatedPreference{"amsterdam": entryOf(1, -1,
		-1)}})
	s.settles(ctx, t, []int32{20, 0, 0}, nil)
	s.change(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) {
		spec.Replicas, spec.Preferences.Clusters = new(int32(50)), map[string]v1alpha1.FederatedPreference{"*": entryOf(1, -1, -1)}
	})
	first := s.apportioned(ctx, t, nil, []int64{20, 0, 0}, 20, 15, 15)
	s.until(ctx, t, "they are shared", func() bool { sizes, _ := s.sizes(ctx); return slices.Equal(sizes, first) })
	want := s.apportioned(ctx, t, map[string]int64{"cork": 6}, []int64{20, 15, 6}, 22, 22, 6)
	s.settles(ctx, t, want, map[string]int32{"cork": 2}) // it is known to be full, and two show when there is room again
	s.wrote(ctx, t, "cork has room for six", 1, 2, 2)
	if _, _, gone := s.ledger.pods(s.namespace); gone[0]+gone[1] != 0 {
		t.Errorf("pods that ran went away: %v", gone)
	}
	s.close(ctx, t)
}

// Minimums that do not fit do not make the layout swing: at least 20 in each, and berlin has room
// for ten.
func (w *federation) minimums(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "minimums", anyRoom, 10, anyRoom)
	s.create(ctx, t, 50, startup, v1alpha1.FederatedPreferences{Rebalance: true,
		Clusters: map[string]v1alpha1.FederatedPreference{"*": entryOf(1, 20, -1)}})
	at := s.apportioned(ctx, t, nil, nil, 20, 20, 10)
	if at[1] != 20 {
		t.Fatalf("berlin has room for what it gets, of %v: give the stage another name", at)
	}
	s.settles(ctx, t, s.apportioned(ctx, t, map[string]int64{"berlin": 10}, nil, 20, 10, 20), map[string]int32{"berlin": 2})
	counts := []int{1, 2, 1}
	for i := range at {
		if at[i] == 10 {
			counts[i] = 2
		}
	}
	s.wrote(ctx, t, "berlin has room for ten", counts...)
	round, cancel := context.WithTimeout(ctx, startup+startup/3)
	defer cancel()
	<-round.Done()
	s.wrote(ctx, t, "after another round", counts...)
	s.close(ctx, t)
}

// The nodes of a cluster vanish with their pods, and return.
func (w *federation) nodesVanish(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "vanish", anyRoom, 0, anyRoom)
	berlin := w.members["berlin"].Client
	node := s.addNode(ctx, t, "berlin", anyRoom)
	s.create(ctx, t, 30, startup, evenly)
	s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, 10, 10, 10), nil)
	s.begin(ctx, t)
	if err := berlin.Delete(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, t, "its pods are gone", func() bool {
		// As the garbage collector of pods does, a minute later.
		err := berlin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(s.namespace), client.MatchingFields{"spec.nodeName": node},
			client.GracePeriodSeconds(0))
		if err != nil {
			t.Fatal(err)
		}
		d := s.local(ctx, "berlin")
		return d != nil && d.Status.ReadyReplicas == 0
	})
	s.settles(ctx, t, s.apportioned(ctx, t, map[string]int64{"berlin": 0}, nil, 15, 0, 15), map[string]int32{"berlin": 2})
	s.wrote(ctx, t, "the nodes have vanished", 1, 1, 1)
	s.begin(ctx, t)
	s.addNode(ctx, t, "berlin", anyRoom)
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	s.wrote(ctx, t, "the nodes are back", 1, 1, 1)
	s.bounds(t, "the nodes are back", 30, 60)
	s.close(ctx, t)
}

// A quota in cork allows four pods: those that are not created count like those that do not start.
func (w *federation) quota(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "quota", anyRoom, anyRoom, anyRoom)
	cork := w.members["cork"].Client
	q := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "four"}}
	q.Spec.Hard = v1.ResourceList{v1.ResourcePods: resource.MustParse("4")}
	if err := cork.Create(ctx, q); err != nil {
		t.Fatal(err)
	}
	s.create(ctx, t, 30, startup, evenly)
	s.settles(ctx, t, s.apportioned(ctx, t, map[string]int64{"cork": 4}, nil, 13, 13, 4), map[string]int32{"cork": 2})
	s.wrote(ctx, t, "four are allowed", 2, 2, 2)
	for _, c := range s.get(ctx, t).Status.Clusters {
		if want := map[string]int32{"cork": 2}[c.Name]; c.Uncreated != want {
			t.Errorf("%s has %d replicas without a pod, want %d", c.Name, c.Uncreated, want)
		}
	}
	s.begin(ctx, t)
	if err := cork.Delete(ctx, q); err != nil {
		t.Fatal(err)
	}
	// After every refusal the ReplicaSet controller waits twice as long as before, up to 1000 seconds. A
	// change of a pod has it try at once, which is one more refusal as long as admission knows the quota.
	looks := 0
	s.until(ctx, t, "pods are created in cork", func() bool {
		var pods v1.PodList
		if err := cork.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil || len(pods.Items) == 0 {
			t.Fatalf("%d pods in cork: %v", len(pods.Items), err)
		}
		if len(pods.Items) > 4 {
			return true
		}
		looks++
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"looked-at":"%d"}}}`, looks)
		if err := cork.Patch(ctx, &pods.Items[0], client.RawPatch("application/merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
		return false
	})
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	s.wrote(ctx, t, "the quota is lifted", 1, 1, 1)
	s.bounds(t, "the quota is lifted", 30, 60)
	s.close(ctx, t)
}

// Berlin refuses the local object: its share goes elsewhere, and comes back when berlin accepts it,
// which is tried again after one, four and sixteen seconds, and then once a minute and less.
func (w *federation) refused(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "refused", anyRoom, anyRoom, anyRoom)
	berlin := w.members["berlin"].Client
	all := admissionregistrationv1.MatchPolicyType("Equivalent")
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-web"}}
	policy.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			MatchPolicy:       &all,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelMetadataName: s.namespace}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "berlin is closed"}},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "no-web"}}
	binding.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "no-web", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}
	for _, o := range []client.Object{policy, binding} {
		if err := berlin.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	allowed := func() bool {
		err := berlin.Create(ctx, emptyDeployment(s.namespace, "try"), client.DryRunAll)
		if err != nil && !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	s.until(ctx, t, "the policy is enforced", func() bool { return !allowed() })
	// The share moves between the third attempt, after five seconds, and the fourth, after twenty-one.
	s.create(ctx, t, 30, 15*time.Second, evenly)
	s.until(ctx, t, "its share runs elsewhere", func() bool { _, ready := s.sizes(ctx); return slices.Equal(ready, []int32{15, -1, 15}) })
	f := s.get(ctx, t)
	if at := slices.IndexFunc(f.Status.Clusters, func(c v1alpha1.FederatedClusterStatus) bool { return c.Name == "berlin" }); at < 0 ||
		f.Status.Clusters[at].Refused == nil || !strings.Contains(f.Status.Clusters[at].Refused.Message, "berlin is closed") {
		t.Errorf("the status does not say why: %+v", f.Status.Clusters)
	}
	s.until(ctx, t, "it is tried again, each time later", func() bool {
		return slices.ContainsFunc(s.get(ctx, t).Status.Clusters, func(c v1alpha1.FederatedClusterStatus) bool {
			return c.Refused != nil &&
				c.Refused.Count >= 3
		})
	})
	for _, o := range []client.Object{binding, policy} {
		if err := berlin.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	s.until(ctx, t, "the policy is gone", allowed)
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	var codes []int
	for _, write := range s.written(t, s.marks, w.members["berlin"]) {
		codes = append(codes, write.Code)
	}
	// What cannot be refused any more is created with a probe at first, and then gets its share.
	refused := slices.IndexFunc(codes, func(code int) bool { return code != http.StatusUnprocessableEntity })
	if made := codes[max(0, refused):]; refused < 3 || len(made) > 4 || slices.Contains(made, http.StatusUnprocessableEntity) {
		t.Errorf("berlin answered %v", codes)
	}
	for i, name := range clusterNames {
		// Its share, that of berlin, and the way back: on a busy machine pods start one after the other, so that each of the five
		// pods that come from berlin and go back may take a write.
		if n := len(s.written(t, s.marks, w.members[name])); i != 1 && (n < 3 || n > 1+5+5) {
			t.Errorf("%s was written %d times", name, n)
		}
	}
	s.bounds(t, "accepted again", 0, 60)
	s.close(ctx, t)
}
