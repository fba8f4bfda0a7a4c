package nodegroupset

import (
	"fmt"
	"slices"
)

// Remedy is what would make groups similar. Flags are those of evenkeel and of
// Cluster Autoscaler, which have the same names. Where flags alone cannot do it,
// Obstacles say why and there are no Flags.
type Remedy struct {
	Flags     []string `json:"flags,omitempty"`
	Obstacles []string `json:"obstacles,omitempty"`
	Cautions  []string `json:"cautions,omitempty"` // what else the flags would do
	// Sets is how many sets there would be, and Joined are those of them that do
	// not exist without the flags; found by comparing the whole fleet again.
	Sets   int        `json:"sets,omitempty"`
	Joined [][]string `json:"joined,omitempty"`
}

// changes are what flags can change about a comparison.
type changes struct {
	ignore []string // sorted
	ratios [kinds]*Ratio
}

// merge adds what other changes besides.
func (c changes) merge(other changes) changes {
	out := changes{ignore: slices.Concat(c.ignore, other.ignore), ratios: c.ratios}
	slices.Sort(out.ignore)
	out.ignore = slices.Compact(out.ignore)
	for kind, needed := range other.ratios {
		if needed != nil {
			out.raise(kind, *needed)
		}
	}
	return out
}

// raise lets a ratio be at least what is needed.
func (c *changes) raise(kind int, needed Ratio) {
	if c.ratios[kind] == nil || c.ratios[kind].compare(needed) < 0 {
		c.ratios[kind] = &needed
	}
}

var ratioFlags = [kinds]string{"memory-difference-ratio", "max-allocatable-difference-ratio", "max-free-difference-ratio"}

func (c changes) flags() []string {
	var out []string
	for _, key := range c.ignore {
		out = append(out, "--balancing-ignore-label="+key)
	}
	for kind, needed := range c.ratios {
		if needed != nil {
			out = append(out, "--"+ratioFlags[kind]+"="+needed.String())
		}
	}
	return out
}

// cautions name what the changes would hide.
func (c changes) cautions(packs LabelPacks) []string {
	var out []string
	for _, key := range c.ignore {
		if packs.HasMeaning(key) {
			out = append(out, key+" says how capacity is bought or what it may be used for")
		}
	}
	for kind, needed := range c.ratios {
		if needed != nil && needed.num == pow10[needed.digits] {
			out = append(out, fmt.Sprintf("--%s=%s lets every amount pass", ratioFlags[kind], needed))
		}
	}
	return out
}

// tally collects what has to change for mismatches to vanish.
type tally struct {
	changes
	obstacles []string
}

// remedy works out the changes that make two groups similar under a rule.
func (r *rule) remedy(a, b *entry) tally {
	var t tally
	for m := range r.mismatches(a, b) {
		one, needed := m.any(), Ratio{}
		var obstacle string
		switch {
		case one.kind == ofLabel:
			ignore := []string{one.key}
			if current, deprecated := r.current[one.key]; deprecated {
				ignore = append(ignore, current) // where a group has the deprecated key only, it then has neither
			}
			t.changes = t.merge(changes{ignore: ignore})
			continue
		case r.kind == stockRule && (m.left == nil || m.right == nil):
			obstacle = "is listed on one side only"
		case one.exactly():
			obstacle = "must be equal"
		case one.never || m.right != nil && m.right.never:
			obstacle = "is negative, which is never similar"
		default:
			needed, obstacle = r.ratioNeeded(m)
		}
		if obstacle != "" {
			t.obstacles = append(t.obstacles, one.field()+" "+obstacle)
		} else {
			t.raise(int(one.kind), needed)
		}
	}
	return t
}

// ratioNeeded is the smallest ratio that lets two amounts pass, or what is in the way.
func (r *rule) ratioNeeded(m mismatch) (needed Ratio, obstacle string) {
	needed, ok := m.gap().needed()
	if ok && r.kind == stockRule {
		needed, ok = stockRatio(needed, m.left.amount(), m.right.amount())
	}
	if !ok {
		return Ratio{}, "differs by more than any ratio allows"
	}
	return needed, ""
}

// remainingKeys are those of label-only mode that make no difference between two groups.
func (r *rule) remainingKeys(a, b *entry) []string {
	keep := slices.Clone(r.keys)
	for m := range r.mismatches(a, b) {
		keep = slices.DeleteFunc(keep, func(key string) bool { return key == m.any().key })
	}
	return keep
}

func labelFlags(keys []string) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = "--balancing-label=" + key
	}
	return out
}
