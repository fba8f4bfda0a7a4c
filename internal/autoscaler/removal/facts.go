package removal

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/predicates"
)

// facts are what can be said of a node and the pods on it, whatever the rest of the
// world is.
type facts struct {
	node predicates.Node // what they are about
	// used is what the pods request, and byDaemons what those of daemon sets do, which
	// are not in it.
	used, byDaemons podfit.Resources
	// busy is what inUse answered for the settings in busyFor.
	busy    string
	busyFor *settings
	drain
}

// settings are those of a group that inUse looks at.
type settings struct {
	threshold, gpuThreshold float64
	ignoreDaemons           bool
	gpuLabel                string
}

// Memory keeps facts, by the node objects they are about. As long as the list of a
// node's pods is the same, so are the pods. Options and budgets, but for what these allow, are always
// the same.
type Memory map[*v1.Node]*facts

// factsOf returns the facts of a node.
func (m Memory) factsOf(n *Node, w *World, opts *Options) *facts {
	f := m[n.Node.Node]
	if f != nil && (f.until.IsZero() || w.Now.Before(f.until)) && f.node.Same(n.Node) {
		return f
	}
	f = &facts{node: n.Node, used: podfit.Resources{}, byDaemons: podfit.Resources{}}
	for _, pod := range n.Pods {
		switch {
		case isFinished(pod):
		case isDaemonPod(pod):
			f.byDaemons.Add(1, podfit.HeldBy(pod))
		default:
			f.used.Add(1, podfit.HeldBy(pod))
		}
	}
	f.drain = w.drainOf(n, opts)
	m[n.Node.Node] = f
	return f
}

// keep forgets all nodes but these.
func (m Memory) keep(nodes []Node) {
	if len(m) <= len(nodes) {
		return
	}
	here := make(map[*v1.Node]bool, len(nodes))
	for i := range nodes {
		here[nodes[i].Node.Node] = true
	}
	maps.DeleteFunc(m, func(n *v1.Node, _ *facts) bool { return !here[n] })
}
