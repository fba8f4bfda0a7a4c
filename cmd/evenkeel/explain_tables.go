package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// The number of rows a table shows; a wide table shows all rows.
const (
	shownMisses = 10 // pairs of sets
	shownOthers = 20 // other groups, with the names of some fields
	shownFields = 3
	shownNear   = 3 // other groups, with every field
)

// The names of the programs that need flags.
const (
	forEvenkeel = "evenkeel"
	forStock    = "cluster-autoscaler"
)

// explanationParts are the result, and below it the tables for the question.
func explanationParts(wide bool, s *explain.Status) []printing.Part {
	parts := []printing.Part{printing.Note(s.Answer + ".")}
	switch {
	case s.Pair != nil:
		parts = append(parts, pairParts(s.Pair)...)
	case s.Group != nil:
		parts = append(parts, groupParts(wide, s)...)
	default:
		parts = append(parts, fleetParts(wide, &s.Report)...)
	}
	for i := range s.Pending {
		parts = append(parts, pendingParts(wide, &s.Pending[i])...)
	}
	return append(parts, notes(s.Notes)...)
}

// mostDomains is how many domains of a constraint are printed; there may be as many as nodes.
const mostDomains = 10

// pendingParts are what a spread constraint means to pending pods.
func pendingParts(wide bool, spread *explain.PendingSpread) []printing.Part {
	shown := spread.Domains
	if !wide && len(shown) > mostDomains {
		// What binds or scores highest is what matters.
		shown = slices.Clone(shown)
		slices.SortStableFunc(shown, func(a, b explain.SpreadDomain) int {
			return cmp.Or(cmp.Compare(rank(spread, &a), rank(spread, &b)), cmp.Compare(a.Name, b.Name))
		})
		shown = shown[:mostDomains]
	}
	g := printing.GridOf(printing.Columns("DOMAIN", "MATCHING-PODS", "NODES", "ALLOWED", "GROUPS"), shown,
		func(d *explain.SpreadDomain) []any {
			var groups []string
			for _, group := range d.Groups {
				groups = append(groups, group.Group)
			}
			third := any(d.Allowed)
			if spread.Soft {
				third = d.Score
			}
			return []any{d.Name, d.MatchingPods, d.Nodes, third, strings.Join(groups, ",")}
		})
	if spread.Soft {
		g.Columns[3].Name = "SCORE"
	}
	parts := []printing.Part{printing.Heading(spread.Answer + "."), g}
	if more := len(spread.Domains) - len(shown); more > 0 {
		parts = append(parts, printing.Warning(spelling.Count(more, "domain")+" further; -o wide shows all."))
	}
	return parts
}

// rank orders the domains of a constraint by what they matter, the most first.
func rank(spread *explain.PendingSpread, d *explain.SpreadDomain) int64 {
	switch {
	case slices.Contains(spread.Binding, d.Name):
		return -200
	case d.Score != nil:
		return -*d.Score
	case d.Allowed && !spread.Soft:
		return -1
	}
	return 0
}

// differenceGrid and needGrid are about pairs of groups.
func differenceGrid() printing.Grid {
	return printing.NewGrid("LEFT", "RIGHT", "FIELD", "LEFT-VALUE", "RIGHT-VALUE", "RATIO", "LIMIT")
}

func needGrid() printing.Grid {
	return printing.NewGrid("LEFT", "RIGHT", "FOR", "NEEDS", "", "SETS-THEN")
}

func addDifferences(g *printing.Grid, left, right string, differences []nodegroupset.Difference) {
	for i := range differences {
		d := &differences[i]
		g.Add(left, right, d.Field, side(d.Left), side(d.Right), d.Ratio, d.Limit)
	}
}

func addNeeds(g *printing.Grid, left, right, who string, r *nodegroupset.Remedy) {
	var sets *int
	if r.Sets > 0 {
		sets = &r.Sets
	}
	for _, need := range needs(r) {
		g.Add(left, right, who, need, sets)
	}
}

// needs are the flags of a remedy and the other differences they would hide, or why no flag helps.
func needs(r *nodegroupset.Remedy) []string {
	var out []string
	for _, why := range r.Obstacles {
		out = append(out, "no flag helps: "+why)
	}
	out = append(out, r.Flags...)
	if len(out) == 0 {
		return []string{"no flag: they are similar"}
	}
	for _, caution := range r.Cautions {
		out = append(out, "caution: "+caution)
	}
	return out
}

func fleetParts(wide bool, r *nodegroupset.Report) []printing.Part {
	sets := printing.NewGrid("SET", "SIZE", "GROUPS")
	for i, set := range r.Sets {
		sets.Add(i+1, len(set.Groups), strings.Join(set.Groups, ","))
	}
	return slices.Concat([]printing.Part{sets}, missParts(wide, r), candidateParts(r), stockParts(r))
}

func missParts(wide bool, r *nodegroupset.Report) []printing.Part {
	misses := r.Misses
	if !wide {
		misses = misses[:min(shownMisses, len(misses))]
	}
	differences, needed := differenceGrid(), needGrid()
	for i := range misses {
		m := &misses[i]
		addDifferences(&differences, m.Left, m.Right, m.Differences)
		addNeeds(&needed, m.Left, m.Right, forEvenkeel, &m.Remedy)
		stock := m.Stock
		if rest, all := beyond(stock.Flags, r.Stock.Flags); all {
			stock.Flags = append([]string{"the flags below"}, rest...)
		}
		addNeeds(&needed, m.Left, m.Right, forStock, &stock)
	}
	parts := []printing.Part{differences}
	if more := len(r.Misses) - len(misses) + r.MoreMisses; more > 0 {
		parts = append(parts, printing.Warning(spelling.Count(more, "further pair")+" of sets differ in three fields or fewer"+seeWide(!wide)))
	}
	return append(parts, needed)
}

// beyond returns the flags that are not in a list, and whether the flags contain the whole list.
func beyond(flags, list []string) (rest []string, all bool) {
	for _, flag := range flags {
		if !slices.Contains(list, flag) {
			rest = append(rest, flag)
		}
	}
	return rest, len(list) > 0 && len(rest) == len(flags)-len(list)
}

func seeWide(more bool) string {
	if more {
		return "; -o wide shows more"
	}
	return ""
}

func candidateParts(r *nodegroupset.Report) []printing.Part {
	g := printing.NewGrid("LABEL", "WHY-IT-MAY-MEAN-NOTHING", "SETS-WITHOUT-IT")
	for _, c := range r.Candidates {
		var why []string
		if c.UniquePerGroup {
			why = append(why, "another value in every group")
		}
		if c.FollowsZone {
			why = append(why, "follows the zone")
		}
		g.Add(c.Label, strings.Join(why, ", "), c.Remedy.Sets)
	}
	if len(r.Suggestion.Flags) == 0 {
		return []printing.Part{g}
	}
	return []printing.Part{g, printing.Warning(strings.Join(r.Suggestion.Flags, " ") + " would leave " +
		spelling.Count(r.Suggestion.Sets, "set"))}
}

// stockParts are which sets an autoscaler without evenkeel would find.
func stockParts(r *nodegroupset.Report) []printing.Part {
	build := "every build"
	if name := map[string]string{"aws": "AWS", "azure": "Azure", "gce": "GCE"}[r.Stock.Cloud]; name != "" {
		build = "its build for " + name
	}
	byDefault := fmt.Sprintf("Cluster Autoscaler by itself, with the labels that %s ignores, finds %s", build,
		spelling.Count(len(r.Stock.DefaultSets), "set"))
	then := "the same sets as above"
	if !r.Stock.Same {
		then = spelling.Count(len(r.Stock.Sets), "set") + ", not those above"
	}
	if len(r.Stock.Flags) == 0 {
		return []printing.Part{printing.Heading(byDefault + " without flags: " + then)}
	}
	g := printing.NewGrid("FOR", "NEEDS")
	for _, flag := range r.Stock.Flags {
		g.Add(forStock, flag)
	}
	for i, set := range r.Sets {
		for _, why := range set.Stock.Obstacles {
			g.Add(forStock, fmt.Sprintf("no flag finds set %d: %s", i+1, why))
		}
	}
	return []printing.Part{printing.Heading(byDefault + " without flags, and with these " + then), g}
}

func groupParts(wide bool, s *explain.Status) []printing.Part {
	g := s.Group
	group := printing.NewGrid("GROUP", "SET", "SIMILAR")
	group.Add(g.Name, strings.Join(g.Set, ","), strings.Join(g.Similar, ","))
	others, near := g.Others, shownNear
	if wide {
		near = len(g.Others)
	} else {
		others = others[:min(shownOthers, len(others))]
	}
	names, differences := printing.NewGrid("OTHER", "DIFFERENCES", "FIELDS"), differenceGrid()
	var explained []explain.Other
	for i := range others {
		o := &others[i]
		names.Add(o.Group, len(o.Differences), fieldNames(o.Differences, wide))
		// the most similar, and those that are almost as similar
		if i >= near || i > 0 && !wide && len(o.Differences) > shownFields {
			continue
		}
		addDifferences(&differences, g.Name, o.Group, o.Differences)
		if o.Remedy != nil {
			explained = append(explained, *o)
		}
	}
	parts := []printing.Part{group, names}
	if more := len(g.Others) - len(others); more > 0 {
		parts = append(parts, printing.Warning(spelling.Count(more, "more group")+" with more differences"+seeWide(true)))
	}
	return append(parts, differences, needsOfOthers(g.Name, explained))
}

// needsOfOthers names neighbours that need the same flags together.
func needsOfOthers(name string, others []explain.Other) printing.Grid {
	needed := needGrid()
	for len(others) > 0 {
		first, same := &others[0], 1
		together := first.Group
		for same < len(others) && slices.Equal(needs(first.Remedy), needs(others[same].Remedy)) &&
			slices.Equal(needs(first.Stock), needs(others[same].Stock)) {
			together += "," + others[same].Group
			same++
		}
		addNeeds(&needed, name, together, forEvenkeel, first.Remedy)
		addNeeds(&needed, name, together, forStock, first.Stock)
		others = others[same:]
	}
	return needed
}

func fieldNames(differences []nodegroupset.Difference, all bool) string {
	var out []string
	for _, d := range differences {
		out = append(out, d.Field)
	}
	if more := len(out) - shownFields; more > 0 && !all {
		return strings.Join(out[:shownFields], ",") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(out, ",")
}

func pairParts(pair *explain.Pair) []printing.Part {
	differences, needed := differenceGrid(), needGrid()
	addDifferences(&differences, pair.Left, pair.Right, pair.Differences)
	addNeeds(&needed, pair.Left, pair.Right, forEvenkeel, &pair.Remedy)
	addNeeds(&needed, pair.Left, pair.Right, forStock, &pair.Stock)
	return []printing.Part{differences, needed}
}

// printPacks lists the labels that are always ignored.
func printPacks(p *printing.Printer) error {
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		return err
	}
	g := printing.NewGrid("PACK", "LABEL", "IGNORED", "", "ABOUT")
	for _, pack := range packs.Packs {
		for _, label := range pack.Labels {
			g.Add(pack.Name, label, "everywhere", pack.About)
		}
		if pack.Cloud == nil {
			continue
		}
		for _, label := range pack.Cloud.Labels {
			g.Add(pack.Name, label, "on nodes of "+strings.Join(pack.Cloud.Schemes, ","), pack.About)
		}
	}
	return p.Result(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		nodegroupset.LabelPacks
	}{v1alpha1.APIVersion, "LabelPackList", packs}, g)
}
