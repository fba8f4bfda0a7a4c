package predicates

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// fleet is nodes with the pods on them, and what kinds of pods think of them.
type fleet struct {
	u       *index
	version int      // of the index's shapes, when those of the nodes were taken
	nodes   []*state // nil if there is none
	closed  []bool   // nodes that take no pods; those beyond its end are open
	// hosts counts real nodes by hostname, and alike the hostnames that several have. sharedHosts says that
	// hosts is not the fleet's own.
	hosts       map[string]int
	alike       int
	sharedHosts bool
	// terms are those of pods on the nodes, or that were there, and hasTerms says which these are, by id.
	terms    []*terms
	hasTerms []bool
	// journal lists what has changed since the first of the tables that counts pods was made; counted says
	// that there is one.
	journal []change
	counted bool
	tables  map[*kind]*table
	base    *fleet // what the fleet was copied from; nil if its tables do not help
	frozen  *fleet // the fleet as it is now, for forks to share; nil: to be made
}

// change is a node in another state, by the pods that came to it or, below zero, left it; without
// these, because it is another one.
type change struct {
	at, n    int
	pod      *boundPod
	from, to *state
}

// maxJournal bounds what a fleet remembers.
const maxJournal = 1 << 17

// trim keeps what is remembered within bounds: tables times nodes, and changes.
func (f *fleet) trim(most int) {
	if len(f.journal) > maxJournal || len(f.tables)*len(f.nodes) > most {
		f.drop()
	}
}

func (u *index) fleet() fleet {
	return fleet{u: u, version: u.version, hosts: map[string]int{}, tables: map[*kind]*table{}}
}

// fork returns a copy, which counts on from what is counted of the fleet as it is now.
func (f *fleet) fork() fleet {
	if f.frozen == nil {
		frozen := f.copy()
		f.frozen = &frozen
	}
	fork := f.frozen.copy()
	fork.base = f.frozen
	return fork
}

func (f *fleet) copy() fleet {
	f.sharedHosts = true
	c := *f
	c.nodes, c.closed, c.hasTerms, c.terms = slices.Clone(f.nodes), slices.Clone(f.closed), slices.Clone(f.hasTerms), slices.Clip(f.terms)
	c.journal, c.counted, c.tables, c.base, c.frozen = nil, false, map[*kind]*table{}, nil, nil
	return c
}

// drop forgets what kinds of pods think of the nodes.
func (f *fleet) drop() {
	clear(f.tables)
	f.journal, f.counted, f.base, f.frozen = f.journal[:0], false, nil, nil
}

// refresh takes the shapes anew where pods have come that look at more node
// labels than before.
func (f *fleet) refresh() {
	if f.version == f.u.version {
		return
	}
	f.drop()
	again := map[*state]*state{}
	for i, st := range f.nodes {
		if st == nil {
			continue
		}
		if again[st] == nil {
			next := *st
			next.info = nil
			next.node, next.shape = f.u.shape(st.node)
			again[st] = &next
		}
		f.nodes[i] = again[st]
	}
	f.version = f.u.version
}

// push adds a node.
func (f *fleet) push(st *state) {
	f.nodes = append(f.nodes, nil)
	f.set(len(f.nodes)-1, st)
}

// pop takes away the last node.
func (f *fleet) pop() {
	last := len(f.nodes) - 1
	f.set(last, nil)
	f.nodes = f.nodes[:last]
}

// set exchanges a node. Either may be nil.
func (f *fleet) set(at int, to *state) {
	from := f.nodes[at]
	if from == to {
		return
	}
	if from != nil && to != nil && from.same(to) {
		f.nodes[at], f.frozen = to, nil
		return
	}
	f.countHostname(from, -1)
	f.countHostname(to, 1)
	if to != nil {
		for _, it := range to.items {
			f.addTerms(it.terms)
		}
	}
	f.log(change{at: at, from: from, to: to})
}

// put adds pods to a node or, below zero, takes them away.
func (f *fleet) put(at int, r *boundPod, n int) {
	from := f.nodes[at]
	f.addTerms(r.terms)
	f.log(change{at, n, r, from, from.with(r, n)})
}

// shut closes or opens a node.
func (f *fleet) shut(at int, closed bool) {
	for len(f.closed) <= at {
		f.closed = append(f.closed, false)
	}
	if f.closed[at] != closed {
		f.closed[at] = closed
		f.log(change{at: at, from: f.nodes[at], to: f.nodes[at]})
	}
}

func (f *fleet) isClosed(at int) bool { return at < len(f.closed) && f.closed[at] }

func (f *fleet) log(c change) {
	f.nodes[c.at], f.frozen = c.to, nil
	if f.counted {
		f.journal = append(f.journal, c)
	}
}

// restore puts the nodes back as they were.
func (f *fleet) restore(nodes []*state, version int) {
	for at, st := range nodes {
		if f.nodes[at] != st {
			f.set(at, st)
		}
	}
	f.version = version
	f.refresh()
}

// addTerms notes the terms of pods that come.
func (f *fleet) addTerms(t *terms) {
	if t == nil {
		return
	}
	for len(f.hasTerms) <= t.id {
		f.hasTerms = append(f.hasTerms, false)
	}
	if !f.hasTerms[t.id] {
		f.hasTerms[t.id] = true
		f.terms = append(f.terms, t)
	}
}

// countHostname counts the hostname of a node. Copies of templates have one of their own.
func (f *fleet) countHostname(st *state, by int) {
	if st == nil || st.template != nil {
		return
	}
	host, has := st.node.Labels[v1.LabelHostname]
	if !has {
		return
	}
	if f.sharedHosts {
		f.hosts, f.sharedHosts = maps.Clone(f.hosts), false
	}
	before, alike := f.hosts[host], f.alike
	f.hosts[host] += by
	f.alike += toInt(before+by > 1) - toInt(before > 1)
	if before+by == 0 {
		delete(f.hosts, host)
	}
	if (alike > 0) != (f.alike > 0) {
		f.drop() // a hostname is a node no longer, or again
	}
}

// object returns the node object of a node.
func (f *fleet) object(at int, st *state) *v1.Node {
	if st.template == nil {
		return st.node
	}
	return f.u.c.storage.withDriverLabels(freshNode(st.template, freshName(st.template, at)))
}

// infos returns the scheduler's view of every node that there is.
func (f *fleet) infos() []fwk.NodeInfo {
	infos := make([]fwk.NodeInfo, 0, len(f.nodes)+1)
	for at, st := range f.nodes {
		if st != nil {
			infos = append(infos, f.info(at, st))
		}
	}
	return infos
}

func (f *fleet) info(at int, st *state) fwk.NodeInfo {
	if st.template == nil {
		return st.nodeInfo()
	}
	return st.onNode(f.object(at, st))
}

// turnsAway reports whether a plugin that looks at nothing but the node itself rejects the kind on a
// node in the given state, whatever its resources. It is asked once for all nodes that the kind cannot
// tell apart.
func (f *fleet) turnsAway(k *kind, at int, st *state) bool {
	c, p := f.u.c, k.info.Pod
	if k.picky {
		n := f.object(at, st)
		return k.only != nil && !k.only.Has(n.Name) || c.rejects(p, n)
	}
	e := &f.u.enc
	e.key = e.key[:0]
	if e.count(st.shape.body); k.volumes || looksUpVolumes(p) {
		e.count(st.shape.id)
	} else {
		e.labels(st.node, k.nodeKeys)
	}
	away, known := k.turnedAway[string(e.key)]
	if !known {
		key := string(e.key)
		away = c.rejects(p, st.node)
		k.turnedAway[key] = away
	}
	return away
}
