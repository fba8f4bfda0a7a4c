package simulate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

var dumpFiles = []string{"nodes.json", "pods.json", "daemonsets.json"}

func openDump(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join("..", "..", "configs", "scenarios", "data", name))
}

// dumped makes a scenario of the files, and of a status of Cluster Autoscaler.
func dumped(t *testing.T, status string, o simulate.DumpOptions) *simulate.Dumped {
	t.Helper()
	var d simulate.Dump
	add := func(name string, r io.Reader) {
		for item, err := range document.Objects(name, r, document.StreamOptions{}) {
			if err == nil {
				err = d.Add(item)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range dumpFiles {
		f, err := openDump(name)
		if err != nil {
			t.Fatal(err)
		}
		add(name, f)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if status != "" {
		text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]string{"name": "cluster-autoscaler-status", "namespace": "kube-system"},
			"data":     map[string]string{"status": status}})
		if err != nil {
			t.Fatal(err)
		}
		add("status", strings.NewReader(string(text)))
	}
	out, err := d.Scenario(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// played writes a scenario as text, reads it again and plays it.
func played(t *testing.T, s *v1alpha1.Scenario) *v1alpha1.ScenarioReport {
	t.Helper()
	return playedWith(t, s, func(*simulate.Setup) {})
}

func playedWith(t *testing.T, s *v1alpha1.Scenario, change func(*simulate.Setup)) *v1alpha1.ScenarioReport {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := document.ToYAML(raw)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := document.Read("s.yaml", strings.NewReader(string(text)), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	setup, err := simulate.Load(&docs[0], simulate.Files{Open: openDump})
	if err != nil {
		t.Fatal(err)
	}
	change(setup)
	report, err := simulate.Run(context.Background(), setup, nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// whole is the scenario of a dump with its objects.
func whole(t *testing.T, of *simulate.Dumped) *v1alpha1.Scenario {
	t.Helper()
	of.Scenario.Spec.Objects = nil
	for object, err := range of.Objects(nil) {
		if err != nil {
			t.Fatal(err)
		}
		of.Scenario.Spec.Objects = append(of.Scenario.Spec.Objects, object)
	}
	return of.Scenario
}

// TestAScenarioFromADumpIsPlayedLikeTheDump adds the same workloads to the scenario made of a dump
// and to one that names the files of the dump, and wants the same decisions.
func TestAScenarioFromADumpIsPlayedLikeTheDump(t *testing.T) {
	whole := whole(t, dumped(t, "", simulate.DumpOptions{Name: "x", Max: 30}))
	var more v1alpha1.Scenario
	if err := json.Unmarshal([]byte(`{"spec":{"workloads":[{"name":"w","replicas":40,"requests":{"cpu":"1500m"}},
		{"name":"s","replicas":9,"requests":{"cpu":"700m"},"spread":[{}]}]}}`), &more); err != nil {
		t.Fatal(err)
	}
	whole.Spec.Workloads = more.Spec.Workloads
	named := *whole
	named.Spec.Objects = nil
	named.Spec.NodesFrom = []v1alpha1.FileSource{{File: "nodes.json"}}
	named.Spec.PodsFrom = []v1alpha1.PodsSource{{FileSource: v1alpha1.FileSource{File: "pods.json"}}}
	named.Spec.DaemonSetsFrom = []v1alpha1.FileSource{{File: "daemonsets.json"}}
	want, got := played(t, &named), played(t, whole)
	if want.Status.NodesOrdered == 0 {
		t.Fatal("nothing was decided")
	}
	if diff := cmp.Diff(want.Status.Timeline, got.Status.Timeline); diff != "" {
		t.Errorf("timeline (-dump +scenario):\n%s", diff)
	}
	if diff := cmp.Diff(want.Status.Groups, got.Status.Groups); diff != "" {
		t.Errorf("groups (-dump +scenario):\n%s", diff)
	}
}

// Two Cluster Autoscalers have a status each, under names of their own.
func TestBoundsFromSeveralStatuses(t *testing.T) {
	objects := []string{machine{name: "n1", labels: "agentpool: web"}.object(), machine{name: "n2", labels: "agentpool: batch"}.object()}
	for name, most := range map[string]int{"web": 3, "batch": 7} {
		objects = append(objects, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: status-of-%s, namespace: kube-system, `+
			`annotations: {cluster-autoscaler.kubernetes.io/last-updated: "2026-06-01 12:00:00 +0000 UTC"}}, data: {status: '{"nodeGroups": `+
			`[{"name": %q, "health": {"nodeCounts": {"registered": {"ready": 1}}, "minSize": 1, "maxSize": %d}}]}'}}`, name, name, most))
	}
	out, err := cloudDump(t, objects).Scenario(simulate.DumpOptions{Name: "x", Max: 100})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int32{}
	for _, g := range out.Scenario.Spec.NodeGroups {
		got[g.Name] = *g.Max
	}
	if diff := cmp.Diff(map[string]int32{"web": 3, "batch": 7}, got); diff != "" || len(out.Fixed) > 0 {
		t.Errorf("maximums (-want +got):\n%s, fixed %v", diff, out.Fixed)
	}
}

func TestBoundsOfAScenarioFromADump(t *testing.T) {
	const yaml = "time: 2026-06-01 12:00:40 +0000 UTC\nautoscalerStatus: Running\nnodeGroups:\n" +
		"- name: eks-c5-2xlarge-a-6ac8f0e2\n  health: {status: Healthy, nodeCounts: {registered: {total: 7, ready: 7}}, " +
		"cloudProviderTarget: 7, minSize: 1, maxSize: 9}\n" +
		"- name: eks-gone-12345678\n  health: {minSize: 0, maxSize: 3}\n"
	const text = "Cluster-autoscaler status at 2026-06-01 12:00:40 +0000 UTC:\nCluster-wide:\n  Health: Healthy (ready=16 " +
		"unready=0)\nNodeGroups:\n" +
		"  Name:        eks-c5-2xlarge-a-6ac8f0e2\n  Health:      Healthy (ready=7 unready=0 registered=7 " +
		"cloudProviderTarget=7 (minSize=1, maxSize=9))\n" +
		"  Name:        eks-gone-12345678\n  Health:      Healthy (ready=0 cloudProviderTarget=0 (minSize=0, maxSize=3))\n"
	for name, status := range map[string]string{"YAML": yaml, "text": text} {
		out := dumped(t, status, simulate.DumpOptions{Name: "x", Max: 50, Bounds: map[string]simulate.DumpBounds{"m5-large-b": {Min: 2, Max: 4}}})
		got := map[string][2]int32{}
		for _, g := range out.Scenario.Spec.NodeGroups {
			got[g.Name] = [2]int32{g.Min, *g.Max}
		}
		// Cluster Autoscaler knows all its groups, so it does not resize the others.
		want := map[string][2]int32{"c5-2xlarge-a": {1, 9}, "c5-2xlarge-b": {1, 1}, "m5-large-b": {2, 4}, "m5-large-c": {1, 1},
			"m5-xlarge-c": {4, 4}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(out.Notes) != 2 || !strings.Contains(out.Notes[0], "c5-2xlarge-b") || !strings.Contains(out.Notes[1], "eks-gone-12345678") {
			t.Errorf("%s: notes %q", name, out.Notes)
		}
		empty := []v1alpha1.ScenarioNodeGroup{{Name: "eks-gone-12345678", Max: ptr.To[int32](3)}}
		if diff := cmp.Diff(empty, out.Empty); diff != "" {
			t.Errorf("%s: groups without nodes (-want +got):\n%s", name, diff)
		}
	}
}

func TestObjectsOfADocumentAreCheckedLikeFiles(t *testing.T) {
	_, err := loadWith(scenario(`objects: [{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}, spec: {containers: [{name: c, resources: {requests: {cpus: 1}}}]}}]`))
	const want = `spec.objects: Invalid value: "spec.objects": document 1: items[0] (Pod default/p): spec.containers[0].resources.requests: Invalid value: "cpus"`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
