package explain

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

const (
	fewFields = 3 // that a sentence tells with their values
	fewGroups = 3 // that a sentence names
)

func fleetAnswer(r *nodegroupset.Report) string {
	groups := 0
	for i := range r.Sets {
		groups += len(r.Sets[i].Groups)
	}
	text := fmt.Sprintf("%s %s %s", spelling.Count(groups, "group"), spelling.Verb(groups, "form"), spelling.Count(len(r.Sets), "set"))
	more := len(r.Misses) - 1 + r.MoreMisses
	switch {
	case len(r.Sets) == 1:
		return text
	case more < 0:
		text += "; every two sets differ in more than three fields"
	default:
		text += "; " + apart(r, &r.Misses[0])
		if more > 0 {
			text += "; " + spelling.Count(more, "further pair") + " of sets differ in three fields or fewer"
		}
	}
	suggested := len(r.Misses) > 0 && slices.Equal(r.Misses[0].Remedy.Flags, r.Suggestion.Flags)
	if ignored := len(r.Suggestion.Flags); ignored > 0 && !suggested {
		text += fmt.Sprintf("; ignoring %s that may mean nothing would leave %s", spelling.Count(ignored, "label"),
			spelling.Count(r.Suggestion.Sets, "set"))
	}
	return text
}

// apart says how the smaller of two sets differs from the larger.
func apart(r *nodegroupset.Report, miss *nodegroupset.Miss) string {
	this, that, differences := setOf(r, miss.Left), setOf(r, miss.Right), miss.Differences
	if len(this) > len(that) {
		this, that, differences = that, this, swapped(differences)
	}
	text := fmt.Sprintf("%s %s apart from %s by %s", spelling.List(this, fewGroups), spelling.Verb(len(this), "stand"),
		spelling.List(that, fewGroups), fields(differences))
	both := slices.Concat(this, that)
	joined := slices.ContainsFunc(miss.Remedy.Joined, func(set []string) bool {
		return !slices.ContainsFunc(both, func(group string) bool { return !slices.Contains(set, group) })
	})
	if joined {
		return text + remedy(&miss.Remedy, "would join them")
	}
	return text + remedy(&miss.Remedy, fmt.Sprintf("would make %s and %s similar", miss.Left, miss.Right))
}

func swapped(differences []nodegroupset.Difference) []nodegroupset.Difference {
	out := slices.Clone(differences)
	for i := range out {
		out[i].Left, out[i].Right = out[i].Right, out[i].Left
	}
	return out
}

func groupAnswer(g *Group) string {
	if len(g.Similar)+len(g.Others) == 0 {
		return g.Name + " is the only group"
	}
	text, beyond := g.Name+" is similar to no other group", "the nearest"
	if len(g.Similar) > 0 {
		text, beyond = g.Name+" is similar to "+spelling.List(g.Similar, fewGroups), "the nearest other group"
	}
	strangers := slices.DeleteFunc(slices.Clone(g.Set), func(name string) bool {
		return name == g.Name || slices.Contains(g.Similar, name)
	})
	if len(strangers) > 0 {
		text += ", and not to " + spelling.List(strangers, fewGroups) + " of its set"
	}
	if len(g.Others) == 0 {
		return text
	}
	near := &g.Others[0]
	return fmt.Sprintf("%s; %s, %s, differs by %s", text, beyond, near.Group, fields(near.Differences)) +
		remedy(near.Remedy, "would make them similar")
}

func pairAnswer(p *Pair) string {
	if p.Similar {
		return fmt.Sprintf("%s and %s are similar", p.Left, p.Right)
	}
	return fmt.Sprintf("%s and %s are not similar, they differ by %s", p.Left, p.Right, fields(p.Differences)) +
		remedy(&p.Remedy, "would make them similar")
}

func remedy(r *nodegroupset.Remedy, effect string) string {
	if len(r.Obstacles) > 0 {
		return "; no flag " + effect
	}
	return "; " + strings.Join(r.Flags, " ") + " " + effect
}

// fields lists the fields in which two groups differ, and by how much where that is short.
func fields(differences []nodegroupset.Difference) string {
	var out []string
	for _, d := range differences {
		if len(differences) > fewFields {
			out = append(out, d.Field)
			continue
		}
		values := d.Values()
		if d.Ratio != "" {
			values += fmt.Sprintf(", %s: ratio %s, limit %s", percent(d.Ratio), d.Ratio, d.Limit)
		}
		out = append(out, fmt.Sprintf("%s (%s)", d.Field, values))
	}
	return spelling.List(out, fewFields)
}

// percent writes a ratio as a percentage, exactly.
func percent(ratio string) string {
	r, ok := new(big.Rat).SetString(ratio)
	if !ok {
		return ratio
	}
	text := r.Mul(r, big.NewRat(100, 1)).FloatString(len(ratio))
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + " %"
}
