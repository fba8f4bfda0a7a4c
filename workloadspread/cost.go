package workloadspread

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// firstSeat is the deletion cost of the pod in the first seat, under distributions Even and Weighted.
const firstSeat = 1_000_000

// Cost is the deletion cost of a pod. The pods with the lowest cost are deleted first.
type Cost struct {
	Pod  *v1.Pod
	Cost int32
}

// costs writes the order of the scale-down. With n subsets, pods of the one with index i have
// 100*(n-i), the surplus of it has -100*(i+1), and pods of no subset have -100*(n+1). In old
// revisions the order of the subsets is reversed, so that a rollout leaves the first ones first.
//
// Under distributions Even and Weighted the last seats are left first, and pods in a seat have
// 1,000,000 minus its number; those of an old revision have the number plus one.
func (p *pass) costs() {
	if k := kindOf(p.Spec); k != deploymentKind && k != replicaSetKind {
		return
	}
	parts := map[string][][]member{}
	for _, m := range p.pods {
		if m.subset < 0 {
			p.cost(m, -100*int32(len(p.Spec.Subsets)+1))
			continue
		}
		if parts[m.revision] == nil {
			parts[m.revision] = make([][]member, len(p.Spec.Subsets))
		}
		parts[m.revision][m.subset] = append(parts[m.revision][m.subset], m)
	}
	for _, revision := range slices.Sorted(maps.Keys(parts)) {
		p.costsOf(revision, parts[revision])
	}
	slices.SortStableFunc(p.decision.Costs, func(a, b Cost) int { return cmp.Compare(a.Pod.Name, b.Pod.Name) })
}

func (p *pass) costsOf(revision string, parts [][]member) {
	old := p.Workload.Revision != "" && revision != p.Workload.Revision
	limits, n := p.counts.limits(revision), int32(len(parts))
	seats := p.seats(parts)
	// While the workload shrinks its last seats go anyway. What is written to them could change the order
	// in which pods are being deleted.
	shrinks := seats != nil && !old && int32(len(slices.Concat(parts...))) > p.Workload.Replicas
	for i, part := range parts {
		slices.SortFunc(part, keepFirst)
		if seats != nil {
			slices.SortStableFunc(part, func(a, b member) int { return cmp.Compare(seatOf(a.Pod, old), seatOf(b.Pod, old)) })
		}
		quota := len(part)
		if limits[i] != Unlimited {
			quota = min(quota, int(limits[i]))
		}
		place := int32(i)
		if old {
			place = n - 1 - place
		}
		for _, m := range part[quota:] {
			if !shrinks || !p.late(m) {
				p.cost(m, -100*(place+1))
			}
		}
		inSeats := part[:quota]
		for k, m := range inSeats {
			switch {
			case seats == nil:
				p.cost(m, 100*(n-place))
			case old:
				p.cost(m, 1+seats[i][k])
			default:
				p.cost(m, max(1, firstSeat-seats[i][k]))
			}
		}
	}
}

// late reports whether a pod sits where the workload has no replicas any more.
func (p *pass) late(m member) bool {
	seat := seatOf(m.Pod, false)
	return seat >= int64(p.Workload.Replicas) && seat < firstSeat
}

// seats are the numbers of the seats of each subset, in their order; nil under distribution Ordered.
// They do not depend on the number of replicas, so that a pod keeps its cost.
func (p *pass) seats(parts [][]member) [][]int32 {
	if ordered(p.Spec) {
		return nil
	}
	seats := make([][]int32, len(parts))
	before := layout(p.Spec, 0, nil)
	for n := range p.Workload.Replicas {
		after := layout(p.Spec, n+1, nil)
		for i := range after {
			if after[i] > before[i] {
				seats[i] = append(seats[i], n)
			}
		}
		before = after
	}
	for i, part := range parts {
		for len(seats[i]) < len(part) { // while another subset is marked
			seats[i] = append(seats[i], p.Workload.Replicas+int32(len(seats[i])))
		}
	}
	return seats
}

// seatOf is the seat that a pod has by its cost, or a late one.
func seatOf(pod *v1.Pod, old bool) int64 {
	n, err := strconv.ParseInt(pod.Annotations[AnnotationCost], 10, 32)
	switch {
	case err != nil || n <= 0:
		return firstSeat
	case old:
		return n - 1
	}
	return firstSeat - n
}

// cost writes the cost of a pod if it differs.
func (p *pass) cost(m member, n int32) {
	if m.Annotations[AnnotationCost] != strconv.Itoa(int(n)) {
		p.decision.Costs = append(p.decision.Costs, Cost{Pod: m.Pod, Cost: n})
	}
}

// report sets the conditions.
func (p *pass) report() {
	switch kindOf(p.Spec) {
	case deploymentKind, replicaSetKind:
		p.condition(v1alpha1.ConditionScaleDownOrdered, true, ReasonDeletionCost, "pods are deleted in the order of their deletion costs")
	case statefulSetKind:
		p.condition(v1alpha1.ConditionScaleDownOrdered, true, ReasonByOrdinal, "the pods with the highest ordinals are deleted first")
	default:
		p.condition(v1alpha1.ConditionScaleDownOrdered, false, ReasonNotRead, "the controller of a "+p.Spec.TargetRef.Kind+" does not read deletion costs: they are not written, and the order in which it deletes pods is its own")
	}
	if p.status.Unassigned > 0 {
		p.condition(v1alpha1.ConditionAllInSubsets, false, ReasonUnassigned, fmt.Sprintf("%d pods belong to no subset", p.status.Unassigned))
		return
	}
	p.condition(v1alpha1.ConditionAllInSubsets, true, ReasonAssigned, "every pod belongs to a subset")
}
