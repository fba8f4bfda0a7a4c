package simulate

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// defaultPatience is how long pods stay on a node that does not respond: the tolerationSeconds that
// the API server gives every pod without its own.
const defaultPatience = 5 * time.Minute

// deadTaint is the key of the taint of a node that is not ready, and empty for one that is.
func deadTaint(n *v1.Node) string {
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != v1.NodeReady:
		case c.Status == v1.ConditionFalse:
			return v1.TaintNodeNotReady
		case c.Status == v1.ConditionUnknown:
			return v1.TaintNodeUnreachable
		}
	}
	return ""
}

// deadSince is when a node of the start stopped being ready; zero if it is ready. One that does not
// say has not been for long.
func deadSince(n *v1.Node) time.Time {
	if deadTaint(n) == "" {
		return time.Time{}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return epoch.Add(-startAge)
}

// taintDeadNodes gives the nodes of files that are not ready the taints that the node lifecycle
// controller does, where the files leave them out.
func (s *Setup) taintDeadNodes() {
	s.eachNode(func(n *v1.Node) {
		key := deadTaint(n)
		for _, effect := range []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute} {
			if key != "" && !slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == key && t.Effect == effect }) {
				n.Spec.Taints = append(slices.Clip(n.Spec.Taints), v1.Taint{Key: key, Effect: effect})
			}
		}
	})
}

// fail has a node stop responding: the pods on it do not run any more.
func (s *simulation) fail(n *node) {
	n.downSince = s.clock.Now()
	for _, p := range n.pods {
		s.history.unbound(p)
	}
}

// revive has a node respond again, and the pods that are still on it run.
func (s *simulation) revive(n *node) {
	n.downSince = time.Time{}
	for _, p := range n.pods {
		if p.life.on == nil {
			s.history.bound(p)
		}
	}
}

// follow has a node that is being drained respond or not.
func (s *simulation) follow(n *node, responds bool) {
	switch down := !n.downSince.IsZero(); {
	case responds && down:
		s.revive(n)
	case !responds && !down:
		s.fail(n)
	}
}

// patience is how long a pod stays on a node with a taint of this key that evicts; ever reports that
// it always does.
func patience(p *v1.Pod, key string) (stays time.Duration, ever bool) {
	stays, known := defaultPatience, false
	for _, t := range p.Spec.Tolerations {
		all := t.Key == "" && t.Operator == v1.TolerationOpExists
		switch {
		case t.Key != key && !all, t.Effect != "" && t.Effect != v1.TaintEffectNoExecute:
		case t.Operator != v1.TolerationOpExists && t.Value != "": // these taints have no value
		case t.TolerationSeconds == nil:
			ever = ever || !known
			known = true
		default:
			own := time.Duration(max(0, *t.TolerationSeconds)) * time.Second
			if !known || ever || own < stays {
				stays = own
			}
			known, ever = true, false
		}
	}
	return stays, ever
}

// evictsAt is when a pod loses its node, which does not respond; zero for never.
func (n *node) evictsAt(p *pod) time.Time {
	stays, ever := patience(p.object, deadTaint(n.object))
	if ever {
		return time.Time{}
	}
	return n.downSince.Add(stays)
}

// evictions calls f with the times at which pods lose nodes that do not respond.
func (s *simulation) evictions(f func(time.Time)) {
	for _, p := range s.cluster.stranded() {
		if at := p.node.evictsAt(p); !at.IsZero() {
			f(at)
		}
	}
}

// evictFromDeadNodes evicts the pods that tolerate for no longer that their node does not respond.
func (s *simulation) evictFromDeadNodes() {
	now, evicted := s.clock.Now(), 0
	for _, n := range s.cluster.nodes {
		if n.downSince.IsZero() {
			continue
		}
		evicted += s.cluster.evictFrom(n, func(p *pod) bool {
			at := n.evictsAt(p)
			return !at.IsZero() && !at.After(now)
		})
	}
	if evicted > 0 {
		s.stirred, s.reshuffle = true, true
		row := s.timeline.add(s.elapsed(), v1alpha1.RowPods, "%s evicted from nodes that are not ready", count(evicted, "pod"))
		row.Reason, row.Pods = v1alpha1.PodsEvicted, evicted
	}
}

func anyPod(*pod) bool { return true }
