package workloadspread

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// firstPosition is the deletion cost of the pod in the first position, where subsets have shares.
const firstPosition = 1_000_000

// Cost is the deletion cost of a pod. The pods with the lowest cost are deleted first.
type Cost struct {
	Pod  *v1.Pod
	Cost int32
}

// progress is for how long after one of its pods has become ready a rollout counts as one that makes
// progress.
const progress = 2 * time.Minute

// readsCosts reports whether the controller of the workload reads deletion costs.
func readsCosts(spec *v1alpha1.WorkloadSpreadSpec) bool {
	k := kindOf(spec)
	return k == deploymentKind || k == replicaSetKind
}

// firstCost is the cost with which a pod is created in a subset that has so many, or in none; 0 if the
// controller of the workload reads none. It is the one that costs writes if no pod has left before.
func (s State) firstCost(i int, has int32) int32 {
	n := int32(len(s.Spec.Subsets))
	switch {
	case !readsCosts(s.Spec):
		return 0
	case i < 0:
		return -100 * (n + 1)
	case Shared(s.Spec):
		return firstPosition - position(s.Spec, i, has)
	}
	return 100 * (n - int32(i))
}

// costs writes the order of the scale-down. With n subsets, pods of the one with index i have
// 100*(n-i), the surplus of it has -100*(i+1), and pods of no subset have -100*(n+1). In old
// revisions the order of the subsets is reversed while the rollout makes progress, so that it leaves the
// first ones first.
//
// Where the subsets have shares, the last positions are left first: pods in a position have 1,000,000 minus its
// number; those of an old revision in reversed order have the number plus one.
func (p *pass) costs() {
	if !readsCosts(p.Spec) {
		return
	}
	parts := map[string][][]*member{}
	for _, m := range p.pods {
		if m.subset < 0 {
			p.cost(m, p.firstCost(-1, 0))
			continue
		}
		if parts[m.revision] == nil {
			parts[m.revision] = make([][]*member, len(p.Spec.Subsets))
		}
		parts[m.revision][m.subset] = append(parts[m.revision][m.subset], m)
	}
	reversed := len(parts) > 1 && p.rollsOut()
	for revision, bySubset := range parts {
		p.costsOf(revision, bySubset, reversed && p.Workload.Revision != "" && revision != p.Workload.Revision)
	}
	slices.SortFunc(p.decision.Costs, func(a, b Cost) int { return cmp.Compare(a.Pod.Name, b.Pod.Name) })
}

// rollsOut reports whether a rollout makes progress: a pod of the new revision has become ready lately,
// and not because it was restarted.
func (p *pass) rollsOut() (is bool) {
	for _, m := range p.pods {
		restarted := slices.ContainsFunc(m.Status.ContainerStatuses, func(c v1.ContainerStatus) bool { return c.RestartCount > 0 })
		end := condition(m.Pod, v1.PodReady).LastTransitionTime.Add(progress)
		if m.ready && m.revision == p.Workload.Revision && !restarted && p.Now.Before(end) {
			is = true
			p.timer.At(end)
		}
	}
	return is
}

func (p *pass) costsOf(revision string, parts [][]*member, reversed bool) {
	limits, positions, n := p.counts.limits(revision), p.positions(parts), int32(len(parts))
	// While the workload shrinks its last positions go anyway. What is written to them could change the order
	// in which pods are being deleted.
	shrinks := positions != nil && !reversed && int32(len(slices.Concat(parts...))) > p.Workload.Replicas
	for i, part := range parts {
		slices.SortFunc(part, keepFirst)
		within, place := len(part), int32(i)
		if limits[i] != Unlimited {
			within = min(within, int(limits[i]))
		}
		if reversed {
			place = n - 1 - place
		}
		var numbers []int32
		if positions != nil {
			slices.SortStableFunc(part, func(a, b *member) int { return cmp.Compare(positionOf(a.Pod), positionOf(b.Pod)) })
			numbers = numbered(part[:within], positions[i])
		}
		for k, m := range part {
			switch position := positionOf(m.Pod); {
			case k >= within && shrinks && position >= p.Workload.Replicas && position < firstPosition:
			case k >= within:
				p.cost(m, -100*(place+1))
			case positions == nil:
				p.cost(m, 100*(n-place))
			case reversed:
				p.cost(m, 1+numbers[k])
			default:
				p.cost(m, max(1, firstPosition-numbers[k]))
			}
		}
	}
}

// numbered gives pods the first positions of their subset. A pod keeps its own if no other one has it.
func numbered(part []*member, positions []int32) []int32 {
	out, left, open := make([]int32, len(part)), []int{}, sets.New(positions[:len(part)]...)
	for k, m := range part {
		if out[k] = positionOf(m.Pod); open.Has(out[k]) {
			open.Delete(out[k])
		} else {
			left = append(left, k)
		}
	}
	for i, number := range sets.List(open) {
		out[left[i]] = number
	}
	return out
}

// positions are the numbers of the positions of each subset, in their order; nil if subsets have no shares.
// They do not depend on the number of replicas, so that a pod keeps its cost.
func (p *pass) positions(parts [][]*member) [][]int32 {
	if !Shared(p.Spec) {
		return nil
	}
	positions := make([][]int32, len(parts))
	before := layout(p.Spec, 0, nil)
	for n := range p.Workload.Replicas {
		after := layout(p.Spec, n+1, nil)
		for i := range after {
			if after[i] > before[i] {
				positions[i] = append(positions[i], n)
			}
		}
		before = after
	}
	for i, part := range parts {
		for len(positions[i]) < len(part) { // while another subset is marked
			positions[i] = append(positions[i], p.Workload.Replicas+int32(len(positions[i])))
		}
	}
	return positions
}

// positionOf is the position that a pod has by its cost, in the one order or the other, or a late one.
func positionOf(pod *v1.Pod) int32 {
	n, err := strconv.ParseInt(pod.Annotations[AnnotationCost], 10, 32)
	switch {
	case err != nil || n <= 0 || n > firstPosition:
		return firstPosition
	case n > firstPosition/2:
		return int32(firstPosition - n)
	}
	return int32(n - 1)
}

// cost writes the cost of a pod if it differs.
func (p *pass) cost(m *member, n int32) {
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
		p.condition(v1alpha1.ConditionScaleDownOrdered, false, ReasonNotRead, "the controller of a "+p.Spec.TargetRef.Kind+
			" does not read deletion costs: they are not written, and the order in which it deletes pods is its own")
	}
	if p.status.Unassigned > 0 {
		p.condition(v1alpha1.ConditionAllInSubsets, false, ReasonUnassigned, fmt.Sprintf("%d pods belong to no subset", p.status.Unassigned))
		return
	}
	p.condition(v1alpha1.ConditionAllInSubsets, true, ReasonAssigned, "every pod belongs to a subset")
}
