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

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
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
		`"metadata":{"annotations":{"evenkeel.dev/federated-replicas":"7","evenkeel.dev/federated-revision":"` + federation.Revision(&web().Spec) + `","evenkeel.dev/federated-uid":"u1"},` +
		`"labels":{"evenkeel.dev/federated":"true","team":"shop"},"name":"web","namespace":"shop"},` +
		`"spec":{"replicas":7,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"annotations":{"a":"b"},"labels":{"app":"web","evenkeel.dev/federated":"true"}},` +
		`"spec":{"afterTomorrow":{"x":1},"containers":[{"image":"web:1","name":"web","resources":{"requests":{"cpu":"1000m"}}}]}}}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// What was sent counts until it shows, or until it is clear that it will not.
func TestOutbox(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	old, sent := federation.Local{Exists: true, Replicas: 3}, federation.Local{Exists: true, Replicas: 5}
	w := federation.Write{Cluster: "a", From: 3, To: 5}
	for name, c := range map[string]struct {
		happens func(*outbox)
		version string
		after   time.Duration
		want    int32
	}{
		"under way":         {func(*outbox) {}, "10", 0, 5},
		"made, not shown":   {func(o *outbox) { o.arrived(key, w, "11", "") }, "10", 0, 5},
		"made, shown":       {func(o *outbox) { o.arrived(key, w, "11", "") }, "11", 0, 3},
		"overtaken":         {func(o *outbox) { o.arrived(key, w, "11", "") }, "12", 0, 3},
		"failed":            {func(o *outbox) { o.failed(key, federation.Failure{Write: w}) }, "10", 0, 3},
		"out of reach":      {func(o *outbox) { o.drop(key, "a") }, "10", 0, 3},
		"no answer":         {func(*outbox) {}, "10", patience + 1, 3},
		"etcd was restored": {func(o *outbox) { o.arrived(key, w, "11", "") }, "5", patience, 5},
		"and time is over":  {func(o *outbox) { o.arrived(key, w, "11", "") }, "5", patience + 1, 3},
		"another has come":  {func(o *outbox) { o.arrived(key, federation.Write{Cluster: "a", To: 4}, "9", "") }, "10", 0, 5},
		"the object is new": {func(o *outbox) { o.arrived(key, w, "11", "") }, "", 0, 5},
	} {
		o := &outbox{}
		o.send(key, letter{write: w, at: now, local: sent})
		c.happens(o)
		if got := o.over(key, "a", old, c.version, now.Add(c.after)); got.Replicas != c.want {
			t.Errorf("%s: %d, want %d", name, got.Replicas, c.want)
		}
	}
	o := &outbox{}
	if at := o.expires(key, now); !at.IsZero() {
		t.Errorf("expires at %v", at)
	}
	o.send(key, letter{write: w, at: now, local: sent})
	if at := o.expires(key, now); at.Sub(now) != patience+1 { // then a pass is made, whatever else happens
		t.Errorf("expires at %v", at)
	}
	if at := o.expires(key, now.Add(patience+1)); !at.IsZero() {
		t.Errorf("expires again at %v", at)
	}
	failure := federation.Failure{Write: w, Refused: "no"}
	o.failed(key, failure)
	if taken := o.take(key); len(taken) != 1 || len(o.take(key)) != 0 {
		t.Errorf("%+v", taken)
	}
	o.put(key, []federation.Failure{failure})
	if o.forget(key); len(o.take(key)) != 0 {
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
