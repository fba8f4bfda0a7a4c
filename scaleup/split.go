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
// nodes. Those for pods that pass on some members only lie there, and the sizes
// of all are as even as that allows.
func (p *planner) splitNeed() error {
	p.decision.Members = p.partners()
	p.classes = p.classify(p.decision.Members)
	if err := p.placeOneByOne(); err != nil {
		return err
	}
	together := p.classes[p.placedOneByOne():]
	rooms := make([]int64, len(together))
	for i := range together {
		rooms[i] = p.ledger.room(together[i].members, p.roundLimit())
	}
	short := 0
	for short >= 0 {
		if err := p.estimate(together, rooms); err != nil {
			return err
		}
		var err error
		if short, err = p.splitClasses(together, rooms); err != nil {
			return err
		}
	}
	p.decision.Increases = p.increases()
	p.decision.Warnings = append(p.decision.Warnings, overlapping(splitQuotas(p.ledger.quotas, p.ledger.sizes(p.decision.Members)))...)
	return nil
}

// placedOneByOne is how many classes are placed one by one. They come first.
func (p *planner) placedOneByOne() int {
	n := slices.IndexFunc(p.classes, func(c class) bool { return !c.oneByOne })
	if n < 0 {
		return len(p.classes)
	}
	return n
}

// estimate finds how many nodes the pods of classes need, no more than there is room for. Pods that
// pass on few members come first: others use what room they leave on their nodes.
func (p *planner) estimate(classes []class, rooms []int64) error {
	phases := make([]estimator.Phase, len(classes))
	for i := range classes {
		c := &classes[i]
		phases[i] = p.phase(p.standFor(c.members), p.demands(c.kinds))
		phases[i].Reuse = reusable(classes[:i], c.members)
		phases[i].MaxNodes = int(rooms[i])
	}
	need, err := p.estimator.Estimate(phases, p.roundLeft())
	if err != nil {
		return err
	}
	for i := range classes {
		classes[i].nodes, classes[i].placed = int64(need.Phases[i].NodeCount), need.Phases[i].Placed
		if g := p.group(p.decision.Chosen); g.AllOrNothing {
			classes[i].nodes = int64(g.Max - g.Target)
		}
	}
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

// splitClasses levels the nodes of all classes over their members. If a class finds less room
// beside the others than it was estimated for, it notes how much and returns which, and no node is
// given out. Otherwise it returns -1.
func (p *planner) splitClasses(classes []class, rooms []int64) (short int, err error) {
	if len(classes) == 0 {
		return -1, nil
	}
	need := make([]nodegroupset.Class, len(classes))
	all := int64(0)
	for i, c := range classes {
		need[i] = nodegroupset.Class{Members: c.members, Nodes: c.nodes}
		all += c.nodes
	}
	books := p.ledger.fork()
	split, err := books.split(all, p.decision.Chosen, p.decision.Members, need...)
	if err != nil {
		return -1, fmt.Errorf("split %d nodes over %s: %w", all, strings.Join(p.decision.Members, ", "), err)
	}
	for i := range split.Classes {
		if n := split.Classes[i].Unplaced; n > 0 && !p.group(p.decision.Chosen).AllOrNothing {
			rooms[i] = classes[i].nodes - n
			return i, nil
		}
	}
	p.ledger = books
	p.decision.Unplaced += int(split.Unplaced)
	first := len(p.classes) - len(classes)
	for i, c := range classes {
		p.share(share{class: first + i, groups: c.members, nodes: split.Classes[i].Nodes})
	}
	return -1, nil
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

// reusable lists the earlier classes whose nodes pods may share that pass on these members:
// wherever such a node is, they pass there.
func reusable(earlier []class, members []string) (positions []int) {
	for i, c := range earlier {
		if subset(c.members, members) {
			positions = append(positions, i)
		}
	}
	return positions
}

// crossing reports whether two classes have only some of their members in common.
func crossing(classes []class) bool {
	all := make([]nodegroupset.Class, len(classes))
	for i := range classes {
		all[i].Members = classes[i].members
	}
	return nodegroupset.Crossing(all)
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
