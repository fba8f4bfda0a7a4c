package predicates

import (
	"cmp"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// amounts are resources as the scheduler counts them. The scored ones have the scheduler's defaults for
// containers without requests.
type amounts struct {
	framework.Resource
	scoredCPU, scoredMemory int64
}

// defaultRequests are what containers without requests count for in scores.
var defaultRequests = v1.ResourceList{
	v1.ResourceCPU:    *resource.NewMilliQuantity(schedutil.DefaultMilliCPURequest, resource.DecimalSI),
	v1.ResourceMemory: *resource.NewQuantity(schedutil.DefaultMemoryRequest, resource.BinarySI),
}

// plus returns a + n*b. The maps of both are left alone.
func (a amounts) plus(b *amounts, n int64) amounts {
	a.MilliCPU += n * b.MilliCPU
	a.Memory += n * b.Memory
	a.EphemeralStorage += n * b.EphemeralStorage
	a.scoredCPU += n * b.scoredCPU
	a.scoredMemory += n * b.scoredMemory
	if len(b.ScalarResources) > 0 {
		sum := make(map[v1.ResourceName]int64, len(a.ScalarResources)+len(b.ScalarResources))
		maps.Copy(sum, a.ScalarResources)
		for name, q := range b.ScalarResources {
			sum[name] += n * q
		}
		a.ScalarResources = sum
	}
	return a
}

// shape stands for nodes that differ only in their resources and in what no pod looks at.
type shape struct {
	id     int
	body   int            // equal for shapes that differ in labels only
	limits map[string]int // how many volumes a node takes, by driver
}

// item is a number of equal pods.
type item struct {
	*boundPod
	n int
}

// state is a node with the pods on it. States are never changed; fresh copies of a template share one.
type state struct {
	node     *v1.Node // with the labels of storage drivers
	template *v1.Node // of fresh copies; nil: a real node
	shape    *shape
	all      *framework.Resource // allocatable
	items    []item              // by id
	pods     int
	used     amounts
	// leftovers are volumes attached to the node that no pod uses.
	leftovers []attachable
	volumes   *attachedVolumes    // built on demand
	info      *framework.NodeInfo // built on demand, on the node
}

// with returns the state with n more pods or, below zero, fewer.
func (st *state) with(r *boundPod, n int) *state {
	next := *st
	next.volumes, next.info = nil, nil
	next.pods += n
	next.used = st.used.plus(&r.need, int64(n))
	next.items = make([]item, len(st.items), len(st.items)+1)
	copy(next.items, st.items)
	i, there := slices.BinarySearchFunc(next.items, r.id, func(it item, id int) int { return cmp.Compare(it.id, id) })
	switch {
	case !there:
		next.items = slices.Insert(next.items, i, item{r, n})
	case next.items[i].n+n == 0:
		next.items = slices.Delete(next.items, i, i+1)
	default:
		next.items[i].n += n
	}
	return &next
}

// same reports whether no kind of pods can tell two nodes with their pods apart, but for the names of
// the nodes.
func (st *state) same(other *state) bool {
	a, b := st.all, other.all
	return st.shape == other.shape && st.node.Labels[v1.LabelHostname] == other.node.Labels[v1.LabelHostname] &&
		slices.Equal(st.items, other.items) && slices.Equal(st.leftovers, other.leftovers) &&
		a.MilliCPU == b.MilliCPU && a.Memory == b.Memory && a.EphemeralStorage == b.EphemeralStorage &&
		a.AllowedPodNumber == b.AllowedPodNumber && maps.Equal(a.ScalarResources, b.ScalarResources)
}

// nodeInfo returns the scheduler's view of a node in this state. It must not be
// changed.
func (st *state) nodeInfo() *framework.NodeInfo {
	if st.info == nil {
		st.info = framework.NewNodeInfo()
		st.info.SetNode(st.node)
		for _, it := range st.items {
			for range it.n {
				st.info.AddPodInfo(it.boundPod.info)
			}
		}
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

// room returns how many more pods with the given requests NodeResourcesFit can let onto the node at
// most, but for resources that it ignores.
func (st *state) room(need *amounts, ignores func(v1.ResourceName) bool) int {
	all, used := st.all, &st.used
	n := int64(all.AllowedPodNumber - st.pods)
	bound := func(want, free int64) {
		if want > 0 {
			n = min(n, max(free, 0)/want)
		}
	}
	bound(need.MilliCPU, all.MilliCPU-used.MilliCPU)
	bound(need.Memory, all.Memory-used.Memory)
	bound(need.EphemeralStorage, all.EphemeralStorage-used.EphemeralStorage)
	for name, want := range need.ScalarResources {
		if ignores == nil || !ignores(name) {
			bound(want, all.ScalarResources[name]-used.ScalarResources[name])
		}
	}
	return int(min(max(n, 0), math.MaxInt32))
}
