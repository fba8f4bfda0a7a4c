package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/explain"
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

// printExplanation prints the result, and below it the tables for the question.
func printExplanation(p *printing.Printer, wide bool, s *explain.Status) error {
	if err := p.Note(false, s.Answer+"."); err != nil {
		return err
	}
	var err error
	switch {
	case s.Pair != nil:
		err = printPair(p, s.Pair)
	case s.Group != nil:
		err = printGroup(p, wide, s)
	default:
		err = printFleet(p, wide, &s.Report)
	}
	for i := range s.Pending {
		if err == nil {
			err = printPending(p, wide, &s.Pending[i])
		}
	}
	for _, note := range s.Notes {
		if err == nil {
			err = p.Note(true, "Note: "+note+".")
		}
	}
	return err
}

// mostDomains is how many domains of a constraint are printed; there may be as many as nodes.
const mostDomains = 10

// printPending prints what a spread constraint means to pending pods.
func printPending(p *printing.Printer, wide bool, held *explain.PendingSpread) error {
	if err := p.Heading(held.Answer + "."); err != nil || len(held.Domains) == 0 {
		return err
	}
	g := printing.Grid{Columns: printing.Columns("DOMAIN", "MATCHING-PODS", "NODES", "ALLOWED", "GROUPS")}
	if held.Soft {
		g.Columns[3].Name = "SCORE"
	}
	shown := held.Domains
	if !wide && len(shown) > mostDomains {
		// What binds or scores highest is what matters.
		shown = slices.Clone(shown)
		slices.SortStableFunc(shown, func(a, b explain.SpreadDomain) int {
			return cmp.Or(cmp.Compare(rank(held, &a), rank(held, &b)), cmp.Compare(a.Name, b.Name))
		})
		shown = shown[:mostDomains]
	}
	for i := range shown {
		d := &shown[i]
		var groups []string
		for _, group := range d.Groups {
			groups = append(groups, group.Group)
		}
		third := strconv.FormatBool(d.Allowed)
		if held.Soft {
			third = value("", false)
			if d.Score != nil {
				third = strconv.FormatInt(*d.Score, 10)
			}
		}
		g.Rows = append(g.Rows, []string{d.Name, strconv.Itoa(d.MatchingPods), strconv.Itoa(d.Nodes), third, strings.Join(groups, ",")})
	}
	if err := p.Grid(g); err != nil || len(shown) == len(held.Domains) {
		return err
	}
	return p.Note(true, fmt.Sprintf("%s further; -o wide shows all.", of(int64(len(held.Domains)-len(shown)), "domain")))
}

// rank orders the domains of a constraint by what they matter, the most first.
func rank(held *explain.PendingSpread, d *explain.SpreadDomain) int64 {
	switch {
	case slices.Contains(held.Binding, d.Name):
		return -200
	case d.Score != nil:
		return -*d.Score
	case d.Allowed && !held.Soft:
		return -1
	}
	return 0
}

// differenceGrid and needGrid are about pairs of groups.
func differenceGrid() *printing.Grid {
	return &printing.Grid{Columns: printing.Columns("LEFT", "RIGHT", "FIELD", "LEFT-VALUE", "RIGHT-VALUE", "RATIO", "LIMIT")}
}

func needGrid() *printing.Grid {
	return &printing.Grid{Columns: printing.Columns("LEFT", "RIGHT", "FOR", "NEEDS", "", "SETS-THEN")}
}

func addDifferences(g *printing.Grid, left, right string, differences []nodegroupset.Difference) {
	for i := range differences {
		d := &differences[i]
		g.Rows = append(g.Rows, []string{left, right, d.Field, value(d.Left, d.HasLeft), value(d.Right, d.HasRight), d.Ratio, d.Limit})
	}
}

func value(text string, has bool) string {
	if !has {
		return side(nil)
	}
	return side(&text)
}

func addNeeds(g *printing.Grid, left, right, who string, r *nodegroupset.Remedy) {
	sets := ""
	if r.Sets > 0 {
		sets = strconv.Itoa(r.Sets)
	}
	for _, need := range needs(r) {
		g.Rows = append(g.Rows, []string{left, right, who, need, sets})
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

func printFleet(p *printing.Printer, wide bool, r *nodegroupset.Report) error {
	sets := printing.Grid{Columns: printing.Columns("SET", "SIZE", "GROUPS")}
	for i, set := range r.Sets {
		sets.Rows = append(sets.Rows, []string{strconv.Itoa(i + 1), strconv.Itoa(len(set.Groups)), strings.Join(set.Groups, ",")})
	}
	if err := p.Grid(sets); err != nil {
		return err
	}
	if err := printMisses(p, wide, r); err != nil {
		return err
	}
	if err := printCandidates(p, r); err != nil {
		return err
	}
	return printStock(p, r)
}

func printMisses(p *printing.Printer, wide bool, r *nodegroupset.Report) error {
	misses := r.Misses
	if !wide {
		misses = misses[:min(shownMisses, len(misses))]
	}
	differences, needed := differenceGrid(), needGrid()
	for i := range misses {
		m := &misses[i]
		addDifferences(differences, m.Left, m.Right, m.Differences)
		addNeeds(needed, m.Left, m.Right, forEvenkeel, &m.Remedy)
		stock := m.Stock
		if rest, all := beyond(stock.Flags, r.Stock.Flags); all {
			stock.Flags = append([]string{"the flags below"}, rest...)
		}
		addNeeds(needed, m.Left, m.Right, forStock, &stock)
	}
	if err := p.Grid(*differences); err != nil {
		return err
	}
	if more := len(r.Misses) - len(misses) + r.MoreMisses; more > 0 {
		if err := p.Note(true, of(int64(more), "further pair")+" of sets differ in three fields or fewer"+seeWide(!wide)); err != nil {
			return err
		}
	}
	return p.Grid(*needed)
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

func printCandidates(p *printing.Printer, r *nodegroupset.Report) error {
	g := printing.Grid{Columns: printing.Columns("LABEL", "WHY-IT-MAY-MEAN-NOTHING", "SETS-WITHOUT-IT")}
	for _, c := range r.Candidates {
		var why []string
		if c.UniquePerGroup {
			why = append(why, "another value in every group")
		}
		if c.FollowsZone {
			why = append(why, "follows the zone")
		}
		g.Rows = append(g.Rows, []string{c.Label, strings.Join(why, ", "), strconv.Itoa(c.Remedy.Sets)})
	}
	if err := p.Grid(g); err != nil || len(r.Suggestion.Flags) == 0 {
		return err
	}
	return p.Note(true, fmt.Sprintf("%s would leave %s", strings.Join(r.Suggestion.Flags, " "), of(int64(r.Suggestion.Sets), "set")))
}

// printStock prints which sets an autoscaler without evenkeel would find.
func printStock(p *printing.Printer, r *nodegroupset.Report) error {
	build := "every build"
	if name := map[string]string{"aws": "AWS", "azure": "Azure", "gce": "GCE"}[r.Stock.Cloud]; name != "" {
		build = "its build for " + name
	}
	byDefault := fmt.Sprintf("Cluster Autoscaler by itself, with the labels that %s ignores, finds %s", build, of(int64(len(r.Stock.DefaultSets)), "set"))
	then := "the same sets as above"
	if !r.Stock.Same {
		then = of(int64(len(r.Stock.Sets)), "set") + ", not those above"
	}
	if len(r.Stock.Flags) == 0 {
		return p.Heading(byDefault + " without flags: " + then)
	}
	if err := p.Heading(byDefault + " without flags, and with these " + then); err != nil {
		return err
	}
	g := printing.Grid{Columns: printing.Columns("FOR", "NEEDS")}
	for _, flag := range r.Stock.Flags {
		g.Rows = append(g.Rows, []string{forStock, flag})
	}
	for i, set := range r.Sets {
		for _, why := range set.Stock.Obstacles {
			g.Rows = append(g.Rows, []string{forStock, fmt.Sprintf("no flag finds set %d: %s", i+1, why)})
		}
	}
	return p.Grid(g)
}

func printGroup(p *printing.Printer, wide bool, s *explain.Status) error {
	g := s.Group
	err := p.Grid(printing.Grid{
		Columns: printing.Columns("GROUP", "SET", "SIMILAR"),
		Rows:    [][]string{{g.Name, strings.Join(g.Set, ","), strings.Join(g.Similar, ",")}},
	})
	if err != nil {
		return err
	}
	others, near := g.Others, shownNear
	if wide {
		near = len(g.Others)
	} else {
		others = others[:min(shownOthers, len(others))]
	}
	names := printing.Grid{Columns: printing.Columns("OTHER", "DIFFERENCES", "FIELDS")}
	differences := differenceGrid()
	var explained []explain.Other
	for i := range others {
		o := &others[i]
		names.Rows = append(names.Rows, []string{o.Group, strconv.Itoa(len(o.Differences)), fieldNames(o.Differences, wide)})
		// the most similar, and those that are almost as similar
		if i >= near || i > 0 && !wide && len(o.Differences) > shownFields {
			continue
		}
		addDifferences(differences, g.Name, o.Group, o.Differences)
		if o.Remedy != nil {
			explained = append(explained, *o)
		}
	}
	if err := p.Grid(names); err != nil {
		return err
	}
	if more := len(g.Others) - len(others); more > 0 {
		if err := p.Note(true, of(int64(more), "more group")+" with more differences"+seeWide(true)); err != nil {
			return err
		}
	}
	if err := p.Grid(*differences); err != nil {
		return err
	}
	return p.Grid(*needsOfOthers(g.Name, explained))
}

// needsOfOthers names neighbours that need the same flags together.
func needsOfOthers(name string, others []explain.Other) *printing.Grid {
	needed := needGrid()
	for len(others) > 0 {
		first, same := &others[0], 1
		together := first.Group
		for same < len(others) && slices.Equal(needs(first.Remedy), needs(others[same].Remedy)) && slices.Equal(needs(first.Stock), needs(others[same].Stock)) {
			together += "," + others[same].Group
			same++
		}
		addNeeds(needed, name, together, forEvenkeel, first.Remedy)
		addNeeds(needed, name, together, forStock, first.Stock)
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

func printPair(p *printing.Printer, pair *explain.Pair) error {
	differences, needed := differenceGrid(), needGrid()
	addDifferences(differences, pair.Left, pair.Right, pair.Differences)
	if err := p.Grid(*differences); err != nil {
		return err
	}
	addNeeds(needed, pair.Left, pair.Right, forEvenkeel, &pair.Remedy)
	addNeeds(needed, pair.Left, pair.Right, forStock, &pair.Stock)
	return p.Grid(*needed)
}

// printPacks lists the labels that are always ignored.
func printPacks(p *printing.Printer) error {
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		return err
	}
	if !p.Tables() {
		return p.Object(struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			nodegroupset.LabelPacks
		}{v1alpha1.APIVersion, "LabelPackList", packs})
	}
	g := printing.Grid{Columns: printing.Columns("PACK", "LABEL", "IGNORED", "", "ABOUT")}
	for _, pack := range packs.Packs {
		for _, label := range pack.Labels {
			g.Rows = append(g.Rows, []string{pack.Name, label, "everywhere", pack.About})
		}
		if pack.Cloud == nil {
			continue
		}
		for _, label := range pack.Cloud.Labels {
			g.Rows = append(g.Rows, []string{pack.Name, label, "on nodes of " + strings.Join(pack.Cloud.Schemes, ","), pack.About})
		}
	}
	return p.Grid(g)
}
