package steering

import (
	"cmp"
	"maps"
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
	asked := map[string]bool{}
	keys := map[types.UID]string{}
	for i := range members {
		for _, p := range members[i].pods() {
			pod := c.request.Pods[p]
			if keys[uid(pod)] == "" {
				keys[uid(pod)] = spreadplan.KeyOf(pod)
				asked[keys[uid(pod)]] = true
			}
		}
	}
	for key := range asked {
		if c.shown == nil {
			c.shown = map[string]time.Time{}
		}
		c.shown[key] = c.at.now
	}
	maps.DeleteFunc(c.shown, func(_ string, at time.Time) bool { return c.at.now.Sub(at) > shownFor })

	byKey := map[string]*spreadplan.Kind{}
	add := func(pod *v1.Pod) bool {
		key := cmp.Or(keys[uid(pod)], spreadplan.KeyOf(pod))
		if _, shown := c.shown[key]; !shown {
			return true
		}
		if byKey[key] == nil {
			k, problem := spreadplan.ReadKind(key, pod)
			if k == nil {
				why = problem
				return false
			}
			byKey[key] = k
			kinds = append(kinds, k)
		}
		byKey[key].Count++
		return true
	}
	known := make(map[types.UID]bool, len(c.request.Workload.Pods))
	for _, pod := range c.request.Workload.Pods {
		known[uid(pod)] = true
		if pending(pod) && !add(pod) {
			return nil, why
		}
	}
	for i := range members {
		for _, p := range members[i].pods() { // younger than the view of the cluster
			if pod := c.request.Pods[p]; !known[uid(pod)] {
				known[uid(pod)] = true
				if !add(pod) {
					return nil, why
				}
			}
		}
	}
	return kinds, ""
}

// pending reports whether a pod waits for a node.
func pending(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && !finished(pod) && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0
}
