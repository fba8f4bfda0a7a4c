package podfit

import (
	"maps"
	"math"
	"math/bits"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Resources are amounts by name, as the scheduler counts them: of cpu in thousandths of a core. One that is
// not listed is 0.
type Resources map[v1.ResourceName]int64

// resourcesOf are the amounts in a list of an object.
func resourcesOf(list v1.ResourceList) Resources {
	r := make(Resources, len(list))
	for name, quantity := range list {
		n := quantity.Value()
		if name == v1.ResourceCPU {
			n = quantity.MilliValue()
		}
		if n != 0 {
			r[name] = n
		}
	}
	return r
}

// Allocatable is what pods may take of a node, daemons included.
func Allocatable(node *v1.Node) Resources {
	if len(node.Status.Allocatable) == 0 {
		return resourcesOf(node.Status.Capacity)
	}
	return resourcesOf(node.Status.Allocatable)
}

// Requests is what the scheduler reserves for a pod: the sum over its containers or, if more, what its init
// containers need, plus its overhead; and one pod.
func Requests(pod *v1.Pod) Resources { return requests(pod, resource.PodResourcesOptions{}) }

// HeldBy is what the scheduler reserves for a pod that runs: while it is resized in place, the largest of
// what it requests, was given and has; if that cannot be done, what it was given and has.
func HeldBy(pod *v1.Pod) Resources {
	return requests(pod, resource.PodResourcesOptions{UseStatusResources: true})
}

func requests(pod *v1.Pod, o resource.PodResourcesOptions) Resources {
	r := resourcesOf(resource.PodRequests(pod, o))
	r[v1.ResourcePods] = 1
	return r
}

// Plus is the resources and n times others. Neither is changed.
func (r Resources) Plus(n int64, others Resources) Resources {
	sum := make(Resources, len(r))
	maps.Copy(sum, r)
	sum.Add(n, others)
	return sum
}

// Add adds n times others; with n below zero it subtracts them. Sums end at the largest int64 instead of
// running over.
func (r Resources) Add(n int64, others Resources) {
	for name, amount := range others {
		if sum := AddSaturated(r[name], n, amount); sum != 0 {
			r[name] = sum
		} else {
			delete(r, name)
		}
	}
}

// AddSaturated is a + n*b, or the largest number where that would be beyond it.
func AddSaturated(a, n, b int64) int64 {
	if hi, lo := bits.Mul64(uint64(max(n, 0)), uint64(max(b, 0))); hi != 0 || lo > uint64(math.MaxInt64-max(a, 0)) {
		return math.MaxInt64
	}
	return a + n*b
}

// Takes is how many times the requests fit into what is free.
func (r Resources) Takes(requests Resources) int64 {
	n := int64(math.MaxInt32)
	for name, request := range requests {
		if request > 0 {
			n = min(n, max(0, r[name])/request)
		}
	}
	return n
}
