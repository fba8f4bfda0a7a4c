package scaleup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Attempt is one resize call and its result.
type Attempt struct {
	Group string `json:"group"`
	// Try is 1 for the split as planned, 2 for what was split again, and so on.
	Try int `json:"try"`
	// Delta is how many nodes were asked for, Grew how many the group's target
	// size rose by.
	Delta int   `json:"delta"`
	Grew  int   `json:"grew"`
	Err   error `json:"-"`
}

// execution applies a decision.
type execution struct {
	*Scaler
	world    *World
	planner  *planner
	decision *Decision
	ledger   *ledger           // what was ordered
	refused  map[string]string // groups that refused, and why
	shares   []share           // what is still to be ordered
	attempts []Attempt
	lost     map[int]int64 // nodes that nobody took, by class
}

// execute resizes all groups at the same time. What a group refuses is split
// again over the others that serve the same pods, until nothing is refused or
// nobody is left; a group is asked no more once it has refused. The decision is
// brought up to date with its result.
func (s *Scaler) execute(ctx context.Context, p *planner, d *Decision) []Attempt {
	x := &execution{
		Scaler: s, world: p.world, planner: p, decision: d, ledger: newLedger(p.world, &s.opts),
		refused: map[string]string{}, shares: d.shares, lost: map[int]int64{},
	}
	for try := 1; ; try++ {
		asked := x.asked(try)
		if len(asked) == 0 {
			break
		}
		x.resize(ctx, asked)
		x.splitAgain(asked)
	}
	x.report()
	return x.attempts
}

// asked sums the shares up by group, in name order.
func (x *execution) asked(try int) []Attempt {
	sum := map[string]int64{}
	for _, s := range x.shares {
		for group, nodes := range s.nodes {
			sum[group] += nodes
		}
	}
	var asked []Attempt
	for group, nodes := range sum {
		asked = append(asked, Attempt{Group: group, Try: try, Delta: int(nodes)})
	}
	slices.SortFunc(asked, func(a, b Attempt) int { return cmp.Compare(a.Group, b.Group) })
	return asked
}

// resize makes the calls of one try at the same time and books the results.
func (x *execution) resize(ctx context.Context, asked []Attempt) {
	var calls sync.WaitGroup
	for i := range asked {
		calls.Go(func() { x.increase(ctx, &asked[i]) })
		if x.opts.SequentialResize {
			calls.Wait()
		}
	}
	calls.Wait()
	for _, a := range asked {
		x.ledger.give(a.Group, int64(a.Grew))
		if a.Grew > 0 {
			delete(x.awaited, orderOf(a.Group)) // a new order has the whole time again
		}
		x.Scaler.refused[a.Group] = a.Err != nil
		if a.Err != nil {
			x.refused[a.Group] = a.Err.Error()
			if !cloudprovider.OwnMistake(a.Err) {
				x.backoff.Failed(a.Group, a.Err.Error(), x.world.Now)
			}
		}
	}
	x.attempts = append(x.attempts, asked...)
}

// increase makes one call. After an error that is no clear refusal the group
// may have grown all the same, so its size is read again; where not even that
// can be read, the nodes count as ordered: an error costs a round, not a node.
func (x *execution) increase(ctx context.Context, a *Attempt) {
	before := int(x.ledger.size(a.Group))
	a.Err = x.provider.IncreaseSize(ctx, a.Group, a.Delta)
	if a.Err == nil {
		a.Grew = a.Delta
		return
	}
	if cloudprovider.Refused(a.Err) {
		return
	}
	now, err := x.provider.TargetSize(ctx, a.Group)
	if err != nil {
		a.Grew = a.Delta
		a.Err = fmt.Errorf("%w (and its size could not be read again: %w)", a.Err, err)
		return
	}
	a.Grew = min(max(0, now-before), a.Delta)
}

// splitAgain levels what was refused over the groups that are left of each share. A
// group that grew although it answered with an error has served its shares as far as
// it grew.
func (x *execution) splitAgain(asked []Attempt) {
	credit := map[string]int64{}
	for _, a := range asked {
		credit[a.Group] = int64(a.Grew)
	}
	var again []share
	var classes []nodegroupset.Class
	for _, s := range x.shares {
		var short int64
		for group, nodes := range s.nodes {
			served := min(credit[group], nodes)
			credit[group] -= served
			short += nodes - served
		}
		left := slices.DeleteFunc(slices.Clone(s.groups), func(name string) bool {
			_, refused := x.refused[name]
			return refused
		})
		switch {
		case short == 0:
		case len(left) == 0:
			x.lost[s.class] += short
		default:
			again = append(again, share{class: s.class, groups: left})
			classes = append(classes, nodegroupset.Class{Members: left, Nodes: short})
		}
	}
	x.divide(again, classes)
	x.leaveOut()
}

// leaveOut takes back what was split again and would stay empty: a node in another
// zone need not do for pods that must be spread.
func (x *execution) leaveOut() {
	p := x.planner
	if len(x.shares) == 0 || p.opts.asEstimated || p.group(p.decision.Chosen).AllOrNothing {
		return
	}
	again := map[string]int64{}
	for _, s := range x.shares {
		for name, n := range s.nodes {
			again[name] += n
		}
	}
	kept, err := p.needed(x.ledger.grown, again, true)
	if err != nil {
		return // it was asked before and will be asked in the next round
	}
	for name, n := range kept {
		again[name] -= n
	}
	for class, n := range takeBack(x.shares, again) {
		x.lost[class] += n
	}
	x.shares = slices.DeleteFunc(x.shares, func(s share) bool { return len(s.nodes) == 0 })
}

// divide levels the nodes of shares over their groups, and leaves shares out that get none.
func (x *execution) divide(shares []share, need []nodegroupset.Class) {
	x.shares = nil
	if len(shares) == 0 {
		return
	}
	var groups []string
	var all int64
	for _, c := range need {
		groups, all = append(groups, c.Members...), all+c.Nodes
	}
	slices.Sort(groups)
	split, err := x.ledger.fork().split(all, x.decision.Chosen, slices.Compact(groups), need...)
	for i, s := range shares {
		if err != nil {
			x.lost[s.class] += need[i].Nodes
			continue
		}
		x.lost[s.class] += split.Classes[i].Unplaced
		if s.nodes = split.Classes[i].Nodes; len(s.nodes) > 0 {
			x.shares = append(x.shares, s)
		}
	}
}

// report brings the decision up to date.
func (x *execution) report() {
	d := x.decision
	d.Increases = nil
	for i := range d.Groups {
		o := &d.Groups[i]
		n := x.ledger.grown[o.Group]
		target := x.ledger.group(o.Group).Target
		if n > 0 {
			d.Increases = append(d.Increases, Increase{Group: o.Group, From: target, To: target + int(n)})
		}
		why, refused := x.refused[o.Group]
		switch {
		case refused && n > 0:
			o.Outcome, o.Reason = GroupGrows, "grew although the cloud answered: "+why
		case refused:
			o.Outcome, o.Reason = GroupRefused, "refused: "+why
		case n > 0 && o.Outcome != GroupGrows:
			o.Outcome, o.Reason = GroupGrows, "takes over what others refused"
		}
	}
	for _, nodes := range x.lost {
		d.Unplaced += int(nodes)
	}
	x.reportPods()
}

// reportPods takes back the promise to pods whose nodes nobody took.
func (x *execution) reportPods() {
	for i := range x.decision.Pods {
		o := &x.decision.Pods[i]
		if o.Outcome != PodsHelped || x.lost[o.class] == 0 {
			continue
		}
		var planned int64
		for _, nodes := range x.decision.shares[o.class].nodes {
			planned += nodes
		}
		if lost := x.lost[o.class]; lost >= planned {
			o.Outcome, o.Reason = PodsNextRound, "no group could be resized: "+x.refusals()
		} else {
			o.Reason += fmt.Sprintf("; %d of %d nodes could be ordered nowhere", lost, planned)
		}
	}
}

func (x *execution) refusals() string {
	var all []string
	for group, why := range x.refused {
		all = append(all, group+": "+why)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
