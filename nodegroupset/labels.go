package nodegroupset

import (
	"slices"
	"strings"
)

// labelRule turns a node's labels into those that are compared.
type labelRule struct {
	ignored map[string]bool   // never compared
	byKey   map[string]*cloud // the cloud on whose nodes a key is not compared
	current map[string]string // the current name of a deprecated key
}

type cloud struct{ schemes, prefixes []string }

func newLabelRule(packs LabelPacks, o Options) *labelRule {
	r := &labelRule{ignored: map[string]bool{}, byKey: map[string]*cloud{}, current: map[string]string{}}
	for _, key := range o.IgnoreLabels {
		r.ignored[key] = true
	}
	for _, pack := range packs.Packs {
		if slices.Contains(o.DisabledPacks, pack.Name) {
			continue
		}
		for _, key := range pack.Labels {
			r.ignored[key] = true
		}
		if pack.Cloud == nil {
			continue
		}
		c := &cloud{pack.Cloud.Schemes, pack.Cloud.Prefixes}
		for _, key := range pack.Cloud.Labels {
			r.byKey[key] = c
		}
	}
	for _, alias := range packs.Aliases {
		r.current[alias.Deprecated] = alias.Current
	}
	return r
}

// compared returns the labels that count, sorted: those not ignored, with a
// deprecated key dropped beside an equal current one and renamed in its absence.
// Beside a current key of another value it stays a label of its own.
func (r *labelRule) compared(f *facts) []label {
	out := make([]label, 0, len(f.labels))
	renamed := false
	for _, l := range f.labels {
		if current, ok := r.current[l.key]; ok {
			value, present := f.lookup(current)
			if r.ignored[current] || present && value == l.value {
				continue
			}
			if !present {
				l.key, renamed = current, true
			}
		}
		if r.ignored[l.key] {
			continue
		}
		if c := r.byKey[l.key]; c != nil && c.shows(f) {
			continue
		}
		out = append(out, l)
	}
	if renamed {
		slices.SortFunc(out, label.compare)
	}
	return out
}

// shows says whether the node is one of this cloud: by the scheme of its
// providerID or, without one, by a label with one of the cloud's prefixes.
func (c *cloud) shows(f *facts) bool {
	if f.providerID != "" {
		scheme, _, found := strings.Cut(f.providerID, ":")
		return found && slices.Contains(c.schemes, scheme)
	}
	return slices.ContainsFunc(f.labels, func(l label) bool {
		return slices.ContainsFunc(c.prefixes, func(prefix string) bool { return strings.HasPrefix(l.key, prefix) })
	})
}
