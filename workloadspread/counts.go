package workloadspread

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// counts are the pods of each revision and subset. They are those of the status, whose maps they share:
// who changes one clones it before.
type counts struct {
	State
	rows map[string][]v1alpha1.WorkloadSubsetCount // by revision, in the order of the spec
}

// counts are those of the status. Subsets that the spec does not have are left out.
func (s State) counts() *counts {
	c := &counts{State: s, rows: map[string][]v1alpha1.WorkloadSubsetCount{}}
	for revision, list := range s.Status.VersionedSubsetStatuses {
		row := c.row(revision)
		for _, count := range list {
			if i := indexOf(c.Spec, count.Name); i >= 0 {
				row[i] = count
			}
		}
	}
	return c
}

// row has an entry for each subset of the spec.
func (c *counts) row(revision string) []v1alpha1.WorkloadSubsetCount {
	if row, ok := c.rows[revision]; ok {
		return row
	}
	row := make([]v1alpha1.WorkloadSubsetCount, len(c.Spec.Subsets))
	for i := range row {
		row[i].Name = c.Spec.Subsets[i].Name
	}
	c.rows[revision] = row
	return row
}

// used is how many pods of a revision a subset has: those counted and those being created.
func (c *counts) used(revision string, i int) int32 { return usedBy(c.row(revision)[i]) }

func usedBy(count v1alpha1.WorkloadSubsetCount) int32 {
	return max(0, count.Replicas) + int32(len(count.CreatingPods))
}

// sum is how many pods of a revision all subsets have.
func (c *counts) sum(revision string) (n int32) {
	for i := range c.Spec.Subsets {
		n += c.used(revision, i)
	}
	return n
}

// total is how many pods of all revisions a subset has.
func (c *counts) total(i int) (n int32) {
	for revision := range c.rows {
		n += c.used(revision, i)
	}
	return n
}

// all are the pods of all revisions.
func (c *counts) all() int32 {
	n := c.Status.Unassigned
	for revision := range c.rows {
		n += c.sum(revision)
	}
	return n
}

// creating is how many pods are noted that were admitted and not seen yet.
func (c *counts) creating() (n int) {
	for _, row := range c.rows {
		for i := range row {
			n += len(row[i].CreatingPods)
		}
	}
	return n
}

// others reports whether there are pods of another revision.
func (c *counts) others(revision string) bool {
	for other := range c.rows {
		if other != revision && c.sum(other) > 0 {
			return true
		}
	}
	return false
}

// overshoot is by how many pods of all revisions the subsets exceed their limits together.
func (c *counts) overshoot() (n int32) {
	for i, limit := range c.limitsOfAll() {
		if limit != Unlimited {
			n += max(0, c.total(i)-limit)
		}
	}
	return n
}

// limits are the limits of the pods of a revision.
func (c *counts) limits(revision string) []int32 {
	return Limits(c.Spec, c.Workload.Replicas, c.heldOf(revision))
}

func (c *counts) heldOf(revision string) []int32 {
	return c.held(func(i int) int32 { return c.used(revision, i) })
}

// limitsOfAll are the limits of the pods of all revisions together.
func (c *counts) limitsOfAll() []int32 { return Limits(c.Spec, c.Workload.Replicas, c.held(c.total)) }

// held is what subsets that are marked as unschedulable keep; nil if there is none.
func (s State) held(has func(i int) int32) []int32 {
	var held []int32
	for i := range s.Spec.Subsets {
		if s.marked(i) {
			if held == nil {
				held = slices.Repeat([]int32{free}, len(s.Spec.Subsets))
			}
			held[i] = has(i)
		}
	}
	return held
}

// marked reports whether new pods pass over a subset. The mark is that of all revisions, and the last
// subset never has one.
func (s State) marked(i int) bool {
	if s.Spec.ScheduleStrategy.Type != v1alpha1.ScheduleAdaptive || i == len(s.Spec.Subsets)-1 {
		return false
	}
	status := s.subset(s.Spec.Subsets[i].Name)
	return status != nil && status.UnschedulableUntil != nil && s.Now.Before(status.UnschedulableUntil.Time)
}

// subset is the status of a subset over all revisions; nil if there is none yet.
func (s State) subset(name string) *v1alpha1.WorkloadSubsetStatus {
	for i := range s.Status.SubsetStatuses {
		if s.Status.SubsetStatuses[i].Name == name {
			return &s.Status.SubsetStatuses[i]
		}
	}
	return nil
}

// stored is the status with these counts.
func (c *counts) stored() *v1alpha1.WorkloadSpreadStatus {
	out := *c.Status
	out.Replicas, out.Surge = c.Workload.Replicas, c.Workload.Surge
	out.VersionedSubsetStatuses = map[string][]v1alpha1.WorkloadSubsetCount{}
	for _, revision := range slices.Sorted(maps.Keys(c.rows)) {
		limits := c.limits(revision)
		row := slices.Clone(c.rows[revision])
		for i := range row {
			row[i].MissingReplicas = missing(limits[i], usedBy(row[i]))
		}
		out.VersionedSubsetStatuses[revision] = row
	}
	out.SubsetStatuses = nil
	var filled []string
	for i, limit := range c.limitsOfAll() {
		name := c.Spec.Subsets[i].Name
		all := v1alpha1.WorkloadSubsetStatus{Name: name}
		if before := c.subset(name); before != nil {
			all = *before.DeepCopy()
		}
		all.MaxReplicas, all.Replicas = limit, 0
		for revision := range c.rows {
			all.Replicas += c.rows[revision][i].Replicas
		}
		all.MissingReplicas = missing(limit, c.total(i))
		out.SubsetStatuses = append(out.SubsetStatuses, all)
		most := "-"
		if limit != Unlimited {
			most = number(limit)
		}
		filled = append(filled, fmt.Sprintf("%s %d/%s", name, all.Replicas, most))
	}
	out.Filled = strings.Join(filled, ", ")
	return &out
}

func missing(limit, used int32) int32 {
	if limit == Unlimited {
		return Unlimited
	}
	return min(max(limit-used, 0), limit)
}
