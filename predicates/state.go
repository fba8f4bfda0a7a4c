package predicates

import (
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// amounts are resources as the scheduler counts them.
type amounts struct {
	cpu, memory, ephemeral int64 // milli-cores, bytes, bytes
	scalars                map[v1.ResourceName]int64
}

// plus returns a + n*b. The maps of both are left alone.
func (a amounts) plus(b *amounts, n int64) amounts {
	a.cpu += n * b.cpu
	a.memory += n * b.memory
	a.ephemeral += n * b.ephemeral
	if len(b.scalars) > 0 {
		sum := make(map[v1.ResourceName]int64, len(a.scalars)+len(b.scalars))
		maps.Copy(sum, a.scalars)
		for name, q := range b.scalars {
			sum[name] += n * q
		}
		a.scalars = sum
	}
	return a
}

// shape stands for nodes that differ only in what no pod looks at.
type shape struct {
	id   int
	body int      // equal for shapes that differ in labels only
	node *v1.Node // one of them
	bare *framework.NodeInfo
	// limits are how many volumes a node takes, by driver.
	limits map[string]int
	// empty remembers which kinds an empty node of the shape turns away.
	empty map[*kind]bool
}

// item is a number of equal pods.
type item struct {
	*resident
	n int
}

// state is a node with the pods on it. Nodes in the same state are one class.
// States are never changed.
type state struct {
	shape *shape
	items []item
	pods  int
	used  amounts
	info  *framework.NodeInfo // built on demand, on the node of the shape
	// repels and looksAt are the anti-affinity of the pods the node came with, and the
	// labels of pods that their rules look at.
	repels  []*repulsion
	looksAt []string
	// leftovers are volumes attached to the node that no pod uses.
	leftovers []attachable
	volumes   *attachedVolumes // built on demand
}

func (st *state) with(r *resident, n int) *state {
	next := &state{shape: st.shape, pods: st.pods + n, used: st.used.plus(&r.need, int64(n)), leftovers: st.leftovers}
	next.items = make([]item, 0, len(st.items)+1)
	next.items = append(next.items, st.items...)
	if i := slices.IndexFunc(next.items, func(it item) bool { return it.resident == r }); i >= 0 {
		next.items[i].n += n
	} else {
		next.items = append(next.items, item{resident: r, n: n})
	}
	return next
}

func (st *state) on(s *shape) *state {
	return &state{shape: s, items: st.items, pods: st.pods, used: st.used, repels: st.repels, looksAt: st.looksAt, leftovers: st.leftovers}
}

// nodeInfo returns the scheduler's view of a node in this state. It must not be
// changed.
func (st *state) nodeInfo() *framework.NodeInfo {
	if st.info == nil {
		info := st.shape.bare.SnapshotConcrete()
		for _, it := range st.items {
			for range it.n {
				info.AddPodInfo(it.resident.info)
			}
		}
		st.info = info
	}
	return st.info
}

// onNode returns the scheduler's view of a node in this state under another
// node object of the same shape. It must not be changed.
func (st *state) onNode(n *v1.Node) *framework.NodeInfo {
	info := *st.nodeInfo()
	info.SetNode(n)
	return &info
}

// room returns how many pods with the given requests NodeResourcesFit can let
// onto the node at most.
func (st *state) room(need *amounts, ignoreScalars bool) int {
	return room(st.shape.bare.Allocatable, st.pods, &st.used, need, ignoreScalars)
}

// room returns how many more pods with the given requests a node can take that
// has so many pods that use so much.
func room(all *framework.Resource, pods int, used, need *amounts, ignoreScalars bool) int {
	n := int64(all.AllowedPodNumber - pods)
	bound := func(want, free int64) {
		if want > 0 {
			n = min(n, max(free, 0)/want)
		}
	}
	bound(need.cpu, all.MilliCPU-used.cpu)
	bound(need.memory, all.Memory-used.memory)
	bound(need.ephemeral, all.EphemeralStorage-used.ephemeral)
	if !ignoreScalars {
		for name, want := range need.scalars {
			bound(want, all.ScalarResources[name]-used.scalars[name])
		}
	}
	return int(min(max(n, 0), math.MaxInt32))
}
