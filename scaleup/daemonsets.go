package scaleup

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/predicates"
)

// daemonPods answers which daemon sets run on a node made from a template.
type daemonPods struct {
	checker *predicates.Checker
}

// Every daemon set pod tolerates these, whatever its template says.
var daemonTolerations = []v1.Toleration{
	{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeDiskPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodePIDPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
}

// AddDaemonPods adds to a template the pods of those daemon sets that run on a node made from it, but for sets it carries
// a pod of already.
func AddDaemonPods(checker *predicates.Checker, sets []*appsv1.DaemonSet, t *cloudprovider.Template) error {
	pods, err := daemonPods{checker}.on(sets, t)
	t.Pods = slices.Concat(t.Pods, pods)
	return err
}

// on returns a pod of each daemon set that passes the scheduler's predicates on
// the template, those the template carries already left out.
func (d daemonPods) on(sets []*appsv1.DaemonSet, t *cloudprovider.Template) ([]*v1.Pod, error) {
	var pods []*v1.Pod
	for _, set := range sets {
		if !carries(t, set) {
			pods = append(pods, DaemonPod(set))
		}
	}
	if len(pods) == 0 {
		return nil, nil
	}
	fit, err := d.checker.Fits(nil, []predicates.Node{{Node: t.Node, Pods: t.Pods}}, pods)
	if err != nil {
		return nil, err
	}
	pods = slices.Clip(pods)
	running := pods[:0:0]
	for i, pod := range pods {
		if fit.Passes(0, fit.KindOf(i)) {
			running = append(running, pod)
		}
	}
	slices.SortFunc(running, func(a, b *v1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return running, nil
}

func carries(t *cloudprovider.Template, set *appsv1.DaemonSet) bool {
	return slices.ContainsFunc(t.Pods, func(pod *v1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(pod)
		return pod.Namespace == cmp.Or(set.Namespace, metav1.NamespaceDefault) && owner != nil && owner.Kind == "DaemonSet" && owner.Name == set.Name
	})
}

// DaemonPod is the pod a daemon set runs on a node, bound to none yet.
func DaemonPod(set *appsv1.DaemonSet) *v1.Pod {
	template := set.Spec.Template.DeepCopy()
	isController := true
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(set.Namespace, metav1.NamespaceDefault), Name: set.Name, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: &isController}},
		},
		Spec: template.Spec,
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, daemonTolerations...)
	return pod
}
