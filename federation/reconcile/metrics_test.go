package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
)

// seriesOf are the series of a registry, as name{labels}.
func seriesOf(t *testing.T, registry *prometheus.Registry) (all []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := f.GetName()
			for _, l := range m.GetLabel() {
				text += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			all = append(all, text)
		}
	}
	return all
}

// What is about an object or a cluster is gone with it, and what is left does not grow with them.
func TestMetricsAreForgotten(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	before := seriesOf(t, registry)
	for i := range 100 {
		key, cluster := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web-", i)}, fmt.Sprint("cluster-", i)
		m.gauges.See(key, v1alpha1.FederatedReplicaSetStatus{AskedReplicas: 3})
		m.wrote(federation.Write{Cluster: cluster, Create: true, Content: true}, time.Second, nil)
		m.wrote(federation.Write{Cluster: cluster}, time.Second, errors.New("no"))
		if all := strings.Join(seriesOf(t, registry), "\n"); !strings.Contains(all, "name="+key.Name+" namespace=shop") ||
			!strings.Contains(all, "cluster="+cluster+" verb=create") {
			t.Fatalf("nothing about %s and %s in\n%s", key, cluster, all)
		}
		m.set.ForgetObject(key)
		m.forgetCluster(cluster)
	}
	if after := seriesOf(t, registry); len(after) != len(before) {
		t.Errorf("%d series before, then\n%s", len(before), strings.Join(after, "\n"))
	}
}

func TestMetricsOfWrites(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	conflict := apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("changed"))
	for _, w := range []struct {
		write federation.Write
		err   error
	}{
		{federation.Write{Cluster: "a", Create: true, Content: true}, nil},
		{federation.Write{Cluster: "a", Content: true}, conflict},
		{federation.Write{Cluster: "a", Moves: 3}, nil},
		{federation.Write{Cluster: "a", Moves: 5}, errors.New("no answer")},
		{federation.Write{Cluster: "a", Delete: true}, nil},
	} {
		m.wrote(w.write, time.Second, w.err)
	}
	want := `
# HELP evenkeel_federation_moves_total Running replicas that left a cluster for another one.
# TYPE evenkeel_federation_moves_total counter
evenkeel_federation_moves_total 3
# HELP evenkeel_federation_writes_total Local objects written, by cluster and result.
# TYPE evenkeel_federation_writes_total counter
evenkeel_federation_writes_total{cluster="a",result="conflict"} 1
evenkeel_federation_writes_total{cluster="a",result="failure"} 1
evenkeel_federation_writes_total{cluster="a",result="success"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "evenkeel_federation_moves_total",
		"evenkeel_federation_writes_total"); err != nil {
		t.Error(err)
	}
	all := strings.Join(seriesOf(t, registry), "\n")
	for _, verb := range []string{"create", "overwrite", "scale", "delete"} {
		if !strings.Contains(all, "write_duration_seconds cluster=a verb="+verb) {
			t.Errorf("no %s in\n%s", verb, all)
		}
	}
}

// Passes are counted by what they did, and their phases are measured.
func TestMetricsOfPasses(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := newHost(t, func(f *v1alpha1.FederatedReplicaSet) { f.Generation = 1 })
	var err error
	if h.metrics, err = NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.pass(t); err != nil {
			t.Fatal(err)
		}
	}
	f, err := h.get(t)
	if err != nil {
		t.Fatal(err)
	}
	f.Generation, h.refuses = 2, errors.New("the host does not answer")
	if err := h.client.Update(t.Context(), &f); err != nil {
		t.Fatal(err)
	}
	if h.pass(t) == nil {
		t.Error("the status was stored")
	}
	want := `
# HELP evenkeel_federation_passes_total Passes over FederatedReplicaSets, by result: unchanged, stored (the status), written (local objects), conflict, failure.
# TYPE evenkeel_federation_passes_total counter
evenkeel_federation_passes_total{result="conflict"} 0
evenkeel_federation_passes_total{result="failure"} 1
evenkeel_federation_passes_total{result="stored"} 1
evenkeel_federation_passes_total{result="unchanged"} 1
evenkeel_federation_passes_total{result="written"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "evenkeel_federation_passes_total"); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, family := range families {
		if family.GetName() == "evenkeel_federation_pass_duration_seconds" {
			for _, m := range family.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	if fmt.Sprint(got) != "map[decide:3 observe:3 send:2 store:3]" {
		t.Errorf("phases %v", got)
	}
}
