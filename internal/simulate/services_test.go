package simulate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/internal/simulate"
)

// TestPodsOfServicesAndControllersAreSpreadByDefault: kube-scheduler spreads pods that are selected
// by a service or belong to a ReplicationController, ReplicaSet or StatefulSet; others go where
// most is free.
func TestPodsOfServicesAndControllersAreSpreadByDefault(t *testing.T) {
	const owned = `, ownerReferences: [{apiVersion: %s, kind: %s, name: web, uid: u, controller: true}]`
	for name, tc := range map[string]struct {
		owner, object string
		want          map[string]int
	}{
		"nobody's": {"", "", map[string]int{"a": 4}},
		"a service's": {"",
			`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: {selector: {app: web}}}`,
			map[string]int{"a": 2, "b": 2}},
		"a service's of another name": {"",
			`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: {selector: {app: db}}}`, map[string]int{"a": 4}},
		"a service's elsewhere": {"",
			`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: other}, spec: {selector: {app: web}}}`, map[string]int{"a": 4}},
		"a service's without selector": {"", `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: {}}`,
			map[string]int{"a": 4}},
		"a job's": {fmt.Sprintf(owned, "batch/v1", "Job"), "", map[string]int{"a": 4}},
		"a job's, selected by a service": {fmt.Sprintf(owned, "batch/v1", "Job"),
			`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}`, map[string]int{"a": 2, "b": 2}},
		"a controller's": {fmt.Sprintf(owned, "v1", "ReplicationController"),
			`{apiVersion: v1, kind: ReplicationController, metadata: {name: web, namespace: default}, spec: {selector: {app: web}}}`,
			map[string]int{"a": 2, "b": 2}},
		"a replica set's": {fmt.Sprintf(owned, "apps/v1", "ReplicaSet"),
			`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web, namespace: default}, spec: {selector: {matchLabels: {app: web}}}}`,
			map[string]int{"a": 2, "b": 2}},
		"a stateful set's": {fmt.Sprintf(owned, "apps/v1", "StatefulSet"),
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web, namespace: default}, spec: {serviceName: web, selector: {matchLabels: {app: web}}}}`, map[string]int{"a": 2, "b": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString(`{apiVersion: evenkeel.dev/v1alpha1, kind: Scenario, metadata: {name: s}, spec: {groupLabel: pool, machines: [{name: m, resources: {cpu: 1, memory: 1Gi}}], nodeGroups: [{name: x, machine: m, max: 0}], objects: [
				{apiVersion: v1, kind: Node, metadata: {name: a, labels: {topology.kubernetes.io/zone: a}}, status: {capacity: {cpu: 64, memory: 256Gi, pods: 110}}},
				{apiVersion: v1, kind: Node, metadata: {name: b, labels: {topology.kubernetes.io/zone: b}}, status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}}}`)
			for i := range 4 {
				fmt.Fprintf(&b, ",\n{apiVersion: v1, kind: Pod, metadata: {name: p%d, namespace: default, labels: {app: web}%s}, "+
					"spec: {containers: [{name: c, resources: {requests: {cpu: 500m, memory: 2Gi}}}]}}", i, tc.owner)
			}
			if tc.object != "" {
				b.WriteString(",\n" + tc.object)
			}
			b.WriteString("]}}")
			setup, err := loadWith(b.String())
			if err != nil {
				t.Fatal(err)
			}
			report, err := simulate.Run(context.Background(), setup, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, p := range report.Status.Pods {
				for _, run := range p.Runs {
					got[run.Node]++
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pods by node (-want +got):\n%s", diff)
			}
		})
	}
}
