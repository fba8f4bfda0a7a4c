package simulate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// gkeNodes are the nodes of one GKE node pool, in three zones.
func poolNodes(label string) string {
	return nodeYAML("n-a", "z-a", "gce://p/z-a/n-a", label+": pool") + nodeYAML("n-b", "z-b", "gce://p/z-b/n-b", label+": pool") +
		nodeYAML("n-c", "z-c", "gce://p/z-c/n-c", label+": pool")
}

const gkePool = "cloud.google.com/gke-nodepool"

func TestAPoolOverZonesIsAGroupInEachWhereTheCloudHasIt(t *testing.T) {
	pods := "workloads:\n- {name: w, replicas: 9, requests: {cpu: 1500m}}\n- {name: pinned, replicas: 2, requests: {cpu: " +
		"1500m}, nodeSelector: {topology.kubernetes.io/zone: z-c}}"
	inline := "machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]\nnodeGroups: [{name: pool, max: 9, template: " +
		"{metadata: {labels: {LABEL: pool, topology.kubernetes.io/zone: z-a}}, status: {capacity: {cpu: 2, memory: 8Gi, pods: 110}}}}]\n"
	for name, c := range map[string]struct {
		label, spec string
		groups      []string
		note        string
	}{
		"GKE, written out": {gkePool, "groupLabel: LABEL\n" + inline, []string{"pool.z-a", "pool.z-b", "pool.z-c"},
			"node group pool has a group of its own in every zone"},
		"GKE, from the nodes": {gkePool, "groupLabel: LABEL\nnodeGroupsFrom: [{file: nodes.yaml, max: 9}]\n",
			[]string{"pool.z-a", "pool.z-b", "pool.z-c"}, ""},
		"two keys": {"team-pool", "groupLabel: \"LABEL,topology.kubernetes.io/zone\"\nnodeGroupsFrom: [{file: nodes.yaml, max: 9}]\n",
			[]string{"pool.z-a", "pool.z-b", "pool.z-c"}, ""},
		"GKE and the zone": {gkePool, "groupLabel: \"LABEL,topology.kubernetes.io/zone\"\nnodeGroupsFrom: [{file: nodes.yaml, max: 9}]\n",
			[]string{"pool.z-a", "pool.z-b", "pool.z-c"}, ""},
		"elsewhere": {"team-pool", "groupLabel: LABEL\n" + inline, []string{"pool"},
			"nodes of node group pool lie in several zones (z-a, z-b, z-c)"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := strings.ReplaceAll(c.spec+"nodesFrom: [{file: nodes.yaml}]\n"+pods, "LABEL", c.label)
			report := run(t, loadFiles(t, scenario(spec), map[string]string{"nodes.yaml": poolNodes(c.label)}))
			var groups []string
			for _, g := range report.Status.Groups {
				groups = append(groups, g.Name)
				if len(c.groups) == 3 && g.After < 3 { // more where free pods take the place of pinned ones
					t.Errorf("%s ends with %d nodes", g.Name, g.After)
				}
			}
			if diff := cmp.Diff(c.groups, groups); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if notes := strings.Join(report.Status.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" &&
				strings.Contains(notes, "zone") {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
			if len(c.groups) == 3 && (report.Status.Pending != 0 || len(report.Status.Sets) != 1) {
				t.Errorf("%d pods pending, sets %v", report.Status.Pending, report.Status.Sets)
			}
			if t.Failed() {
				t.Log(describe(report))
			}
		})
	}
}

// TestAGroupOverZonesFromADump: a managed group over zones stays one group, with its zones, and pods that spread over
// zones all run.
func TestAGroupOverZonesFromADump(t *testing.T) {
	var d simulate.Dump
	for _, zone := range []string{"z-b", "z-a", "z-c"} {
		if err := d.Add(document.Item{APIVersion: "v1", Kind: "Node", Object: &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n-" + zone, Labels: map[string]string{"eks.amazonaws.com/nodegroup": "web",
				v1.LabelTopologyZone: zone, "topology.ebs.csi.aws.com/zone": zone}},
			Spec: v1.NodeSpec{ProviderID: "aws:///" + zone + "/i-" + zone},
			Status: v1.NodeStatus{Capacity: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("8Gi"),
				v1.ResourcePods: resource.MustParse("110")}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := d.Scenario(simulate.DumpOptions{Name: "x", Max: 20})
	if err != nil {
		t.Fatal(err)
	}
	groups := out.Scenario.Spec.NodeGroups
	if len(groups) != 1 || !slices.Equal(groups[0].Zones, []string{"z-a", "z-b", "z-c"}) {
		t.Fatalf("groups %+v", groups)
	}
	var more v1alpha1.Scenario
	if err := json.Unmarshal([]byte(`{"spec":{"workloads":[{"name":"w","replicas":8,"requests":{"cpu":"1500m"},"spread":[{}]}]}}`),
		&more); err != nil {
		t.Fatal(err)
	}
	out.Scenario.Spec.Workloads = more.Spec.Workloads
	for _, mode := range simulate.Modes() {
		out.Scenario.Spec.Autoscaler.Mode = string(mode)
		report := played(t, whole(t, out))
		if s := report.Status; s.Running != 8 || s.Groups[0].After != 8 || s.Groups[0].Zone != "z-a,z-b,z-c" || len(s.Notes) > 0 {
			t.Errorf("%s: %d pods run on %+v, notes %q", mode, s.Running, s.Groups, s.Notes)
		}
	}
}
