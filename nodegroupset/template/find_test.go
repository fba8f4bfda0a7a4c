package template_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	daemon "k8s.io/kubernetes/pkg/controller/daemon/util"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// podOf makes a pod of a set on a node with the functions of the real controller.
func podOf(set *appsv1.DaemonSet, node string, generation int64) *v1.Pod {
	template := daemon.CreatePodTemplate(set.Spec.Template, &generation, "hash")
	template.Spec.Affinity = daemon.ReplaceDaemonSetPodNodeNameNodeAffinity(template.Spec.Affinity, node)
	template.Spec.NodeName = node
	controller := true
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name + "-" + node, Namespace: set.Namespace, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID,
				Controller: &controller}},
		},
		Spec: template.Spec,
	}
}

// TestDaemonSetsAreFoundAgainInTheirPods makes pods of random sets as the controller does, and
// wants the pod that a new node would run to be the same from the sets and from their pods.
func TestDaemonSetsAreFoundAgainInTheirPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "kube-system", UID: "u"}}
		pod := &set.Spec.Template
		pod.Labels = map[string]string{"app": "agent"}
		pod.Spec.HostNetwork = rapid.Bool().Draw(t, "host network")
		pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: *resource.NewMilliQuantity(rapid.Int64Range(0, 4000).Draw(t, "cpu"), resource.DecimalSI),
		}}}}
		if rapid.Bool().Draw(t, "selects") {
			pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		}
		for range rapid.IntRange(0, 2).Draw(t, "tolerations") {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{
				Key: rapid.SampledFrom([]string{"gpu", v1.TaintNodeNotReady + "x"}).Draw(t, "key"), Operator: v1.TolerationOpExists,
			})
		}
		if rapid.Bool().Draw(t, "prefers") {
			pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1}}}}
		}
		older := set.DeepCopy()
		older.Spec.Template.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("9")

		var f template.DaemonSetFinder
		pods := rapid.Permutation([]*v1.Pod{podOf(older, "n9", 1), podOf(set, "n1", 2), podOf(set, "n2", 2), {}}).Draw(t, "order")
		for _, p := range pods {
			f.Add(p)
		}
		found := f.DaemonSets(func(string) bool { return false })
		if len(found) != 1 || len(f.DaemonSets(func(string) bool { return true })) != 0 {
			t.Fatalf("found %v", found)
		}
		want, got := tolerated(template.DaemonPod(set)), tolerated(template.DaemonPod(found[0]))
		if a := got.Spec.Affinity; a != nil && equality.Semantic.DeepEqual(a, &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}) {
			got.Spec.Affinity = nil
		}
		if !equality.Semantic.DeepEqual(want, got) {
			t.Fatalf("(-want +got):\n%s", cmp.Diff(want, got))
		}
	})
}

// tolerated is the pod without a toleration that the controller gives pods on the host's network,
// which keep it.
func tolerated(p *v1.Pod) *v1.Pod {
	var kept []v1.Toleration
	for _, t := range p.Spec.Tolerations {
		if t.Key != v1.TaintNodeNetworkUnavailable {
			kept = append(kept, t)
		}
	}
	p.Spec.Tolerations = kept
	return p
}
