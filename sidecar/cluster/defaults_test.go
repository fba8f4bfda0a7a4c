package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

var byZone = []v1.TopologySpreadConstraint{
	{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule},
	{MaxSkew: 3, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway},
}

// labelsOf draws a few labels of a few values, so that many are the same.
func labelsOf(t *rapid.T, name string, keys ...string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if value := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, name+" "+key); value != "" {
			out[key] = value
		}
	}
	return out
}

// selectorOf draws a selector.
func selectorOf(t *rapid.T, name string) *metav1.LabelSelector {
	out := &metav1.LabelSelector{MatchLabels: labelsOf(t, name, "app", "tier")}
	switch rapid.IntRange(0, 3).Draw(t, name+" expression") {
	case 0:
		out.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}
	case 1:
		return nil
	}
	return out
}

// Which pods a default constraint counts is what the scheduler deduces.
func TestDefaultSelectorIsThatOfTheScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDefaults(&Options{DefaultConstraints: byZone})
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		core, apps := factory.Core().V1(), factory.Apps().V1()
		put := func(to interface{ Add(any) error }, twin interface{ Add(any) error }, object any) {
			if err := to.Add(object); err != nil {
				t.Fatal(err)
			}
			if err := twin.Add(object); err != nil {
				t.Fatal(err)
			}
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "services") {
			name := fmt.Sprint("service ", i)
			s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, name)}, Spec: v1.ServiceSpec{Selector: labelsOf(t, name, "app", "tier")}}
			put(core.Services().Informer().GetIndexer(), d.services, s)
		}
		meta := metav1.ObjectMeta{Name: "web", Namespace: "a"}
		if rapid.Bool().Draw(t, "controllers") {
			put(apps.ReplicaSets().Informer().GetIndexer(), d.replicaSets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selectorOf(t, "replica set")}})
			put(apps.StatefulSets().Informer().GetIndexer(), d.statefulSets, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selectorOf(t, "stateful set")}})
			put(core.ReplicationControllers().Informer().GetIndexer(), d.controllers, &v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: labelsOf(t, "controller", "app", "tier")}})
		}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "a", Labels: labelsOf(t, "pod", "app", "tier")}}
		if kind := rapid.SampledFrom([]string{"", "ReplicaSet", "StatefulSet", "ReplicationController", "Job"}).Draw(t, "kind"); kind != "" {
			version := rapid.SampledFrom([]string{"v1", "apps/v1", "batch/v1"}).Draw(t, "version")
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "web", Controller: ptr.To(true)}}
		}
		want := helper.DefaultSelector(pod, core.Services().Lister(), core.ReplicationControllers().Lister(), apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
		d.fill()
		got := (&Workload{defaults: d}).Complete([]*v1.Pod{pod})[0]
		if want.Empty() {
			if got != pod {
				t.Fatalf("the scheduler has no selector, got %+v", got.Spec.TopologySpreadConstraints)
			}
			return
		}
		if got == pod || len(got.Spec.TopologySpreadConstraints) != 1 || len(pod.Spec.TopologySpreadConstraints) != 0 {
			t.Fatalf("the scheduler selects %s, got %+v", want, got.Spec.TopologySpreadConstraints)
		}
		selector, err := metav1.LabelSelectorAsSelector(got.Spec.TopologySpreadConstraints[0].LabelSelector)
		if err != nil {
			t.Fatal(err)
		}
		for range 9 {
			other := labels.Set(labelsOf(t, "other", "app", "tier"))
			if selector.Matches(other) != want.Matches(other) {
				t.Fatalf("%s of pod labels %v, the scheduler has %s", selector, other, want)
			}
		}
	})
}

// fill has every collection know something of another namespace.
func (d *defaults) fill() {
	for _, err := range []error{
		d.services.Add(&v1.Service{}), d.replicaSets.Add(&appsv1.ReplicaSet{}), d.statefulSets.Add(&appsv1.StatefulSet{}), d.controllers.Add(&v1.ReplicationController{}),
	} {
		if err != nil {
			panic(err)
		}
	}
}

// Pods get the default constraints once services and controllers are known, those on nodes and with
// constraints of their own excepted. Where these may not be read, pods stay as they are.
func TestDefaultConstraints(t *testing.T) {
	for name, forbidden := range map[string]bool{"known": false, "forbidden": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				own, waits, runs := podOn("own", ""), podOn("waits", ""), podOn("runs", "n")
				waits.Spec.TopologySpreadConstraints, runs.Spec.TopologySpreadConstraints = nil, nil
				client := fake.NewClientset(named("n"), own, waits, runs, &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
				if forbidden {
					client.PrependReactor("*", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
						return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", nil)
					})
				}
				c, err := start(ctx, client, Options{Workload: true, DefaultConstraints: byZone})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				workload, ok := c.Workload.List()
				got := map[string]string{}
				for _, p := range workload.Pods {
					for _, constraint := range p.Spec.TopologySpreadConstraints {
						got[p.Name] += constraint.TopologyKey + " " + metav1.FormatLabelSelector(constraint.LabelSelector)
					}
				}
				want := map[string]string{"own": v1.LabelTopologyZone + " <none>", "waits": v1.LabelTopologyZone + " app=web"}
				if forbidden {
					delete(want, "waits")
				}
				if !ok || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("known: %t, constraints %v, want %v", ok, got, want)
				}
				cancel()
				c.Wait()
			})
		})
	}
}
