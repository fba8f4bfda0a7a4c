package simulate

import (
	"fmt"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/scaleup"
)

// narrate tells what a round did. A round that only repeats what an earlier one
// said adds nothing.
func (s *simulation) narrate(at time.Duration, r *scaleup.Round) {
	for _, repair := range r.Repairs {
		if repair.Err != nil {
			s.timeline.add(at, rowRepair, "%s: %s: %v", repair.Group, repair.Reason, repair.Err)
			continue
		}
		s.timeline.add(at, rowRepair, "%s: %s given up: %s", repair.Group, count(repair.Nodes, "node"), repair.Reason)
	}
	s.tellAttempts(at, r)
	for _, p := range r.Decision.Pods {
		if p.Outcome == scaleup.PodsUnhelped {
			s.timeline.once(at, rowUnhelped, unhelped(p))
		}
	}
	for _, warning := range r.Decision.Warnings {
		s.timeline.once(at, rowWarning, warning)
	}
}

func unhelped(p scaleup.PodOutcome) string {
	if p.Count == 1 {
		return fmt.Sprintf("%s: %s", p.Example, steady(p.Reason))
	}
	return fmt.Sprintf("%s and %d more like it: %s", p.Example, p.Count-1, steady(p.Reason))
}

// tellAttempts adds the rows of each try: how the groups grew, and what the
// cloud answered where it was an error.
func (s *simulation) tellAttempts(at time.Duration, r *scaleup.Round) {
	sizes := map[string]int{}
	for _, g := range r.World.Groups {
		sizes[g.ID] = g.Target
	}
	for begin := 0; begin < len(r.Attempts); {
		end := begin
		for end < len(r.Attempts) && r.Attempts[end].Try == r.Attempts[begin].Try {
			end++
		}
		try := r.Attempts[begin:end]
		var grown []string
		for _, a := range try {
			if a.Grew > 0 {
				grown = append(grown, fmt.Sprintf("%s %d→%d", a.Group, sizes[a.Group], sizes[a.Group]+a.Grew))
				sizes[a.Group] += a.Grew
			}
		}
		if len(grown) > 0 {
			s.timeline.add(at, rowScaleUp, "%s (%s)", few(grown), why(r, try))
		}
		for _, a := range try {
			switch {
			case a.Err == nil:
			case a.Grew == 0:
				s.timeline.add(at, rowRefused, "%s +%d: %v", a.Group, a.Delta, a.Err)
			default:
				s.timeline.add(at, rowWarning, "%s +%d: %s although the cloud answered: %v", a.Group, a.Delta, grew(a), a.Err)
			}
		}
		begin = end
	}
}

func grew(a scaleup.Attempt) string {
	if a.Grew < a.Delta {
		return fmt.Sprintf("grew by %d", a.Grew)
	}
	return "grew"
}

// why says what the growth of a try is for and how the expander came to its
// choice.
func why(r *scaleup.Round, try []scaleup.Attempt) string {
	asked, came := 0, 0
	for _, a := range try {
		asked += a.Delta
		came += a.Grew
	}
	if try[0].Try > 1 {
		return fmt.Sprintf("split again: %s that others refused", part(came, asked))
	}
	helped := 0
	for _, p := range r.Decision.Pods {
		if p.Outcome == scaleup.PodsHelped {
			helped += p.Count
		}
	}
	parts := []string{fmt.Sprintf("%s for %s", part(came, r.Decision.Need), count(helped, "pod"))}
	if choice := chosenBy(r.Decision.Trail, r.Decision.Chosen); choice != "" {
		parts = append(parts, choice)
	}
	if r.Decision.Unplaced > 0 {
		parts = append(parts, fmt.Sprintf("no room for %d more", r.Decision.Unplaced))
	}
	return strings.Join(parts, "; ")
}

// part counts the nodes that came, of those that were wanted.
func part(came, wanted int) string {
	if came < wanted {
		return fmt.Sprintf("%d of %s", came, count(wanted, "node"))
	}
	return count(came, "node")
}

// chosenBy names the strategies that had a choice, with the chosen group's
// figures.
func chosenBy(trail expander.Trail, chosen string) string {
	var parts []string
	for _, step := range trail {
		if step.Strategy == expander.SetStep {
			continue
		}
		for _, judged := range step.Options {
			if judged.Group == chosen {
				parts = append(parts, step.Strategy+" "+chosen+": "+judged.Figure)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// steady takes the time that passes out of a reason, so that it is told once.
func steady(reason string) string {
	const before, after = "backed off for another ", ": "
	head, tail, found := strings.Cut(reason, before)
	if !found {
		return reason
	}
	if _, rest, ok := strings.Cut(tail, after); ok {
		return head + "backed off" + after + steady(rest)
	}
	return reason
}

// ledger books the nodes that were ordered and given back, by group.
type ledger struct {
	groups map[string]*account
	// scaleUps counts the rounds in which groups grew.
	scaleUps int
	// scaledDown counts the nodes removed because nobody needed them.
	scaledDown int
}

type account struct {
	before, ordered, removed int
	// outcome is the latest of the most telling outcomes so far.
	outcome scaleup.GroupOutcome
	// template is where the template came from when the group last grew or,
	// while it has not, in the latest round.
	template string
}

func (l *ledger) open(group string, size int) {
	if l.groups == nil {
		l.groups = map[string]*account{}
	}
	l.groups[group] = &account{before: size}
}

func (l *ledger) book(r *scaleup.Round) {
	if r.Grew() > 0 {
		l.scaleUps++
	}
	for _, a := range r.Attempts {
		l.groups[a.Group].ordered += a.Grew
	}
	for _, repair := range r.Repairs {
		if repair.Err == nil {
			l.groups[repair.Group].removed += repair.Nodes
		}
	}
	for _, g := range r.Decision.Groups {
		l.groups[g.Group].explain(g)
	}
	grown := map[string]bool{}
	for _, a := range r.Attempts {
		grown[a.Group] = true
	}
	for _, g := range r.World.Groups {
		if a := l.groups[g.ID]; grown[g.ID] || a.ordered == 0 {
			a.template = g.TemplateFrom
		}
	}
}

// telling ranks outcomes by how much they say about the size a group has.
var telling = map[scaleup.Outcome]int{
	scaleup.GroupIdle:      1,
	scaleup.GroupTakesNone: 2,
	scaleup.GroupSkipped:   3,
	scaleup.GroupNotChosen: 3,
	scaleup.GroupPartner:   4,
	scaleup.GroupRefused:   5,
	scaleup.GroupGrows:     5,
	groupShrinks:           5,
}

func (a *account) explain(g scaleup.GroupOutcome) {
	if telling[g.Outcome] >= telling[a.outcome.Outcome] {
		a.outcome = g
	}
}
