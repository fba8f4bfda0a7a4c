package predicates

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

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

func (s *Cluster) placeSingly(k *kind, count, lo, hi int, grow *growth) []Placement {
	p := &single{s: s, k: k, view: s.view(k), gone: map[*state]bool{}, next: map[*state]*state{}}
	placed := tally{}
	for range count {
		id := p.find(lo, hi)
		if id < 0 && grow != nil {
			if id = p.grow(grow); id >= 0 {
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
		s.noteRepeller(k)
	}
	return placed.placements()
}

// find returns the first node in lo..hi that takes one more pod, or -1.
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

// takes tells whether a node in the given state takes one more pod.
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

// grow opens one more node and returns its id, or -1 where it would not take
// the pod either.
func (p *single) grow(g *growth) int {
	if g.left == 0 {
		return -1
	}
	p.view.add(g.fresh, 1)
	cy := p.s.u.c.begin(p.k.info.Pod, p.view.nodes())
	if cy.status != nil || !p.takes(cy, g.fresh) {
		p.view.add(g.fresh, -1)
		return -1
	}
	g.left--
	p.s.open(g.template, g.fresh, 1)
	return p.s.len - 1
}

func (p *single) put(id int) {
	st := p.s.segments[p.s.segmentAt(id)].st
	if p.next[st] == nil {
		p.next[st] = st.with(p.k.resident, 1)
	}
	p.s.set(id, p.next[st])
	p.view.add(st, -1)
	p.view.add(p.next[st], 1)
}

// exact places pods one by one with every node in view under its own name.
type exact struct {
	s     *Cluster
	k     *kind
	nodes []fwk.NodeInfo
	gone  map[int]bool
	next  map[*state]*state
}

func (s *Cluster) placeExactly(k *kind, count, lo, hi int, grow *growth) []Placement {
	p := &exact{s: s, k: k, nodes: s.everyNode(), gone: map[int]bool{}, next: map[*state]*state{}}
	placed := tally{}
	for range count {
		id := p.find(lo, hi)
		if id < 0 && grow != nil {
			if id = p.grow(grow); id >= 0 {
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
		s.noteRepeller(k)
	}
	return placed.placements()
}

// everyNode returns the scheduler's view of every node, in id order.
func (s *Cluster) everyNode() []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, 0, s.len)
	o := 0
	for _, seg := range s.segments {
		for id := seg.first; id < seg.first+seg.n; id++ {
			for s.origins[o].first+s.origins[o].n <= id {
				o++
			}
			nodes = append(nodes, seg.st.onNode(s.origins[o].object(id)))
		}
	}
	return nodes
}

func (p *exact) find(lo, hi int) int {
	if lo >= hi {
		return -1
	}
	cy := p.s.u.c.begin(p.k.info.Pod, p.nodes)
	if cy.status != nil {
		return -1
	}
	for id := lo; id < hi; id++ {
		if !p.gone[id] && p.takes(cy, id) {
			return id
		}
	}
	return -1
}

func (p *exact) takes(cy *cycle, id int) bool {
	status := cy.filter(p.nodes[id])
	if status != nil && !stateDependent(status.Plugin()) {
		p.gone[id] = true
	}
	return status == nil
}

func (p *exact) grow(g *growth) int {
	if g.left == 0 {
		return -1
	}
	id := p.s.len
	p.s.open(g.template, g.fresh, 1)
	p.nodes = append(p.nodes, g.fresh.onNode(freshNode(g.template.Node, freshName(g.template.Node, id))))
	cy := p.s.u.c.begin(p.k.info.Pod, p.nodes)
	if cy.status == nil && p.takes(cy, id) {
		g.left--
		return id
	}
	p.nodes = p.nodes[:id]
	delete(p.gone, id)
	p.s.drop()
	return -1
}

func (p *exact) put(id int) {
	st := p.s.segments[p.s.segmentAt(id)].st
	if p.next[st] == nil {
		p.next[st] = st.with(p.k.resident, 1)
	}
	p.s.set(id, p.next[st])
	info := p.nodes[id].(*framework.NodeInfo).SnapshotConcrete()
	info.AddPodInfo(p.k.info)
	p.nodes[id] = info
}
