package nodegroupset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/apportion"
)

// Measure is what nodes are counted by.
type Measure string

const (
	ByNodes  Measure = "Nodes" // each counts 1; the empty Measure means the same
	ByCPU    Measure = "CPU"   // by milli-cores of capacity
	ByMemory Measure = "Memory"
)

// Mebibyte is the unit of ByMemory.
const Mebibyte = 1 << 20

// SetPolicy declares that groups are one set, whatever they differ in, and how they
// share nodes. Name is unique. A portion has the groups that it names and those whose
// template's labels its Selector matches. A group that is declared twice is in the
// first portion of the first set; CheckPolicies refuses that.
type SetPolicy struct {
	Name     string
	Policy   Policy
	Measure  Measure
	Portions []PortionPolicy
	// StartupDeadline is how long ordered nodes may take to become ready before others
	// of the set take their share; 0 means that there is none.
	StartupDeadline time.Duration
}

// PortionPolicy is a Portion whose groups are selected by labels too.
type PortionPolicy struct {
	Portion
	Selector labels.Selector // nil selects none
}

// place is where a group is declared to be.
type place struct{ set, portion int }

// placeOf is where the policies declare a group to be; false if nowhere.
func placeOf(policies []SetPolicy, name string, node *v1.Node) (place, bool) {
	for i := range policies {
		for k := range policies[i].Portions {
			if policies[i].Portions[k].has(name, node) {
				return place{i, k}, true
			}
		}
	}
	return place{}, false
}

func (p *PortionPolicy) has(name string, node *v1.Node) bool {
	return slices.Contains(p.Groups, name) || p.Selector != nil && node != nil && p.Selector.Matches(labels.Set(node.Labels))
}

// Declared returns the terms of every group that a policy declares, by group. Groups of
// one set share theirs. Nodes are those of the groups' templates; a group may have none.
func (o Options) Declared(nodes map[string]*v1.Node) map[string]*Terms {
	if len(o.Policies) == 0 {
		return nil
	}
	sets := make([]*Terms, len(o.Policies))
	out := map[string]*Terms{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		at, declared := placeOf(o.Policies, name, nodes[name])
		if !declared {
			continue
		}
		if sets[at.set] == nil {
			sets[at.set] = newTerms(&o.Policies[at.set])
		}
		out[name] = sets[at.set]
		out[name].add(name, at.portion, o.Policies[at.set].Measure, nodes[name])
	}
	return out
}

// newTerms are those of a policy, yet without groups.
func newTerms(p *SetPolicy) *Terms {
	terms := &Terms{Set: p.Name, Policy: p.Policy, Measure: p.Measure, StartupDeadline: p.StartupDeadline}
	for _, portion := range p.Portions {
		portion.Groups = nil
		terms.Portions = append(terms.Portions, portion.Portion)
	}
	return terms
}

func (t *Terms) add(name string, portion int, by Measure, node *v1.Node) {
	t.Portions[portion].Groups = append(t.Portions[portion].Groups, name)
	if by == ByNodes || by == "" || node == nil {
		return
	}
	if t.Capacity == nil {
		t.Capacity = map[string]int64{}
	}
	t.Capacity[name] = by.of(node)
}

// of is what a node counts for.
func (by Measure) of(node *v1.Node) int64 {
	units := node.Status.Capacity.Cpu().MilliValue()
	if by == ByMemory {
		units = (node.Status.Capacity.Memory().Value() + Mebibyte - 1) / Mebibyte
	}
	return min(max(units, 1), MaxSize)
}

// CheckPolicies refuses policies that do not suit the groups there are: those that name
// a group that does not exist, sets or portions that have a group in common, and a
// start-up deadline of a set with one group. The
// error is an *apportion.InvalidError whose path starts at the list, "sets[1].portions[0].groups[2]".
func CheckPolicies(policies []SetPolicy, nodes map[string]*v1.Node) error {
	sizes := make([]int, len(policies))
	for i := range policies {
		for k := range policies[i].Portions {
			for n, name := range policies[i].Portions[k].Groups {
				if _, known := nodes[name]; !known {
					return apportion.Invalid(fmt.Sprintf("sets[%d].portions[%d].groups[%d]", i, k, n), name, "is no node group of the cloud")
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		first, declared := placeOf(policies, name, nodes[name])
		if declared {
			sizes[first.set]++
		}
		for i := first.set; declared && i < len(policies); i++ {
			for k := range policies[i].Portions {
				p := &policies[i].Portions[k]
				if (i == first.set && k <= first.portion) || !p.has(name, nodes[name]) {
					continue
				}
				earlier := &policies[first.set]
				reason := fmt.Sprintf("node group %s is in portion %s of set %s too", name, earlier.Portions[first.portion].Name, earlier.Name)
				if at := slices.Index(p.Groups, name); at >= 0 {
					return apportion.Invalid(fmt.Sprintf("sets[%d].portions[%d].groups[%d]", i, k, at), name, reason)
				}
				return apportion.Invalid(fmt.Sprintf("sets[%d].portions[%d].selector", i, k), p.Selector.String(), reason)
			}
		}
	}
	for i := range policies {
		if policies[i].StartupDeadline > 0 && sizes[i] < 2 {
			reason := fmt.Sprintf("set %s has %d node groups: what does not come needs another to be ordered from", policies[i].Name, sizes[i])
			return apportion.Invalid(fmt.Sprintf("sets[%d].startupDeadline", i), policies[i].StartupDeadline.String(), reason)
		}
	}
	return nil
}

// Declare returns the options with other policies and an index for them, if they suit the groups: see
// CheckPolicies. Paths in errors begin at the document.
func (o Options) Declare(policies []SetPolicy, nodes map[string]*v1.Node) (Options, *Index, error) {
	if err := CheckPolicies(policies, nodes); err != nil {
		return o, nil, fmt.Errorf("spec.%w", err)
	}
	o.Policies = policies
	index, err := NewIndex(o)
	return o, index, err
}

// Describe names the set and its policy.
func (t *Terms) Describe() string { return fmt.Sprintf("set %s, %s", t.Set, t) }

// String names the policy as people read it: "Proportional by CPU: on-demand 20 after a
// base of 8, spot 80".
func (t *Terms) String() string {
	if t == nil {
		return string(Even)
	}
	text := string(cmp.Or(t.Policy, Even))
	if t.Measure == ByCPU || t.Measure == ByMemory {
		text += " by " + string(t.Measure)
	}
	for i, p := range t.Portions {
		if t.Policy == Even || t.Policy == "" {
			break
		}
		text += [...]string{": ", ", "}[min(i, 1)] + p.Name
		if t.Policy == Proportional {
			text += fmt.Sprint(" ", p.Weight)
		}
		if p.Base > 0 {
			text += " after a base of " + t.Measure.amount(p.Base)
		}
	}
	if t.StartupDeadline > 0 {
		text += fmt.Sprintf("; start-up deadline %s", t.StartupDeadline)
	}
	return text
}

// amount is a base as it is written in documents.
func (by Measure) amount(base int64) string {
	switch by {
	case ByCPU:
		return resource.NewMilliQuantity(base, resource.DecimalSI).String()
	case ByMemory:
		return resource.NewQuantity(base*Mebibyte, resource.BinarySI).String()
	case ByNodes:
	}
	return fmt.Sprint(base)
}
