package autoscaler

import (
	"context"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/scaleup"
)

// Report is what one loop saw, decided and did.
type Report struct {
	// Rounds are the scale-ups, one but for Options.Salvo. The first is there even if nothing was
	// to be ordered.
	Rounds []scaleup.Round
	// Err has ended the loop early; nothing else is said of such a loop then.
	Err error
}

// records collect the Report of the current loop. With Config.Batches nobody reads one, and none is
// made.
type records struct {
	on       bool
	world    *scaleup.World
	position map[*v1.Pod]int // among World.Pending
	rounds   []*record
	repair   []scaleup.Repair
}

// record is one scale-up while it is worked out.
type record struct {
	on       bool
	decision scaleup.Decision
	attempts []scaleup.Attempt
	skipped  map[string]string
	held     map[string]string // what kept groups from growing further
	helped   []*v1.Pod
}

func (r *records) begin() *record {
	one := &record{on: r.on, skipped: map[string]string{}, held: map[string]string{}}
	if r.on {
		r.rounds = append(r.rounds, one)
	}
	return one
}

func (r *record) skip(group, why string) { r.skipped[group] = why }
func (r *record) cut(group, by string)   { r.held[group] = "held by " + by }

func (r *record) trail(trail expander.Trail) { r.decision.Trail = trail }

// chosen notes what is to grow.
func (r *record) chosen(best *option, groups []*group) {
	r.decision.Chosen, r.decision.Need, r.helped = best.group.ID, best.count, best.pods
	for _, g := range groups {
		r.decision.Members = append(r.decision.Members, g.ID)
	}
	slices.Sort(r.decision.Members)
}

// attempt notes an increase and its result.
func (r *record) attempt(p planned, err error) {
	delta := p.size - p.current
	a := scaleup.Attempt{Group: p.group.ID, Try: 1, Delta: delta, Err: err}
	if err == nil {
		a.Grew = delta
	}
	r.attempts = append(r.attempts, a)
	r.decision.Increases = append(r.decision.Increases, scaleup.Increase{Group: p.group.ID, From: p.current, To: p.size})
}

// end completes the record of an attempt.
func (r *record) end(t *attempt, err error) {
	if !r.on {
		return
	}
	asked := 0
	for _, i := range r.decision.Increases {
		asked += i.To - i.From
	}
	r.decision.Unplaced = max(0, r.decision.Need-asked)
	e := &explanation{attempt: t, decision: &r.decision, err: err}
	e.groups()
	e.pods()
}

// survey are the groups as this loop sees them, by name.
func (a *Autoscaler) survey(now time.Time) []scaleup.Group {
	var out []scaleup.Group
	for _, g := range a.remote.nodeGroups() {
		out = append(out, a.surveyed(g, now))
	}
	slices.SortFunc(out, func(g, h scaleup.Group) int { return strings.Compare(g.ID, h.ID) })
	return out
}

func (a *Autoscaler) surveyed(g *group, now time.Time) scaleup.Group {
	out := scaleup.Group{ID: g.ID, Min: g.MinSize, Max: g.MaxSize, Target: a.registry.ranges[g.ID].target}
	if r := a.registry.perGroup[g.ID]; r != nil {
		out.Ready, out.NotStarted, out.Unready = r.ready, r.notStarted, r.unready
	}
	out.Upcoming = max(0, a.registry.upcoming(g.ID))
	if a.registry.backedOff(g.ID, now) {
		failure := a.registry.backoffs.groups[g.ID]
		out.BackedOffUntil, out.BackoffReason = failure.Until, failure.Reason
	}
	if t := a.templates[g.ID]; t != nil {
		out.Template = &cloudprovider.Template{Node: t.Node.Node, Pods: t.Pods}
		out.TemplateFrom, out.Zone = t.from, nodegroupset.ZoneOf(t.Node.Node)
		if pricing, ok := a.remote.Provider.(cloudprovider.Pricing); ok {
			price, err := pricing.NodePrice(context.Background(), t.Node.Node, now, now.Add(time.Hour))
			out.Price, out.HasPrice = price, err == nil
		}
	}
	if options, err := a.remote.groupOptions(g.ID); err == nil && options != nil {
		out.AllOrNothing = options.ZeroOrMaxNodeScaling
	}
	return out
}

// begun forgets the loop before.
func (r *records) begun() { r.world, r.rounds, r.repair = nil, nil, nil }

// look notes what the loop sees.
func (r *records) look(a *Autoscaler, now time.Time) {
	if !r.on {
		return
	}
	r.world = &scaleup.World{Now: now, Groups: a.survey(now), Pending: a.world.Pending()}
	r.position = make(map[*v1.Pod]int, len(r.world.Pending))
	for i, pod := range r.world.Pending {
		r.position[pod] = i
	}
}

// report is that of the loop that has just ended.
func (r *records) report(err error) Report {
	out := Report{Err: err}
	if err != nil || r.world == nil {
		return out
	}
	for _, one := range r.rounds {
		out.Rounds = append(out.Rounds, scaleup.Round{World: r.world, Decision: one.decision, Attempts: one.attempts})
	}
	if len(out.Rounds) == 0 {
		out.Rounds = []scaleup.Round{{World: r.world}}
	}
	out.Rounds[0].Repairs = r.repair
	return out
}
