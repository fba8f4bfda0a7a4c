package podfit_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podfit"
)

// How many pods a node has room for, if its taint lets them in at all.
func ExampleRulesOf() {
	pod, node := &v1.Pod{}, &v1.Node{}
	node.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}}
	free := podfit.Resources{v1.ResourceCPU: 3500, v1.ResourcePods: 10}
	fmt.Println(podfit.RulesOf(pod).Admit(node), free.Takes(podfit.Resources{v1.ResourceCPU: 1000, v1.ResourcePods: 1}))
	pod.Spec.Tolerations = []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}
	fmt.Println(podfit.RulesOf(pod).Admit(node))
	// Output:
	// false 3
	// true
}
