package autoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// explanation says what happened to groups and pods in a scale-up.
type explanation struct {
	*attempt
	outside     map[string]int // positions in fitsOutside of the groups that cannot grow
	fitsOutside fit
}

// explain completes the decision of a scale-up that is reported. There is nothing to explain if the quotas could not be
// calculated.
func (t *attempt) explain() {
	if !t.records.on || t.fit.Fit == nil {
		return
	}
	t.decision.Unplaced = max(0, t.decision.Need-t.asked)
	e := &explanation{attempt: t}
	e.groups()
	e.pods()
}

// groups says of every group what happened to it.
func (e *explanation) groups() {
	grown := map[string]Attempt{}
	for _, a := range e.increases {
		grown[a.Group] = a
	}
	index := e.indexOfSets()
	for _, g := range e.records.world.Groups {
		o := GroupOutcome{Group: g.ID}
		attempt, grows := grown[g.ID]
		why, skipped := e.skipped[g.ID]
		switch {
		case skipped:
			o.Outcome, o.Reason = GroupSkipped, why
		case grows && attempt.Err != nil:
			o.Outcome, o.Reason = GroupRefused, "refused: "+attempt.Err.Error()
		case grows:
			o.Outcome, o.Reason = GroupGrows, e.heldAt(&g, attempt.To, e.whyGrows(g.ID))
		case slices.Contains(e.decision.Members, g.ID):
			o.Outcome, o.Reason = GroupPartner, e.heldAt(&g, g.Target, e.whyNot(&g))
		case len(e.kinds) == 0:
			o.Outcome, o.Reason = GroupIdle, "no pods wait for nodes"
		case !e.takesSome(g.ID):
			o.Outcome, o.Reason = GroupTakesNone, "takes none of the pods: "+e.rejections(g.ID)
		default:
			o.Outcome, o.Reason = GroupNotChosen, e.whyLost(g.ID)
		}
		e.difference(index, &o)
		e.decision.Groups = append(e.decision.Groups, o)
	}
}

// indexOfSets compares templates as the build of Cluster Autoscaler does; nil without balancing.
func (e *explanation) indexOfSets() *nodegroupset.Index {
	if !e.options.Balance || e.decision.Chosen == "" {
		return nil
	}
	return e.index()
}

// difference says why a group is not similar to the chosen one. A group that was set aside has a
// better reason.
func (e *explanation) difference(index *nodegroupset.Index, o *GroupOutcome) {
	if index == nil || slices.Contains(e.decision.Members, o.Group) {
		return
	}
	if o.Differences = index.Differences(o.Group, e.decision.Chosen); len(o.Differences) == 0 {
		return
	}
	o.DiffersFrom = e.decision.Chosen
	if o.Outcome == GroupNotChosen || o.Outcome == GroupTakesNone {
		o.Reason = fmt.Sprintf("not similar to %s, %s; %s", e.decision.Chosen, nodegroupset.DiffersBy(o.Differences), o.Reason)
	}
}

// whyGrows names the group's part of the split.
func (e *explanation) whyGrows(group string) string {
	chosen, terms := e.decision.Chosen, e.processors.terms(group)
	switch {
	case len(e.decision.Members) <= 1:
		return "chosen"
	case terms != nil && group == chosen:
		return fmt.Sprintf("chosen; set %s, %s", terms.Set, terms)
	case terms != nil:
		return fmt.Sprintf("set %s, %s", terms.Set, terms)
	case group == chosen:
		return "chosen, levelled with " + others(e.decision.Members, chosen)
	}
	return "similar to " + chosen + ", levelled with it"
}

// whyNot says why a member of the set gets nothing.
func (e *explanation) whyNot(g *Group) string {
	var grown, smaller, level []string
	for _, a := range e.increases {
		grown = append(grown, a.Group)
		switch {
		case a.To < g.Target:
			smaller = append(smaller, a.Group)
		case a.To == g.Target:
			level = append(level, a.Group)
		}
	}
	similar, terms := "similar to "+e.decision.Chosen+", ", e.processors.terms(g.ID)
	switch {
	case len(grown) == 0:
		return similar + "no node could be placed"
	case terms != nil:
		return fmt.Sprintf("set %s, %s; the nodes needed went to %s", terms.Set, terms, fewNames(grown))
	case len(smaller) > 0:
		return "large enough beside " + fewNames(smaller)
	case len(level) > 0:
		return "level with " + fewNames(level)
	}
	return similar + "the nodes needed went to " + fewNames(grown)
}

// heldAt adds what kept a member at a size, if nodes are left over or another member has become larger.
func (e *explanation) heldAt(g *Group, size int, why string) string {
	if by, ok := e.held[g.ID]; ok {
		return why + "; " + by
	}
	full := len(e.helped) < len(e.attempt.pods) && e.full(e.asked)
	larger := slices.ContainsFunc(e.increases, func(a Attempt) bool { return a.To > size })
	switch {
	case !full && !larger && e.decision.Unplaced == 0:
		return why
	case size >= g.Max:
		return fmt.Sprintf("%s; held at its maximum of %d", why, g.Max)
	case full:
		return why + "; held by max-nodes-total"
	}
	if room, by := e.tracker.room(e.templates[g.ID].Node.Node); room <= 0 {
		return why + "; held by " + by
	}
	return why
}

// full reports whether so many more nodes are all that --max-nodes-total leaves.
func (e *explanation) full(more int) bool {
	total := e.options.MaxNodesTotal
	return total > 0 && len(e.view.nodes)+more >= total
}

func noMoreNodes(total int) string {
	return fmt.Sprintf("max-nodes-total: the limit of %d nodes in all is reached", total)
}

func others(members []string, except string) string {
	return fewNames(slices.DeleteFunc(slices.Clone(members), func(name string) bool { return name == except }))
}

// fewNames lists names, the first few of many.
func fewNames(names []string) string { return spelling.Few(names, 4) }

// rejections sums up why a group takes none of the pods, by number of pods.
func (e *explanation) rejections(group string) string {
	var t rejected
	for k, kind := range e.kinds {
		t.add(e.fit.reasons(e.position[group], k), len(kind))
	}
	return t.list("pod")
}

// rejected counts rejections that say the same but for the amounts.
type rejected struct {
	counts  map[string]int
	amounts map[string]string // what the message adds; gone once it varies
}

func (t *rejected) add(reasons []predicates.Reason, n int) {
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
func (t *rejected) messages() []string {
	return slices.SortedFunc(maps.Keys(t.counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.counts[b], t.counts[a]), cmp.Compare(a, b))
	})
}

func (t *rejected) rejections() []Rejection {
	var all []Rejection
	for _, message := range t.messages() {
		all = append(all, Rejection{Reason: message, Groups: t.counts[message]})
	}
	return all
}

// list names the first few messages, with what they add.
func (t *rejected) list(noun string) string {
	messages := t.messages()
	const shown = 3
	var parts []string
	for i, message := range messages {
		if i == shown && len(messages) > shown+1 {
			parts = append(parts, fmt.Sprintf("and %d more reasons", len(messages)-shown))
			break
		}
		detail := spelling.Count(t.counts[message], noun)
		if amounts := strings.TrimSuffix(t.amounts[message], ")"); amounts != "" {
			detail = amounts + "; " + detail
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", message, detail))
	}
	return strings.Join(parts, ", ")
}

// whyLost finds the strategy that dropped the group.
func (e *explanation) whyLost(group string) string {
	for _, step := range e.decision.Trail {
		for _, judged := range step.Options {
			switch {
			case judged.Group != group || judged.Kept:
			case judged.Figure == "":
				return fmt.Sprintf("%s: kept %s", step.Strategy, keptOf(step))
			default:
				return fmt.Sprintf("%s: %s, kept %s", step.Strategy, brief(judged.Figure), keptOf(step))
			}
		}
	}
	if e.decision.Chosen == "" {
		return "not chosen"
	}
	return "not chosen: drawn from equal options was " + e.decision.Chosen
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

// pods says of every kind of pods what happened to it. Positions are those among the pods that the
// loop looked at.
func (e *explanation) pods() {
	helped := map[*v1.Pod]bool{}
	if slices.ContainsFunc(e.increases, func(a Attempt) bool { return a.Grew > 0 }) {
		for _, pod := range e.helped {
			helped[pod] = true
		}
	}
	for k, kind := range e.kinds {
		var with, without []int
		for _, pod := range kind {
			if at := e.records.position[pod]; helped[pod] {
				with = append(with, at)
			} else {
				without = append(without, at)
			}
		}
		if len(with) > 0 {
			e.note(k, with, PodOutcome{Outcome: PodsHelped, Reason: "nodes ordered in " + fewNames(e.growing())})
		}
		if len(without) > 0 {
			e.note(k, without, e.whyWaits(k))
		}
	}
	slices.SortStableFunc(e.decision.Pods, func(a, b PodOutcome) int { return cmp.Compare(a.Pods[0], b.Pods[0]) })
}

func (e *explanation) growing() []string {
	var names []string
	for _, a := range e.increases {
		names = append(names, a.Group)
	}
	slices.Sort(names)
	return names
}

func (e *explanation) note(kind int, at []int, o PodOutcome) {
	if explain := e.options.Explain; explain != nil &&
		slices.ContainsFunc(at, func(i int) bool { return explain(e.records.world.Pending[i]) }) {
		o.Tried = e.tried(kind)
	}
	e.decision.Pods = append(e.decision.Pods, e.records.outcome(at, o))
}

// tried is what each group answers to pods of a kind.
func (e *explanation) tried(kind int) []GroupAnswer {
	var all []GroupAnswer
	for _, g := range e.records.world.Groups {
		answer := "a new node would take it"
		at, valid := e.position[g.ID]
		switch why, out := e.skipped[g.ID]; {
		case out:
			takes, reasons := e.wouldTake(g.ID, kind)
			switch answer = "cannot grow: " + why; {
			case takes:
				answer = "would take it, but " + answer
			case len(reasons) > 0:
				answer = doesNotTake(reasons) + "; " + answer
			}
		case !valid:
			answer = "has no template"
		case !e.fit.passes(at, kind):
			answer = doesNotTake(e.fit.reasons(at, kind))
		}
		all = append(all, GroupAnswer{g.ID, answer})
	}
	return all
}

func doesNotTake(reasons []predicates.Reason) string {
	var texts []string
	for _, reason := range reasons {
		texts = append(texts, reason.Message)
	}
	return "does not take it: " + strings.Join(texts, ", ")
}

// whyWaits says why pods of a kind get no node in this loop.
func (e *explanation) whyWaits(kind int) PodOutcome {
	var fitting, skipped []string
	var t rejected
	for _, g := range e.records.world.Groups {
		at, valid := e.position[g.ID]
		why, out := e.skipped[g.ID]
		switch {
		case out:
			takes, reasons := e.wouldTake(g.ID, kind)
			if takes {
				skipped = append(skipped, fmt.Sprintf("%s (%s)", g.ID, why))
			} else if len(reasons) > 0 {
				t.add(reasons, 1)
			}
		case !valid:
		case e.fit.passes(at, kind):
			fitting = append(fitting, g.ID)
		default:
			t.add(e.fit.reasons(at, kind), 1)
		}
	}
	switch {
	case len(fitting) > 0 && e.full(0):
		return PodOutcome{Outcome: PodsUnhelped, Reason: noMoreNodes(e.options.MaxNodesTotal)}
	case len(fitting) > 0 && e.decision.Chosen == "":
		return PodOutcome{Outcome: PodsUnhelped, Reason: "pass on " + fewNames(fitting) + ", where nothing could be placed"}
	case len(fitting) > 0 && slices.Contains(fitting, e.decision.Chosen):
		return PodOutcome{Outcome: PodsNextRound, Reason: "no room left in " + fewNames(e.decision.Members)}
	case len(fitting) > 0:
		return PodOutcome{Outcome: PodsNextRound, Reason: fmt.Sprintf("fit %s, but %s was chosen", fewNames(fitting), e.decision.Chosen)}
	case len(skipped) > 0:
		return PodOutcome{Outcome: PodsUnhelped, Reason: "fit only groups that cannot grow: " + fewNames(skipped)}
	case len(t.counts) == 0:
		return PodOutcome{Outcome: PodsUnhelped, Reason: "there is no node group with a template"}
	}
	return PodOutcome{Outcome: PodsUnhelped, Reason: "fit no node group: " + t.list("group"), Rejections: t.rejections()}
}

// wouldTake reports whether a group that cannot grow takes pods of a kind, or why not, if it has a template.
func (e *explanation) wouldTake(group string, kind int) (takes bool, reasons []predicates.Reason) {
	if e.outside == nil {
		e.outside = map[string]int{}
		var templates []predicates.Node
		for id := range e.skipped {
			if template := e.templates[id]; template != nil {
				e.outside[id] = len(templates)
				templates = append(templates, template.Node)
			}
		}
		samples := make([]*v1.Pod, len(e.kinds))
		for i, pods := range e.kinds {
			samples[i] = pods[0]
		}
		fits, err := e.view.fits(templates, samples)
		if err != nil {
			clear(e.outside)
		}
		e.fitsOutside = fits
	}
	at, known := e.outside[group]
	switch {
	case !known:
		return false, nil
	case e.fitsOutside.passes(at, kind):
		return true, nil
	}
	return false, e.fitsOutside.reasons(at, kind)
}
