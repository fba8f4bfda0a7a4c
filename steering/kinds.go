package steering

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/spreadplan"
)

// shownFor is how long pods of a kind count as asked for after Cluster Autoscaler has last shown
// one. Its next loops follow at once, and may show other kinds first.
const shownFor = time.Minute

// pendingKinds returns the kinds of pods that Cluster Autoscaler asks nodes for, with all pods of
// these kinds that are pending. A kind that is not covered by plain arithmetic is the reason why.
func (c *choice) pendingKinds(members []member) (kinds []*spreadplan.Kind, why string) {
	keys := map[types.UID]string{}
	var asked []*v1.Pod
	for i := range members {
		for _, p := range members[i].option.Pods {
			if pod := c.request.Pods[p]; keys[uid(pod)] == "" {
				key := spreadplan.KeyOf(pod)
				keys[uid(pod)], c.shown[key] = key, c.at.now
				asked = append(asked, pod)
			}
		}
	}
	maps.DeleteFunc(c.shown, func(_ string, at time.Time) bool { return c.at.now.Sub(at) > shownFor })

	seen := c.request.Workload.Pods
	byKey, known := map[string]*spreadplan.Kind{}, make(map[types.UID]bool, len(seen))
	for i, pod := range slices.Concat(seen, asked) { // some that are asked for are younger than the view of the cluster
		if known[uid(pod)] {
			continue
		}
		if known[uid(pod)] = true; i < len(seen) && !pending(pod) {
			continue
		}
		key := cmp.Or(keys[uid(pod)], spreadplan.KeyOf(pod))
		if _, shown := c.shown[key]; !shown {
			continue
		}
		if byKey[key] == nil {
			k, problem := spreadplan.ReadKind(key, pod)
			if k == nil {
				return nil, problem
			}
			byKey[key] = k
			kinds = append(kinds, k)
		}
		byKey[key].Count++
	}
	return kinds, ""
}

// pending reports whether a pod waits for a node.
func pending(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && !finished(pod) && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0
}
