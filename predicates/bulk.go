package predicates

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// bulk places pods whose checks concern the node alone, class by class.
type bulk struct {
	s *Cluster
	k *kind
	// around is set where pods on other nodes repel the kind: as the kind has no
	// rules of its own, one PreFilter holds for all its pods.
	around *cycle
	view   *view
	room   map[*state]int
	next   map[step]*state
	probe  probe
}

type step struct {
	st *state
	n  int
}

// probe is a node with some pods of the kind added.
type probe struct {
	st    *state
	extra int
	info  *framework.NodeInfo
}

// bulk prepares the placement of a kind on the nodes of the cluster and, where
// not nil, on fresh ones.
func (s *Cluster) bulk(k *kind, fresh *state) *bulk {
	b := &bulk{s: s, k: k, room: map[*state]int{}, next: map[step]*state{}}
	if s.repelledWidely(k) {
		b.view = s.view(k)
		if fresh != nil {
			b.view.add(fresh, 1)
		}
		b.around = s.u.c.begin(k.info.Pod, b.view.nodes())
	}
	return b
}

func (s *Cluster) placeBulk(k *kind, count, lo, hi int) []Placement {
	b, first := s.bulk(k, nil), s.segmentAt(lo)
	for first < len(s.segments) && s.segments[first].first < hi && b.capacity(s.segments[first].st, count) == 0 {
		first++
	}
	if count <= 0 || lo >= hi || first == len(s.segments) || s.segments[first].first >= hi {
		return nil
	}
	var runs []Placement
	rest := slices.Clone(s.segments[first:])
	segments := s.segments[:first]
	s.changed(max(lo, rest[0].first))
	for i, seg := range rest {
		end := seg.first + seg.n
		from, to := max(seg.first, lo), min(end, hi)
		if count <= 0 || from >= to {
			segments = appendSegment(segments, seg.n, seg.st)
			segments = append(segments, rest[i+1:]...)
			break
		}
		room := b.capacity(seg.st, count)
		if room == 0 {
			segments = appendSegment(segments, seg.n, seg.st)
			continue
		}
		segments = appendSegment(segments, from-seg.first, seg.st)
		full := min(to-from, count/room)
		segments = appendSegment(segments, full, b.after(seg.st, room))
		runs = appendRun(runs, from, full, room)
		count -= full * room
		at := from + full
		if at < to && count > 0 {
			segments = appendSegment(segments, 1, b.after(seg.st, count))
			runs = appendRun(runs, at, 1, count)
			count = 0
			at++
		}
		segments = appendSegment(segments, end-at, seg.st)
	}
	s.segments = segments
	s.noteRepeller(k.repels)
	return runs
}

func (s *Cluster) placeBulkOnNew(k *kind, count int, grow *growth) []Placement {
	if count <= 0 || grow.left <= 0 {
		return nil
	}
	room := s.bulk(k, grow.fresh).capacity(grow.fresh, count)
	if room == 0 {
		return nil
	}
	nodes := min(grow.left, (count+room-1)/room)
	first := s.len
	s.open(grow.template, grow.fresh, nodes)
	return s.placeBulk(k, count, first, s.len)
}

// capacity returns how many pods of the kind a node in the given state takes,
// at most want. Resource arithmetic gives the bound; where more than resources
// is at stake, the plugins confirm it. Each pod added makes the node less
// willing, so one look at the bound is enough where the pod passes there.
func (b *bulk) capacity(st *state, want int) int {
	if room, known := b.room[st]; known {
		return min(room, want)
	}
	b.room[st] = b.measure(st, want)
	return b.room[st]
}

func (b *bulk) measure(st *state, want int) int {
	bound := 1 // nothing is known: step from here
	if rules := &b.s.u.c.rules; rules.resources {
		bound = st.room(&b.k.asks, rules.ignoreScalars)
	}
	if b.s.u.c.rules.attach {
		// The plugins see one claim for all pods of the kind: they cannot count.
		room, _ := st.attachRoom(b.k)
		want = min(want, room)
	}
	bound = min(bound, want)
	if bound == 0 || b.s.turnedAway(b.k, st.shape) {
		return 0
	}
	if b.k.plain && b.around == nil && b.s.u.c.rules.resources && !b.k.repelledOn(st) {
		return bound
	}
	if !b.fits(st, bound-1) {
		n := 0
		for n < bound-1 && b.fits(st, n) {
			n++
		}
		return n
	}
	n := bound
	for n < want && b.fits(st, n) {
		n++
	}
	return n
}

// fits reports whether the plugins let one more pod onto a node in the given
// state with extra pods of the kind added.
func (b *bulk) fits(st *state, extra int) bool {
	p := &b.probe
	if p.st != st || p.extra > extra {
		*p = probe{st: st, info: st.nodeInfo().SnapshotConcrete()}
		if b.view != nil {
			p.info.SetNode(b.view.byState[st].node)
		}
	}
	for ; p.extra < extra; p.extra++ {
		p.info.AddPodInfo(b.k.placed.info)
	}
	if b.around != nil {
		return b.around.filter(p.info) == nil
	}
	return b.s.u.c.begin(b.k.alone, one(p.info)).filter(p.info) == nil
}

func (b *bulk) after(st *state, n int) *state {
	key := step{st, n}
	if b.next[key] == nil {
		b.next[key] = st.with(b.k.placed, n)
	}
	return b.next[key]
}

func one(n *framework.NodeInfo) []fwk.NodeInfo { return []fwk.NodeInfo{n} }
