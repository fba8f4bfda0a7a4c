package autoscaler

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/internal/linked"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/predicates"
)

// ZonalShiftAnnotation on a node shifts its zone away, where evenkeel is linked.
const ZonalShiftAnnotation = linked.ZonalShiftAnnotation

// Linked are evenkeel's own options in a build of Cluster Autoscaler that it is linked into. The zero
// value works. It needs Options.Balance, as there.
type Linked struct {
	Similarity         nodegroupset.Options // with the policies of declared sets
	MaxBalanceDeferral *time.Duration
	DisableSpreadSplit bool
}

// linkedBuild is evenkeel in Cluster Autoscaler's process: package linked, in the places where Cluster
// Autoscaler calls processors. It decides nothing itself.
type linkedBuild struct {
	*Autoscaler
	own       *Linked
	journal   *linked.Journal
	sets      *linked.Sets[*nodeTemplate, *group]
	shift     *linked.ZonalShift[*group]
	deadlines *linked.Deadlines[*group]

	shown map[*v1.Node]shownNode // the nodes of the last plan
	down  *linked.ScaleDown
	need  *option // what the chosen option needs, for one split
	plan  *linked.SpreadPlan[*group]
}

func newLinked(a *Autoscaler, options *Linked) (*linkedBuild, error) {
	journal := linked.NewJournal(a.clock)
	sets, err := linked.NewSets[*nodeTemplate, *group](options.Similarity, compared, journal)
	if err != nil {
		return nil, err
	}
	sets.Declare(options.Similarity.Policies, nil)
	shift, err := linked.NewZonalShift[*group](sets.SetOf, sets.TermsOf, a.clock, journal)
	if err != nil {
		return nil, err
	}
	limit, err := deferral.Limit(options.MaxBalanceDeferral)
	if err != nil {
		return nil, err
	}
	return &linkedBuild{
		down: linked.NewScaleDown(limit, journal), Autoscaler: a, own: options, journal: journal, sets: sets, shift: shift,
		deadlines: linked.NewDeadlines(sets.Declared, shift.Away, a.options.Backoff, journal),
	}, nil
}

// compared is what is compared of a template.
func compared(t *nodeTemplate) linked.Template { return t.shown }

// shown is a node as package linked reads it.
func shown(n predicates.Node) linked.Template {
	out := linked.Template{Node: n.Node, Pods: func() []*v1.Pod { return n.Pods }, Requested: podfit.Resources{}}
	for _, pod := range n.Pods {
		out.Requested.Add(1, podfit.Requests(pod))
	}
	return out
}

func (l *linkedBuild) surveyed() {
	l.sets.Update(l.templates, l.remote)
	l.readShift(l.nodes())
}

func (l *linkedBuild) begin(*attempt) { l.need, l.plan = nil, nil }

func (l *linkedBuild) similar(t *attempt, g *group) []*group {
	if t.templates[g.ID] == nil {
		return nil
	}
	return l.shift.Growing(l.sets.Similar(g.ID, t.templates, l.remote))
}

func (l *linkedBuild) provisionTime(id string, limit time.Duration) time.Duration {
	return l.deadlines.Patience(id, limit)
}

func (l *linkedBuild) scaleUpFailed(id, why string, late bool) { l.deadlines.Failed(id, why, late) }

// best leaves out the groups whose zones are shifted away, and has the pods of a plan for all pods
// with a topology spread count as helped.
func (l *linkedBuild) best(t *attempt, options []option, choose func([]option) *option) *option {
	l.readMarks(t)
	var open []option
	for i := range options {
		if why := l.shift.Away(options[i].group.ID); why != "" {
			t.skipped[options[i].group.ID] = why
		} else {
			open = append(open, options[i])
		}
	}
	if len(open) == 0 {
		return nil
	}
	chosen := choose(open)
	if chosen != nil {
		chosen = l.widened(t, open, chosen)
	}
	l.need = chosen
	return chosen
}

// readMarks finds out which zones are shifted away now, and which nodes are late.
func (l *linkedBuild) readMarks(t *attempt) {
	nodes := make([]*v1.Node, len(t.view.nodes))
	for i, n := range t.view.nodes {
		nodes[i] = n.Node
	}
	l.readShift(nodes)
	l.deadlines.Look(nodes, l.remote)
}

// readShift finds out which zones are shifted away, and has the survey say so.
func (l *linkedBuild) readShift(nodes []*v1.Node) {
	l.shift.Look(nodes, l.remote, l.labelsOfGroup)
	if !l.records.on {
		return
	}
	d, before := l.shift.Decision(), l.records.world.Shift
	d.Began, d.Ended, d.Ignored = append(before.Began, d.Began...), append(before.Ended, d.Ended...), append(before.Ignored, d.Ignored...)
	l.records.world.Shift = d
	for i := range l.records.world.Groups {
		g := &l.records.world.Groups[i]
		g.Away = l.shift.Away(g.ID)
		if note := l.sets.NoteOf(g.ID); note != "" && !strings.HasSuffix(g.TemplateFrom, note) {
			g.TemplateFrom += ", " + note
		}
	}
}

func (a *Autoscaler) labelsOfGroup(id string) map[string]string {
	if template := a.templates[id]; template != nil {
		return template.Node.Node.Labels
	}
	return nil
}

func (l *linkedBuild) balance(t *attempt, groups []*group, count int) ([]planned, error) {
	up := linked.ScaleUp[*group]{
		Groups: groups, Asked: count, Declared: l.sets.Declared, Lag: l.shift.Lag, Deadlines: l.deadlines, Planned: l.plan,
		Limits: func(sized []linked.Sized[*group], more int64) (linked.Limits, error) {
			return l.limits(t, sized, more), nil
		},
	}
	if l.need != nil && l.need.group == groups[0] {
		up.Need = l.need.count
	}
	l.need, l.plan = nil, nil
	grown, err := up.Split(l.journal)
	if err != nil {
		return nil, fmt.Errorf("share new nodes: %w", err)
	}
	plan := make([]planned, 0, len(grown))
	for _, one := range grown {
		plan = append(plan, planned{group: one.Group, current: one.Size, size: one.NewSize, most: one.Max})
	}
	return plan, nil
}

// candidates brings the sets up to date first: there may have been no scale-up before.
func (l *linkedBuild) candidates() func([]*v1.Node, func(*v1.Node) bool) []*v1.Node {
	return func(nodes []*v1.Node, moves func(*v1.Node) bool) []*v1.Node {
		l.sets.Update(l.templates, l.remote)
		l.readShift(l.nodes())
		l.deadlines.Look(l.nodes(), l.remote)
		order := linked.Candidates[*group]{Cloud: l.remote, Deletions: l, SetOf: l.sets.SetOf, TermsOf: l.sets.TermsOf, Moves: moves}
		return order.Order(l.shift.Removable(nodes, l.remote))
	}
}

// nodes are the registered ones.
func (l *linkedBuild) nodes() []*v1.Node {
	var out []*v1.Node
	for _, n := range l.world.Nodes() {
		out = append(out, n.Node)
	}
	return out
}

// DeletionsInProgress implements linked.Deletions.
func (l *linkedBuild) DeletionsInProgress() (empty, drained []string) {
	for _, name := range slices.Sorted(maps.Keys(l.draining)) {
		if l.draining[name] {
			drained = append(drained, name)
		} else {
			empty = append(empty, name)
		}
	}
	return empty, drained
}

// DeletionsCount implements linked.Deletions: a cloud's target size does not count nodes that it has been
// asked to delete.
func (l *linkedBuild) DeletionsCount(group string) int { return l.undeleted(group) }

func (l *linkedBuild) removable() func([]removal.Candidate, int, int) nodegroupset.ShrinkResult {
	return func(nodes []removal.Candidate, limit, drains int) nodegroupset.ShrinkResult {
		read := make([]linked.Removable, len(nodes))
		at := map[*v1.Node]int{}
		for i, n := range nodes {
			read[i] = linked.Removable{Node: n.Node, Drain: n.Drain, Unready: n.Unready, Due: n.Due}
			at[n.Node] = i
		}
		slices.SortFunc(read, l.down.Compare)
		l.down.Offer(read)
		decision := linked.Round[*group]{
			Cloud: l.remote, Deletions: l, SetOf: l.sets.SetOf, TermsOf: l.sets.TermsOf, Nodes: read,
			Limits: func([]int) (int, int) { return limit, drains },
		}.Decide(l.down)
		var out nodegroupset.ShrinkResult
		for _, i := range decision.Go {
			out.Go = append(out.Go, at[read[i].Node])
		}
		for _, wait := range decision.Waits {
			wait.Candidate = at[read[wait.Candidate].Node]
			out.Waits = append(out.Waits, wait)
		}
		return out
	}
}

func (l *linkedBuild) terms(id string) *nodegroupset.Terms { return l.sets.TermsOf(id) }

func (*linkedBuild) unplaced(pods []*v1.Pod, try func([]*v1.Pod) ([]*v1.Pod, error)) ([]*v1.Pod, error) {
	return linked.Retry(pods, try)
}

// limits are the quotas over the groups, and the room that the cluster has.
func (l *linkedBuild) limits(t *attempt, sized []linked.Sized[*group], more int64) linked.Limits {
	out := linked.Limits{Room: math.MaxInt64}
	if total := t.options.MaxNodesTotal; total > 0 {
		out.Room = int64(total - len(t.view.nodes))
	}
	sharers := make([]linked.Sharer, 0, len(sized))
	for _, one := range sized {
		if template := t.templates[one.Group.Name]; template != nil {
			sharers = append(sharers, linked.Sharer{Name: one.Group.Name, Size: one.Group.Size, Load: t.loadOf(template.Node.Node, one.Group.Name)})
		}
	}
	out.Quotas = linked.SplitQuotas(t.tracker.quotas, t.tracker.loads, sharers, more)
	t.decision.Warnings = crossing(out.Quotas)
	return out
}

// widened returns the chosen option with all pods that a plan has room for, or as it is if there is
// no plan.
func (l *linkedBuild) widened(t *attempt, options []option, best *option) *option {
	if l.own.DisableSpreadSplit || best.count <= 0 {
		return best
	}
	work := linked.Spread[*group]{
		Pods: t.pods, Chosen: slices.IndexFunc(options, func(o option) bool { return o.group == best.group }),
		Templates: map[string]linked.Template{}, Lag: l.shift.Lag, Declared: l.sets.Declared, Deadlines: l.deadlines,
		Limits: func(sized []linked.Sized[*group], more int64) (linked.Limits, error) {
			limits := l.limits(t, sized, more)
			limits.Room = min(limits.Room, int64(t.options.MaxNodesPerScale))
			return limits, nil
		},
		Try: func(added []string, pods []linked.Placement) error { return l.try(t, added, pods) },
	}
	for _, o := range options {
		work.Options = append(work.Options, linked.Option{Group: o.group.ID, Pods: o.pods})
		work.Templates[o.group.ID] = t.templates[o.group.ID].shown
	}
	if work.Members = l.members(t, options, best); !work.Needed() {
		return best
	}
	work.Nodes = l.shownNodes(t.view.nodes)
	for _, member := range work.Members {
		work.Templates[member.ID] = t.templates[member.ID].shown
	}
	plan, why := work.Plan()
	if why != "" {
		return best
	}
	l.plan = plan
	all := *best
	all.pods = plan.Pods
	return &all
}

// shownNodes are nodes as package linked reads them, worked out anew for those that have changed.
func (l *linkedBuild) shownNodes(nodes []predicates.Node) []linked.Template {
	out, before := make([]linked.Template, len(nodes)), l.shown
	l.shown = make(map[*v1.Node]shownNode, len(nodes))
	for i, n := range nodes {
		known := before[n.Node]
		if known.made.Node == nil || !known.from.Same(n) {
			known = shownNode{n, shown(n)}
		}
		out[i], l.shown[n.Node] = known.made, known
	}
	return out
}

// shownNode is a node as it was read, and what it was made of.
type shownNode struct {
	from predicates.Node
	made linked.Template
}

// members are the chosen group and those similar to it that may grow: those that Cluster Autoscaler
// names, and those that it leaves out because the spread rejects the next pod there.
func (l *linkedBuild) members(t *attempt, options []option, best *option) []*group {
	growing := map[string]bool{}
	for _, o := range options {
		growing[o.group.ID] = true
	}
	for _, similar := range best.similar {
		growing[similar.ID] = true
	}
	members := []*group{best.group}
	for _, g := range l.shift.Growing(l.sets.Similar(best.group.ID, t.templates, l.remote)) {
		if t.templates[g.ID] != nil && (growing[g.ID] || l.registry.safe(g.ID, t.now)) {
			members = append(members, g)
		}
	}
	return members
}

// try puts pods on nodes of the snapshot, and on new ones, as a plan says.
func (l *linkedBuild) try(t *attempt, added []string, pods []linked.Placement) error {
	var fresh []predicates.Node
	for i, group := range added {
		fresh = append(fresh, t.templates[group].copied(fmt.Sprintf("-planned-%d", i)))
	}
	at := make([]int, len(pods))
	objects := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		at[i], objects[i] = p.Node, p.Pod
	}
	failed, err := t.view.try(fresh, objects, at)
	switch {
	case err != nil:
		return err
	case failed >= 0:
		return fmt.Errorf("the scheduler does not put pod %s/%s on node %d of the plan", objects[failed].Namespace, objects[failed].Name,
			at[failed])
	}
	return nil
}
