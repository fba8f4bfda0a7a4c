package reconcile

import (
	"encoding/json"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/podhealth"
)

func web() *v1alpha1.FederatedReplicaSet {
	labels := map[string]v1alpha1.LabelValue{"app": "web"}
	return &v1alpha1.FederatedReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1", Labels: map[string]string{"team": "shop"}},
		Spec: v1alpha1.FederatedReplicaSetSpec{
			LocalKind: v1alpha1.LocalDeployment,
			Selector:  v1alpha1.LabelSelector{MatchLabels: labels},
			Template: v1alpha1.PodTemplate{
				Metadata: v1alpha1.PodTemplateMetadata{Labels: labels, Annotations: map[string]string{"a": "b"}},
				Spec:     runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"web","image":"web:1","resources":{"requests":{"cpu":"1000m"}}}],"afterTomorrow":{"x":1}}`)},
			},
		},
	}
}

// The local object has all of the template, fields of the future included, and the label by which
// members are watched on itself and on its pods, but not in its selector.
func TestLocalOf(t *testing.T) {
	o, err := localOf(web(), 7)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"apps/v1","kind":"Deployment",` +
		`"metadata":{"annotations":{"evenkeel.dev/federated-replicas":"7","evenkeel.dev/federated-revision":"` +
		federation.Revision(&web().Spec) + `","evenkeel.dev/federated-uid":"u1"},` +
		`"labels":{"evenkeel.dev/federated":"true","team":"shop"},"name":"web","namespace":"shop"},` +
		`"spec":{"replicas":7,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"annotations":{"a":"b"},"labels":{"app":"web","evenkeel.dev/federated":"true"}},` +
		`"spec":{"afterTomorrow":{"x":1},"containers":[{"image":"web:1","name":"web","resources":{"requests":{"cpu":"1000m"}}}]}}}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// What was sent counts until it shows, or until it is clear that it will not.
func TestWhatWasSent(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	old, sent := federation.Local{Exists: true, Replicas: 3}, federation.Local{Exists: true, Replicas: 5}
	w := federation.Write{Cluster: "a", From: 3, To: 5}
	made := func(version string) func(*memory) {
		return func(m *memory) { m.answered(key, federation.Answer{Write: w}, true, version) }
	}
	for name, c := range map[string]struct {
		happens func(*memory) // before the pass
		version string
		after   time.Duration
		want    int32
	}{
		"under way":         {func(*memory) {}, "10", 0, 5},
		"made, not shown":   {made("11"), "10", 0, 5},
		"made, shown":       {made("11"), "11", 0, 3},
		"overtaken":         {made("11"), "12", 0, 3},
		"failed":            {func(m *memory) { m.answered(key, federation.Answer{Write: w}, false, "") }, "10", 0, 3},
		"out of reach":      {func(m *memory) { m.drop(key, "a") }, "10", 0, 3},
		"no answer":         {func(*memory) {}, "10", patience + 1, 3},
		"etcd was restored": {made("11"), "5", patience, 5},
		"and time is over":  {made("11"), "5", patience + 1, 3},
		"another has come": {func(m *memory) {
			m.answered(key, federation.Answer{Write: federation.Write{Cluster: "a", To: 4}}, true, "9")
		}, "10", 0, 5},
		"the object is new": {made("11"), "", 0, 5},
	} {
		m := &memory{}
		m.send(key, sending{write: w, at: now, local: sent})
		c.happens(m)
		m.answers(key)
		timer := podhealth.Timer{Now: now.Add(c.after)}
		if got := m.read(key, "a", old, identity{version: c.version}, &timer); got.Replicas != c.want {
			t.Errorf("%s: %d, want %d", name, got.Replicas, c.want)
		}
		if end := now.Add(patience + 1); c.want == 5 && !timer.Next.Equal(end) || c.want == 3 &&
			!timer.Next.IsZero() { // then a pass is made, whatever else happens
			t.Errorf("%s: next at %v", name, timer.Next)
		}
	}
	m := &memory{}
	m.send(key, sending{write: w, at: now, local: sent})
	m.answers(key)
	made("11")(m) // while a pass is under way, which then finds the object
	for pass, want := range []int32{5, 3} {
		if got := m.read(key, "a", old, identity{version: "11"}, &podhealth.Timer{Now: now}); got.Replicas != want {
			t.Errorf("an answer during a pass: %d in pass %d, want %d", got.Replicas, pass, want)
		}
		m.answers(key)
	}
	m.answered(key, federation.Answer{Write: w, Refused: "no"}, false, "")
	first := m.answers(key)
	m.answered(key, federation.Answer{Write: w, Refused: "no more"}, false, "")
	if m.stored(key, len(first)); len(first) != 1 || len(m.answers(key)) != 1 {
		t.Errorf("%+v, then %+v", first, m.answers(key))
	}
	if m.forget(key); len(m.answers(key)) != 0 {
		t.Error("not forgotten")
	}
}

// How many pods a Deployment may have out of service is that of its strategy; without one, the
// engine takes the default of the API.
func TestMaxUnavailable(t *testing.T) {
	two := intstr.FromInt32(2)
	for name, c := range map[string]struct {
		strategy appsv1.DeploymentStrategy
		want     string
	}{
		"none":     {appsv1.DeploymentStrategy{}, "<nil>"},
		"recreate": {appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, "100%"},
		"two":      {appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &two}}, "2"},
	} {
		got := "<nil>"
		if m := maxUnavailable(&c.strategy); m != nil {
			got = m.String()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A Deployment has acted when it has passed its number on, and its ReplicaSets have acted.
func TestActedOn(t *testing.T) {
	set := func(size int32, observed int64) *appsv1.ReplicaSet {
		r := &appsv1.ReplicaSet{}
		r.Generation, r.Spec.Replicas, r.Status.ObservedGeneration = 3, &size, observed
		return r
	}
	for name, c := range map[string]struct {
		observed int64
		sets     []*appsv1.ReplicaSet
		want     bool
	}{
		"all have acted":          {2, []*appsv1.ReplicaSet{set(0, 3), set(8, 3)}, true},
		"the Deployment has not":  {1, []*appsv1.ReplicaSet{set(8, 3)}, false},
		"a ReplicaSet has not":    {2, []*appsv1.ReplicaSet{set(0, 2), set(8, 3)}, false},
		"they are as they were":   {2, []*appsv1.ReplicaSet{set(5, 3)}, false},
		"they are not there yet":  {2, nil, false},
		"a rollout is on its way": {2, []*appsv1.ReplicaSet{set(3, 3), set(7, 3)}, false},
	} {
		d := &appsv1.Deployment{}
		d.Generation, d.Spec.Replicas, d.Status.ObservedGeneration = 2, ptr.To[int32](8), c.observed
		if got := actedOn(d, c.sets); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
