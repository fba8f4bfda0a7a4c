package simulate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// machine is a node as a cloud names and marks it.
type machine struct{ name, zone, providerID, labels, annotations string }

func (m machine) object() string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s: %q, %s}, annotations: {%s}}, spec: {providerID: %q},
  status: {capacity: {cpu: 4, memory: 16Gi, pods: 58}, conditions: [{type: Ready, status: "True"}]}}`,
		m.name, "topology.kubernetes.io/zone", m.zone, m.labels, m.annotations, m.providerID)
}

// cloudDump makes a dump of nodes, and of a status with the names of groups, each from 1 node to 5 and more.
func cloudDump(t *testing.T, objects []string, names ...string) *simulate.Dump {
	t.Helper()
	status := ""
	for i, name := range names {
		status += fmt.Sprintf("\n    - {name: %q, health: {minSize: 1, maxSize: %d}}", name, 5+i)
	}
	if status != "" {
		objects = append(objects,
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cluster-autoscaler-status}\ndata:\n  status: |\n    nodeGroups:"+status)
	}
	d := &simulate.Dump{}
	for item, err := range document.Objects("dump", strings.NewReader(strings.Join(objects, "\n---\n")), document.StreamOptions{}) {
		if err == nil {
			err = d.Add(item)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestBoundsOfTheGroupsOfClouds(t *testing.T) {
	const eks = "-6ac8f0e2-1111-2222-3333-44444444444"
	const mig = "https://www.googleapis.com/compute/v1/projects/p/zones/"
	const vmss = "azure:///subscriptions/s/resourceGroups/MC_rg/providers/Microsoft.Compute/virtualMachineScaleSets/"
	for name, tc := range map[string]struct {
		nodes  []machine
		status []string
		want   map[string]int32 // maximums
		empty  int
	}{
		"EKS, one name in another": {
			nodes: []machine{
				{name: "n1", zone: "a", labels: "eks.amazonaws.com/nodegroup: web"},
				{name: "n2", zone: "a", labels: "eks.amazonaws.com/nodegroup: web-api"},
			},
			status: []string{"eks-web-api" + eks + "1", "eks-web-batch" + eks + "2", "eks-web" + eks + "3"},
			want:   map[string]int32{"web": 7, "web-api": 5}, empty: 1,
		},
		"eksctl": {
			nodes: []machine{{name: "n1", zone: "a", labels: "alpha.eksctl.io/nodegroup-name: ng"},
				{name: "n2", zone: "a", labels: "alpha.eksctl.io/nodegroup-name: ng-2"}},
			status: []string{"eksctl-prod-nodegroup-ng-NodeGroup-1ABC", "eksctl-prod-nodegroup-ng-2-NodeGroup-2ABC"},
			want:   map[string]int32{"ng": 5, "ng-2": 6},
		},
		"GKE, a MIG for each zone and a name that is cut": {
			nodes: []machine{
				{name: "gke-a-long-cluster-na-pool-1-aaaa-x1", zone: "b", labels: "cloud.google.com/gke-nodepool: pool-1-with-a-long-name"},
				{name: "gke-a-long-cluster-na-pool-1-aaaa-x2", zone: "c", labels: "cloud.google.com/gke-nodepool: pool-1-with-a-long-name"},
				{name: "gke-a-long-cluster-na-pool-1-bbbb-x3", zone: "b", labels: "cloud.google.com/gke-nodepool: pool-1"},
			},
			status: []string{mig + "c/instanceGroups/gke-a-long-cluster-na-pool-1-aaaa-grp", mig +
				"b/instanceGroups/gke-a-long-cluster-na-pool-1-bbbb-grp", mig + "b/instanceGroups/gke-a-long-cluster-na-pool-1-aaaa-grp"},
			want: map[string]int32{"pool-1-with-a-long-name.b": 7, "pool-1-with-a-long-name.c": 5, "pool-1": 6},
		},
		"AKS": {
			nodes: []machine{
				{name: "aks-np-123-vmss000000", zone: "1", labels: "kubernetes.azure.com/agentpool: np", providerID: vmss +
					"aks-np-123-vmss/virtualMachines/0"},
				{name: "akswin000000", zone: "1", labels: "kubernetes.azure.com/agentpool: win", providerID: vmss + "akswin/virtualMachines/0"},
			},
			status: []string{"akswin", "aks-np-123-vmss"},
			want:   map[string]int32{"np": 6, "win": 5},
		},
		"Cluster API": {
			nodes: []machine{
				{name: "n1", zone: "a", annotations: "cluster.x-k8s.io/owner-kind: MachineSet, cluster.x-k8s.io/owner-name: prod-md-0-7d9f8b6c5"},
				{name: "n2", zone: "a", annotations: "cluster.x-k8s.io/owner-kind: MachineSet, cluster.x-k8s.io/owner-name: prod-md-0-x5k2q"},
				{name: "n3", zone: "a", annotations: "cluster.x-k8s.io/owner-kind: MachineSet, cluster.x-k8s.io/owner-name: prod-md-00-x5k2q"},
				{name: "cp", zone: "a", annotations: "cluster.x-k8s.io/owner-kind: KubeadmControlPlane, cluster.x-k8s.io/owner-name: prod-cp"},
			},
			status: []string{"MachineDeployment/fleet/prod-md-0", "MachineDeployment/fleet/prod-md-00"},
			want:   map[string]int32{"prod-md-0": 5, "prod-md-00": 6},
		},
		"OpenShift": {
			nodes: []machine{
				{name: "n1", zone: "a", annotations: "machine.openshift.io/machine: openshift-machine-api/prod-x7k2p-worker-us-east-1a-7h2ds"},
				{name: "m0", zone: "a", annotations: "machine.openshift.io/machine: openshift-machine-api/prod-x7k2p-master-0"},
			},
			status: []string{"MachineSet/openshift-machine-api/prod-x7k2p-worker-us-east-1a"},
			want:   map[string]int32{"prod-x7k2p-worker-us-east-1a": 5},
		},
		"kOps, with a control plane that Cluster Autoscaler does not know": {
			nodes: []machine{
				{name: "i-1", zone: "a", labels: "kops.k8s.io/instancegroup: nodes"},
				{name: "i-2", zone: "a", labels: "kops.k8s.io/instancegroup: nodes-spot"},
				{name: "i-3", zone: "a", labels: `kops.k8s.io/instancegroup: control-plane-a, node-role.kubernetes.io/control-plane: ""`},
			},
			status: []string{"nodes.k8s.example.com", "nodes-spot.k8s.example.com"},
			want:   map[string]int32{"nodes": 5, "nodes-spot": 6, "control-plane-a": 1},
		},
		"a pool that is known by its id": {
			nodes:  []machine{{name: "n1", zone: "a", labels: "doks.digitalocean.com/node-pool: web, doks.digitalocean.com/node-pool-id: 5f1c"}},
			status: []string{"5f1c"}, want: map[string]int32{"web": 5},
		},
		"more nodes than the maximum": {
			nodes: []machine{
				{name: "n1", labels: "hcloud/node-group: w"}, {name: "n2", labels: "hcloud/node-group: w"},
				{name: "n3", labels: "hcloud/node-group: w"},
				{name: "n4", labels: "hcloud/node-group: w"}, {name: "n5", labels: "hcloud/node-group: w"},
				{name: "n6", labels: "hcloud/node-group: w"},
			},
			status: []string{"w"}, want: map[string]int32{"w": 6},
		},
	} {
		var objects []string
		for _, m := range tc.nodes {
			objects = append(objects, m.object())
		}
		out, err := cloudDump(t, objects, tc.status...).Scenario(simulate.DumpOptions{Name: "x", Max: 100})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := map[string]int32{}
		for _, g := range out.Scenario.Spec.NodeGroups {
			got[g.Name] = *g.Max
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: maximums (-want +got):\n%s", name, diff)
		}
		if len(out.Empty) != tc.empty {
			t.Errorf("%s: groups without nodes: %v", name, out.Empty)
		}
		played(t, whole(t, out))
	}
}

func boundPod(name, node, more string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: default, %s}, spec: {nodeName: %q, "+
		"containers: [{name: c, resources: {requests: {cpu: 1}}}]}}", name, more, node)
}

// Nodes come and go between the lists of a dump.
func TestPodsOfUnknownNodesAreLeftOutWithANote(t *testing.T) {
	dump := []string{
		machine{name: "n1", labels: "agentpool: web"}.object(), machine{name: "n1", labels: "agentpool: web"}.object(),
		"{apiVersion: v1, kind: Node, metadata: {name: booting, labels: {agentpool: web}}}",
		boundPod("here", "n1", ""), boundPod("here", "n1", ""), boundPod("waits", "", ""),
		boundPod("gone", "n2", ""), boundPod("early", "booting", ""),
		boundPod("leaving", "n2", `deletionTimestamp: "2026-01-01T00:00:00Z"`),
		boundPod("mirror", "n2",
			`annotations: {kubernetes.io/config.mirror: x}, ownerReferences: [{apiVersion: v1, kind: Node, name: n2, uid: u, controller: true}]`),
		boundPod("agent", "n2", `ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: u, controller: true}]`),
	}
	out, err := cloudDump(t, dump).Scenario(simulate.DumpOptions{Name: "x", Max: 9})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"left out: 1 node without a status.capacity, as before its kubelet has reported it: booting",
		"left out: 5 pods bound to nodes that are not among those given: booting, n2",
		"given more than once, of which the first counts: Node n1, Pod default/here",
		"the bounds of web are unknown, so they are 0 and 9: give --nodes=MIN:MAX:GROUP, or the ConfigMap " +
			"cluster-autoscaler-status of Cluster Autoscaler",
	}
	if diff := cmp.Diff(want, out.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	report := played(t, whole(t, out))
	if got := report.Status.Running; got != 2 {
		t.Errorf("%d pods run, want 2", got)
	}

	setup, err := loadWith(scenario("groupLabel: agentpool\nmachines: [{name: m, resources: {cpu: 4, memory: " +
		"8Gi}}]\nnodeGroups: [{name: web, machine: m, max: 3}]\nobjects: [" +
		strings.Join([]string{dump[0], dump[3], dump[6], dump[8]}, ", ") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	if note := "left out: 2 pods bound to nodes that are not among those given: n2"; len(setup.Pods) != 1 || len(setup.Notes) != 1 ||
		setup.Notes[0] != note {
		t.Errorf("%d pods, notes %q, want 1 and %q", len(setup.Pods), setup.Notes, note)
	}
}

func TestWhatMayNameTheGroupsIsInTheRefusal(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes []machine
		want  []string
	}{
		"a control plane of the Cluster API": {
			[]machine{{name: "n1", annotations: "cluster.x-k8s.io/owner-kind: KubeadmControlPlane, cluster.x-k8s.io/owner-name: cp"}},
			[]string{"--group-label=KEY"},
		},
		"labels": {
			[]machine{
				{name: "n1", labels: "tier: web, company.com/pool: a, serial: x1"}, {name: "n2", labels: "tier: api, company.com/pool: b, serial: x2"},
				{name: "n3", labels: "tier: api, serial: x3"},
			},
			[]string{"--group-label=company.com/pool (a, b), --group-label=tier (api, web)"},
		},
		"Karpenter": {
			[]machine{{name: "n1", labels: "karpenter.sh/nodepool: general"}},
			[]string{"Karpenter made the nodes of general", "--group-label=karpenter.sh/nodepool"},
		},
		"nothing": {[]machine{{name: "n1"}}, []string{"--group-label=KEY"}},
	} {
		var objects []string
		for _, m := range tc.nodes {
			objects = append(objects, m.object())
		}
		_, err := cloudDump(t, objects).Scenario(simulate.DumpOptions{Name: "x"})
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
		}
	}
	_, err := cloudDump(t,
		[]string{"{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {agentpool: web}}}"}).Scenario(simulate.DumpOptions{Name: "x"})
	if want := "no node has a status.capacity with cpu and memory: n1"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestMachineTypesAndKarpenterAreNoted(t *testing.T) {
	out, err := cloudDump(t, []string{
		machine{name: "n1", labels: "agentpool: web, node.kubernetes.io/instance-type: m5"}.object(),
		strings.Replace(machine{name: "n1b", labels: "agentpool: web, node.kubernetes.io/instance-type: m5"}.object(), "16Gi", "16776960Ki", 1),
		strings.Replace(machine{name: "n2", labels: "agentpool: web, node.kubernetes.io/instance-type: m6"}.object(), "cpu: 4", "cpu: 8", 1),
		machine{name: "k1", labels: "karpenter.sh/nodepool: general"}.object(), machine{name: "own"}.object(),
	}).Scenario(simulate.DumpOptions{Name: "x", Max: 5, Bounds: map[string]simulate.DumpBounds{"web": {Max: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"nodes of web are of several machine types (m5 with cpu 4 and memory 16Gi, m6 with cpu 8 and memory 16Gi): all new " +
			"ones are played as m5, and a cloud that brings another type brings more or less room",
		"Karpenter made 1 node: k1; they keep their pods and take more, but Karpenter itself is not played, so none are added " +
			"or removed; 1 node of no group, as agentpool names none: own; none are added or removed",
	}
	if diff := cmp.Diff(want, out.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// A status that cannot be read is not silently as good as none.
func TestAStatusThatCannotBeReadIsNoted(t *testing.T) {
	out := dumped(t, "time: now\nnodeGroups: []", simulate.DumpOptions{Name: "x", Max: 50})
	if len(out.Notes) == 0 || !strings.HasPrefix(out.Notes[0],
		"ConfigMap kube-system/cluster-autoscaler-status is passed over: status of Cluster Autoscaler: time: parsing time") {
		t.Errorf("notes %q", out.Notes)
	}
}
