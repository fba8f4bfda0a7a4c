package template_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// A node that says nothing of itself is not ready to anyone.
func TestNodesThatAreReadyAndHealthy(t *testing.T) {
	for name, test := range map[string]struct {
		conditions     map[v1.NodeConditionType]v1.ConditionStatus
		taint          string
		ready, healthy bool
	}{
		"says nothing":        {},
		"says something else": {conditions: map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeMemoryPressure: v1.ConditionFalse}},
		"ready": {conditions: map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeReady: v1.ConditionTrue}, ready: true,
			healthy: true},
		"not ready":            {conditions: map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeReady: v1.ConditionFalse}},
		"not seen for a while": {conditions: map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeReady: v1.ConditionUnknown}},
		"ready, asleep": {conditions: map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeReady: v1.ConditionTrue,
			"Suspended": v1.ConditionTrue}, ready: true},
		"ready, with a full disk": {conditions: map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeReady: v1.ConditionTrue,
			v1.NodeDiskPressure: v1.ConditionTrue}, ready: true},
		"ready, without a network": {conditions: map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeReady: v1.ConditionTrue},
			taint: v1.TaintNodeNetworkUnavailable, ready: true},
		"ready, with a taint otherwise": {conditions: map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeReady: v1.ConditionTrue},
			taint: v1.TaintNodeUnreachable, ready: true, healthy: true},
	} {
		node := &v1.Node{}
		for kind, status := range test.conditions {
			node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{Type: kind, Status: status})
		}
		if test.taint != "" {
			node.Spec.Taints = []v1.Taint{{Key: test.taint}}
		}
		if template.IsReady(node) != test.ready || template.IsHealthy(node) != test.healthy {
			t.Errorf("%s: ready %v, healthy %v, want %v, %v", name, template.IsReady(node), template.IsHealthy(node), test.ready, test.healthy)
		}
	}
}
