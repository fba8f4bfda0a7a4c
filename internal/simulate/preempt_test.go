package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// TestPreemption: two pods of web come to two nodes that are full of placeholders.
func TestPreemption(t *testing.T) {
	for name, c := range map[string]struct {
		class, web string // of the placeholders, and more of web
		objects    []string
		rows       []string // about pods that lose their place or are left alone
		ordered    int
		pending    int
		longest    string // wait
	}{
		"placeholders that count are placed again": {
			class: "value: -10", rows: []string{"pods 2 pods preempted by default/web-1 and 1 more like it"}, ordered: 2, longest: "1m10s",
		},
		"expendable ones are not": {
			class: "value: -100", pending: 2, rows: []string{
				"left-alone default/pause-1 and 1 more like it: expendable: its priority of -100 is below the cutoff of -10 " +
					"(expendablePodsPriorityCutoff)",
				"pods 2 pods preempted by default/web-1 and 1 more like it",
			}, longest: "0s",
		},
		"an expendable one that ran at the start is not": {
			class: "value: 1", web: "priority: 5, ", ordered: 1, pending: 1, longest: "1m10s",
			objects: []string{`{apiVersion: v1, kind: Pod, metadata: {name: kept, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: kept, uid: k, controller: true}]}, spec: {nodeName: n3, priority: -50, containers: [{name: c, resources: {requests: {cpu: 2}}}]}}`},
			rows: []string{
				"pods 2 pods preempted by default/web-1 and 1 more like it",
				"left-alone default/kept: expendable: its priority of -50 is below the cutoff of -10 (expendablePodsPriorityCutoff)",
			},
		},
		"pods that never preempt get nodes": {class: "value: -10", web: "preemptionPolicy: Never, ", ordered: 2, longest: "1m10s"},
		"a class that never preempts":       {class: "value: -10", web: "priorityClassName: meek, ", ordered: 2, longest: "1m10s"},
		"equals do not preempt":             {class: "value: 0", ordered: 2, longest: "1m10s"},
		"a bare pod is gone": {
			class: "value: 1", web: "priority: 5, ", longest: "1m10s", ordered: 1, // for the other of the two
			objects: []string{`{apiVersion: v1, kind: Pod, metadata: {name: bare}, spec: {nodeName: n3, priority: 0, containers: [{name: c, resources: {requests: {cpu: 2}}}]}}`},
			rows:    []string{"pods 2 pods preempted by default/web-1 and 1 more like it"},
		},
		"pods that a budget protects are the last": {
			class: "value: -5", ordered: 2, longest: "1m10s",
			rows: []string{"pods 2 pods preempted by default/web-1 and 1 more like it", "pods 1 pod preempted by default/pause-1"},
			objects: []string{
				`{apiVersion: v1, kind: Pod, metadata: {name: kept, labels: {app: kept}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: kept, uid: k, controller: true}]}, spec: {nodeName: n3, priority: -10, containers: [{name: c, resources: {requests: {cpu: 2}}}]}}`,
				`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: kept}, spec: {minAvailable: 1, selector: {matchLabels: {app: kept}}}}`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]string{
				"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, " + c.class + "}",
				"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: meek}, value: 7, preemptionPolicy: Never}",
			}, c.objects...)
			for _, n := range []string{"n1", "n2", "n3"}[:2+min(1, len(c.objects))] {
				objects = append(objects,
					fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {group: a}}, status: {capacity: {cpu: 2, memory: 8Gi, pods: 110}}}`, n))
			}
			setup, err := load("x.yaml", []byte(scenario(fmt.Sprintf(`groupLabel: group
machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups: [{name: a, zone: z, machine: m, max: 9}]
objects:
- %s
workloads:
- {name: pause, replicas: 2, template: {spec: {priorityClassName: low, containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}}}
- {name: web, replicas: 2, arrive: 1m, template: {spec: {%scontainers: [{name: c, resources: {requests: {cpu: 1500m}}}]}}}`,
				strings.Join(objects, "\n- "), c.web))))
			if err != nil {
				t.Fatal(err)
			}
			status := run(t, setup).Status
			var rows []string
			for _, row := range status.Timeline {
				if row.Reason == v1alpha1.PodsPreempted || row.What == v1alpha1.RowLeftAlone {
					rows = append(rows, row.What+" "+row.Text)
				}
			}
			if !slices.Equal(rows, c.rows) || status.NodesOrdered != c.ordered || status.Pending != c.pending ||
				status.PendingTime.Longest.Duration.String() != c.longest {
				t.Errorf("%d nodes ordered, %d pods pending, longest wait %s:\n%s\nwant %d, %d, %s:\n%s", status.NodesOrdered, status.Pending,
					status.PendingTime.Longest.Duration,
					strings.Join(rows, "\n"), c.ordered, c.pending, c.longest, strings.Join(c.rows, "\n"))
			}
		})
	}
}
