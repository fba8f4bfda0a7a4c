package predicates

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// table is what one kind of pods thinks of the nodes of a fleet. The pods that its rules count are
// counted by domain. For a range of nodes, what each offers by itself is kept node by node; nodes that
// are equal in all else share a bucket, so that the rules over domains are worked out once for each
// bucket.
type table struct {
	f         *fleet
	k         *kind
	seen      int     // changes of the journal that are counted
	termsRead int     // terms of the fleet that the rules know
	rules     []*rule // that the counters are of
	// local: no rule looks beyond the node itself, so that nothing need be counted.
	local bool
	// picky: the pods tell single nodes apart.
	picky bool

	counters []*counter
	hosts    int      // how many of them are over single nodes
	classes  []*class // by shape, or by node where picky; the first is that of no node
	numbered int      // classes there have been
	failed   bool     // no node was found for the pods, at this change of the journal
	failedAt int

	from    int     // the first node of the range
	ranged  bool    // there is one
	score   []int16 // of the nodes of the range, for resources; rejected where they do not fit
	bucket  []int32 // of the same nodes
	buckets []bucket
	byKey   map[string]int32
	key     []byte
	held    []int
	totals  []int32 // of the buckets; rejected where they are no candidates
	round   int
}

const rejected = -1

// counter keeps the number of the pods that a rule counts, in every domain of its key.
type counter struct {
	*rule
	*topologyspread.Counter
	// Where every node is a domain of its own, host is the index of its count in the buckets; otherwise
	// it is below zero.
	host  int
	total int   // over all domains
	stamp []int // of the domains: the round in which they last had a candidate
}

// class is what nodes of one shape are to a kind, regardless of the pods on them.
type class struct {
	id        int
	rejected  bool
	taints    int64 // PreferNoSchedule ones that it does not tolerate
	preferred int64 // weights of the preferred node affinity that match
	// Of the counters: the domain, whether the node has the label, and whether its
	// pods count.
	domain      []int
	has, counts []bool
	ignored     bool // lacks a key of a soft spread constraint
	table       *table
	bucket      int32 // of its nodes in this table, that found last
}

// bucket is nodes of one class with equal counts over hostnames.
type bucket struct {
	class *class
	host  []int
	fit   int // nodes of the range that are open and have the resources
	scores
}

// scores are the parts of a node's score by its bucket, each 0 to 100, not yet
// weighted.
type scores struct {
	spread, affinity, taints, pods int64
	raw                            int64 // of spread
}

// table returns the table of a kind, up to date, with the nodes lo..hi in its range.
func (f *fleet) table(k *kind, lo, hi int) *table {
	t := f.tables[k]
	if t == nil || t.stale() || len(f.journal)-t.seen > 2*len(f.nodes)+1_000 {
		t = f.newTable(k)
		f.tables[k] = t
	}
	if !t.local {
		for _, c := range f.journal[t.seen:] {
			t.apply(c)
		}
		t.cover(lo, hi)
	}
	t.seen = len(f.journal)
	return t
}

// stale reports whether pods have come whose terms bring rules that are not counted.
func (t *table) stale() bool {
	for ; t.termsRead < len(t.f.terms); t.termsRead++ {
		for _, r := range t.f.u.rulesOf(t.k, t.f.terms[t.termsRead]) {
			if !slices.Contains(t.rules, r) && !t.k.broken {
				return true
			}
		}
	}
	return false
}

func (f *fleet) newTable(k *kind) *table {
	t := &table{f: f, k: k, termsRead: len(f.terms), local: !f.u.scored(), picky: k.picky, byKey: map[string]int32{}}
	if !k.broken {
		t.rules = f.u.rulesFor(k, f.terms)
	}
	for _, r := range t.rules {
		c := &counter{rule: r, host: -1}
		if c.Counter = topologyspread.NewCounter(nil); r.role == mustSpread {
			c.Counter = topologyspread.NewCounter(r.constraint)
		}
		if r.key == v1.LabelHostname {
			c.PerNode = f.alike == 0 || r.role == shouldSpread
			t.picky = t.picky || !c.PerNode
		}
		if c.PerNode {
			c.host = t.hosts
			t.hosts++
		}
		t.local = t.local && c.PerNode && (r.role == avoids || r.role == repelled)
		t.counters = append(t.counters, c)
	}
	if t.local {
		return t
	}
	f.counted, t.seen = true, len(f.journal)
	var before []*state // nodes that are counted
	if f.base != nil {
		if base := f.base.table(k, 0, 0); !base.picky && slices.Equal(base.rules, t.rules) {
			before, t.classes, t.numbered = f.base.nodes, slices.Clone(base.classes), base.numbered
			for i, c := range t.counters {
				c.Counter, c.total = base.counters[i].Counter.Clone(), base.counters[i].total
			}
		}
	}
	for at, st := range before {
		if f.nodes[at] != st {
			t.count(at, st, -1)
			t.count(at, f.nodes[at], 1)
		}
	}
	for at := len(before); at < len(f.nodes); {
		n := t.alike(at, len(f.nodes))
		t.count(at, f.nodes[at], n)
		at += n
	}
	return t
}

// alike is how many nodes from one on, up to another, are in the same state.
func (t *table) alike(at, end int) int {
	n := 1
	for !t.picky && at+n < end && t.f.nodes[at+n] == t.f.nodes[at] {
		n++
	}
	return n
}

// count counts nodes in a state and the pods on them or, below zero, takes one out.
func (t *table) count(at int, st *state, by int) {
	cl := t.class(at, st)
	for i, c := range t.counters {
		if !cl.counts[i] {
			continue
		}
		held := c.held(st)
		c.total += by * held
		if by > 0 {
			c.Add(cl.domain[i], held, by)
		} else {
			c.Remove(cl.domain[i], held)
		}
	}
}

// apply takes over a change of the fleet.
func (t *table) apply(c change) {
	switch {
	case c.pod != nil:
		cl := t.class(c.at, c.to)
		for i, one := range t.counters {
			if n := one.weightOf(c.pod) * c.n; n != 0 && cl.counts[i] {
				one.total += n
				held := 0
				if one.PerNode {
					held = one.held(c.from)
				}
				one.More(cl.domain[i], held, n)
			}
		}
	case c.from != c.to:
		t.count(c.at, c.from, -1)
		t.forget(c.at)
		t.count(c.at, c.to, 1)
	}
	at := c.at - t.from
	if t.ranged && at == len(t.score) {
		t.score, t.bucket = append(t.score, rejected), append(t.bucket, -1)
	}
	if at >= 0 && at < len(t.score) {
		t.rank(at, c.to)
	}
}

// cover makes the range of the table contain the nodes lo..hi.
func (t *table) cover(lo, hi int) {
	if lo >= hi || t.ranged && t.from <= lo && hi <= t.from+len(t.score) {
		return
	}
	if t.ranged {
		lo, hi = 0, len(t.f.nodes) // more is asked than at first
		for i := range t.buckets {
			t.buckets[i].fit = 0
		}
	}
	t.ranged, t.from = true, lo
	t.score, t.bucket = make([]int16, hi-lo), make([]int32, hi-lo)
	for at := range t.score {
		if at > 0 && t.alike(lo+at-1, lo+at+1) == 2 && t.f.isClosed(lo+at-1) == t.f.isClosed(lo+at) {
			t.bucket[at], t.score[at] = t.bucket[at-1], t.score[at-1]
			t.buckets[t.bucket[at]].fit += toInt(t.score[at] != rejected)
			continue
		}
		t.bucket[at] = -1
		t.rank(at, t.f.nodes[lo+at])
	}
}

// rank finds the bucket of a node of the range and its score for resources.
func (t *table) rank(at int, st *state) {
	to := t.bucketOf(t.from+at, st)
	if from := t.bucket[at]; from >= 0 && t.score[at] != rejected {
		t.buckets[from].fit--
	}
	t.bucket[at], t.score[at] = to, t.rate(t.from+at, st)
	if t.score[at] != rejected {
		t.buckets[to].fit++
	}
}

// rate returns the score of a node for resources, or rejected.
func (t *table) rate(at int, st *state) int16 {
	if st == nil || t.f.isClosed(at) || t.k.broken || t.class(at, st).rejected || t.f.u.room(t.k, st) == 0 {
		return rejected
	}
	if !t.f.u.scored() {
		return 0
	}
	least, balanced := t.k.resources(st)
	return int16(least + balanced)
}

func (t *table) bucketOf(at int, st *state) int32 {
	cl := t.class(at, st)
	if t.hosts == 0 && cl.table == t {
		return cl.bucket
	}
	t.key, t.held = binary.AppendUvarint(t.key[:0], uint64(cl.id)), t.held[:0]
	for i, c := range t.counters {
		if c.host < 0 {
			continue
		}
		held := 0
		if cl.counts[i] {
			held = c.rule.held(st)
		}
		t.held, t.key = append(t.held, held), binary.AppendVarint(t.key, int64(held))
	}
	id, known := t.byKey[string(t.key)]
	if !known {
		id = int32(len(t.buckets))
		t.byKey[string(t.key)] = id
		t.buckets = append(t.buckets, bucket{class: cl, host: slices.Clone(t.held)})
		t.totals = append(t.totals, rejected)
	}
	cl.table, cl.bucket = t, id
	return id
}

// class returns the class of a node.
func (t *table) class(at int, st *state) *class {
	i := 0
	switch {
	case st == nil:
	case t.picky && len(t.counters) == 0 && t.k.only != nil && !t.k.only.Has(t.f.object(at, st).Name):
		st = nil // it is no node to the pods
	case t.picky:
		i = at + 1
	default:
		i = st.shape.id + 1
	}
	if missing := i + 1 - len(t.classes); missing > 0 {
		t.classes = append(t.classes, make([]*class, missing)...)
	}
	if t.classes[i] == nil {
		t.classes[i] = t.newClass(at, st)
	}
	return t.classes[i]
}

// forget drops the class of a node that is another one now.
func (t *table) forget(at int) {
	if t.picky && at+1 < len(t.classes) {
		t.classes[at+1] = nil
	}
}

func (t *table) newClass(at int, st *state) *class {
	p, n := t.k.info.Pod, len(t.counters)
	cl := &class{id: t.numbered, domain: make([]int, n), has: make([]bool, n), counts: make([]bool, n)}
	t.numbered++
	if st == nil {
		cl.rejected = true
		return cl
	}
	node := st.node
	if t.picky {
		node = t.f.object(at, st)
	}
	cl.rejected = t.f.turnsAway(t.k, at, st)
	if t.f.u.scored() {
		cl.taints = untolerated(p, node)
	}
	if t.k.preferred != nil {
		cl.preferred = t.k.preferred.Score(node)
	}
	lacksHard, rules := false, podfit.RulesOf(p)
	for i, c := range t.counters {
		value, has := node.Labels[c.key]
		cl.has[i] = has
		cl.ignored = cl.ignored || c.role == shouldSpread && !has && !t.k.systemDefaulted
		lacksHard = lacksHard || c.role == mustSpread && !has
		if c.host < 0 {
			cl.domain[i] = c.Domain(value)
		}
	}
	for i, c := range t.counters {
		switch {
		case c.role == mustSpread:
			cl.counts[i] = !lacksHard && c.constraint.Includes(rules, node)
		case c.role == shouldSpread && c.host < 0:
			cl.counts[i] = !cl.ignored && c.constraint.Includes(rules, node)
		default:
			cl.counts[i] = cl.has[i]
		}
	}
	return cl
}

// capacity returns how many pods a node takes, if no rule looks beyond it.
func (t *table) capacity(at int, st *state) int {
	k, n := t.k, t.f.u.room(t.k, st)
	if n == 0 || k.broken || t.f.isClosed(at) {
		return 0
	}
	cl := t.class(at, st)
	if cl.rejected {
		return 0
	}
	for i, c := range t.counters {
		if !cl.counts[i] {
			continue
		}
		if c.held(st) > 0 {
			return 0
		}
		if c.weightOf(k.placed) > 0 {
			n = 1
		}
	}
	return n
}

// first returns the first of the nodes lo..hi that takes one more pod, or -1.
func (t *table) first(lo, hi int) int {
	if lo < hi && t.weigh() {
		for at := lo; at < hi; at++ {
			if t.takes(at) {
				return at
			}
		}
	}
	return -1
}

// takes reports whether a node of the range is a candidate, once all are weighed.
func (t *table) takes(at int) bool {
	at -= t.from
	return t.score[at] != rejected && t.totals[t.bucket[at]] != rejected
}

// onNew answers about the bucket of a node as if it were one more.
func (t *table) onNew(st *state, answer func(*bucket)) {
	at := len(t.f.nodes)
	t.count(at, st, 1)
	answer(&t.buckets[t.bucketOf(at, st)])
	t.count(at, st, -1)
	t.forget(at)
}
