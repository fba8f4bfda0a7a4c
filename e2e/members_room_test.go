package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// swept is the namespace of the objects of the sweep.
const swept = "swept"

// sweptObjects with four pods of a quarter of a core each need 40 cores. By weight, 24 of them would
// be in amsterdam, which has 12.
const sweptObjects = 40

// Objects that are created at the same time do not choose the same room: no pod waits for a node.
func sharesKnownRoom(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	for name, nodes := range map[string]int{"amsterdam": 6, "berlin": 10, "cork": 14} {
		plane := f.members[name]
		var all []*v1.Node
		for i := range nodes {
			n := roomy(fmt.Sprintf("fixed-%02d", i))
			n.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("2")
			n.Status.Capacity = n.Status.Allocatable
			all = append(all, n)
		}
		if err := plane.AddNodes(ctx, all...); err != nil {
			t.Fatal(err)
		}
		if err := plane.Client.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: swept}}); err != nil {
			t.Fatal(err)
		}
		if out := f.join(t, name, "--fixed-nodes"); !strings.Contains(out, "member: 23 rights of serviceaccount/evenkeel-member verified") {
			t.Errorf("join says\n%s", out)
		}
	}
	if err := f.client.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: swept}}); err != nil {
		t.Fatal(err)
	}
	for name := range f.members {
		until(ctx, t, "the room of "+name+" is known", func() bool {
			var m v1alpha1.MemberCluster
			if err := f.client.Get(ctx, client.ObjectKey{Name: name}, &m); err != nil {
				t.Fatal(err)
			}
			return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionRoomKnown) &&
				meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReachable)
		})
	}
	for i := range sweptObjects {
		if err := f.client.Create(ctx, sweptObject(fmt.Sprintf("web-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	f.untilSwept(ctx, t, "amsterdam", "berlin", "cork")
	for name, plane := range f.members {
		var all v1.EventList
		if err := plane.Client.List(ctx, &all, client.InNamespace(swept)); err != nil {
			t.Fatal(err)
		}
		for i := range all.Items {
			if e := &all.Items[i]; e.Reason == "FailedScheduling" && strings.Contains(e.Message, "Insufficient") {
				t.Errorf("%s: %s %s", name, e.InvolvedObject.Name, e.Message)
			}
		}
	}
}

// sweptObject has four replicas, of which most prefer amsterdam.
func sweptObject(name string) *v1alpha1.FederatedReplicaSet {
	labels := map[string]v1alpha1.LabelValue{"app": v1alpha1.LabelValue(name)}
	weight := func(n int32) v1alpha1.FederatedPreference {
		return v1alpha1.FederatedPreference{ClusterPreference: v1alpha1.ClusterPreference{Weight: &n}}
	}
	return &v1alpha1.FederatedReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: swept, Name: name},
		Spec: v1alpha1.FederatedReplicaSetSpec{
			Replicas: new(int32(4)), Selector: v1alpha1.LabelSelector{MatchLabels: labels},
			Template: v1alpha1.PodTemplate{
				Metadata: v1alpha1.PodTemplateMetadata{Labels: labels},
				Spec:     runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"web","image":"web:1","resources":{"requests":{"cpu":"250m"}}}]}`)},
			},
			Preferences: &v1alpha1.FederatedPreferences{Clusters: map[string]v1alpha1.FederatedPreference{
				"amsterdam": weight(6), "berlin": weight(3), "cork": weight(1),
			}},
		},
	}
}

// untilSwept waits until every object has four ready pods in the clusters.
func (f *fleetOfClusters) untilSwept(ctx context.Context, t *testing.T, clusters ...string) {
	t.Helper()
	defer func() {
		if !t.Failed() {
			return
		}
		for _, name := range clusters {
			var pods v1.PodList
			_ = f.members[name].Client.List(context.WithoutCancel(ctx), &pods, client.InNamespace(swept))
			placed := map[string]int{}
			for i := range pods.Items {
				placed[pods.Items[i].Spec.NodeName]++
			}
			t.Logf("%s: pods by node %v", name, placed)
		}
		var all v1alpha1.FederatedReplicaSetList
		_ = f.client.List(context.WithoutCancel(ctx), &all, client.InNamespace(swept))
		for i := range all.Items {
			for _, c := range all.Items[i].Status.Clusters {
				if c.Ready != c.Desired {
					t.Logf("%s, %d unplaced: %+v", all.Items[i].Name, all.Items[i].Status.Unplaced, c)
				}
			}
		}
	}()
	until(ctx, t, "all pods of the sweep are ready", func() bool {
		ready := 0
		for _, name := range clusters {
			var sets appsv1.ReplicaSetList
			if err := f.members[name].Client.List(ctx, &sets, client.InNamespace(swept)); err != nil {
				t.Fatal(err)
			}
			for i := range sets.Items {
				ready += int(sets.Items[i].Status.ReadyReplicas)
			}
		}
		return ready == 4*sweptObjects
	})
}

// A member that is drained leaves with nothing of evenkeel in it, and no replica is lost.
func drainsMember(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	if out, _ := f.run(t, 0, "cluster", "cordon", "berlin"); out != "membercluster/berlin tainted evenkeel.dev/cordoned:NoSchedule\n" {
		t.Error(out)
	}
	if out, _ := f.run(t, 0, "cluster", "list"); !strings.Contains(out, "evenkeel.dev/cordoned:NoSchedule") {
		t.Error(out)
	}
	if out, _ := f.run(t, 0, "cluster", "list", "-o", "name"); !strings.Contains(out, "membercluster.evenkeel.dev/berlin\n") {
		t.Error(out)
	}
	if out, _ := f.run(t, 0, "cluster", "uncordon", "berlin"); out != "membercluster/berlin uncordoned\n" {
		t.Error(out)
	}
	if _, says := f.run(t, 2, "cluster", "leave", "amsterdam", "--drain"); !strings.Contains(says, "--drain without a member") {
		t.Error(says)
	}
	member := "--member-kubeconfig=" + f.members["amsterdam"].Kubeconfig
	if _, says := f.run(t, 1, "cluster", "leave", "amsterdam", member, "--drain", "--timeout=1ms"); !strings.Contains(says,
		"left are swept/web-0: ") || !strings.Contains(says, "it stays marked") {
		t.Error(says)
	}
	out, says := f.run(t, 0, "cluster", "leave", "amsterdam", member, "--drain", "--timeout=5m")
	for _, want := range []string{"member: replicas drained", "host: membercluster/amsterdam deleted",
		"member: replicaset/swept/web-0 deleted", "membercluster/amsterdam left"} {
		if !strings.Contains(out, want) {
			t.Errorf("leave does not say %q:\n%s", want, out)
		}
	}
	if !strings.Contains(says, "amsterdam: 0 pods of 0 FederatedReplicaSets are left") {
		t.Errorf("progress:\n%s", says)
	}
	var sets appsv1.ReplicaSetList
	if err := f.members["amsterdam"].Client.List(ctx, &sets, client.InNamespace(swept)); err != nil || len(sets.Items) > 0 {
		t.Errorf("%d ReplicaSets are left, %v", len(sets.Items), err)
	}
	f.untilSwept(ctx, t, "berlin", "cork")
	if err := f.client.DeleteAllOf(ctx, &v1alpha1.FederatedReplicaSet{}, client.InNamespace(swept)); err != nil {
		t.Fatal(err)
	}
}
