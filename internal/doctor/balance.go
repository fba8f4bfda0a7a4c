package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

func (d *diagnoser) names() []string { return slices.Sorted(maps.Keys(d.groups)) }

// sets looks at the sets of similar groups: whether Cluster Autoscaler finds them, and whether they are even.
func (d *diagnoser) sets() {
	if d.autoscaler == nil && d.observed.Status == nil {
		d.setRows()
		return
	}
	for _, problem := range d.fleet.problems {
		d.note(problem)
	}
	shared, labels := d.setRows(), d.unsteady()
	if len(shared) == 0 {
		return
	}
	if !d.fleet.effect && (len(d.fleet.options.IgnoreLabels) > 0 ||
		slices.ContainsFunc(ratios(&d.fleet.options), func(r **nodegroupset.Ratio) bool { return *r != nil })) {
		d.find(Finding{
			Severity: Error, Reason: IgnoredFlags,
			Message: fmt.Sprintf("Cluster Autoscaler %s reads --balancing-ignore-label and the ratios on %s only, so here they have no effect",
				d.autoscaler.Version(), spelling.Or(clouds)),
			Remedy: "take them away; --balancing-label has an effect on every cloud",
		})
	}
	if d.installed != "" && d.installed != WayLinked {
		d.uneven(shared)
		return
	}
	plan := d.fleet.plan(labels)
	way := WayAutoscaler
	if !plan.possible {
		way = d.expander()
	}
	if d.installed == "" {
		d.unbalanced(shared, way)
		d.notJoined(shared, way, plan)
		d.joinedWrongly(way, plan)
	}
	d.uneven(shared)
}

// setRows returns the sets of two groups and more.
func (d *diagnoser) setRows() (shared []SetResult) {
	for _, groups := range d.fleet.own.Sets() {
		row := SetResult{Groups: groups, Similar: joins(d.fleet.stock, groups)}
		for _, name := range groups {
			row.Nodes += d.groups[name].size()
		}
		row.Apart = d.apart(groups, false)
		d.result.Sets = append(d.result.Sets, row)
		if len(groups) > 1 {
			shared = append(shared, row)
		}
	}
	return shared
}

// apart is how many nodes of a set would be in another group if its sizes were even, within the bounds or
// without maximums.
func (d *diagnoser) apart(groups []string, free bool) int {
	var sizes []sized
	for _, name := range groups {
		g := d.groups[name]
		least, most := g.bounds()
		if free {
			most = max(most, unbounded)
		}
		sizes = append(sizes, sized{g.size(), least, most})
	}
	return moves(sizes)
}

// ApartWith is how many nodes would be in another group of their sets with these sizes, if the sets were even.
func (r *Result) ApartWith(sizes map[string]int) (apart int) {
	for _, set := range r.Sets {
		var groups []sized
		for _, name := range set.Groups {
			at, _ := slices.BinarySearchFunc(r.Groups, name, func(g GroupResult, name string) int { return strings.Compare(g.Name, name) })
			g := sized{sizes[name], 0, max(unbounded, sizes[name])}
			if row := r.Groups[at]; row.Max != nil {
				g.least, g.most = *row.Min, max(*row.Max, g.size)
			}
			groups = append(groups, g)
		}
		apart += moves(groups)
	}
	return apart
}

// sized is a group with its bounds.
type sized struct{ size, least, most int }

// moves is how many nodes change their groups if the sizes become even. Where several even splits differ in who has the
// last node, those who have it keep it.
func moves(groups []sized) (apart int) {
	bySize := slices.SortedStableFunc(slices.Values(groups), func(a, b sized) int { return cmp.Compare(b.size, a.size) })
	request := nodegroupset.SplitRequest{}
	for rank, g := range bySize {
		least := min(g.least, g.size)
		request.Nodes += int64(g.size - least)
		// Equal claims are settled by name.
		request.Groups = append(request.Groups, nodegroupset.Group{Name: fmt.Sprintf("%06d", rank), Size: int64(least), Min: int64(least),
			Max: int64(g.most)})
	}
	split, err := nodegroupset.Split(request)
	if err != nil { // sizes that no group can have
		return 0
	}
	for rank, g := range bySize {
		apart += max(0, g.size-int(split.Groups[rank].NewSize))
	}
	return apart
}

func total(sets []SetResult) (groups []string, apart int) {
	for _, set := range sets {
		groups = append(groups, set.Groups...)
		apart += set.Apart
	}
	return groups, apart
}

// unbalanced looks whether Cluster Autoscaler balances at all.
func (d *diagnoser) unbalanced(shared []SetResult, way Way) {
	groups, apart := total(shared)
	flags, remedy := []string{balanceFlag}, "set the flag"
	if way != WayAutoscaler {
		flags, remedy = nil,
			"let evenkeel choose: no flags of Cluster Autoscaler give these sets, and its own would join other groups or not these"
	}
	switch {
	case d.autoscaler == nil && apart == 0:
	case d.autoscaler == nil:
		uneven := slices.DeleteFunc(slices.Clone(shared), func(s SetResult) bool { return s.Apart == 0 })
		groups, _ = total(uneven)
		d.find(Finding{
			Severity: Warning, Reason: BalancingOff, Groups: groups, Apart: apart, Way: way,
			Message: fmt.Sprintf("%s not even, and whether Cluster Autoscaler balances is not visible", spelling.Count(len(uneven), "set")+
				" of similar groups "+isOrAre(len(uneven))),
			Remedy: d.managed(),
		})
	case !d.balances():
		d.find(Finding{
			Severity: Error, Reason: BalancingOff, Groups: groups, Apart: apart, Way: way, Flags: flags,
			Message: fmt.Sprintf("--balance-similar-node-groups is off, so all nodes of a scale-up go to one group; there %s %s of similar groups",
				isOrAre(len(shared)), spelling.Count(len(shared), "set")),
			Remedy: remedy,
		})
	}
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// managed says how the flag is set where a cloud runs Cluster Autoscaler.
func (d *diagnoser) managed() string {
	switch d.fleet.cloud {
	case "azure":
		return "az aks update --resource-group GROUP --name CLUSTER --cluster-autoscaler-profile balance-similar-node-groups=true"
	case "gce":
		return "gcloud container node-pools update POOL --cluster CLUSTER --location-policy=BALANCED"
	}
	return "set the flag where the cloud lets you set it"
}

// notJoined looks for sets that Cluster Autoscaler does not find. Sets with the same cause are one finding.
func (d *diagnoser) notJoined(shared []SetResult, way Way, plan plan) {
	found := map[string]*Finding{}
	var causes []string
	for _, set := range shared {
		if set.Similar || d.autoscaler == nil && set.Apart == 0 { // one that cannot be seen may have the flags
			continue
		}
		cause, flags := d.cause(set.Groups)
		f := found[cause]
		if f == nil {
			f = &Finding{Severity: Error, Reason: NotSimilar, Way: way, Flags: flags}
			found[cause], causes = f, append(causes, cause)
		}
		f.Groups, f.Apart = append(f.Groups, set.Groups...), f.Apart+set.Apart
	}
	for _, cause := range causes {
		f := found[cause]
		f.Message = fmt.Sprintf("Cluster Autoscaler does not take %s for similar: %s", spelling.List(f.Groups, few), cause)
		empty := slices.DeleteFunc(slices.Clone(f.Groups), func(name string) bool { return !d.fleet.empty[name] })
		if len(empty) > 0 {
			f.Message += fmt.Sprintf("; no node is in %s, so it compares the template of the cloud", spelling.List(empty, few))
		}
		switch {
		case way == WayAutoscaler && len(plan.flags) == 1 && strings.HasPrefix(plan.flags[0], chosenLabel):
			f.Flags, f.Remedy = plan.flags, "compare this label alone: it tells all sets apart"
		case way == WayAutoscaler:
			f.Remedy = "set the flags"
		default:
			f.Flags, f.Remedy = nil, "no flags give these sets: let evenkeel choose, which compares the groups by itself"
		}
		d.find(*f)
	}
}

// cause says what makes Cluster Autoscaler take the groups of a set for different, and which flags would not.
func (d *diagnoser) cause(set []string) (cause string, flags []string) {
	if labels := d.fleet.options.Labels; len(labels) > 0 {
		return fmt.Sprintf("of the labels of --balancing-label (%s) one is missing or differs", strings.Join(labels, ", ")), nil
	}
	var fields []string
	for _, member := range set[1:] {
		for _, difference := range d.fleet.stock.Differences(set[0], member) {
			if !slices.Contains(fields, difference.Field) {
				fields = append(fields, difference.Field)
			}
		}
	}
	for _, row := range d.fleet.report.Sets {
		if slices.Equal(row.Groups, set) {
			flags = row.Stock.Flags
			if len(row.Stock.Obstacles) > 0 {
				return strings.Join(row.Stock.Obstacles, ", "), nil
			}
		}
	}
	for _, label := range d.fleet.late {
		if slices.Contains(fields, "labels["+label+"]") {
			flags = append(flags, ignoredLabel+label)
			d.lateLabels = append(d.lateLabels, label)
		}
	}
	if len(fields) == 0 {
		return "what they are compared by is negative or missing", flags
	}
	return "they differ in " + spelling.List(fields, few), flags
}

// joinedWrongly looks for groups that Cluster Autoscaler balances although they are not similar.
func (d *diagnoser) joinedWrongly(way Way, plan plan) {
	if !d.balances() {
		return
	}
	for _, set := range d.fleet.stock.Sets() {
		var different []string
		for _, name := range set[1:] {
			if differences := d.fleet.own.Differences(set[0], name); len(differences) > 0 && !d.fleet.own.AreSimilar(set[0], name) {
				different = append(different, fmt.Sprintf("%s %s", name, nodegroupset.DiffersBy(differences)))
			}
		}
		if len(different) == 0 {
			continue
		}
		d.find(Finding{
			Severity: Warning, Reason: JoinedWrongly, Groups: set, Apart: d.apartOf(set), Way: way, Flags: plan.flags,
			Message: fmt.Sprintf("Cluster Autoscaler balances %s with groups that are not similar: %s", set[0], spelling.List(different, few)),
			Remedy: map[bool]string{true: "set the flags of the recommendation",
				false: "no flags keep them apart, as taints are not compared: let evenkeel choose"}[way == WayAutoscaler],
		})
	}
}

// unsteady looks for labels that some nodes of a group have and others do not, or with another value, and for other amounts: whether
// groups are similar then depends on which node is taken for the template.
func (d *diagnoser) unsteady() (labels []string) {
	for _, field := range slices.Sorted(maps.Keys(d.fleet.odd)) {
		groups := slices.DeleteFunc(slices.Clone(d.fleet.odd[field]), func(name string) bool { return !d.fleet.near[name] })
		if len(groups) == 0 {
			continue
		}
		label, isLabel := labelOf(field)
		what := field
		if isLabel {
			what = "the label " + label
		}
		f := Finding{
			Severity: Warning, Reason: NodesDiffer, Groups: groups, Apart: d.apartOf(groups), Way: WayAutoscaler,
			Flags: []string{ignoredLabel + label},
			Message: fmt.Sprintf("nodes of %s differ from each other in %s, so it depends on the node that Cluster "+
				"Autoscaler takes for a new one whether the group is similar to others", spelling.List(groups, few), what),
			Remedy: "set the flag, or give all nodes of a group the same value",
		}
		switch {
		case hasMeaning(field):
			f.Way, f.Flags, f.Remedy = "", nil, "make a group for each value, as it says what a node is"
		case !d.fleet.effect:
			f.Way, f.Flags, f.Remedy = "", nil, "give all nodes of a group the same value: the flag to ignore it has no effect here"
		default:
			labels = append(labels, label)
		}
		d.find(f)
	}
	return labels
}

// uneven looks for sets that are far from even although they are balanced and nothing else explains that: a
// fifth of the nodes or more is in the wrong group.
func (d *diagnoser) uneven(shared []SetResult) {
	balances := d.installed != "" || d.balances()
	for _, set := range shared {
		if !balances || set.Apart < 2 || set.Apart*5 < set.Nodes || d.backedOff(set.Groups) || d.explained(set.Groups) {
			continue
		}
		f := Finding{
			Severity: Warning, Reason: Uneven, Groups: set.Groups, Apart: set.Apart,
			Message: fmt.Sprintf("%s of %s would be in another group in an even set", spelling.Count(set.Apart, "node"),
				spelling.List(set.Groups, few)),
			Remedy: "the next scale-ups make the set even, as the smallest groups grow first",
		}
		shrinks := d.autoscaler != nil && d.autoscaler.Flags.Is("scale-down-enabled", true)
		if shrinks && (d.installed == "" || d.installed == WayExpander) {
			f.Way = WayLinked
			if d.autoscaler.Flags.Get("cloud-provider", "") == "externalgrpc" {
				f.Way = WaySidecar
			}
			f.Message += "; scale-ups are balanced, but scale-downs take nodes from any group"
			f.Remedy += "; to keep it even in scale-downs as well, evenkeel must see them"
		}
		d.find(f)
	}
}

// explained reports whether a finding before says why groups are not balanced.
func (d *diagnoser) explained(set []string) bool {
	return slices.ContainsFunc(d.result.Findings, func(f Finding) bool {
		return slices.Contains([]Reason{NotSimilar, JoinedWrongly, NodesDiffer}, f.Reason) &&
			slices.ContainsFunc(f.Groups, func(name string) bool { return slices.Contains(set, name) })
	})
}

func (d *diagnoser) backedOff(set []string) bool {
	return slices.ContainsFunc(set, func(name string) bool {
		state := d.groups[name].state
		return state != nil && (state.Backoff != nil || state.ScaleUp == autoscalerstatus.Unhealthy)
	})
}
