package removal

import (
	"cmp"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// choose picks the nodes that go now from those that may.
func (p *planner) choose() {
	p.keepFloors()
	p.prefer()
	position := make(map[*NodeOutcome]int, len(p.decision.Nodes))
	for at := range p.decision.Nodes {
		position[&p.decision.Nodes[at]] = at
	}
	for _, i := range p.pick() {
		o := p.outcome[i]
		o.Outcome = NodeGoes
		p.decision.Go = append(p.decision.Go, position[o])
	}
}

// keepFloors holds nodes without which the cluster would be below a minimum, one after the other in an order
// left to chance, those without pods to move first.
func (p *planner) keepFloors() {
	if len(p.world.Floors) == 0 {
		return
	}
	lots, left, sizes := p.lots(p.due, p.world.Now.UnixNano()), make([]int64, len(p.world.Floors)), map[string]int{}
	for f := range p.world.Floors {
		left[f] = p.world.Floors[f].Left
	}
	slices.SortFunc(p.due, func(a, b int) int {
		return cmp.Or(first(!p.outcome[a].Drain, !p.outcome[b].Drain), cmp.Compare(lots[a], lots[b]), cmp.Compare(a, b))
	})
	p.due = slices.DeleteFunc(p.due, func(i int) bool {
		g := p.groups[p.outcome[i].Group]
		if g.Target-sizes[g.ID] <= g.Min {
			return false // its own minimum holds it
		}
		for f := range p.world.Floors {
			if takes := p.world.Floors[f].Takes[i]; takes > left[f] {
				p.keepWaiting(i, HeldByMin, "the cluster would be below the minimum of "+p.world.Floors[f].Name, "")
				return true
			}
		}
		for f := range p.world.Floors {
			left[f] -= p.world.Floors[f].Takes[i]
		}
		sizes[g.ID]++
		return false
	})
}

// prefer puts the nodes that may go in order: those without pods to move first,
// those that are risky last, then those that have not been needed for longest, then as they were tried.
func (p *planner) prefer() {
	slices.SortStableFunc(p.due, func(a, b int) int {
		return cmp.Or(p.easier(a, b), p.outcome[a].UnneededSince.Compare(p.outcome[b].UnneededSince))
	})
}

// easier compares nodes by what their pods take: none to move, some, or more than budgets let go at once.
func (p *planner) easier(a, b int) int {
	return cmp.Or(first(!p.outcome[a].Drain, !p.outcome[b].Drain), first(!p.risky[a], !p.risky[b]))
}

// pick chooses within the limits and says of the others why they wait.
func (p *planner) pick() []int {
	limit := cmp.Or(p.opts.MaxParallelism, DefaultMaxParallelism)
	drains := cmp.Or(p.opts.MaxDrainParallelism, DefaultMaxDrainParallelism)
	for i := range p.world.Nodes {
		if n := &p.world.Nodes[i]; n.Leaving {
			limit--
			if n.Draining {
				drains--
			}
		}
	}
	limit, drains = max(0, limit), max(0, drains)
	if p.opts.Select == nil {
		return p.pickAny(limit, drains)
	}
	return p.selected(limit, drains)
}

// lookAgain is when a node is looked at again that waits for the level of its set.
const lookAgain = time.Minute

// selected has Options.Select choose.
func (p *planner) selected(limit, drains int) []int {
	candidates := make([]Candidate, len(p.due))
	for at, i := range p.due {
		n, o := &p.world.Nodes[i], p.outcome[i]
		candidates[at] = Candidate{Node: n.Node.Node, Drain: o.Drain, Unready: !template.IsReady(n.Node.Node), Due: o.DueSince}
	}
	chosen := p.opts.Select(candidates, limit, drains)
	for _, wait := range chosen.Waits {
		i := p.due[wait.Candidate]
		switch wait.Reason {
		case nodegroupset.ReasonWaitsForLevel:
			p.wakeAt(p.world.Now.Add(lookAgain)) // Select knows how long it waits
			p.keepWaiting(i, WaitsForLevel, wait.Behind+" has to shrink first", wait.Behind)
		case nodegroupset.ReasonAtMin:
			p.keepWaiting(i, HeldByMin, "its group goes to its minimum without it", "")
		default:
			p.keepWaiting(i, WaitsForLimit, tooManyLeave, "")
		}
	}
	going := make([]int, len(chosen.Go))
	for at, candidate := range chosen.Go {
		going[at] = p.due[candidate]
	}
	return going
}

const tooManyLeave = "as many nodes as may leave at one time do"

// pickAny chooses as Cluster Autoscaler does: nodes without pods to move first,
// risky ones last, else in an order left to chance, which is drawn anew in every
// round; nodes of one group go together.
func (p *planner) pickAny(limit, drains int) []int {
	lots := p.lots(p.due, p.world.Now.UnixNano())
	slices.SortFunc(p.due, func(a, b int) int {
		return cmp.Or(p.easier(a, b), cmp.Compare(lots[a], lots[b]), cmp.Compare(a, b))
	})
	sizes, turn := map[string]int{}, map[string]int{}
	var free []int
	for _, i := range p.due {
		o := p.outcome[i]
		g := p.groups[o.Group]
		if g.Target-sizes[g.ID] <= g.Min {
			p.keepWaiting(i, HeldByMin, "its group goes to its minimum without it", "")
			continue
		}
		sizes[g.ID]++
		if _, known := turn[g.ID]; !known {
			turn[g.ID] = len(turn)
		}
		free = append(free, i)
	}
	slices.SortStableFunc(free, func(a, b int) int {
		return cmp.Or(first(!p.outcome[a].Drain, !p.outcome[b].Drain), cmp.Compare(turn[p.outcome[a].Group], turn[p.outcome[b].Group]))
	})
	var going []int
	for _, i := range free {
		drain := p.outcome[i].Drain
		if limit == 0 || drain && drains == 0 {
			p.keepWaiting(i, WaitsForLimit, tooManyLeave, "")
			continue
		}
		going = append(going, i)
		limit--
		if drain {
			drains--
		}
	}
	return going
}

func (p *planner) keepWaiting(i int, outcome Outcome, reason, behind string) {
	o := p.outcome[i]
	o.Outcome, o.Reason, o.Behind = outcome, reason, behind
}
