package nodegroupset

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// trait is what a rule compares of a template in one field.
type trait struct {
	kind        kind
	key, effect string   // of a resource, a label or a taint
	value       string   // of a label, or of taints
	measure     *measure // of a resource
	listed      bool     // a template without the field differs; else the field counts as zero there
	never       bool     // differs from every other template
	absent      bool     // stands for a label that decides and that the template lacks
}

func (t *trait) compare(o *trait) int {
	return cmp.Or(cmp.Compare(t.kind, o.kind), strings.Compare(t.key, o.key), strings.Compare(t.effect, o.effect))
}

// exactly reports whether the trait must be equal on both sides.
func (t *trait) exactly() bool { return t.measure == nil || t.measure.exactly() }

// amount is zero for a side without the trait.
func (t *trait) amount() amount {
	if t == nil || t.measure == nil {
		return amount{}
	}
	return t.measure.amount
}

// field is the name of the field in a Difference.
func (t *trait) field() string {
	switch t.kind {
	case ofLabel:
		return "labels[" + t.key + "]"
	case ofTaint:
		return "taints[" + t.key + ":" + t.effect + "]"
	case capacity, allocatable, free:
	}
	return t.kind.String() + "." + t.key
}

// text is the value as people read it; nil if the template has none.
func (t *trait) text() *string {
	switch {
	case t == nil || t.absent:
		return nil
	case t.measure != nil:
		return new(t.measure.text())
	case t.kind == ofTaint:
		return new(strings.ReplaceAll(t.value, taintSeparator, ","))
	}
	return &t.value
}

// taintSeparator separates the values of taints of one key and effect. Several values are possible,
// though no API server lets them in.
const taintSeparator = "\x00"

func appendMeasures(traits []trait, f *facts) []trait {
	for i := range f.measures {
		m := &f.measures[i]
		traits = append(traits, trait{kind: m.kind, key: m.resource, measure: m})
	}
	return traits
}

func appendLabels(traits []trait, labels []label) []trait {
	for _, l := range labels {
		traits = append(traits, trait{kind: ofLabel, key: l.key, value: l.value, listed: true})
	}
	return traits
}

func appendTaints(traits []trait, taints []taint) []trait {
	for i, t := range taints {
		if i > 0 && t.key == taints[i-1].key && t.effect == taints[i-1].effect {
			traits[len(traits)-1].value += taintSeparator + t.value
			continue
		}
		traits = append(traits, trait{kind: ofTaint, key: t.key, effect: t.effect, value: t.value, listed: true})
	}
	return traits
}

// mismatch is a field in which two groups differ; nil is a side without it.
type mismatch struct{ left, right *trait }

func (m mismatch) any() *trait {
	if m.left != nil {
		return m.left
	}
	return m.right
}

// agree reports whether the two sides make no difference.
func (m mismatch) agree(limits ratios) bool {
	left, right, one := m.left, m.right, m.any()
	switch {
	case (left == nil || right == nil) && one.listed || one.never || right != nil && right.never:
		return false
	case one.measure == nil:
		return left.value == right.value
	case one.exactly():
		return left.amount() == right.amount() && left.excess() == right.excess()
	}
	return within(left.amount(), right.amount(), limits[one.kind])
}

func (t *trait) excess() int32 {
	if t == nil {
		return 0
	}
	return t.measure.added
}

func (m mismatch) gap() gap { return gapBetween(m.left.amount(), m.right.amount()) }

func (m mismatch) difference(limits ratios) Difference {
	d := Difference{Field: m.any().field(), Left: m.left.text(), Right: m.right.text(), Limit: limitEqual}
	// To Cluster Autoscaler itself a resource that one side does not list is a difference, whatever the ratio.
	if one := m.any(); !one.exactly() && !within(m.left.amount(), m.right.amount(), limits[one.kind]) {
		d.Ratio, d.Limit = m.gap().text(limits[one.kind]), limits[one.kind].String()
	}
	return d
}

// rule is what a comparison looks at. There is one of evenkeel, one of label-only mode, and one of
// Cluster Autoscaler itself.
type rule struct {
	kind   ruleKind
	traits func(f *facts) []trait // in the order of Differences
	limits ratios
	keys   []string // of label-only mode, sorted, without repetition
	// current is the current name of each deprecated key, where these count as such.
	current map[string]string
}

type ruleKind string

const (
	fullRule         ruleKind = "full"
	chosenLabelsRule ruleKind = "labels"
	stockRule        ruleKind = "stock"
)

// mismatches yields every field in which two groups differ, in the order of Differences.
func (r *rule) mismatches(a, b *entry) iter.Seq[mismatch] {
	return func(yield func(mismatch) bool) {
		left, right := a.traits, b.traits
		for len(left) > 0 || len(right) > 0 {
			var m mismatch
			var order int
			switch {
			case len(right) == 0:
				order = -1
			case len(left) == 0:
				order = 1
			default:
				order = left[0].compare(&right[0])
			}
			if order <= 0 {
				m.left, left = &left[0], left[1:]
			}
			if order >= 0 {
				m.right, right = &right[0], right[1:]
			}
			if !m.agree(r.limits) && !yield(m) {
				return
			}
		}
	}
}

func (o *Options) rule(packs LabelPacks) *rule {
	if len(o.Labels) > 0 {
		return newChosenLabelsRule(o.Labels)
	}
	labels := newLabelRule(packs, *o)
	return &rule{kind: fullRule, limits: o.ratios(), current: labels.current, traits: func(f *facts) []trait {
		compared := labels.compared(f)
		traits := make([]trait, 0, len(f.measures)+len(compared)+len(f.taints))
		return appendTaints(appendLabels(appendMeasures(traits, f), compared), f.taints)
	}}
}

// newChosenLabelsRule is label-only mode: each key must be present on both sides and equal.
func newChosenLabelsRule(keys []string) *rule {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	return &rule{kind: chosenLabelsRule, keys: keys, traits: func(f *facts) []trait {
		traits := make([]trait, len(keys))
		for i, key := range keys {
			value, has := f.lookup(key)
			traits[i] = trait{kind: ofLabel, key: key, value: value, listed: true, never: !has, absent: !has}
		}
		return traits
	}}
}
