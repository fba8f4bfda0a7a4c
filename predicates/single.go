package predicates

// placer places pods of one kind one by one.
type placer interface {
	kind() *kind
	// find returns the first node in lo..hi that takes one more pod, or -1.
	find(lo, hi int) int
	// grow opens one more node and returns its id, or -1 where it would not take
	// a pod either.
	grow(*growth) int
	// put puts a pod on the node.
	put(id int)
}

func (s *Cluster) oneByOne(p placer, count, lo, hi int, grow *growth) []Placement {
	placed := tally{}
	for range count {
		if s.u.c.interrupted() != nil {
			break
		}
		id := p.find(lo, hi)
		if id < 0 && grow != nil && grow.left > 0 {
			if id = p.grow(grow); id >= 0 {
				grow.left--
				hi = s.len
			}
		}
		if id < 0 {
			break
		}
		p.put(id)
		placed[id]++
	}
	if len(placed) > 0 {
		s.noteRepeller(p.kind().repels)
	}
	return placed.placements()
}

// single places pods one by one, each after a PreFilter over the view of the
// whole cluster. (The plugins' own update for an added pod would be cheaper, but
// for spread constraints it keeps the two least domains only and goes wrong
// with three.) One node of each state is asked, and a state that a node-local
// plugin rejects is not asked again: pods are only ever added.
type single struct {
	s    *Cluster
	k    *kind
	view *view
	gone map[*state]bool // rejected for good
	next map[*state]*state
}

func (s *Cluster) single(k *kind) *single {
	return &single{s: s, k: k, view: s.view(k), gone: map[*state]bool{}, next: map[*state]*state{}}
}

func (p *single) kind() *kind { return p.k }

func (p *single) find(lo, hi int) int {
	if lo >= hi {
		return -1
	}
	cy := p.s.u.c.begin(p.k.info.Pod, p.view.nodes())
	if cy.status != nil {
		return -1
	}
	now := map[*state]bool{} // rejected as things stand
	for i := p.s.segmentAt(lo); i < len(p.s.segments) && p.s.segments[i].first < hi; i++ {
		seg := p.s.segments[i]
		if p.gone[seg.st] || now[seg.st] {
			continue
		}
		if p.takes(cy, seg.st) {
			return max(seg.first, lo)
		}
		now[seg.st] = true
	}
	return -1
}

// takes reports whether a node in the given state takes one more pod.
func (p *single) takes(cy *cycle, st *state) bool {
	if p.s.full(p.k, st) || p.s.turnedAway(p.k, st.shape) {
		p.gone[st] = true
		return false
	}
	status := cy.filter(p.view.info(st))
	if status != nil && !stateDependent(status.Plugin()) {
		p.gone[st] = true
	}
	return status == nil
}

func (p *single) grow(g *growth) int {
	p.view.add(g.fresh, 1)
	cy := p.s.u.c.begin(p.k.info.Pod, p.view.nodes())
	if cy.status != nil || !p.takes(cy, g.fresh) {
		p.view.add(g.fresh, -1)
		return -1
	}
	p.s.open(g.template, g.fresh, 1)
	return p.s.len - 1
}

func (p *single) put(id int) {
	st := p.s.segments[p.s.segmentAt(id)].st
	if p.next[st] == nil {
		p.next[st] = st.with(p.k.placed, 1)
	}
	p.s.set(id, p.next[st])
	p.view.add(st, -1)
	p.view.add(p.next[st], 1)
}
