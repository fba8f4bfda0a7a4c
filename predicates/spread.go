package predicates

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// spreader places pods of a kind whose only rules beyond the node are hard spread
// constraints. It keeps a count for every domain and brings it up to date with
// each pod, so a pod costs the number of its constraints and of the domains that
// may take it, not of the nodes. What a node takes beside the constraints, bulk
// says. It is kept from call to call as long as nothing else changes the Cluster.
type spreader struct {
	s        *Cluster
	k        *kind
	bulk     *bulk
	counts   *topologyspread.Counts
	overHost *topologyspread.Counter // of those; nil if no constraint is over hostnames
	about    map[*resident][]bool
	sites    map[*shape]*site
	base     *spreader // has counted the first nodes before; nil if none has
	from     int       // the nodes before it are counted but stand on no track
	tracks   []*track
	byKey    map[string]*track
	touched  []*spot // since the last call
}

// site is what nodes of one shape are to the constraints.
type site struct {
	topologyspread.Site
	track *track
}

// track is the nodes that lie in the same domains, hostnames aside, in id order.
type track struct {
	site  *site
	spots []*spot
	at    map[int]int // where to go on looking, by the first node of the range
}

// spot is one node.
type spot struct {
	id    int
	st    *state
	site  *site
	room  int // for how many more pods, beside the constraints
	added int // since st
	held  int // pods that the constraint over hostnames counts
}

// spreads reports whether a spreader can place the kind. fresh is the state of
// the nodes to be opened, if any.
func (s *Cluster) spreads(k *kind, fresh *state) bool {
	if !k.onlySpread || !s.u.c.rules.resources || s.repelledWidely(k) {
		return false
	}
	if fresh == nil {
		return true
	}
	for _, it := range fresh.items {
		if it.repels != nil && it.repels.wider && k.repelledBy(it.repels) {
			return false
		}
	}
	return true
}

// spreader returns the spreader of a kind for the nodes from lo on.
func (s *Cluster) spreader(k *kind, lo int) *spreader {
	if p := s.spreading; p != nil && p.k == k && p.s == s && p.from <= lo {
		return p
	}
	p, first := s.beginSpreader(k)
	p.from = lo
	for i := s.segmentAt(min(first, lo)); i < len(s.segments); i++ {
		seg := s.segments[i]
		end := seg.first + seg.n
		if n := end - max(seg.first, first); n > 0 {
			p.count(seg.st, n)
		}
		p.stand(max(seg.first, lo), end, seg.st)
	}
	s.spreading = p
	return p
}

// counted is what Clusters know of their first nodes, which none of them has changed: forks of one
// Cluster share it.
type counted struct {
	nodes int
	of    map[*kind]*spreader // that have counted these nodes
}

// beginSpreader returns a spreader that has counted the first nodes, as many as are counted for
// others too.
func (s *Cluster) beginSpreader(k *kind) (p *spreader, first int) {
	b := s.bulk(k, nil)
	if s.counted == nil {
		return s.newSpreader(k, b, nil), 0
	}
	base := s.counted.of[k]
	if base == nil {
		base = s.newSpreader(k, nil, nil)
		for _, seg := range s.segments {
			if n := min(seg.first+seg.n, s.counted.nodes) - seg.first; n > 0 {
				base.count(seg.st, n)
			}
		}
		s.counted.of[k] = base
	}
	return s.newSpreader(k, b, base), s.counted.nodes
}

// newSpreader returns a spreader that has seen the nodes that another one has, or none.
func (s *Cluster) newSpreader(k *kind, b *bulk, base *spreader) *spreader {
	p := &spreader{s: s, k: k, bulk: b, base: base, sites: map[*shape]*site{}, byKey: map[string]*track{}}
	if base != nil {
		p.counts = base.counts.Clone()
	} else {
		counters := make([]*topologyspread.Counter, len(k.constraints))
		for i := range k.constraints {
			counters[i] = topologyspread.NewNodeCounter(&k.constraints[i])
		}
		p.counts = topologyspread.NewCounts(k.info.Pod, counters)
	}
	if k.counts == nil {
		k.counts = map[*resident][]bool{}
	}
	p.about = k.counts
	if i := slices.IndexFunc(p.counts.Counters, func(c *topologyspread.Counter) bool { return c.PerNode }); i >= 0 {
		p.overHost = p.counts.Counters[i]
	}
	return p
}

// site looks at a shape for the first time.
func (p *spreader) site(sh *shape) *site {
	at := p.sites[sh]
	if at != nil {
		return at
	}
	at = &site{}
	if known := p.base.siteOf(sh); known != nil {
		at.Site = known.Site
	} else {
		at.Site = p.counts.Site(sh.node)
	}
	p.sites[sh] = at
	if !at.Keyed {
		return at
	}
	var key []byte
	for _, domain := range at.Domains {
		key = binary.AppendUvarint(key, uint64(domain))
	}
	at.track = p.byKey[string(key)]
	if at.track == nil {
		at.track = &track{site: at, at: map[int]int{}}
		p.byKey[string(key)] = at.track
		p.tracks = append(p.tracks, at.track)
	}
	return at
}

// siteOf returns what is known of a shape, if anything.
func (p *spreader) siteOf(sh *shape) *site {
	if p == nil {
		return nil
	}
	return p.sites[sh]
}

// held is how many pods on a node in the given state each constraint counts.
func (p *spreader) held(st *state, constraint int) int {
	n := 0
	for _, it := range st.items {
		if p.countsOf(it.resident)[constraint] {
			n += it.n
		}
	}
	return n
}

// countsOf says which constraints count a pod.
func (p *spreader) countsOf(r *resident) []bool {
	counts := p.about[r]
	if counts == nil {
		counts = make([]bool, len(p.counts.Counters))
		for i, t := range p.counts.Counters {
			counts[i] = t.Counts(r.info.Pod)
		}
		p.about[r] = counts
	}
	return counts
}

// count takes nodes in a state into the counts.
func (p *spreader) count(st *state, n int) {
	at := p.site(st.shape)
	for i, t := range p.counts.Counters {
		if at.Included[i] {
			t.Add(at.Domains[i], p.held(st, i), n)
		}
	}
}

// stand puts the nodes lo..hi on their track, where they take pods of the kind at all.
func (p *spreader) stand(lo, hi int, st *state) {
	at := p.site(st.shape)
	if lo >= hi || !at.Keyed {
		return
	}
	room := p.bulk.capacity(st, math.MaxInt32)
	if room == 0 {
		return
	}
	held := 0
	if i := p.hostAt(at); i >= 0 {
		held = p.held(st, i)
	}
	spots := make([]spot, hi-lo)
	for i := range spots {
		spots[i] = spot{id: lo + i, st: st, site: at, room: room, held: held}
		at.track.spots = append(at.track.spots, &spots[i])
	}
}

// hostAt is the constraint over hostnames that counts nodes of the site, or -1.
func (p *spreader) hostAt(at *site) int {
	for i, t := range p.counts.Counters {
		if t.PerNode && at.Included[i] {
			return i
		}
	}
	return -1
}

// place puts up to count pods on the nodes lo..hi, first fit in id order.
func (p *spreader) place(count, lo, hi int) []Placement {
	for i := range count {
		if i%1024 == 1023 && p.s.u.c.interrupted() != nil {
			break
		}
		one := p.find(lo, hi)
		if one == nil {
			break
		}
		p.put(one)
	}
	return p.settle()
}

// placeOnNew puts up to count pods on new nodes.
func (p *spreader) placeOnNew(count int, grow *growth) []Placement {
	lo := p.s.len
	for range count {
		one := p.find(lo, p.s.len)
		if one == nil {
			one = p.grow(grow)
		}
		if one == nil {
			break
		}
		p.put(one)
	}
	return p.settle()
}

// find returns the first node in lo..hi that takes one more pod, or nil.
func (p *spreader) find(lo, hi int) *spot {
	var first *spot
	for _, t := range p.tracks {
		if !p.counts.Open(&t.site.Site) {
			continue
		}
		if one := p.next(t, lo); one != nil && one.id < hi && (first == nil || one.id < first.id) {
			first = one
		}
	}
	return first
}

// next returns the first node of the track from lo on that has room.
func (p *spreader) next(t *track, lo int) *spot {
	at, known := t.at[lo]
	if !known {
		at = sort.Search(len(t.spots), func(i int) bool { return t.spots[i].id >= lo })
	}
	for at < len(t.spots) && !p.takes(t.spots[at]) {
		at++
	}
	t.at[lo] = at
	if at == len(t.spots) {
		return nil
	}
	return t.spots[at]
}

func (p *spreader) takes(one *spot) bool {
	return one.room > 0 && (p.overHost == nil || p.overHost.Allows(one.held))
}

// put puts a pod on a node.
func (p *spreader) put(one *spot) {
	if one.added == 0 {
		p.touched = append(p.touched, one)
	}
	one.added++
	one.room--
	minimum := p.minimum()
	p.counts.Place(&one.site.Site, one.held)
	if i := p.hostAt(one.site); i >= 0 {
		one.held += p.counts.Counters[i].Step
	}
	if p.minimum() > minimum {
		p.lookAgain()
	}
}

// minimum is the least count over hostnames.
func (p *spreader) minimum() int {
	if p.overHost == nil {
		return 0
	}
	return p.overHost.Minimum()
}

// lookAgain begins at the first nodes anew: the constraint over hostnames lets
// more pods onto nodes that were passed over. Full nodes are left out from now on.
func (p *spreader) lookAgain() {
	for _, t := range p.tracks {
		kept := t.spots[:0]
		for _, one := range t.spots {
			if one.room > 0 {
				kept = append(kept, one)
			}
		}
		clear(t.spots[len(kept):])
		t.spots = kept
		clear(t.at)
	}
}

// grow opens one more node, or returns nil where it would not take a pod.
func (p *spreader) grow(g *growth) *spot {
	if g.left <= 0 {
		return nil
	}
	minimum := p.minimum()
	one, _ := p.try(g.fresh)
	if one == nil {
		return nil
	}
	p.s.open(g.template, g.fresh, 1)
	g.left--
	if p.minimum() > minimum {
		p.lookAgain() // there are now as many hosts as the constraint wants
	}
	one.site.track.spots = append(one.site.track.spots, one)
	return one
}

// try counts one more node, if it takes a pod; undo takes it back.
func (p *spreader) try(fresh *state) (one *spot, undo func()) {
	at := p.site(fresh.shape)
	if !at.Keyed {
		return nil, nil
	}
	room := p.bulk.capacity(fresh, math.MaxInt32)
	if room == 0 {
		return nil, nil
	}
	held := make([]int, len(p.counts.Counters))
	one = &spot{id: p.s.len, st: fresh, site: at, room: room}
	for i, t := range p.counts.Counters {
		if at.Included[i] {
			held[i] = p.held(fresh, i)
			t.Add(at.Domains[i], held[i], 1)
		}
	}
	if i := p.hostAt(at); i >= 0 {
		one.held = held[i]
	}
	undo = func() {
		for i, t := range p.counts.Counters {
			if at.Included[i] {
				t.Remove(at.Domains[i], held[i])
			}
		}
	}
	if p.counts.Open(&at.Site) && p.takes(one) {
		return one, undo
	}
	undo()
	return nil, nil
}

// settle brings the Cluster up to date and returns what was placed.
func (p *spreader) settle() []Placement {
	if len(p.touched) > 0 {
		p.s.noteRepeller(p.k.repels)
	}
	slices.SortFunc(p.touched, func(a, b *spot) int { return cmp.Compare(a.id, b.id) })
	var runs []Placement
	for _, one := range p.touched {
		runs = appendRun(runs, one.id, 1, one.added)
		one.st = p.bulk.after(one.st, one.added)
		p.s.set(one.id, one.st)
		one.added = 0
	}
	p.touched = p.touched[:0]
	return runs
}
