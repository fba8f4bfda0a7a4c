package simulate

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

// ledger counts the nodes that were ordered and given back, by group.
type ledger struct {
	groups map[string]*account
	// scaleUps counts the rounds in which groups grew.
	scaleUps int
	// scaledDown counts the nodes removed because they were not needed.
	scaledDown int
}

type account struct {
	before, ordered, removed int
	// outcome is the latest of the most informative outcomes so far.
	outcome autoscaler.GroupOutcome
	// split is the scale-up that the outcome is from, if it balanced several groups.
	split *split
	// template is the source of the template when the group last grew or, if it has not, in the
	// latest round.
	template string
}

// split lists groups that were balanced together.
type split struct {
	chosen  string
	members []string // by name
}

func (l *ledger) open(group string, size int) {
	if l.groups == nil {
		l.groups = map[string]*account{}
	}
	l.groups[group] = &account{before: size}
}

func (l *ledger) book(r *autoscaler.ScaleUp) {
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
	var levelled *split
	if d := &r.Decision; len(d.Members) > 1 {
		levelled = &split{d.Chosen, d.Members}
	}
	for _, g := range r.Decision.Groups {
		if levelled != nil && slices.Contains(levelled.members, g.Group) {
			l.groups[g.Group].explain(g, levelled)
		} else {
			l.groups[g.Group].explain(g, nil)
		}
	}
	grown := map[string]bool{}
	for _, a := range r.Attempts {
		grown[a.Group] = true
	}
	for _, g := range r.Survey.Groups {
		if a := l.groups[g.ID]; grown[g.ID] || a.ordered == 0 {
			a.template = g.TemplateFrom
		}
	}
}

// telling ranks outcomes by how much they explain the size of a group.
var telling = map[autoscaler.Outcome]int{
	autoscaler.GroupIdle:      1,
	autoscaler.GroupTakesNone: 2,
	autoscaler.GroupSkipped:   3,
	autoscaler.GroupNotChosen: 3,
	autoscaler.GroupPartner:   4,
	autoscaler.GroupRefused:   5,
	autoscaler.GroupGrows:     5,
	groupShrinks:              5,
}

func (a *account) explain(g autoscaler.GroupOutcome, by *split) {
	if telling[g.Outcome] >= telling[a.outcome.Outcome] {
		a.outcome, a.split = g, by
	}
}
