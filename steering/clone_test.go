package steering

import (
	"maps"
	"slices"
)

// Clone returns a state in which the same events lead to the same. It shares with this one only what no
// event changes: readings, questions, and maps and slices that are always replaced as a whole.
func (s *State) Clone() *State {
	out := *s
	out.groups = cloneEach(s.groups, (*groupState).clone)
	out.nodes.inferred = maps.Clone(s.nodes.inferred)
	out.cloneCaller(s)
	out.sets.index = s.sets.index.Clone()
	out.plan.current, out.plan.question = clone(s.plan.current), clone(s.plan.question)
	out.plan.uneven = cloneEach(s.plan.uneven, clone)
	out.failures.backoff, out.failures.closed = s.failures.backoff.Clone(), maps.Clone(s.failures.closed)
	out.levels.sets = cloneEach(s.levels.sets, (*level).clone)
	out.zones.shifts, out.zones.labels = s.zones.shifts.Clone(), maps.Clone(s.zones.labels)
	out.pods.awaited, out.pods.warned = cloneEach(s.pods.awaited, (*awaited).clone), maps.Clone(s.pods.warned)
	return &out
}

// clone returns a pointer to a copy.
func clone[T any](of *T) *T {
	if of == nil {
		return nil
	}
	out := *of
	return &out
}

func cloneEach[K comparable, V any](of map[K]V, clone func(V) V) map[K]V {
	out := maps.Clone(of)
	for key, value := range of {
		out[key] = clone(value)
	}
	return out
}

// cloneCaller clones what is known of Cluster Autoscaler. The pick that waits for its increase may be that
// of the increase being answered, and must be the same one in the clone.
func (s *State) cloneCaller(of *State) {
	to, from := &s.caller, &of.caller
	to.grown, to.raised = maps.Clone(from.grown), maps.Clone(from.raised)
	cloned := map[*pick]*pick{}
	pickOf := func(p *pick) *pick {
		if p != nil && cloned[p] == nil {
			cloned[p] = p.clone(s)
		}
		return cloned[p]
	}
	to.pick, to.grant = pickOf(from.pick), clone(from.grant)
	if to.grant != nil {
		to.grant.pick, to.grant.about = pickOf(from.grant.pick), pickOf(from.grant.about)
	}
}

// clone returns the pick as one of another state.
func (p *pick) clone(of *State) *pick {
	out := clone(p)
	if out.split = clone(p.split); out.split != nil {
		out.split.members = slices.Clone(p.split.members)
	}
	if out.from = clone(p.from); out.from != nil {
		out.from.s, out.from.similar, out.from.offers = of, maps.Clone(p.from.similar), maps.Clone(p.from.offers)
	}
	return out
}

func (b *groupState) clone() *groupState {
	out := clone(b)
	out.order, out.deleted = clone(b.order), maps.Clone(b.deleted)
	out.off.instances, out.takers = maps.Clone(b.off.instances), maps.Clone(b.takers)
	return out
}

func (l *level) clone() *level {
	out := clone(l)
	out.least = maps.Clone(l.least)
	return out
}

func (a *awaited) clone() *awaited {
	out := clone(a)
	out.groups = maps.Clone(a.groups)
	return out
}
