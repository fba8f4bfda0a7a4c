package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// exampleNodes are those of the page about WorkloadSpreads.
const exampleNodes = "../configs/examples/workload-spread-nodes.yaml"

// samplesAsSimulated plays every sample on its own: with each number of replicas, on the way up and
// down, the cluster comes to what evenkeel simulate says.
func samplesAsSimulated(ctx context.Context, t *testing.T, w *spreadCluster) {
	text, err := os.ReadFile(exampleNodes)
	if err != nil {
		t.Fatal(err)
	}
	var nodes v1.NodeList
	if err := yaml.UnmarshalStrict(text, &nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		nodes.Items[i].Status.Allocatable = nodes.Items[i].Status.Capacity
		if err := w.plane.AddNodes(ctx, &nodes.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	samples, err := filepath.Glob("../configs/samples/workloadspread-*.yaml")
	if err != nil || len(samples) < 5 {
		t.Fatalf("samples %v: %v", samples, err)
	}
	for _, sample := range samples {
		w.sample(ctx, t, sample)
	}
}

// sample plays one.
func (w *spreadCluster) sample(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	namespace := strings.TrimSuffix(filepath.Base(file), ".yaml")
	m := w.market(ctx, t, namespace)
	var name string
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), object); err != nil {
			t.Fatal(err)
		}
		object.SetNamespace(namespace)
		if name = object.GetName(); object.GetKind() == "WorkloadSpread" {
			shortenMarks(t, object)
			m.spread(ctx, t, object)
			continue
		}
		m.create(ctx, t, object)
	}
	for _, replicas := range []int{0, 5, 14} { // 0: those of the file
		if replicas == 14 {
			m.unmarked(ctx, t, name)
		}
		if replicas > 0 {
			scale := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
			d := &unstructured.Unstructured{}
			d.SetAPIVersion("apps/v1")
			d.SetKind("Deployment")
			d.SetName(name)
			d.SetNamespace(namespace)
			if err := m.Patch(ctx, d, client.RawPatch("application/merge-patch+json", scale)); err != nil {
				t.Fatal(err)
			}
		}
		m.asSimulated(ctx, t, file, replicas)
		m.costed(ctx, t)
		until(ctx, t, "no pod of "+namespace+" takes room while it ends", func() bool {
			var all v1.PodList
			return m.List(ctx, &all, client.InNamespace(namespace)) == nil && len(all.Items) == len(m.replicas(ctx, t))
		})
		until(ctx, t, "the status of "+namespace+" awaits no pod", func() bool { // one that is gone soon after it came may still come
			o := &v1alpha1.WorkloadSpread{}
			err := m.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
			return err == nil && !slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(o.Status.VersionedSubsetStatuses))...),
				func(c v1alpha1.WorkloadSubsetCount) bool { return len(c.CreatingPods) > 0 })
		})
	}
	if err := m.Delete(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the pods of "+namespace+" are gone", func() bool { return len(m.replicas(ctx, t)) == 0 })
}

// shortenMarks has new pods pass over a subset for some seconds, instead of minutes, after a pod found no room there.
func shortenMarks(t *testing.T, spread *unstructured.Unstructured) {
	t.Helper()
	if kind, _, _ := unstructured.NestedString(spread.Object, "spec", "scheduleStrategy", "type"); kind != string(v1alpha1.ScheduleAdaptive) {
		return
	}
	for field, seconds := range map[string]int64{"unschedulableSeconds": 30, "rescheduleCriticalSeconds": 10} {
		if err := unstructured.SetNestedField(spread.Object, seconds, "spec", "scheduleStrategy", "adaptive", field); err != nil {
			t.Fatal(err)
		}
	}
}

// unmarked waits until new pods pass over no subset. On a busy machine a webhook server may not simulate
// a pod in time and admit it to spot by the plain order. If spot has no room for it, spot is marked, of which
// evenkeel simulate knows nothing.
func (m *market) unmarked(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	until(ctx, t, "no subset of "+m.namespace+" is marked", func() bool {
		o := &v1alpha1.WorkloadSpread{}
		err := m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: name}, o)
		return err == nil && !slices.ContainsFunc(o.Status.SubsetStatuses,
			func(s v1alpha1.WorkloadSubsetStatus) bool { return s.UnschedulableUntil != nil })
	})
}

// asSimulated waits until the cluster has come to what evenkeel simulate says of a sample with so many
// replicas, or those of the file if 0.
func (m *market) asSimulated(ctx context.Context, t *testing.T, file string, replicas int) {
	t.Helper()
	want := simulated(t, file, replicas)
	var got map[string]int
	defer func() {
		if t.Failed() {
			t.Logf("%s with %d: the cluster has %v, simulate says %v", m.namespace, replicas, got, want)
		}
	}()
	until(ctx, t, fmt.Sprint(m.namespace, " with ", replicas, " is as simulated"), func() bool {
		got = m.runningIn(ctx, t)
		return maps.Equal(got, want)
	})
}

// runningIn are the pods that run in each subset, and pending ones as "pending".
func (m *market) runningIn(ctx context.Context, t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, p := range m.replicas(ctx, t) {
		a, _ := workloadspread.AssignmentOf(&p)
		switch {
		case runs(&p):
			n[a.Subset]++
		default:
			n["pending"]++
		}
	}
	return n
}

// simulated is the same by evenkeel simulate.
func simulated(t *testing.T, file string, replicas int) map[string]int {
	t.Helper()
	args := []string{"simulate", "-f", file, "-f", exampleNodes, "-o", "json"}
	if replicas > 0 {
		args = append(args, fmt.Sprint("--replicas=", replicas))
	}
	out, problems, code := evenkeel.Run(t, args...)
	if code != 0 {
		t.Fatalf("evenkeel %v: %s", args, problems)
	}
	var result struct {
		Status struct {
			WorkloadSpreads []struct {
				Subsets []struct {
					Name             string
					Running, Pending int
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, s := range result.Status.WorkloadSpreads {
		for _, subset := range s.Subsets {
			n[subset.Name] += subset.Running
			n["pending"] += subset.Pending
		}
	}
	maps.DeleteFunc(n, func(_ string, n int) bool { return n == 0 })
	return n
}
