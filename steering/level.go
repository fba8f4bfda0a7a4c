package steering

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// catalogueFor is how long sets that follow from the templates of the cloud are kept.
const catalogueFor = time.Minute

// levels controls which nodes Cluster Autoscaler may remove by the only bound of a group that
// matters for it: the minimum. Cluster Autoscaler reads the minimums once per loop, removes no node
// from a group at its minimum, and forgets since when such nodes are unneeded.
type levels struct {
	limit  time.Duration     // for which smaller members wait for larger ones to shrink at most; 0 for no waiting
	sets   map[string]*level // by the first member
	floors map[string]floor  // minimums above the real ones, by group

	catalogue   map[string]string // group → first of its set, by the templates of the cloud
	catalogueAt time.Time
}

// level is what is kept about a set from loop to loop.
type level struct {
	sizes map[string]int // at the last Refresh
	// since is when a member began to wait for a larger one, or when a member last became smaller
	// than ever since then; zero if none waits.
	since time.Time
	least map[string]int // the smallest sizes since then
	held  time.Time      // when a member waited last
	// step is how many nodes each member may lose in a loop although the set becomes uneven.
	// Waiting without effect doubles it.
	step     int
	released bool // waiting has ended: step applies
	spread   int  // between the largest and the smallest member when it ended
}

// floor is a minimum that is raised.
type floor struct {
	min  int
	held bool // the group is at it
	away bool // it may be below the real minimum
	why  string
}

// levelMember is a member of a set at a Refresh.
type levelMember struct {
	id        string
	size, min int
	staying   int  // nodes that nothing but a scale-down takes away
	fixed     bool // its minimum stays the real one
}

func (m *levelMember) shrinks() bool { return m.size > m.min }

// floorAt returns the minimum for a member that must not get smaller than a size. It is never above
// what the group has, because Cluster Autoscaler would raise the group to it.
func (m *levelMember) floorAt(size int) int { return max(m.min, min(m.size, m.staying, size)) }

// levelOut works out the minimums that Cluster Autoscaler is given in this loop.
func (s *State) levelOut(now time.Time) {
	l := &s.levels
	l.floors = nil
	if !s.o.LevelScaleDown || s.levels.limit == 0 || !s.HidesFailures() || s.view == nil {
		l.sets = nil
		return
	}
	l.floors = map[string]floor{}
	before := l.sets
	l.sets = map[string]*level{}
	members, terms := s.levelMembers(now), s.terms(nil)
	for _, set := range slices.Sorted(maps.Keys(members)) {
		members := members[set]
		kept := levelOf(members, before)
		l.sets[set] = kept
		ended := kept.released
		maps.Copy(l.floors, kept.advance(members, terms[members[0].id], now, s.levels.limit))
		if kept.released && !ended {
			s.count(SetsUneven, 1)
			s.log(Log{Message: "Set may become uneven, its larger members have not shrunk",
				Values: []any{"set", set, "after", s.levels.limit.String(), "nodesPerLoop", kept.step}})
		}
	}
	// Levels of sets of which at most one member can be read now are kept, until no member has waited
	// for a long time.
	for set, kept := range before {
		if l.sets[set] == nil && !kept.held.IsZero() && now.Sub(kept.held) <= s.levels.limit {
			l.sets[set] = kept
		}
	}
}

// levelOf returns the level of the set that had most of these members, and removes it from the map;
// if there is none, a new level. So a set goes on waiting if a group, even its first, cannot be
// read in one loop or has joined.
func levelOf(members []levelMember, before map[string]*level) *level {
	best, common := "", 0
	for _, set := range slices.Sorted(maps.Keys(before)) {
		n := 0
		for _, m := range members {
			if _, member := before[set].sizes[m.id]; member {
				n++
			}
		}
		if n > common {
			best, common = set, n
		}
	}
	if best == "" {
		return &level{}
	}
	kept := before[best]
	delete(before, best)
	return kept
}

// levelMembers are the sets of two and more groups that can be levelled.
func (s *State) levelMembers(now time.Time) map[string][]levelMember {
	first := s.firstOf()
	out := map[string][]levelMember{}
	for _, id := range slices.Sorted(maps.Keys(s.view.Groups)) {
		g, b := s.view.Groups[id], s.state(id)
		set, known := first[id]
		if !known || g.ZeroOrMax || g.Err != nil {
			continue
		}
		_, _, backedOff := s.failures.backoff.Active(id, now)
		out[set] = append(out[set], levelMember{id: id, size: b.confirmedSize(), min: g.MinSize, staying: s.nodes.at.staying(g, false),
			fixed: backedOff})
	}
	maps.DeleteFunc(out, func(_ string, members []levelMember) bool { return len(members) < 2 })
	return out
}

// catalogueSets returns the sets that follow from the templates of the cloud. They are used until
// Cluster Autoscaler has sent its own.
func (s *State) catalogueSets(now time.Time) map[string]string {
	l := &s.levels
	if l.catalogue != nil && now.Sub(l.catalogueAt) < catalogueFor {
		return l.catalogue
	}
	l.catalogue, l.catalogueAt = map[string]string{}, now
	index, err := nodegroupset.NewIndex(s.o.Similarity)
	templates := make(map[string]cloudprovider.Template, len(s.view.Groups))
	for id, g := range s.view.Groups {
		templates[id] = g.Template
	}
	if err != nil || template.ShareCloud(templates) != nil {
		return l.catalogue // New has made sure that there is no error
	}
	for id, t := range templates {
		if t.Node == nil || index.Set(id, t) != nil {
			index.Delete(id) // what cannot be compared is levelled with none
		}
	}
	l.catalogue = nodegroupset.FirstOf(index.Sets())
	return l.catalogue
}

// confirmedSize returns the target size without an order that may still be refused.
func (b *groupState) confirmedSize() int {
	if b.order != nil {
		return b.target - b.order.Delta
	}
	return b.target
}

// staying counts the instances that have not failed and have not been without a node for so long
// that they are deleted. Without broken ones, nodes that are not ready in time do not count either: a
// set with such an instance is no more level than without it.
func (s *observation) staying(g *Group, broken bool) int {
	n := 0
	for i := range g.Instances {
		instance := &g.Instances[i]
		node, registered := s.nodes[instance.ID]
		since, known := s.since[instance.ID]
		if registered {
			since, known = node.Created, !broken && !node.Ready && !node.Created.IsZero()
		}
		if lost := known && s.now.Sub(since) >= s.provision; instance.State != cloudprovider.InstanceDeleting && instance.Error == nil && !lost {
			n++
		}
	}
	return n
}

// advance takes in the sizes of a loop, and returns the raised minimums.
func (l *level) advance(members []levelMember, terms *nodegroupset.Terms, now time.Time, limit time.Duration) map[string]floor {
	grown := l.compare(members)
	largest, spread := spreadOf(members, terms)
	floors := make(map[string]floor, len(members))
	held := false
	for i := range members {
		m := &members[i]
		least := largest.size - 1
		if !terms.Level() { // only the one that the policy names
			least = m.size
			if m.id == largest.id {
				least--
			}
		}
		if at := m.floorAt(least); !m.fixed && at > m.min {
			floors[m.id] = floor{min: at, held: at == m.size}
			held = held || at == m.size
		}
	}
	if held {
		l.held = now
		l.wait(grown, spread, now, limit)
	} else {
		l.released, l.step = false, 0
		if now.Sub(l.held) > limit { // not only passed over, as when the largest member cannot be read
			l.since = time.Time{}
		}
	}
	for i := range members {
		f, raised := floors[members[i].id]
		if !raised {
			continue
		}
		f.why = l.explain(&f, largest, limit)
		if l.released {
			f.min, f.held = members[i].floorAt(members[i].size-l.step), false
		}
		floors[members[i].id] = f
	}
	return floors
}

// compare reports whether members have grown, and remembers their sizes.
func (l *level) compare(members []levelMember) (grown bool) {
	sizes := make(map[string]int, len(members))
	for _, m := range members {
		before, known := l.sizes[m.id]
		grown = grown || known && m.size > before
		sizes[m.id] = m.size
	}
	l.sizes = sizes
	return grown
}

// shrunk reports whether a member is smaller than ever since the waiting began, and remembers the
// smallest sizes.
func (l *level) shrunk() bool {
	smaller := false
	for id, size := range l.sizes {
		least, known := l.least[id]
		smaller = smaller || known && size < least
		if !known || size < least {
			l.least[id] = size
		}
	}
	return smaller
}

// spreadOf finds the member that shrinks first, and how far the smallest that can shrink is from
// it. Without one that can shrink it returns a member without name and size.
func spreadOf(members []levelMember, terms *nodegroupset.Terms) (largest levelMember, spread int) {
	groups := make([]nodegroupset.ShrinkGroup, len(members))
	for i, m := range members {
		groups[i] = nodegroupset.ShrinkGroup{Name: m.id, Size: int64(m.size), Min: int64(m.min)}
	}
	first := nodegroupset.ShrinksFirst(groups, terms)
	if first < 0 {
		return levelMember{}, 0
	}
	largest = members[first]
	if !terms.Level() {
		return largest, 0 // sizes are not to be equal
	}
	for _, m := range members {
		if m.shrinks() {
			spread = max(spread, largest.size-m.size)
		}
	}
	return largest, spread
}

// wait ends the waiting of members that had no effect, and begins it anew once that has made the
// set less even. It had an effect if a member is smaller than ever; members that only come and go
// do not postpone the end.
func (l *level) wait(grown bool, spread int, now time.Time, limit time.Duration) {
	switch {
	case l.released && (grown || spread > max(1, l.spread)), !l.released && l.since.IsZero():
		l.since, l.least, l.released = now, maps.Clone(l.sizes), false
	case l.released:
	case l.shrunk():
		l.since, l.step = now, 0
	case deferral.Ended(limit, l.since, now):
		l.released, l.spread, l.step = true, spread, max(1, min(2*l.step, nodegroupset.MaxSize))
	}
}

// explain returns why a minimum is raised.
func (l *level) explain(f *floor, largest levelMember, limit time.Duration) string {
	switch {
	case l.released:
		return fmt.Sprintf("%d per loop may go: no member of the set got smaller for %s", l.step, limit)
	case f.held:
		return fmt.Sprintf("waits for %s with %d, until %s at most", largest.id, largest.size, l.since.Add(limit).UTC().Format(time.TimeOnly))
	}
	return "one per loop may go, so that the set stays level"
}

// minimum is the minimum of a group that Cluster Autoscaler is given. Nodes that have gone since it was
// raised lower it.
func (s *State) minimum(g *Group) int {
	f, raised := s.levels.floors[g.ID]
	if !raised {
		return g.MinSize
	}
	told := min(f.min, s.known(g.ID).confirmedSize())
	if f.away {
		return told
	}
	return max(g.MinSize, told)
}
