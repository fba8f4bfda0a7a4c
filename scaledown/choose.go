package scaledown

import (
	"cmp"
	"slices"

	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// choose picks the nodes that go now from those that may. Should the pods of what
// goes find no place on the cluster as it is today, the last node with pods waits
// and the choice is made again without it.
func (p *planner) choose() error {
	p.prefer()
	for {
		going, err := p.pick()
		if err != nil {
			return err
		}
		stranded, err := p.stranded(going)
		if err != nil {
			return err
		}
		if stranded < 0 {
			p.decide(going)
			return nil
		}
		p.keepWaiting(stranded, WaitsForRoom, "its pods find no place before other nodes are gone", "")
		p.due = slices.DeleteFunc(p.due, func(i int) bool { return i == stranded })
	}
}

// prefer puts the nodes that may go in order: those without pods to move first,
// then those that have not been needed for longest, then as they were tried.
func (p *planner) prefer() {
	slices.SortStableFunc(p.due, func(a, b int) int {
		return cmp.Or(first(!p.outcome[a].Drain, !p.outcome[b].Drain), p.outcome[a].UnneededSince.Compare(p.outcome[b].UnneededSince))
	})
}

// pick chooses within the limits and says of the others why they wait.
func (p *planner) pick() ([]int, error) {
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
	if p.opts.DisableBalancing {
		return p.pickAny(max(0, limit), max(0, drains)), nil
	}
	return p.pickLevel(int64(max(0, limit)), int64(max(0, drains)))
}

// pickLevel chooses so that sets stay level.
func (p *planner) pickLevel(limit, drains int64) ([]int, error) {
	result, err := p.shrink(p.due, limit, drains, p.overdue)
	if err != nil {
		return nil, err
	}
	going := make([]int, 0, len(result.Go))
	for _, at := range result.Go {
		going = append(going, p.due[at])
	}
	for _, wait := range result.Waits {
		i := p.due[wait.Candidate]
		switch wait.Reason {
		case nodegroupset.ReasonWaitsForLevel:
			p.keepWaiting(i, WaitsForLevel, wait.Behind+" has to shrink first", wait.Behind)
		case nodegroupset.ReasonAtMin:
			p.keepWaiting(i, HeldByMin, "its group goes to its minimum without it", "")
		default:
			p.keepWaiting(i, WaitsForLimit, tooManyLeave, "")
		}
	}
	return going, nil
}

const tooManyLeave = "as many nodes as may leave at one time do"

// overdue reports whether a node need not wait for its set: it has waited long enough, or it is not
// ready, so that its set is no more level with it than without it.
func (p *planner) overdue(i int) bool {
	n := &p.world.Nodes[i]
	return !template.IsReady(n.Node.Node) || deferral.Ended(p.opts.patience(), n.DeferredSince, p.world.Now)
}

// pickAny chooses as Cluster Autoscaler does: nodes without pods to move first,
// else in an order left to chance, which is drawn anew in every round; nodes of
// one group go together.
func (p *planner) pickAny(limit, drains int) []int {
	lots := p.lots(p.due, p.world.Now.UnixNano())
	slices.SortFunc(p.due, func(a, b int) int {
		return cmp.Or(first(!p.outcome[a].Drain, !p.outcome[b].Drain), cmp.Compare(lots[a], lots[b]), cmp.Compare(a, b))
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

// stranded returns a node whose pods would find no place today, or -1: the last
// one that has pods, where those of all that go do not fit together.
func (p *planner) stranded(going []int) (int, error) {
	last := -1
	var moving []int
	for _, i := range going {
		if p.outcome[i].Drain {
			last = i
			moving = append(moving, p.pods.of[i]...)
		}
	}
	if last < 0 {
		return -1, nil
	}
	w, err := p.today(going)
	if err != nil {
		return -1, err
	}
	moved, err := w.moves.Place(p.byRank(moving))
	pods := 0
	for _, m := range moved {
		pods += m.Pods
	}
	if err != nil || pods == len(moving) {
		return -1, err
	}
	return last, nil
}

// today is the cluster without some nodes, and with the others as they are. Nodes
// that nobody needs are the last to get pods.
func (p *planner) today(without []int) (*whatIf, error) {
	var shunned []int
	for _, i := range p.candidates {
		if p.outcome[i].Outcome.Unneeded() {
			shunned = append(shunned, i)
		}
	}
	slices.Sort(shunned)
	slices.Reverse(shunned)
	return p.newWhatIf(p.placesFor(shunned), without)
}

// decide writes down what goes, and how long the others wait at most.
func (p *planner) decide(going []int) {
	position := make(map[*NodeOutcome]int, len(p.decision.Nodes))
	for at := range p.decision.Nodes {
		position[&p.decision.Nodes[at]] = at
	}
	ahead := p.goesAhead(going)
	for _, i := range going {
		o := p.outcome[i]
		o.Outcome, o.Behind = NodeGoes, ahead[i]
		p.decision.Go = append(p.decision.Go, position[o])
	}
	for _, i := range p.due {
		o := p.outcome[i]
		if o.Outcome != WaitsForLevel {
			continue
		}
		if o.DeferredSince.IsZero() {
			o.DeferredSince = p.world.Now
		}
		p.wakeAt(o.DeferredSince.Add(p.opts.patience()))
	}
}

// goesAhead finds the nodes that go although their group is not among the largest
// of its set, each with the largest group.
func (p *planner) goesAhead(going []int) map[int]string {
	ahead := map[int]string{}
	if p.opts.DisableBalancing {
		return ahead
	}
	left := map[string]int{}
	for name, g := range p.groups {
		left[name] = g.Target
	}
	for _, i := range going {
		own := p.outcome[i].Group
		largest := p.largestOf(own, left)
		if largest != own && template.IsReady(p.world.Nodes[i].Node.Node) {
			ahead[i] = largest
		}
		left[own]--
	}
	return ahead
}

// largestOf is the group that has to shrink before another one of its set, or that
// one itself.
func (p *planner) largestOf(own string, left map[string]int) string {
	set, largest := p.setOf[own], own
	var members []nodegroupset.ShrinkGroup
	for k := range p.world.Groups {
		g := &p.world.Groups[k]
		if set == "" || p.setOf[g.ID] != set {
			continue
		}
		members = append(members, nodegroupset.ShrinkGroup{Name: g.ID, Size: int64(left[g.ID]), Min: int64(g.Min)})
		if left[g.ID] > max(g.Min, left[largest]) {
			largest = g.ID
		}
	}
	if terms := p.terms[set]; terms != nil {
		if first := nodegroupset.ShrinksFirst(members, terms); first >= 0 {
			return members[first].Name
		}
	}
	return largest
}
