package scaleup

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/predicates"
)

// stage is what pods are placed on before any of those that wait has a place.
type stage struct {
	cluster *predicates.Cluster // nodes that exist and are on their way
	coming  []span              // those on their way
	kinds   []predicates.Kind   // of all pending pods
	order   []int               // of placing them

	alone *rehearsal // with nothing planned, once it is known
	tries int        // rehearsals of what was planned
}

// span is neighbouring empty nodes of one group.
type span struct {
	group    string
	first, n int
}

// rehearsal is what becomes of all pending pods together, were some nodes there.
type rehearsal struct {
	placed int
	empty  map[string]int64 // nodes that no pod is on, of those on their way and planned
}

// reaches reports whether where a pod may go depends on what is on other nodes, so
// that a node for some pods may keep others away from nodes they were to have.
func reaches(pod *v1.Pod) bool {
	return looksAround(pod) || slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == v1.DoNotSchedule
	})
}

// unsettled reports whether nodes that were planned for some pods need a rehearsal
// with all of them.
func (s *stage) unsettled() bool {
	return slices.ContainsFunc(s.kinds, func(k predicates.Kind) bool { return reaches(k.Pod) })
}

// rehearse places all pending pods on the nodes there are, those on their way and
// the planned ones, first fit or spread out: as the scheduler prefers nodes with
// little on them, a pod then goes to a new node that is still empty if it may.
func (p *planner) rehearse(planned map[string]int64, spread bool) (rehearsal, error) {
	c := p.stage.cluster.Fork()
	spans := slices.Clone(p.stage.coming)
	for _, name := range slices.Sorted(maps.Keys(planned)) {
		if n := int(planned[name]); n > 0 {
			g := p.group(name)
			spans = append(spans, span{name, c.AddCopies(predicates.Node{Node: g.Template.Node, Pods: g.Template.Pods}, n), n})
		}
	}
	if !spread {
		spans = nil
	}
	r := rehearsal{empty: map[string]int64{}}
	for _, k := range p.stage.order {
		kind := p.stage.kinds[k]
		var n int
		var err error
		if n, spans, err = spreadOut(c, spans, kind.Pod, len(kind.Pods)); err != nil {
			return rehearsal{}, err
		}
		r.placed += n
	}
	for _, s := range spans {
		r.empty[s.group] += int64(s.n)
	}
	return r, nil
}

// spreadOut places equal pods, on empty nodes first. It returns how many found a
// place, and the nodes that are still empty.
func spreadOut(c *predicates.Cluster, spans []span, pod *v1.Pod, count int) (int, []span, error) {
	placed, step := 0, 1
	if !reaches(pod) || len(spans) == 0 {
		step = count // no pod makes room for another one
	}
	for placed < count {
		on, err := onEmpty(c, spans, pod, count-placed)
		if err != nil {
			return 0, nil, err
		}
		if placed += on; on > 0 && placed < count {
			continue
		}
		want := min(step, count-placed)
		runs, err := c.Place(pod, want, 0, c.Len())
		if err != nil {
			return 0, nil, err
		}
		spans = without(spans, runs)
		n := podsOf(runs)
		placed += n
		if n < want {
			break
		}
		step *= 2
	}
	return placed, spans, nil
}

// without leaves the nodes out that pods were placed on. Both are in the order of ids.
func without(spans []span, runs []predicates.Placement) []span {
	if len(spans) == 0 || len(runs) == 0 {
		return spans
	}
	var left []span
	for _, s := range spans {
		end := s.first + s.n
		for len(runs) > 0 && runs[0].First < end {
			if n := runs[0].First - s.first; n > 0 {
				left = append(left, span{s.group, s.first, n})
			}
			past := runs[0].First + runs[0].Nodes
			s.first = max(s.first, past)
			if past > end {
				break // the run goes on in the next span
			}
			runs = runs[1:]
		}
		if n := end - s.first; n > 0 {
			left = append(left, span{s.group, s.first, n})
		}
	}
	return left
}

// onEmpty puts one pod each on empty nodes, as many as take one.
func onEmpty(c *predicates.Cluster, spans []span, pod *v1.Pod, count int) (int, error) {
	placed := 0
	for i := range spans {
		for s := &spans[i]; s.n > 0 && placed < count; {
			runs, err := c.Place(pod, 1, s.first, s.first+1)
			if err != nil {
				return 0, err
			}
			if len(runs) == 0 {
				break // the others of the span are like it
			}
			placed++
			s.first++
			s.n--
		}
	}
	return placed, nil
}

// superfluous says how many of the planned nodes would stay empty beside those that
// are ordered, by group. It is all of them where they would help no pod, or leave
// others empty.
func (p *planner) superfluous(ordered, planned map[string]int64) (map[string]int64, error) {
	before, err := p.rehearseBefore(ordered)
	if err != nil {
		return nil, err
	}
	drop := map[string]int64{}
	for {
		all := maps.Clone(ordered)
		for name, n := range planned {
			all[name] += n - drop[name]
		}
		p.stage.tries++
		after, err := p.rehearse(all, true)
		if err != nil {
			return nil, err
		}
		if after.placed <= before.placed {
			return planned, nil
		}
		more := false
		for name, empty := range after.empty {
			excess := empty - before.empty[name]
			if excess > planned[name]-drop[name] {
				return planned, nil
			}
			if excess > 0 {
				drop[name] += excess
				more = true
			}
		}
		if !more || !p.mayTry() {
			return drop, nil
		}
	}
}

// rehearseBefore is what becomes of the pods on the nodes that are ordered: mostly
// none, and then it is the same for all options.
func (p *planner) rehearseBefore(ordered map[string]int64) (rehearsal, error) {
	if len(ordered) > 0 {
		return p.rehearse(ordered, true)
	}
	if p.stage.alone == nil {
		r, err := p.rehearse(nil, true)
		if err != nil {
			return rehearsal{}, err
		}
		p.stage.alone = &r
	}
	return *p.stage.alone, nil
}

// mayTry bounds how long a round takes: large worlds have few rehearsals, small ones
// as many as they need. It depends on the numbers of pods and groups alone.
func (p *planner) mayTry() bool {
	return p.stage.tries < 12+10_000_000/max(1, len(p.world.Pending)*len(p.world.Groups))
}

// decide chooses an option and splits its need. Nodes that would stay empty are not
// ordered; an option of which nothing is left makes room for the next best. Where
// too many did, the next one is taken as it was estimated.
func (p *planner) decide() error {
	for len(p.options) > 0 {
		if err := p.choose(); err != nil {
			return err
		}
		if p.decision.Chosen == "" {
			return nil
		}
		if err := p.splitNeed(); err != nil {
			return err
		}
		if !p.stage.unsettled() || p.group(p.decision.Chosen).AllOrNothing || len(p.ledger.grown) == 0 || !p.mayTry() {
			return nil
		}
		drop, err := p.superfluous(map[string]int64{}, p.ledger.grown)
		if err != nil {
			return err
		}
		if sum(drop) < sum(p.ledger.grown) {
			p.drop(drop)
			return p.shrink()
		}
		p.withdraw()
	}
	return nil
}

// shrink takes nodes back without which as many pods find a place, first fit or
// not: where pods are placed one after the other, the first ones do not know of
// domains that are opened for later ones. Large groups lose nodes first, and none
// becomes smaller than one that has to stay by more than a node, so that the set
// stays level. How often it tries depends on the number of pods alone.
func (p *planner) shrink() error {
	kept, drop := maps.Clone(p.ledger.grown), map[string]int64{}
	enough, err := p.enough(kept)
	if err != nil || !enough {
		return err
	}
	size := func(name string) int64 { return p.ledger.size(name) - drop[name] }
	groups := slices.Sorted(maps.Keys(kept))
	for tries := 2 + 20_000/max(1, len(p.world.Pending)); tries > 0 && len(groups) > 0; tries-- {
		name := slices.MaxFunc(groups, func(a, b string) int { return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a, b)) })
		kept[name]--
		if enough, err = p.enough(kept); err != nil {
			return err
		}
		if enough {
			drop[name]++
		} else {
			kept[name]++
		}
		least := size(name)
		groups = slices.DeleteFunc(groups, func(other string) bool {
			return kept[other] == 0 || !enough && (other == name || size(other) < least)
		})
	}
	p.drop(drop)
	return nil
}

// enough reports whether all pods that the plan counts on find a place on so many
// new nodes, in whatever way they are placed.
func (p *planner) enough(planned map[string]int64) (bool, error) {
	promised := len(p.world.Pending) - len(p.pods)
	for _, n := range p.helped {
		promised += n
	}
	for _, spread := range []bool{true, false} {
		r, err := p.rehearse(planned, spread)
		if err != nil || r.placed < promised {
			return false, err
		}
	}
	return true, nil
}

func sum(nodes map[string]int64) int64 {
	n := int64(0)
	for _, of := range nodes {
		n += of
	}
	return n
}

// drop takes nodes back from the shares, the last ones first.
func (p *planner) drop(nodes map[string]int64) {
	if len(nodes) == 0 {
		return
	}
	grown := p.ledger.grown
	p.ledger = newLedger(p.world, p.opts.Limits)
	for name, n := range grown {
		if n -= nodes[name]; n > 0 {
			p.ledger.give(name, n)
		}
	}
	p.decision.Need -= int(sum(nodes))
	takeBack(p.decision.shares, nodes)
	p.decision.Increases = p.increases()
}

// takeBack lowers shares by nodes of groups, the last ones first, and returns how
// many nodes each class loses.
func takeBack(shares []share, nodes map[string]int64) map[int]int64 {
	left, lost := maps.Clone(nodes), map[int]int64{}
	for i := len(shares) - 1; i >= 0; i-- {
		for name, n := range shares[i].nodes {
			less := min(n, left[name])
			if less <= 0 {
				continue
			}
			left[name] -= less
			lost[shares[i].class] += less
			if n == less {
				delete(shares[i].nodes, name)
			} else {
				shares[i].nodes[name] = n - less
			}
		}
	}
	return lost
}

// withdraw takes the chosen option and those of its set back.
func (p *planner) withdraw() {
	var left []expander.Option
	for _, o := range p.options {
		if slices.Contains(p.decision.Members, o.Group) {
			p.without[o.Group] = "its new nodes would help no pod in the end, or leave nodes on their way empty: spread or affinity"
		} else {
			left = append(left, o)
		}
	}
	p.options = left
	p.decision = Decision{Pods: p.decision.Pods}
	p.ledger = newLedger(p.world, p.opts.Limits)
	p.estimator = expander.NewEstimator(p.cluster)
	p.helped, p.classes, p.wovenInto = map[int]int{}, nil, nil
}
