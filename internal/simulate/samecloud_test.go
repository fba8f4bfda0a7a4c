package simulate_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// loadFiles loads a scenario whose files are texts.
func loadFiles(t testing.TB, text string, files map[string]string) *simulate.Setup {
	t.Helper()
	docs, err := document.Read("x.yaml", bytes.NewReader([]byte(text)), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	setup, err := simulate.Load(&docs[0], simulate.Files{Open: func(name string) (io.ReadCloser, error) {
		text, found := files[name]
		if !found {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return setup
}

// nodeYAML is a node of a pool in a zone, with some more labels.
func nodeYAML(name, zone, providerID, labels string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {topology.kubernetes.io/zone: %s, %s}}
spec: {providerID: "%s"}
status: {capacity: {cpu: 2, memory: 8Gi, pods: 110}, conditions: [{type: Ready, status: "True"}]}
`, name, zone, labels, providerID)
}

// Of which cloud a node is decides which labels count. It must not change between the template, the
// simulated nodes and the time after them: a set stays level over several rounds and through zero.
func TestACloudStaysFoundOut(t *testing.T) {
	const shown = ", kubernetes.azure.com/cluster: c, kubernetes.azure.com/role: agent"
	for name, c := range map[string]struct {
		template, node string // providerID of the templates and of nodes at the start; no nodes where it is "-"
		labels         string
		only           string // the pool that alone has nodes and a providerID
	}{
		"by labels":                                {node: "-", labels: shown},
		"by labels, unknown scheme of templates":   {template: "kwok://t", node: "-", labels: shown},
		"by labels, unknown scheme of nodes":       {node: "openstack:///n", labels: shown},
		"by labels and both ids":                   {template: "azure:///t", node: "azure:///n", labels: shown},
		"by the templates":                         {template: "azure:///t", node: "-"},
		"by the templates, not the nodes":          {template: "azure:///t", node: "kwok://n"},
		"by the nodes":                             {node: "azure:///n"},
		"by the nodes, not the templates":          {template: "fake://t", node: "azure:///n"},
		"by the nodes of one pool":                 {node: "azure:///n", only: "np1"},
		"by the nodes of the last pool":            {node: "azure:///n", only: "np3"},
		"by the nodes of one pool, unknown scheme": {template: "openstack:///t", node: "azure:///n", only: "np2"},
		"by the template of one pool":              {template: "azure:///t", node: "-", only: "np2"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for i, zone := range []string{"z1", "z2", "z3"} {
				pool := fmt.Sprintf("np%d", i+1)
				has := c.only == "" || c.only == pool
				template, labels := c.template, "agentpool: "+pool+", poolName: "+pool+c.labels
				if !has && c.node == "-" {
					template = ""
				}
				files["templates.yaml"] += nodeYAML(pool, zone, template, labels)
				if has && c.node != "-" {
					id := c.node + "/" + pool
					files["nodes.yaml"] += nodeYAML("old-"+pool, zone, id, labels)
				}
			}
			text := `
apiVersion: evenkeel.dev/v1alpha1
kind: Scenario
metadata: {name: pools}
spec:
  duration: 5h
  groupLabel: agentpool
  options: {scaleDownEnabled: true, disabledLabelPacks: []}
  nodeGroupsFrom: [{file: templates.yaml, min: 0, max: 20}]
  workloads:
  - name: web
    replicas: 9
    requests: {cpu: 1500m}
    scale: [{at: 20m, replicas: 18}, {at: 1h, replicas: 0}, {at: 3h, replicas: 9}, {at: 3h30m, replicas: 21}]
`
			if c.node != "-" {
				text += "  nodesFrom: [{file: nodes.yaml}]\n"
			}
			report := run(t, loadFiles(t, text, files))
			if diff := cmp.Diff([][]string{{"np1", "np2", "np3"}}, report.Status.Sets); diff != "" {
				t.Errorf("sets (-want +got):\n%s", diff)
			}
			for _, g := range report.Status.Groups {
				if g.After != 7 {
					t.Errorf("%s ends with %d nodes, want 7", g.Name, g.After)
				}
			}
			for _, row := range report.Status.Timeline {
				if row.What == "scale-up" && len(strings.Split(row.Text, "→")) != 4 {
					t.Errorf("+%s: a scale-up of some: %s", row.At.Duration, row.Text)
				}
			}
			if t.Failed() {
				t.Log(describe(report))
			}
		})
	}
}

// If the clouds differ, or nothing shows one, a general word is a label as any other.
func TestAWordOfAnotherCloudMatters(t *testing.T) {
	for name, ids := range map[string][2]string{
		"no cloud at all": {"", ""}, "unknown schemes": {"kwok://a", "openstack:///b"}, "another cloud": {"gce://a", "gce://b"},
		"two clouds": {"azure:///a", "gce://b"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"templates.yaml": nodeYAML("a", "z1", ids[0], "agentpool: a") + nodeYAML("b", "z2", ids[1], "agentpool: b")}
			report := run(t, loadFiles(t,
				scenario("nodeGroupsFrom: [{file: templates.yaml, max: 9}]\nworkloads: [{name: w, replicas: 4, requests: {cpu: 1500m}}]"), files))
			if len(report.Status.Sets) != 2 {
				t.Errorf("sets %v", report.Status.Sets)
			}
		})
	}
}
