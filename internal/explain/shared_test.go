package explain_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/explain"
)

// TestEqualPodsAreOneInMemory: replicas that count alike on their nodes are one pod, as a cluster may have a million of them. What
// makes a difference to the scheduler, or is shown by name, stands for itself.
func TestEqualPodsAreOneInMemory(t *testing.T) {
	tests := []struct {
		name, metadata, spec string
		one                  bool
	}{
		{"replicas", `"labels": {"app": "web"}`, `"volumes": [{"name": "token-%[1]s", "projected": {}}]`, true},
		{"other labels", `"labels": {"app": "%[1]s"}`, ``, false},
		{"other requests", ``, `"overhead": {"cpu": "1%[1]s"}`, false},
		{"claims named after the pods", ``, `"volumes": [{"name": "data", "ephemeral": {}}]`, false},
		{"daemon set", `"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": true}]`, ``, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var items []string
			for _, number := range []string{"1", "2"} {
				with := func(fields, text string) string {
					if text == "" {
						return fields
					}
					return fields + ", " + strings.ReplaceAll(text, "%[1]s", number)
				}
				items = append(items,
					fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n%s", "labels": {"group": "a"}}}`, number),
					fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {%s}, "spec": {"containers": [{"name": "c"}], %s}}`,
						with(`"name": "p`+number+`", "namespace": "default"`, tt.metadata), with(`"nodeName": "n`+number+`"`, tt.spec)))
			}
			list := `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(items, ",") + `]}`
			fleet, err := explain.Read(explain.Sources{Nodes: "dump", Pods: "dump", GroupLabel: "group"},
				explain.Files{Open: func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(list)), nil }})
			if err != nil {
				t.Fatal(err)
			}
			nodes := fleet.Cluster.Nodes
			if len(nodes) != 2 || len(nodes[0].Pods) != 1 || len(nodes[1].Pods) != 1 {
				t.Fatalf("pods on nodes: %+v", nodes)
			}
			if one := nodes[0].Pods[0] == nodes[1].Pods[0]; one != tt.one {
				t.Errorf("one pod in memory: %t, want %t", one, tt.one)
			}
		})
	}
}
