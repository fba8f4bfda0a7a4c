package nodegroupset

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Index answers which node groups are similar. It keeps a fingerprint per group:
// finding the similar groups of all groups costs little more than reading the
// templates, and a changed template costs as much as itself.
//
// An Index keeps no reference to the templates it is given. Its questions may be
// asked concurrently, as long as nobody calls Set or Delete meanwhile.
type Index struct {
	// Cloud is that of the build of Cluster Autoscaler which Explain and Compare report on, as
	// StockCloud finds it.
	Cloud   string
	options Options
	packs   LabelPacks
	rule    *rule
	printer *printer
	groups  map[string]*entry
	buckets map[string]*bucket
	// declared are the groups of the declared sets, by name; nothing is compared of them.
	declared map[int][]string
}

// entry is one group.
type entry struct {
	name    string
	facts   *facts
	traits  []trait
	numbers []number
	bucket  *bucket // nil: similar to no group, or to those of its declared set
	set     int     // the number of its declared set, from 1; 0 if it is in none
}

// NewIndex returns an empty index. Options that cannot be used are refused with
// an *apportion.InvalidError.
func NewIndex(options Options) (*Index, error) {
	packs, err := ShippedPacks()
	if err != nil {
		return nil, err
	}
	if err := options.check(packs); err != nil {
		return nil, err
	}
	options.IgnoreLabels = slices.Clone(options.IgnoreLabels)
	options.Labels = slices.Clone(options.Labels)
	options.DisabledPacks = slices.Clone(options.DisabledPacks)
	options.Policies = slices.Clone(options.Policies)
	x := newIndex(options.rule(packs))
	x.options, x.packs = options, packs
	return x, nil
}

func newIndex(r *rule) *Index {
	return &Index{
		rule: r, printer: newPrinter(r.limits),
		groups: map[string]*entry{}, buckets: map[string]*bucket{}, declared: map[int][]string{},
	}
}

// Set adds a group or replaces its template. A template that cannot be compared
// (no node, no capacity, an amount that is negative or out of range) is refused
// with an *apportion.InvalidError whose path starts at the template's node or pods, and
// leaves the index as it was.
func (x *Index) Set(name string, t cloudprovider.Template) error {
	f, err := readTemplate(t)
	if err == nil && len(t.Node.Status.Capacity) == 0 && len(x.options.Labels) == 0 {
		err = apportion.Invalid("node.status.capacity", v1.ResourceList{}, "a template needs a capacity")
	}
	if err != nil {
		return fmt.Errorf("node group %q: %w", name, err)
	}
	set := 0
	if at, declared := placeOf(x.options.Policies, name, t.Node); declared {
		set = at.set + 1
	}
	x.set(name, f, set)
	return nil
}

func (x *Index) set(name string, f *facts, set int) {
	x.Delete(name)
	traits := x.rule.traits(f)
	mark := x.printer.print(traits)
	e := &entry{name: name, facts: f, traits: traits, numbers: mark.numbers, set: set}
	x.groups[name] = e
	if set > 0 {
		at, _ := slices.BinarySearch(x.declared[set], name)
		x.declared[set] = slices.Insert(slices.Clone(x.declared[set]), at, name)
		return
	}
	if mark.alone {
		return
	}
	b := x.buckets[string(mark.exact)]
	if b == nil {
		b = &bucket{key: string(mark.exact), entries: map[*entry]bool{}}
		x.buckets[b.key] = b
	}
	e.bucket = b
	b.entries[e], b.clusters = true, nil
}

// Clone returns an index of the same groups.
func (x *Index) Clone() *Index {
	out := newIndex(x.rule)
	out.Cloud, out.options, out.packs = x.Cloud, x.options, x.packs
	for _, name := range x.Names() {
		e := x.groups[name]
		out.set(name, e.facts, e.set)
	}
	return out
}

// Delete forgets a group. Deleting an unknown group does nothing.
func (x *Index) Delete(name string) {
	e := x.groups[name]
	if e == nil {
		return
	}
	delete(x.groups, name)
	if at, member := slices.BinarySearch(x.declared[e.set], name); member {
		x.declared[e.set] = slices.Delete(slices.Clone(x.declared[e.set]), at, at+1)
	}
	if e.bucket == nil {
		return
	}
	delete(e.bucket.entries, e)
	if e.bucket.clusters = nil; len(e.bucket.entries) == 0 {
		delete(x.buckets, e.bucket.key)
	}
}

// Names returns the groups in name order.
func (x *Index) Names() []string { return slices.Sorted(maps.Keys(x.groups)) }

// Similar returns the groups similar to the named one, sorted and without
// itself. It is empty for an unknown group.
func (x *Index) Similar(name string) []string {
	names, _ := x.Alike(name)
	if len(names) < 2 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
}

// Sets returns every group in exactly one set: in name order a group joins the
// first set whose first member it is similar to, else it opens its own; the groups of
// a declared set are one. Sets and their members are sorted. Similarity is not transitive, so two groups of one
// set need not be similar, and the partners of a split are those of Similar.
func (x *Index) Sets() [][]string {
	var sets [][]string
	opened := map[*cluster][]int{} // the sets of a cluster
	for _, name := range x.Names() {
		e := x.groups[name]
		if e.bucket == nil {
			if set := x.declared[e.set]; e.set == 0 {
				sets = append(sets, []string{name})
			} else if set[0] == name {
				sets = append(sets, slices.Clone(set))
			}
			continue
		}
		c := e.bucket.clusterOf(e, x.printer)
		at := slices.IndexFunc(opened[c], func(set int) bool { return x.printer.similar(e.numbers, x.groups[sets[set][0]].numbers) })
		if at >= 0 {
			set := opened[c][at]
			sets[set] = append(sets[set], name)
			continue
		}
		opened[c] = append(opened[c], len(sets))
		sets = append(sets, []string{name})
	}
	return sets
}
