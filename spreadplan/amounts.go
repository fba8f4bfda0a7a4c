package spreadplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
)

// Amounts are resources; cpu is in thousandths of a core.
type Amounts map[v1.ResourceName]int64

// Requests returns what a pod takes of a node.
func Requests(pod *v1.Pod) Amounts {
	r := expander.RequestsOf(pod)
	out := Amounts{v1.ResourcePods: 1, v1.ResourceCPU: r.MilliCPU, v1.ResourceMemory: r.Memory}
	for _, other := range r.Others {
		out[other.Name] = other.Value
	}
	return out
}

// Allocatable returns what pods may take of a node, daemons included.
func Allocatable(node *v1.Node) Amounts {
	list := node.Status.Allocatable
	if len(list) == 0 {
		list = node.Status.Capacity
	}
	out := make(Amounts, len(list))
	for name, q := range list {
		if out[name] = q.Value(); name == v1.ResourceCPU {
			out[name] = q.MilliValue()
		}
	}
	return out
}

// Subtract subtracts requests n times.
func (a Amounts) Subtract(n int64, r Amounts) {
	for name, value := range r {
		a[name] -= n * value
	}
}

// fits returns how often the requests fit.
func (a Amounts) fits(r Amounts) int64 {
	n := max(0, a[v1.ResourcePods])
	for name, value := range r {
		if value > 0 {
			n = min(n, max(0, a[name])/value)
		}
	}
	return n
}
