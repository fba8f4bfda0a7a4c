package schedule

import (
	"slices"

	"k8s.io/component-helpers/scheduling/corev1"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// room says whether a pod would find a node, and which.
func (w *world) room(p *v1.Pod, stop func() bool) (workloadspread.Room, string, error) {
	if !w.understood(p) {
		return workloadspread.RoomUnknown, "", nil
	}
	if err := w.show(); err != nil {
		return workloadspread.RoomUnknown, "", err
	}
	node, err := w.live.Find(p, stop)
	if err == nil && node == "" {
		node, err = w.before(p, stop)
	}
	switch {
	case err != nil:
		return workloadspread.RoomUnknown, "", err
	case node != "":
		return workloadspread.RoomOnNode, node, nil
	}
	room, err := w.groups.bring(p, stop)
	return room, "", err
}

// understood reports whether the filters say all that decides about a pod. A gated pod may wait for
// anything; a scheduler of another name has rules of its own; devices are claimed by objects that only exist later,
// and so are claims of the pod's own.
func (w *world) understood(p *v1.Pod) bool {
	if gated(p) || len(p.Spec.ResourceClaims) > 0 || p.Spec.SchedulerName != "" && p.Spec.SchedulerName != v1.DefaultSchedulerName {
		return false
	}
	return !slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		return v.Ephemeral != nil || v.PersistentVolumeClaim != nil && !w.claims[p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]
	})
}

// before is the node that a pod would find if the pods that look for a node and come after it in the
// queue of the scheduler held no room.
func (w *world) before(p *v1.Pod, stop func() bool) (string, error) {
	later, on := map[*guest]bool{}, map[string]bool{}
	for g := range w.open {
		if g.node != "" && corev1.PodPriority(g.pod) < corev1.PodPriority(p) {
			later[g], on[g.node] = true, true
		}
	}
	if len(later) == 0 {
		return "", nil
	}
	for name := range on {
		w.dirty[name] = true // it is as it was for the next question
		if h := w.nodes[name]; h.shown != nil {
			if err := w.live.Set(predicates.Node{Node: h.shown, Pods: h.on(later)}); err != nil {
				return "", err
			}
		}
	}
	return w.live.Find(p, stop)
}
