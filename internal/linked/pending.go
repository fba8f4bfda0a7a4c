package linked

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podfit"
)

// Retry tries pods for which no node was found again, as long as some of them find one, and returns
// the others in their order. Of pods that spread over zones one may fit only once another has been
// placed in another zone, and Cluster Autoscaler tries each pod once: it would order nodes for pods
// that have room on nodes that are on their way. Try returns the pods for which it finds none either.
func Retry(pods []*v1.Pod, try func(pods []*v1.Pod) ([]*v1.Pod, error)) ([]*v1.Pod, error) {
	for {
		var waiting []*v1.Pod
		for _, pod := range pods {
			if followsOthers(pod) {
				waiting = append(waiting, pod)
			}
		}
		if len(waiting) == 0 {
			return pods, nil
		}
		left, err := try(slices.Clone(waiting))
		if err != nil {
			return nil, err
		}
		if len(left) == len(waiting) {
			return pods, nil
		}
		still := make(map[*v1.Pod]bool, len(left))
		for _, pod := range left {
			still[pod] = true
		}
		pods = slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool { return followsOthers(pod) && !still[pod] })
	}
}

// followsOthers reports whether the place of other pods may open a node to a pod.
func followsOthers(pod *v1.Pod) bool {
	affinity, _ := podfit.PodTerms(pod)
	return len(podfit.HardSpread(pod)) > 0 || len(affinity) > 0
}
