package scaleup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// class is the pods of the option that pass on exactly the same members.
type class struct {
	members  []string // by name
	kinds    []int
	oneByOne bool // placed by placeOneByOne, not by an estimate
	nodes    int64
	placed   []estimator.Placed // in the order of kinds
	closed   []string           // members in domains without nodes, if they get none
	why      map[int]string     // why pods of a kind found no place, if a spread constraint is the reason
}

// splitNeed finds the partners of the chosen group and gives every member its
// nodes. Pods that pass on few members come first: their nodes have to lie
// there. The nodes of those that pass on more are levelled on top, so that a
// pinned pod costs the set no more than its own node.
func (p *planner) splitNeed() error {
	p.decision.Members = p.partners()
	p.classes = p.classify(p.decision.Members)
	if err := p.placeOneByOne(); err != nil {
		return err
	}
	var phases []estimator.Phase
	for i := range p.classes {
		c := &p.classes[i]
		if c.oneByOne {
			continue
		}
		phase := p.phase(p.standFor(c.members), p.demands(c.kinds))
		phase.Reuse = p.reusable(i)
		phase.MaxNodes = int(p.ledger.room(c.members, p.roundLimit()))
		phases = append(phases, phase)
		estimate, err := p.estimator.Estimate(phases, p.roundLeft())
		if err != nil {
			return err
		}
		last := estimate.Phases[len(phases)-1]
		c.nodes, c.placed = int64(last.NodeCount), last.Placed
		if g := p.group(p.decision.Chosen); g.AllOrNothing {
			c.nodes = int64(g.Max - g.Target)
		}
		if err := p.splitClass(i); err != nil {
			return err
		}
	}
	p.decision.Increases = p.increases()
	p.decision.Warnings = append(p.decision.Warnings, overlapping(splitQuotas(p.ledger.quotas, p.ledger.sizes(p.decision.Members)))...)
	return nil
}

// increases lists the members that get nodes.
func (p *planner) increases() (all []Increase) {
	for _, name := range p.decision.Members {
		if n := p.ledger.grown[name]; n > 0 {
			g := p.group(name)
			all = append(all, Increase{Group: name, From: g.Target, To: g.Target + int(n)})
		}
	}
	return all
}

// demands asks for places for the pods of these kinds that have none yet.
func (p *planner) demands(kinds []int) []estimator.Demand {
	demands := p.workload.Demands(kinds...)
	for i, kind := range kinds {
		demands[i].Count -= p.helped[kind]
	}
	return demands
}

// roundLeft is what the round still allows beside the nodes for pods that were placed one by one.
func (p *planner) roundLeft() int {
	opened := int64(0)
	for _, c := range p.classes {
		if c.oneByOne {
			opened += c.nodes
		}
	}
	return int(max(0, p.roundLimit()-opened))
}

// splitClass levels the nodes of one class over its members, on top of what
// they have got so far.
func (p *planner) splitClass(i int) error {
	c := &p.classes[i]
	split, err := p.ledger.split(c.nodes, p.decision.Chosen, c.members)
	if err != nil {
		return fmt.Errorf("split %d nodes over %s: %w", c.nodes, strings.Join(c.members, ", "), err)
	}
	s := share{class: i, groups: c.members, nodes: map[string]int64{}}
	for _, g := range split.Groups {
		if n := g.NewSize - g.Size; n > 0 {
			s.nodes[g.Name] = n
		}
	}
	p.decision.Unplaced += int(split.Unplaced)
	p.share(s)
	return nil
}

// share notes a part of the need and the pods it helps.
func (p *planner) share(s share) {
	c := &p.classes[s.class]
	p.decision.shares = append(p.decision.shares, s)
	p.decision.Need += int(c.nodes)
	for i, kind := range c.kinds {
		p.helped[kind] += c.placed[i].Count
	}
}

// partners are the chosen group and those similar to it that may grow and pass
// at least one pod of the option.
func (p *planner) partners() []string {
	chosen := p.decision.Chosen
	members := []string{chosen}
	if !p.opts.DisableBalancing && !p.group(chosen).AllOrNothing {
		for _, name := range p.index.Similar(chosen) {
			if len(p.passing(name)) > 0 {
				members = append(members, name)
			}
		}
	}
	slices.Sort(members)
	return members
}

// classify sorts the kinds of pods that some member takes by the members that take them. Pods for
// which it matters what runs on other nodes come first, for they are placed one by one.
func (p *planner) classify(members []string) []class {
	var classes []class
	for _, c := range nodegroupset.Classes(len(p.kinds), func(k int) []string { return p.takers(members, k) }) {
		one, together := class{members: c.Members, oneByOne: true}, class{members: c.Members}
		for _, k := range c.Items {
			if len(c.Members) > 1 && !p.opts.DisableSpreadSplit && estimator.DependsOnDomain(p.kinds[k].Pod) {
				one.kinds = append(one.kinds, k)
			} else {
				together.kinds = append(together.kinds, k)
			}
		}
		for _, c := range []class{one, together} {
			if len(c.kinds) > 0 {
				classes = append(classes, c)
			}
		}
	}
	slices.SortStableFunc(classes, func(a, b class) int {
		switch {
		case a.oneByOne == b.oneByOne:
			return 0
		case a.oneByOne:
			return -1
		}
		return 1
	})
	return classes
}

// takers are the members that take pods of a kind.
func (p *planner) takers(members []string, kind int) []string {
	var names []string
	for _, name := range members {
		if p.passes(name, kind) {
			names = append(names, name)
		}
	}
	return names
}

// standFor is the member whose template stands for the class: the chosen group
// where it belongs, else the first by name.
func (p *planner) standFor(members []string) string {
	if slices.Contains(members, p.decision.Chosen) {
		return p.decision.Chosen
	}
	return members[0]
}

// reusable lists the earlier phases whose nodes the pods of class i may share: wherever such a node
// is, these pods pass there. Classes that are placed one by one have no phase.
func (p *planner) reusable(i int) []int {
	var earlier []int
	phase := 0
	for _, c := range p.classes[:i] {
		if c.oneByOne {
			continue
		}
		if subset(c.members, p.classes[i].members) {
			earlier = append(earlier, phase)
		}
		phase++
	}
	return earlier
}

// subset of two sorted lists.
func subset(a, b []string) bool {
	for _, name := range a {
		if _, found := slices.BinarySearch(b, name); !found {
			return false
		}
	}
	return true
}
