package predicates

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// exact places pods one by one with every node in view under its own name.
type exact struct {
	s     *Cluster
	k     *kind
	nodes []fwk.NodeInfo
	gone  map[int]bool
	next  map[*state]*state
}

func (s *Cluster) exact(k *kind) *exact {
	return &exact{s: s, k: k, nodes: s.everyNode(), gone: map[int]bool{}, next: map[*state]*state{}}
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
			nodes = append(nodes, seg.st.onNode(s.u.c.storage.dressed(s.origins[o].object(id))))
		}
	}
	return nodes
}

func (p *exact) kind() *kind { return p.k }

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
	if p.s.full(p.k, p.s.segments[p.s.segmentAt(id)].st) {
		p.gone[id] = true
		return false
	}
	status := cy.filter(p.nodes[id])
	if status != nil && !stateDependent(status.Plugin()) {
		p.gone[id] = true
	}
	return status == nil
}

func (p *exact) grow(g *growth) int {
	id := p.s.len
	p.s.open(g.template, g.fresh, 1)
	fresh := freshNode(g.template.Node, freshName(g.template.Node, id))
	p.nodes = append(p.nodes, g.fresh.onNode(p.s.u.c.storage.dressed(fresh)))
	cy := p.s.u.c.begin(p.k.info.Pod, p.nodes)
	if cy.status == nil && p.takes(cy, id) {
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
		p.next[st] = st.with(p.k.placed, 1)
	}
	p.s.set(id, p.next[st])
	info := p.nodes[id].(*framework.NodeInfo).SnapshotConcrete()
	info.AddPodInfo(p.k.placed.info)
	p.nodes[id] = info
	if p.k.binds {
		p.s.claimOnPut(p.k, info.Node())
	}
}
