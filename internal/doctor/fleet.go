package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// fleet is the groups as evenkeel and as Cluster Autoscaler compare them.
type fleet struct {
	templates map[string]cloudprovider.Template // that Cluster Autoscaler compares
	empty     map[string]bool                   // groups without nodes, of which it has the cloud's template
	cloud     string
	options   nodegroupset.Options // of Cluster Autoscaler
	mine      nodegroupset.Options // of evenkeel: the same, and that placed and odd labels make no difference
	placed    []string             // labels that only say of which group or zone a node is
	problems  []string             // with its flags
	// effect says whether the labels to ignore and the ratios have one: since 1.37 only on three clouds.
	effect bool
	// late are labels without a meaning that this release compares and the patch fixed, or the next release, does not.
	late  []string
	fixed int

	// odd are the fields in which ready nodes of a group differ, with the names of the groups. Labels without a meaning among them make
	// no difference here, so that the sets do not depend on which node stands for a group. Near are the groups that are similar to
	// others, or would be with another node or without these labels.
	odd  map[string][]string
	near map[string]bool
	// others are what groups look like by a node with other amounts than the first.
	others map[string]cloudprovider.Template

	report nodegroupset.Report // of the sets of evenkeel, by the templates
	own    *nodegroupset.Index // of evenkeel
	stock  *nodegroupset.Index // of Cluster Autoscaler
}

// clouds have a comparison of their own in Cluster Autoscaler.
var clouds = []string{"aws", "azure", "gce"}

// genericFrom is the first release in which flags about similarity have no effect on other clouds.
const genericFrom = 37

// readFleet takes what is compared, and the flags by which Cluster Autoscaler compares.
func (d *diagnoser) readFleet() {
	f := &fleet{
		templates: map[string]cloudprovider.Template{}, empty: map[string]bool{}, odd: map[string][]string{}, near: map[string]bool{},
		others: map[string]cloudprovider.Template{}, effect: true,
	}
	var nodes []*v1.Node
	for _, name := range d.names() {
		if t := d.groups[name].Template; t != nil {
			f.templates[name] = *t
			f.empty[name] = len(d.groups[name].Nodes) == 0
			nodes = append(nodes, t.Node)
		}
	}
	f.cloud = d.cloud(nodes)
	if d.autoscaler != nil {
		flags := &d.autoscaler.Flags
		f.effect = d.autoscaler.Minor < genericFrom || slices.Contains(clouds, f.cloud)
		f.read(flags)
		if d.autoscaler.Minor > 0 {
			f.late, f.fixed = nodegroupset.StockLate(f.cloud, d.autoscaler.Minor, d.autoscaler.Patch)
		}
	}
	f.mine = f.options
	if slices.ContainsFunc(f.mine.Labels, func(label string) bool { return f.having(label) < len(f.templates) }) {
		f.mine.Labels = nil // evenkeel would not find the sets by them either
	}
	f.mine = nodegroupset.ParseGroupLabel(d.observed.Label).Ignoring(f.mine)
	f.placed = slices.Clone(f.mine.IgnoreLabels[len(f.options.IgnoreLabels):])
	if d.installed == "" && len(f.mine.Labels) == 0 {
		for _, name := range d.names() {
			fields, other := f.differing(d.groups[name].Nodes)
			for _, field := range fields {
				f.odd[field] = append(f.odd[field], name)
			}
			if other != nil && d.groups[name].Template != nil {
				f.others[name] = cloudprovider.Template{
					Node: template.OfNode(name, other, nil, nil).Node, Pods: d.groups[name].Template.Pods,
				}
			}
		}
	}
	f.mine.IgnoreLabels = append(f.mine.IgnoreLabels, f.oddLabels(false)...)
	d.fleet = f
}

// differing are the fields in which ready nodes differ as Cluster Autoscaler compares them, of amounts the first, and the first node whose
// amounts differ.
func (f *fleet) differing(nodes []*v1.Node) (fields []string, other *v1.Node) {
	options := nodegroupset.Options{}
	if f.effect {
		options = f.options
	}
	options.Labels = nil
	x, err := nodegroupset.NewStockIndex(f.cloud, options, f.late...)
	if err != nil {
		return nil, nil
	}
	byName := map[string]*v1.Node{}
	for _, n := range nodes {
		if template.IsReady(n) {
			// What only a node that cannot be compared says is not looked at.
			_ = x.Set(n.Name, cloudprovider.Template{Node: n})
			byName[n.Name] = n
		}
	}
	names := x.Names()
	for i := range names {
		if i == 0 || x.AreSimilar(names[0], names[i]) {
			continue
		}
		for _, difference := range x.Differences(names[0], names[i]) {
			_, isLabel := labelOf(difference.Field)
			switch {
			case !isLabel && other != nil:
			case isLabel && slices.Contains(fields, difference.Field):
			default:
				fields = append(fields, difference.Field)
				if !isLabel {
					other = byName[names[i]]
				}
			}
		}
	}
	return fields, other
}

// labelOf is the label that a field of a difference is.
func labelOf(field string) (label string, isLabel bool) {
	label, isLabel = strings.CutPrefix(field, "labels[")
	return strings.TrimSuffix(label, "]"), isLabel
}

// hasMeaning reports whether a field says what a node is or what it may be used for.
func hasMeaning(field string) bool {
	label, isLabel := labelOf(field)
	packs, err := nodegroupset.ShippedPacks()
	return err != nil || !isLabel || packs.HasMeaning(label) || label == v1.LabelInstanceTypeStable || label == v1.LabelInstanceType
}

// oddLabels are the labels among the odd fields, those with a meaning only if that is wanted.
func (f *fleet) oddLabels(all bool) (labels []string) {
	for _, field := range slices.Sorted(maps.Keys(f.odd)) {
		if label, isLabel := labelOf(field); isLabel && (all || !hasMeaning(field)) {
			labels = append(labels, label)
		}
	}
	return labels
}

// ignored notes the labels that make no difference here, and would elsewhere.
func (d *diagnoser) ignored() {
	own := slices.DeleteFunc(slices.Clone(d.fleet.placed), func(label string) bool { return d.fleet.having(label) == 0 }) // an annotation
	if len(own) > 0 {
		d.note(fmt.Sprintf("labels that only say of which group or zone a node is make no difference here: %s; evenkeel elsewhere needs "+
			"%s to know that", spelling.List(own, few), strings.Join(flagged(ignoredLabel, own), " ")))
	}
	if more := d.fleet.report.Suggestion; len(more.Flags) > 0 {
		d.note(fmt.Sprintf("if some labels mean nothing, evenkeel and Cluster Autoscaler find %s with %s (evenkeel explain)",
			spelling.Count(more.Sets, "set"), strings.Join(more.Flags, " ")))
	}
}

// cloud is the provider that Cluster Autoscaler is given, or else that of nodes.
func (d *diagnoser) cloud(nodes []*v1.Node) string {
	given := ""
	if d.autoscaler != nil {
		given = d.autoscaler.Flags.Get("cloud-provider", "")
	}
	return cmp.Or(given, nodegroupset.StockCloud(slices.Values(nodes)))
}

func (f *fleet) having(label string) (n int) {
	for _, t := range f.templates {
		if _, found := t.Node.Labels[label]; found {
			n++
		}
	}
	return n
}

// ratioFlags are those of Cluster Autoscaler about amounts, in the order of ratios.
var ratioFlags = []string{"memory-difference-ratio", "max-allocatable-difference-ratio", "max-free-difference-ratio"}

func (f *fleet) read(flags *Flags) {
	o := &f.options
	o.Labels, o.IgnoreLabels = flags.All("balancing-label"), flags.All("balancing-ignore-label")
	for i, into := range ratios(o) {
		text := flags.Get(ratioFlags[i], "")
		if text == "" {
			continue
		}
		ratio, err := nodegroupset.ParseRatio(text)
		if err != nil {
			f.problems = append(f.problems, fmt.Sprintf("--%s=%s cannot be read: %v", ratioFlags[i], text, err))
			continue
		}
		*into = &ratio
	}
}

// ratios are the fields of options that ratioFlags set.
func ratios(o *nodegroupset.Options) []**nodegroupset.Ratio {
	return []**nodegroupset.Ratio{&o.MemoryDifferenceRatio, &o.MaxAllocatableDifferenceRatio, &o.MaxFreeDifferenceRatio}
}

// ofPlace are names of labels that say where a node is, as drivers and clouds have them.
var ofPlace = regexp.MustCompile(`(?i)zone|region|location|data-?center|(failure|fault|availability)-?domain|^topology\.`)

// fill compares the groups. Labels that say no more than the zone, by their names and by their values in this fleet, make no difference.
func (f *fleet) fill() (err error) {
	if f.own, err = f.completed(f.mine); err != nil {
		return err
	}
	before := len(f.placed)
	for _, c := range f.own.Explain().Candidates {
		if c.FollowsZone && ofPlace.MatchString(c.Label) {
			f.placed, f.mine.IgnoreLabels = append(f.placed, c.Label), append(f.mine.IgnoreLabels, c.Label)
		}
	}
	if len(f.placed) > before {
		if f.own, err = f.completed(f.mine); err != nil {
			return err
		}
	}
	if err := f.findNear(); err != nil {
		return err
	}
	// What these sets need of Cluster Autoscaler is about the templates as they are.
	declared := f.mine
	for i, set := range f.own.Sets() {
		if len(set) > 1 {
			declared.Policies = append(declared.Policies, nodegroupset.SetPolicy{
				Name: strconv.Itoa(i), Portions: []nodegroupset.PortionPolicy{{Portion: nodegroupset.Portion{Groups: set}}},
			})
		}
	}
	asDeclared, err := f.index(declared, f.templates)
	if err != nil {
		return err
	}
	f.report = asDeclared.Explain()
	steady := f.options
	steady.IgnoreLabels = slices.Concat(steady.IgnoreLabels, f.oddLabels(false))
	f.stock, err = f.under(steady)
	return err
}

// findNear finds the groups that are similar to others, or would be with another node or without odd labels.
func (f *fleet) findNear() error {
	loose := f.mine
	loose.IgnoreLabels = slices.Concat(loose.IgnoreLabels, f.oddLabels(true))
	x, err := f.completed(loose)
	if err != nil {
		return err
	}
	find := func() {
		for _, set := range x.Sets() {
			for _, name := range set {
				f.near[name] = f.near[name] || len(set) > 1
			}
		}
	}
	find()
	for name, other := range f.others {
		if err := x.Set(name, other); err != nil {
			return err
		}
	}
	find()
	return nil
}

// completed compares as evenkeel does, which fills in what the cloud's templates of empty groups lack.
func (f *fleet) completed(o nodegroupset.Options) (*nodegroupset.Index, error) {
	all := maps.Clone(f.templates)
	if err := template.ShareCloud(all); err != nil {
		return nil, err
	}
	completions, err := template.Complete(all, f.empty, o, func(func(*v1.PodSpec) bool) {})
	if err != nil {
		return nil, err
	}
	for name, c := range completions {
		if c.Template != nil {
			all[name] = *c.Template
		}
	}
	return f.index(o, all)
}

// index compares templates as evenkeel does.
func (f *fleet) index(o nodegroupset.Options, templates map[string]cloudprovider.Template) (*nodegroupset.Index, error) {
	x, err := nodegroupset.NewIndex(o)
	if err != nil {
		return nil, err
	}
	x.Cloud = f.cloud
	return filled(x, templates)
}

func filled(x *nodegroupset.Index, templates map[string]cloudprovider.Template) (*nodegroupset.Index, error) {
	for name, t := range templates {
		if err := x.Set(name, t); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// under compares the groups as Cluster Autoscaler does with these options.
func (f *fleet) under(o nodegroupset.Options) (*nodegroupset.Index, error) {
	if !f.effect && len(o.Labels) == 0 {
		o = nodegroupset.Options{}
	}
	x, err := nodegroupset.NewStockIndex(f.cloud, o, f.late...)
	if err != nil {
		return nil, err
	}
	return filled(x, f.templates)
}

// agrees reports whether Cluster Autoscaler finds the sets of evenkeel with these options, and evenkeel still does, which
// reads the same flags.
func (f *fleet) agrees(o nodegroupset.Options) bool {
	x, err := f.under(o)
	if err != nil || !slices.EqualFunc(x.Sets(), f.own.Sets(), slices.Equal[[]string]) {
		return false
	}
	if len(o.Labels) > 0 {
		return true
	}
	mine := o
	mine.IgnoreLabels = slices.Concat(f.mine.IgnoreLabels, o.IgnoreLabels)
	then, err := f.completed(mine)
	return err == nil && slices.EqualFunc(then.Sets(), f.own.Sets(), slices.Equal[[]string])
}

// joins reports whether Cluster Autoscaler takes all groups of a set for similar.
func joins(x *nodegroupset.Index, set []string) bool {
	return !slices.ContainsFunc(set[1:], func(member string) bool { return !x.AreSimilar(set[0], member) })
}

// The flags of Cluster Autoscaler about labels, as they are written before a label.
const chosenLabel, ignoredLabel = "--balancing-label=", "--balancing-ignore-label="

// flagged writes a flag for each label.
func flagged(flag string, labels []string) (flags []string) {
	for _, label := range labels {
		flags = append(flags, flag+label)
	}
	return flags
}

// A plan is what makes Cluster Autoscaler find the sets of evenkeel by itself.
type plan struct {
	flags, without []string
	possible       bool
}

// plan looks for flags under which Cluster Autoscaler finds the same sets: none, more labels to ignore and
// wider ratios, or one label that decides alone.
func (f *fleet) plan(ignore []string) plan {
	if len(ignore) == 0 && f.agrees(f.options) {
		return plan{possible: true}
	}
	without := flagged(chosenLabel, f.options.Labels)
	late := slices.DeleteFunc(slices.Clone(f.late), func(label string) bool { return f.having(label) == 0 })
	more := flagged(ignoredLabel, slices.Concat(ignore, late))
	labels := slices.DeleteFunc(slices.Clone(f.report.Stock.Flags), func(flag string) bool {
		return !strings.HasPrefix(flag, ignoredLabel)
	})
	for _, needed := range [][]string{more, slices.Concat(labels, more), slices.Concat(f.report.Stock.Flags, more)} {
		if wider, flags := f.widened(needed); f.effect && f.agrees(wider) {
			return plan{flags: flags, without: without, possible: true}
		}
	}
	for _, label := range f.deciding() {
		if f.agrees(nodegroupset.Options{Labels: []string{label}}) {
			others := slices.DeleteFunc(slices.Clone(f.options.Labels), func(other string) bool { return other == label })
			return plan{
				flags:    flagged(chosenLabel, []string{label}),
				without:  slices.Concat(flagged(ignoredLabel, f.options.IgnoreLabels), flagged(chosenLabel, others)),
				possible: true,
			}
		}
	}
	return plan{}
}

// widened adds flags to those that there are, and returns which of them are new.
func (f *fleet) widened(needed []string) (nodegroupset.Options, []string) {
	o := f.options
	o.Labels = nil
	o.IgnoreLabels = slices.Clone(o.IgnoreLabels)
	var flags []string
	for _, flag := range needed {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if name == "balancing-ignore-label" {
			if !slices.Contains(o.IgnoreLabels, value) {
				o.IgnoreLabels = append(o.IgnoreLabels, value)
				flags = append(flags, flag)
			}
			continue
		}
		ratio, err := nodegroupset.ParseRatio(value)
		if at := slices.Index(ratioFlags, name); err == nil && at >= 0 && !atLeast(*ratios(&o)[at], ratio) {
			*ratios(&o)[at] = &ratio
			flags = append(flags, flag)
		}
	}
	return o, flags
}

// atLeast reports whether a ratio that is given lets pass all that another does. They are decimals between 0
// and 1, whose texts are in the order of their values.
func atLeast(given *nodegroupset.Ratio, needed nodegroupset.Ratio) bool {
	return given != nil && given.String() >= needed.String()
}

// deciding are labels of all groups whose values tell the sets of evenkeel apart: the machine type first. Those of
// places are left out: they tell apart what is there today.
func (f *fleet) deciding() []string {
	sets, keys := f.own.Sets(), []string{}
	for _, t := range f.templates { // any: they all have these labels
		keys = slices.Collect(maps.Keys(t.Node.Labels))
		break
	}
	places := []string{
		v1.LabelHostname, v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion,
	}
	keys = slices.DeleteFunc(keys, func(key string) bool {
		return slices.Contains(places, key) || f.having(key) < len(f.templates) || !f.tells(key, sets)
	})
	rank := map[string]int{v1.LabelInstanceTypeStable: -1, v1.LabelInstanceType: 1} // which is deprecated
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), strings.Compare(a, b)) })
	return keys
}

// tells reports whether a label has one value in each set, and another in each.
func (f *fleet) tells(key string, sets [][]string) bool {
	taken := map[string]bool{}
	for _, set := range sets {
		first := f.templates[set[0]].Node.Labels[key]
		if taken[first] || slices.ContainsFunc(set, func(name string) bool { return f.templates[name].Node.Labels[key] != first }) {
			return false
		}
		taken[first] = true
	}
	return true
}
