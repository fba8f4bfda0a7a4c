package federation

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"maps"
	"math"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Resources are amounts of what a node has and pods ask for: processor time in thousandths of a
// core, memory in bytes, and pods.
type Resources struct {
	MilliCPU, Memory, Pods int64
	// Other resources, such as GPUs, in their units; nil if there are none.
	Other map[v1.ResourceName]int64
}

// ResourcesOf are the amounts in a list of an object.
func ResourcesOf(list v1.ResourceList) Resources {
	r := Resources{MilliCPU: list.Cpu().MilliValue(), Memory: list.Memory().Value(), Pods: list.Pods().Value()}
	for name, quantity := range list {
		switch name {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods:
		default:
			if r.Other == nil {
				r.Other = map[v1.ResourceName]int64{}
			}
			r.Other[name] = quantity.Value()
		}
	}
	return r
}

// RequestsOf are the requests of a pod, and one pod.
func RequestsOf(pod *v1.Pod) Resources {
	r := ResourcesOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true}))
	r.Pods = 1
	return r
}

// Plus is the resources and n times others. Neither is changed.
func (r Resources) Plus(n int64, o Resources) Resources {
	r.MilliCPU, r.Memory, r.Pods = r.MilliCPU+n*o.MilliCPU, r.Memory+n*o.Memory, r.Pods+n*o.Pods
	if len(o.Other) > 0 {
		r.Other = maps.Clone(r.Other)
		if r.Other == nil {
			r.Other = make(map[v1.ResourceName]int64, len(o.Other))
		}
		for name, amount := range o.Other {
			if r.Other[name] += n * amount; r.Other[name] == 0 {
				delete(r.Other, name)
			}
		}
	}
	return r
}

// fits is how many times requests fit into what is free.
func (r Resources) fits(free Resources) int64 {
	n := int64(math.MaxInt32)
	within := func(request, free int64) {
		if request > 0 {
			n = min(n, max(0, free)/request)
		}
	}
	within(r.MilliCPU, free.MilliCPU)
	within(r.Memory, free.Memory)
	within(r.Pods, free.Pods)
	for name, request := range r.Other {
		within(request, free.Other[name])
	}
	return n
}

// Node is a ready, schedulable node of a cluster whose room is known.
type Node struct {
	// Object has name, labels and taints. It is not changed.
	Object *v1.Node
	// Allocatable is what it has for pods, and Free what the pods on it leave, which may be negative.
	Allocatable, Free Resources
}

// Room is what a cluster has left, where that is known: its nodes, and how many pods of each
// object have one. Both must have been observed at the same time.
type Room struct {
	// Nodes by name.
	Nodes []Node
	// Bound are the pods with a node that are not about to end, by namespace/name of their object.
	Bound map[string]int32
}

// A shape is what matters of the pods of an object for where they fit.
type shape struct {
	pod      *v1.Pod
	requests Resources
	affinity nodeaffinity.RequiredNodeAffinity
}

func shapeOf(t *v1alpha1.PodTemplate) (*shape, error) {
	pod := &v1.Pod{}
	if err := json.Unmarshal(t.Spec.Raw, &pod.Spec); err != nil {
		return nil, fmt.Errorf("spec.template.spec: %w", err)
	}
	return &shape{pod, RequestsOf(pod), nodeaffinity.GetRequiredNodeAffinity(pod)}, nil
}

// admits reports whether a node takes such pods, apart from what is free on it. What depends on
// other pods, such as their affinity, is left to the scheduler of the cluster.
func (s *shape) admits(node *v1.Node) bool {
	if match, err := s.affinity.Match(node); !match || err != nil {
		return false
	}
	_, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, s.pod.Spec.Tolerations, func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}, false)
	return !untolerated
}

// count is how many such pods nodes have room for, of what is free on each.
func (s *shape) count(nodes []Node, free []Resources) (sum int64) {
	for i := range nodes {
		if n := s.requests.fits(free[i]); n > 0 && s.admits(nodes[i].Object) {
			sum += n
		}
	}
	return sum
}

// place gives up to n such pods to nodes, one after the other to the node that is the emptiest then, as
// schedulers do by default, and takes what they need from what is free. It returns how many each
// node gets.
func (s *shape) place(n int64, nodes []Node, free []Resources) map[int]int64 {
	q := &emptiest{nodes: nodes, free: free}
	for i := range nodes {
		if n > 0 && s.requests.fits(free[i]) > 0 && s.admits(nodes[i].Object) {
			q.order = append(q.order, i)
		}
	}
	heap.Init(q)
	out := map[int]int64{}
	for ; n > 0 && q.Len() > 0; n-- {
		i := q.order[0]
		out[i]++
		if free[i] = free[i].Plus(-1, s.requests); s.requests.fits(free[i]) > 0 {
			heap.Fix(q, 0)
		} else {
			heap.Pop(q)
		}
	}
	return out
}

// emptiest is a heap of nodes, of which the emptiest is the first.
type emptiest struct {
	nodes []Node
	free  []Resources
	order []int
}

func (e *emptiest) Len() int      { return len(e.order) }
func (e *emptiest) Swap(i, j int) { e.order[i], e.order[j] = e.order[j], e.order[i] }
func (e *emptiest) Push(x any)    { e.order = append(e.order, x.(int)) }

func (e *emptiest) Pop() any {
	last := e.order[len(e.order)-1]
	e.order = e.order[:len(e.order)-1]
	return last
}

func (e *emptiest) Less(i, j int) bool {
	a, b := e.order[i], e.order[j]
	if x, y := e.nodes[a].unused(e.free[a]), e.nodes[b].unused(e.free[b]); x != y {
		return x > y
	}
	return a < b
}

// unused is the part of cores and memory that is free, twice.
func (n *Node) unused(free Resources) (sum float64) {
	if n.Allocatable.MilliCPU > 0 {
		sum += float64(free.MilliCPU) / float64(n.Allocatable.MilliCPU)
	}
	if n.Allocatable.Memory > 0 {
		sum += float64(free.Memory) / float64(n.Allocatable.Memory)
	}
	return sum
}
