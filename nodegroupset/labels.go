package nodegroupset

import "slices"

// labelRule turns a node's labels into those that are compared.
type labelRule struct {
	ignored map[string]bool       // never compared
	byKey   map[string]*CloudPack // the cloud on whose nodes a key is not compared
	clouds  clouds
	current map[string]string // the current name of a deprecated key
}

func newLabelRule(packs LabelPacks, o Options) *labelRule {
	r := &labelRule{ignored: map[string]bool{}, byKey: map[string]*CloudPack{}, clouds: packs.clouds(), current: map[string]string{}}
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
		for _, key := range pack.Cloud.Labels {
			r.byKey[key] = pack.Cloud
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
		if r.ignored[l.key] {
			continue
		}
		if current, ok := r.current[l.key]; ok {
			value, present := f.lookup(current)
			if r.ignored[current] || present && value == l.value {
				continue
			}
			if !present {
				l.key, renamed = current, true
			}
		}
		if c := r.byKey[l.key]; c != nil && r.clouds.show(c, f) {
			continue
		}
		out = append(out, l)
	}
	if renamed {
		slices.SortFunc(out, label.compare)
	}
	return out
}
