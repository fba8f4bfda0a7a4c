package pending

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/topologyspread"
)

const fewNames = 3 // that a sentence names

// heldAnswer says what a constraint that holds pods waits for.
func (e *explainer) heldAnswer(k *kind, p *explain.PendingSpread, s *topologyspread.Standing) string {
	text := fmt.Sprintf("%s %s for ", spelling.List(k.names, 1), spelling.Verb(len(k.names), "wait"))
	if len(p.Binding) == 0 {
		text += fmt.Sprintf("another domain: %s has %s, and minDomains is %d", p.TopologyKey, spelling.Count(len(s.Domains), "domain"),
			s.MinDomains)
		return text + e.openings(k, p)
	}
	text += fmt.Sprintf("%s: with %s no other domain may take more: %s", spelling.List(p.Binding, fewNames), skewOf(p), bindingAnswers(p))
	return text + e.openings(k, p)
}

// skewOf names a constraint by its skew.
func skewOf(p *explain.PendingSpread) string {
	by := fmt.Sprintf("maxSkew %d of %s", p.MaxSkew, p.TopologyKey)
	if p.Default {
		by += ", a default constraint,"
	}
	return by
}

// bindingAnswers says what keeps the pods out of the domains that bind.
func bindingAnswers(p *explain.PendingSpread) string {
	var waits []string
	for i := range p.Domains {
		if d := &p.Domains[i]; slices.Contains(p.Binding, d.Name) {
			waits = append(waits, domainAnswer(d, p.TopologyKey))
		}
	}
	if more := len(waits) - fewNames; more > 0 {
		waits = append(waits[:fewNames], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(waits, "; ")
}

// unkeyedAnswer says that nothing has the key of a constraint.
func unkeyedAnswer(k *kind, p *explain.PendingSpread) string {
	by := ""
	if p.Default {
		by = ", the topology key of a default constraint"
	}
	return fmt.Sprintf("%s %s for a node with the label %s%s: no node that would take %s has it, nor would a new one",
		spelling.List(k.names, 1), spelling.Verb(len(k.names), "wait"), p.TopologyKey, by, them(k))
}

// openings says which new nodes would be in domains of their own.
func (e *explainer) openings(k *kind, p *explain.PendingSpread) string {
	var open []string
	if p.TopologyKey == v1.LabelHostname {
		for g, group := range e.groups {
			if k.onNew[g] == "" && group.Stuck == "" {
				open = append(open, group.name)
			}
		}
		if len(open) == 0 {
			return "; no node group has a new node for it"
		}
		return "; a new node of " + spelling.List(open, fewNames) + " would be a domain of its own"
	}
	for i := range p.Domains {
		if d := &p.Domains[i]; d.Nodes == 0 && len(d.Groups) > 0 {
			open = append(open, d.Name+" has no node; "+groupsAnswer(d.Groups))
		}
	}
	if len(open) > 0 {
		return "; " + strings.Join(open[:min(fewNames, len(open))], "; ")
	}
	if len(p.Binding) == 0 {
		return "; no node group is in another domain"
	}
	return ""
}

// domainAnswer says what keeps the pods out of a domain that the constraint lets them into.
func domainAnswer(d *explain.SpreadDomain, key string) string {
	var nodes []string
	for _, r := range d.Rejections {
		nodes = append(nodes, fmt.Sprintf("%s: %s", spelling.Count(r.Nodes, "node"), r.Reason))
	}
	text := fmt.Sprintf("%s has %s and no node for one more", d.Name, spelling.Count(d.MatchingPods, "matching pod"))
	if len(nodes) > 0 {
		text += " (" + strings.Join(nodes[:min(fewNames, len(nodes))], "; ") + ")"
	}
	switch {
	case key == v1.LabelHostname:
		return text
	case len(d.Groups) == 0:
		return text + "; no node group is there"
	}
	return text + "; " + groupsAnswer(d.Groups)
}

func groupsAnswer(groups []explain.GroupRejection) string {
	var all []string
	for _, g := range groups {
		text := "a new node of " + g.Group + " would take it"
		switch {
		case g.Blocked:
			text = g.Group + " gets no node: " + g.Reason
		case g.Reason != "":
			text = "a new node of " + g.Group + " would not: " + g.Reason
		}
		if g.Coming > 0 {
			text += fmt.Sprintf(" (%s on the way)", spelling.Count(g.Coming, "node"))
		}
		if g.Reason == "" && g.Room != nil {
			text += fmt.Sprintf(" (it may get %d)", *g.Room)
		}
		all = append(all, text)
	}
	return spelling.List(all, fewNames)
}

// softAnswer says which domains a soft constraint prefers.
func (e *explainer) softAnswer(k *kind, p *explain.PendingSpread, isNew bool) string {
	best, pods := int64(-1), spelling.List(k.names, 1)
	var names, scores []string
	for i := range p.Domains {
		switch d := &p.Domains[i]; {
		case d.Score == nil:
			continue
		case *d.Score > best:
			best, names = *d.Score, nil
			fallthrough
		case *d.Score == best:
			names = append(names, d.Name)
		}
		scores = append(scores, fmt.Sprintf("%s %d", p.Domains[i].Name, *p.Domains[i].Score))
	}
	by := p.TopologyKey
	if p.Default {
		by += ", a default constraint"
	}
	of := "nodes that take " + them(k)
	if isNew {
		of = fmt.Sprintf("new nodes, since no node takes %s, which is not due to this constraint", them(k))
	}
	if isNew && p.TopologyKey == v1.LabelHostname {
		return fmt.Sprintf("%s %s not held by ScheduleAnyway of %s: no node takes %s, and a new node is a domain of its own", pods, be(k), by,
			them(k))
	}
	if len(names) == 0 {
		return fmt.Sprintf("%s %s not held by ScheduleAnyway of %s: no node takes %s, nor would a new one in any domain of it", pods, be(k), by,
			them(k))
	}
	first := spelling.List(names, fewNames)
	if len(names) == len(scores) && len(names) > 1 {
		first = "no domain"
	}
	return fmt.Sprintf("%s %s %s by ScheduleAnyway of %s: scores %s of %s", pods, spelling.Verb(len(k.names), "prefer"), first, by,
		spelling.List(scores, fewNames), of)
}

func them(k *kind) string {
	if len(k.names) == 1 {
		return "it"
	}
	return "them"
}

func be(k *kind) string {
	if len(k.names) == 1 {
		return "is"
	}
	return "are"
}
