package sidecar

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func labelled(labels ...string) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelHostname: fmt.Sprint(labels)}}}
	for i := 0; i < len(labels); i += 2 {
		node.Labels[labels[i]] = labels[i+1]
	}
	return node
}

func ready(node *v1.Node) *v1.Node {
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return node
}

// TestCountNodes: nodes are counted by the labels in which the templates of the groups differ.
func TestCountNodes(t *testing.T) {
	zone := v1.LabelTopologyZone
	for _, c := range []struct {
		name      string
		templates map[string]*v1.Node
		nodes     []*v1.Node
		want      string
	}{
		{
			"by zone", map[string]*v1.Node{"a": labelled(zone, "a", "os", "linux"), "b": labelled(zone, "b", "os", "linux")},
			[]*v1.Node{ready(labelled(zone, "a")), labelled(zone, "a", "os", "other"), ready(labelled(zone, "b")), labelled(zone, "c")},
			"a 2/1, b 1/1, ",
		},
		{
			"by the name of the group", map[string]*v1.Node{"a": labelled(zone, "a", "pool", "x"), "b": labelled(zone, "a", "pool", "y")},
			[]*v1.Node{labelled(zone, "a", "pool", "x"), labelled(zone, "a", "pool", "x"), labelled(zone, "b", "pool", "y")}, "a 2/0, b 1/0, ",
		},
		{
			"one group lacks a label", map[string]*v1.Node{"a": labelled(zone, "a"), "b": labelled(zone, "a", "spot", "true")},
			[]*v1.Node{labelled(zone, "a"), labelled(zone, "a", "spot", "true"), labelled(zone, "a", "spot", "true")}, "a 1/0, b 2/0, ",
		},
		{
			"groups that cannot be distinguished", map[string]*v1.Node{"a": labelled(zone, "a"), "b": labelled(zone, "a"), "c": labelled(zone, "c")},
			[]*v1.Node{labelled(zone, "a"), labelled(zone, "c")}, "a 0/0, b 0/0, c 1/0, ",
		},
		{
			"each node has a label of its own", map[string]*v1.Node{"a": labelled(zone, "a", "id", "1"), "b": labelled(zone, "b", "id", "2")},
			[]*v1.Node{labelled(zone, "a", "id", "1"), labelled(zone, "a", "id", "3"), labelled(zone, "b", "id", "2"),
				labelled(zone, "b", "id", "4"), labelled(zone, "b", "id", "5")}, "a 2/0, b 3/0, ",
		},
		{"no group", nil, []*v1.Node{labelled(zone, "a")}, ""},
	} {
		got := ""
		for _, g := range countNodes(c.templates, c.nodes) {
			got += fmt.Sprintf("%s %d/%d, ", g.Name, g.Target, g.Ready)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
