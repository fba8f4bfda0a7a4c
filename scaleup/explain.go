package scaleup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// explainGroups says of every group what happened to it.
func (p *planner) explainGroups() {
	grown := map[string]Increase{}
	for _, increase := range p.decision.Increases {
		grown[increase.Group] = increase
	}
	for _, g := range p.world.Groups {
		o := GroupOutcome{Group: g.ID}
		increase, grows := grown[g.ID]
		reason, skipped := p.skipped[g.ID]
		why, optionless := p.without[g.ID]
		switch {
		case skipped:
			o.Outcome, o.Reason = GroupSkipped, reason
		case grows:
			o.Outcome, o.Reason = GroupGrows, p.whyGrows(increase)
		case slices.Contains(p.decision.Members, g.ID):
			o.Outcome, o.Reason = GroupPartner, p.whyNot(g.ID)
		case len(p.kinds) == 0:
			o.Outcome, o.Reason = GroupIdle, "no pods wait for nodes"
		case optionless && why == "":
			o.Outcome, o.Reason = GroupTakesNone, p.whyTakesNone(g.ID)
		case optionless:
			o.Outcome, o.Reason = GroupNotChosen, why
		default:
			o.Outcome, o.Reason = GroupNotChosen, p.whyLost(g.ID)
		}
		p.explainDifference(&o)
		p.decision.Groups = append(p.decision.Groups, o)
	}
}

// explainDifference says why a group is not in the set of the chosen one. A group
// that was set aside has a better reason.
func (p *planner) explainDifference(o *GroupOutcome) {
	chosen := p.decision.Chosen
	if chosen == "" || p.opts.DisableBalancing || slices.Contains(p.decision.Members, o.Group) {
		return
	}
	g := p.group(o.Group)
	if p.group(chosen).AllOrNothing || g.AllOrNothing || g.Template == nil {
		return
	}
	if _, aside := p.skipped[o.Group]; aside && p.index.Set(o.Group, *g.Template) != nil {
		return
	}
	if o.Differences = p.index.Differences(o.Group, chosen); len(o.Differences) == 0 {
		return
	}
	o.DiffersFrom = chosen
	if o.Outcome == GroupNotChosen || o.Outcome == GroupTakesNone {
		o.Reason = fmt.Sprintf("not similar to %s, %s; %s", chosen, nodegroupset.DiffersBy(o.Differences), o.Reason)
	}
}

// whyGrows names the group's part of the split and what held it there.
func (p *planner) whyGrows(i Increase) string {
	if len(p.decision.Members) == 1 {
		return p.held(i.Group, "chosen")
	}
	if terms := p.ledger.terms[i.Group]; terms != nil {
		why := fmt.Sprintf("set %s, %s", terms.Set, terms)
		if i.Group == p.decision.Chosen {
			why = "chosen; " + why
		}
		return p.held(i.Group, why)
	}
	if i.Group == p.decision.Chosen {
		return p.held(i.Group, "chosen, levelled with "+others(p.decision.Members, i.Group))
	}
	return p.held(i.Group, "similar to "+p.decision.Chosen+", levelled with it")
}

// whyNot says why a member of the set gets nothing.
func (p *planner) whyNot(group string) string {
	size := p.ledger.size(group)
	terms := p.ledger.terms[group]
	var smaller, level, grown []string
	for _, name := range p.decision.Members {
		if p.ledger.grown[name] == 0 {
			continue
		}
		grown = append(grown, name)
		switch other := p.ledger.size(name); {
		case other < size:
			smaller = append(smaller, name)
		case other == size:
			level = append(level, name)
		}
	}
	switch {
	case len(grown) > 0 && slices.ContainsFunc(p.classes, func(c class) bool { return slices.Contains(c.closed, group) }):
		return p.held(group, "kept without nodes: its zone would count for the spread of the pods, and they need none there")
	case terms != nil && len(grown) > 0:
		return p.held(group, fmt.Sprintf("set %s, %s; the nodes needed went to %s", terms.Set, terms, fewNames(grown)))
	case len(smaller) > 0:
		return p.held(group, "large enough beside "+fewNames(smaller))
	case len(level) > 0:
		return p.held(group, "level with "+fewNames(level))
	case len(grown) > 0:
		return p.held(group, "similar to "+p.decision.Chosen+", the nodes needed went to "+fewNames(grown))
	}
	return p.held(group, "similar to "+p.decision.Chosen+", no node could be placed")
}

// held adds what kept a member below what it would have got otherwise, or
// raised it beyond.
func (p *planner) held(group, why string) string {
	g, size := p.group(group), p.ledger.size(group)
	if g.Lag > 0 {
		why += fmt.Sprintf("; its zone has come back and it catches up slowly, counting as larger by %d", g.Lag)
	}
	if g.OnTrial {
		why += "; one node first, since its nodes came too late"
	}
	if p.kept(group) {
		if size >= int64(g.Max) {
			return fmt.Sprintf("%s; held at its maximum of %d", why, g.Max)
		}
		if name, blocked := full(p.ledger.quotas, group); blocked {
			return fmt.Sprintf("%s; held by %s", why, name)
		}
	}
	if g.Target < g.Min && size > int64(g.Target) && size <= int64(g.Min) {
		return fmt.Sprintf("%s; raised towards its minimum of %d", why, g.Min)
	}
	return why
}

// kept reports whether a bound had a say: pods are left over for want of room, or
// another member has become larger by it.
func (p *planner) kept(group string) bool {
	for _, c := range p.classes {
		if slices.Contains(c.members, group) && slices.ContainsFunc(c.placed, func(placed estimator.Placed) bool { return placed.Reason == estimator.ReasonNodeLimit }) {
			return true
		}
	}
	return p.ledger.terms[group] != nil || slices.ContainsFunc(p.decision.Members, func(other string) bool {
		return p.ledger.grown[other] > 0 && p.ledger.size(other) > p.ledger.size(group)
	})
}

func others(members []string, except string) string {
	rest := slices.DeleteFunc(slices.Clone(members), func(name string) bool { return name == except })
	return fewNames(rest)
}

// fewNames lists names, the first few of many.
func fewNames(names []string) string {
	const shown = 4
	if len(names) <= shown+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

func (p *planner) whyTakesNone(group string) string {
	if why := p.whyVain(group, everyIndex(len(p.kinds))); why != "" {
		return why
	}
	return "takes none of the pods: " + p.rejections(p.template[group], everyIndex(len(p.kinds)))
}

// rejections sums up why a template takes none of these kinds, by number of
// pods.
func (p *planner) rejections(template int, kinds []int) string {
	var t tally
	for _, k := range kinds {
		t.add(p.fit.Reasons(template, k), len(p.kinds[k].Pods))
	}
	return t.list("pod")
}

// tally counts rejections that say the same but for the amounts.
type tally struct {
	counts  map[string]int
	amounts map[string]string // what the message adds; gone once it varies
}

func (t *tally) add(reasons []predicates.Reason, n int) {
	if t.counts == nil {
		t.counts, t.amounts = map[string]int{}, map[string]string{}
	}
	for _, reason := range reasons {
		message, amounts, _ := strings.Cut(reason.Message, " (")
		if t.counts[message] == 0 {
			t.amounts[message] = amounts
		} else if t.amounts[message] != amounts {
			t.amounts[message] = ""
		}
		t.counts[message] += n
	}
}

// messages are the most frequent first.
func (t *tally) messages() []string {
	return slices.SortedFunc(maps.Keys(t.counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.counts[b], t.counts[a]), cmp.Compare(a, b))
	})
}

func (t *tally) rejections() []Rejection {
	var all []Rejection
	for _, message := range t.messages() {
		all = append(all, Rejection{Reason: message, Groups: t.counts[message]})
	}
	return all
}

// list names the first few messages, with what they add.
func (t *tally) list(noun string) string {
	messages := t.messages()
	const shown = 3
	var parts []string
	for i, message := range messages {
		if i == shown && len(messages) > shown+1 {
			parts = append(parts, fmt.Sprintf("and %d more reasons", len(messages)-shown))
			break
		}
		detail := plural(t.counts[message], noun)
		if amounts := strings.TrimSuffix(t.amounts[message], ")"); amounts != "" {
			detail = amounts + "; " + detail
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", message, detail))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// whyLost finds the step of the choice at which the group was dropped.
func (p *planner) whyLost(group string) string {
	for _, step := range p.decision.Trail {
		for _, judged := range step.Options {
			if judged.Group != group || judged.Kept {
				continue
			}
			if step.Strategy == expander.SetStep {
				return judged.Figure
			}
			if judged.Figure == "" {
				return fmt.Sprintf("%s: kept %s", step.Strategy, keptOf(step))
			}
			return fmt.Sprintf("%s: %s, kept %s", step.Strategy, brief(judged.Figure), keptOf(step))
		}
	}
	return "not chosen"
}

// brief leaves out how a figure is made up; the trail has it.
func brief(figure string) string {
	short, _, _ := strings.Cut(figure, " (")
	return short
}

func keptOf(step expander.Step) string {
	for _, judged := range step.Options {
		if judged.Kept {
			if judged.Figure == "" {
				return judged.Group
			}
			return fmt.Sprintf("%s (%s)", judged.Group, brief(judged.Figure))
		}
	}
	return "another"
}

// explainPods says of every kind of pending pod what happened to it.
func (p *planner) explainPods() {
	for k, kind := range p.kinds {
		helped := min(p.helped[k], len(kind.Pods))
		if helped > 0 {
			p.report(kind.Pods[:helped], PodOutcome{Outcome: PodsHelped, Reason: "nodes ordered in " + fewNames(p.helpers(k)), class: p.classOf(k)})
		}
		rest := kind.Pods[helped:]
		if len(rest) == 0 {
			continue
		}
		outcome := p.whyWaits(k)
		p.report(rest, outcome)
	}
	slices.SortStableFunc(p.decision.Pods, func(a, b PodOutcome) int { return cmp.Compare(a.Pods[0], b.Pods[0]) })
}

// report notes the outcome of pods given by their positions among those left.
func (p *planner) report(left []int, o PodOutcome) {
	o.Pods = make([]int, len(left))
	for i, at := range left {
		o.Pods[i] = p.pods[at]
	}
	o.Example, o.Count = podName(p.world.Pending[o.Pods[0]]), len(o.Pods)
	p.decision.Pods = append(p.decision.Pods, o)
}

// classOf is the part of the need that a kind of pods belongs to.
func (p *planner) classOf(kind int) int {
	return slices.IndexFunc(p.classes, func(c class) bool { return slices.Contains(c.kinds, kind) })
}

// helpers are the groups whose new nodes serve a kind of pods.
func (p *planner) helpers(kind int) []string {
	of := p.classOf(kind)
	groups := slices.Clone(p.filledUp)
	for i, s := range p.decision.shares {
		if i <= of && !p.classes[i].oneByOne && subset(p.classes[i].members, p.classes[of].members) || i == of {
			groups = slices.AppendSeq(groups, maps.Keys(s.nodes))
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// whyWaits says why pods of a kind get no node in this round.
func (p *planner) whyWaits(kind int) PodOutcome {
	if i := p.classOf(kind); i >= 0 {
		return PodOutcome{Outcome: PodsNextRound, Reason: p.whyLeftOver(p.classes[i], kind)}
	}
	var standing, skipped []string
	vain := ""
	for _, g := range p.world.Groups {
		t, known := p.template[g.ID]
		if !known || !p.fit.Passes(t, kind) {
			continue
		}
		if why := p.whyVain(g.ID, []int{kind}); why != "" {
			vain = cmp.Or(vain, fmt.Sprintf("%s: %s", g.ID, why))
			continue
		}
		if reason, out := p.skipped[g.ID]; out {
			skipped = append(skipped, fmt.Sprintf("%s (%s)", g.ID, reason))
		} else {
			standing = append(standing, g.ID)
		}
	}
	if len(standing) > 0 && p.decision.Chosen != "" {
		return PodOutcome{Outcome: PodsNextRound, Reason: fmt.Sprintf("fit %s, but %s was chosen", fewNames(standing), p.decision.Chosen)}
	}
	if len(standing) > 0 {
		return PodOutcome{Outcome: PodsUnhelped, Reason: "pass on " + fewNames(standing) + ", where nothing could be placed"}
	}
	if why := p.whyHeldBySpread(kind); why != "" {
		return PodOutcome{Outcome: PodsUnhelped, Reason: why}
	}
	if len(skipped) > 0 {
		return PodOutcome{Outcome: PodsUnhelped, Reason: "fit only groups that cannot grow: " + fewNames(skipped)}
	}
	if vain != "" {
		return PodOutcome{Outcome: PodsUnhelped, Reason: vain}
	}
	return p.whyNowhere(kind)
}

// whyLeftOver says why some pods of the chosen option got no node.
func (p *planner) whyLeftOver(c class, kind int) string {
	switch c.placed[slices.Index(c.kinds, kind)].Reason {
	case estimator.ReasonHeldBack:
		if why := c.why[kind]; why != "" {
			return why
		}
		return "held back by the pods placed so far: spread or affinity"
	case estimator.ReasonDoesNotFit:
		return "pass alone, but not beside the other pods"
	case estimator.ReasonNodeLimit:
	}
	if int64(p.decision.Need) >= p.roundLimit() {
		return fmt.Sprintf("the round is limited to %d nodes", p.roundLimit())
	}
	return "no room left in " + fewNames(c.members)
}

// whyNowhere sums up the rejections of all groups, by number of groups.
func (p *planner) whyNowhere(kind int) PodOutcome {
	var t tally
	for _, g := range p.world.Groups {
		if at, known := p.template[g.ID]; known {
			t.add(p.fit.Reasons(at, kind), 1)
		}
	}
	if len(t.counts) == 0 {
		return PodOutcome{Outcome: PodsUnhelped, Reason: "there is no node group with a template"}
	}
	return PodOutcome{Outcome: PodsUnhelped, Reason: "fit no node group: " + t.list("group"), Rejections: t.rejections()}
}
