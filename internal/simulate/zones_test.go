package simulate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gkeNodes are the nodes of one GKE node pool, in three zones.
func poolNodes(label string) string {
	return nodeYAML("n-a", "z-a", "gce://p/z-a/n-a", label+": pool") + nodeYAML("n-b", "z-b", "gce://p/z-b/n-b", label+": pool") +
		nodeYAML("n-c", "z-c", "gce://p/z-c/n-c", label+": pool")
}

const gkePool = "cloud.google.com/gke-nodepool"

func TestAPoolOverZonesIsAGroupInEachWhereTheCloudHasIt(t *testing.T) {
	pods := "workloads:\n- {name: w, replicas: 9, requests: {cpu: 1500m}}\n- {name: pinned, replicas: 2, requests: {cpu: 1500m}, nodeSelector: {topology.kubernetes.io/zone: z-c}}"
	inline := "machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]\nnodeGroups: [{name: pool, max: 9, template: {metadata: {labels: {LABEL: pool, topology.kubernetes.io/zone: z-a}}, status: {capacity: {cpu: 2, memory: 8Gi, pods: 110}}}}]\n"
	for name, c := range map[string]struct {
		label, spec string
		groups      []string
		note        string
	}{
		"GKE, written out":    {gkePool, "groupLabel: LABEL\n" + inline, []string{"pool.z-a", "pool.z-b", "pool.z-c"}, "node group pool has a group of its own in every zone"},
		"GKE, from the nodes": {gkePool, "groupLabel: LABEL\nnodeGroupsFrom: [{file: nodes.yaml, max: 9}]\n", []string{"pool.z-a", "pool.z-b", "pool.z-c"}, ""},
		"two keys":            {"team-pool", "groupLabel: \"LABEL,topology.kubernetes.io/zone\"\nnodeGroupsFrom: [{file: nodes.yaml, max: 9}]\n", []string{"pool.z-a", "pool.z-b", "pool.z-c"}, ""},
		"GKE and the zone":    {gkePool, "groupLabel: \"LABEL,topology.kubernetes.io/zone\"\nnodeGroupsFrom: [{file: nodes.yaml, max: 9}]\n", []string{"pool.z-a", "pool.z-b", "pool.z-c"}, ""},
		"elsewhere":           {"team-pool", "groupLabel: LABEL\n" + inline, []string{"pool"}, "nodes of node group pool lie in several zones (z-a, z-b, z-c)"},
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
			if notes := strings.Join(report.Status.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "zone") {
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
