package template

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// daemonTolerations are those of every daemon set pod, whatever its template says.
var daemonTolerations = []v1.Toleration{
	{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeDiskPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodePIDPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
}

// AddDaemonPods adds to a template the pods of those daemon sets that run on a node made from it,
// except for sets of which the template has a pod already.
func AddDaemonPods(t *cloudprovider.Template, sets []*appsv1.DaemonSet) {
	var pods []*v1.Pod
	for _, set := range sets {
		if carries(t, set) {
			continue
		}
		if pod := DaemonPod(set); fits(pod, t) {
			pods = append(pods, pod)
		}
	}
	sortByName(pods)
	t.Pods = slices.Concat(t.Pods, pods)
}

func carries(t *cloudprovider.Template, set *appsv1.DaemonSet) bool {
	return slices.ContainsFunc(t.Pods, func(pod *v1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(pod)
		return pod.Namespace == cmp.Or(set.Namespace, metav1.NamespaceDefault) && owner != nil && owner.Kind == "DaemonSet" &&
			owner.Name == set.Name
	})
}

// DaemonPod is the pod that a daemon set runs on a node, not yet bound to any.
func DaemonPod(set *appsv1.DaemonSet) *v1.Pod {
	template := set.Spec.Template.DeepCopy()
	isController := true
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(set.Namespace, metav1.NamespaceDefault), Name: set.Name, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID,
				Controller: &isController}},
		},
		Spec: template.Spec,
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, daemonTolerations...)
	return pod
}
