package sidecar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// margin is how long before the deadline of a call its answer must be given to count as heard.
const margin = 500 * time.Millisecond

// verdict is what is granted of an increase.
type verdict struct {
	nodes  int
	reason string
	refuse bool // Cluster Autoscaler is to leave the group alone
	hide   bool // a refusal is kept from Cluster Autoscaler: another answer of the expander makes up for it
	shared bool // in part, or nothing: needs the journal
	// restored: chosen by a process before this one. Nothing is known here by which to tell whether the answer is heard.
	restored bool
	pick     *pick
}

// IncreaseSize implements cloudprovider.Provider: it grants the group its share of the split and answers with success.
// Cluster Autoscaler sees how far the target size has risen and comes back for the rest.
func (s *Sidecar) IncreaseSize(ctx context.Context, id string, delta int) error {
	if delta <= 0 {
		return fmt.Errorf("node group %q: increase by %d: %w", id, delta, cloudprovider.ErrInvalidDelta)
	}
	s.hear(ctx, anything, "")
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.release()
	if err := ctx.Err(); err != nil {
		return err // Cluster Autoscaler takes it for refused
	}
	g, err := s.group(ctx, id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	v := s.judge(g, delta)
	b := s.book(id)
	if b.order != nil && v.nodes > 0 {
		s.mu.Unlock()
		if !v.hide {
			return fmt.Errorf("node group %q: an earlier increase has not ended yet: %w", id, cloudprovider.ErrUnavailable)
		}
		return s.conclude(ctx, g, delta, verdict{reason: "an earlier increase has not ended yet", hide: true}, nil)
	}
	if v.nodes > 0 {
		b.order = &order{Before: b.target, Delta: v.nodes, At: s.o.Clock.Now()}
	}
	s.mu.Unlock()
	if v.refuse {
		return s.conclude(ctx, g, delta, v, fmt.Errorf("node group %q: %w: %s", id, cloudprovider.ErrOutOfResources, v.reason))
	}
	if v.nodes == 0 {
		return s.conclude(ctx, g, delta, v, nil)
	}
	if err := s.saveJournal(ctx); err != nil && v.shared {
		v.nodes, v.reason = min(delta, max(v.nodes, g.MaxSize-s.targetOf(id))), "in full: "+err.Error()
		s.mu.Lock()
		b.order.Delta = v.nodes
		s.mu.Unlock()
	}
	s.mu.Lock()
	b.resize(v.nodes)
	s.mu.Unlock()
	return s.conclude(ctx, g, delta, v, s.place(ctx, id, v))
}

func (s *Sidecar) targetOf(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book(id).target
}

// judge says what is granted, and takes the pick.
func (s *Sidecar) judge(g *groupView, delta int) verdict {
	b := s.book(g.ID)
	m, why := s.mode()
	full := func(reason string) verdict { return verdict{nodes: delta, reason: reason} }
	if p := s.pick; (p == nil || p.group != g.ID) && b.target < g.MinSize && b.target+delta <= g.MinSize {
		return full("up to the group's minimum size")
	}
	p := s.pick
	asked := p != nil && p.group == g.ID
	second := s.grownIn(s.set(g.ID), g.ID)
	s.grown[g.ID] = true
	if asked {
		s.pick, s.ignored = nil, false
	}
	switch {
	case m != steering:
		return full(why)
	case g.zeroOrMax:
		return full("the group is resized to its maximum or to zero, never split")
	case second:
		s.balancing = true
		_, why := s.mode()
		s.warn("BalancedTwice", "Cluster Autoscaler increased several groups of one set at once, so "+why)
		return full(why)
	case p == nil:
		return s.judgeUnasked(g, delta)
	case !asked:
		return s.judgeUnheard(p, g, delta)
	case p.full:
		return full(p.why)
	case p.refuse != "":
		return verdict{reason: p.refuse, refuse: true}
	}
	return s.shareOf(p, g, delta)
}

// judgeUnasked says what is granted of an increase without a question before it.
func (s *Sidecar) judgeUnasked(g *groupView, delta int) verdict {
	if s.plan.has(g.ID) && (s.plan.leftFor(g.ID, s.book(g.ID).target) > 0 || !s.ignored) {
		return s.planned(g, delta)
	}
	s.unasked = true
	return verdict{nodes: delta, reason: "the expander was not asked before"}
}

// judgeUnheard says what is granted of an increase of another group than the expander has picked.
func (s *Sidecar) judgeUnheard(p *pick, g *groupView, delta int) verdict {
	switch {
	case p.knows(g.ID):
		return s.shareUnheard(p, g, delta)
	case !p.full && !s.ignored:
		s.ignored = true
		return verdict{reason: "nothing: the expander had picked " + p.group + ", and may not have been heard", hide: s.hides(), shared: true}
	}
	return verdict{nodes: delta, reason: "the expander had picked " + p.group}
}

// shareOf is the group's part of the split, if it can be granted in part.
func (s *Sidecar) shareOf(p *pick, g *groupView, delta int) verdict {
	if ok, why := s.canShare(); !ok {
		return verdict{nodes: delta, reason: "in full: " + why, hide: s.hides(), pick: p}
	}
	if p.split == nil { // chosen by the process before this one
		return verdict{nodes: min(delta, p.share), hide: s.hides(), shared: true, restored: true, reason: "its share, as chosen before a restart"}
	}
	if delta < p.count && len(p.split.members) > 0 && delta < p.split.need+p.split.lowered {
		if err := p.from.cut(p.split, delta); err != nil {
			return verdict{nodes: delta, reason: "in full: " + err.Error(), hide: s.hides(), pick: p}
		}
	}
	v := verdict{nodes: min(delta, firstOrder(s.book(g.ID).proof, p.split.shares[g.ID])), hide: s.hides(), shared: true, pick: p}
	switch {
	case len(p.split.members) == 0:
		v.reason = "nothing, so that Cluster Autoscaler counts what is on its way"
	default:
		v.reason = fmt.Sprintf("its share of %d nodes for the set of %s", p.split.need, p.split.chosen)
	}
	return v
}

// knows reports whether the question told what the group's share is, whichever group was answered.
func (p *pick) knows(id string) bool {
	return p.from != nil && !p.full && p.refuse == "" && len(p.split.members) > 0 && p.from.options[id] != nil
}

// shareUnheard is the share of a group that Cluster Autoscaler has increased by chance, since the answer to its question did
// not reach it.
func (s *Sidecar) shareUnheard(p *pick, g *groupView, delta int) verdict {
	unheard := *p
	unheard.group, unheard.count = g.ID, p.from.options[g.ID].NodeCount
	if _, member := p.split.shares[g.ID]; !member {
		q, _ := p.from.share(g.ID, p.split.why, p.from.able())
		if q == nil || q.full {
			return verdict{reason: "nothing: the expander had picked " + p.group + ", and may not have been heard", hide: s.hides(), shared: true}
		}
		unheard.split = q.split
	}
	v := s.shareOf(&unheard, g, delta)
	v.reason += "; the expander had picked " + p.group + ", and was not heard"
	return v
}

// has reports whether the group is a member of the split that is being carried out.
func (p *plan) has(id string) bool {
	return p != nil && slices.ContainsFunc(p.members, func(m PlanMember) bool { return m.Name == id })
}

// leftFor is what the split has left for a group of a target size.
func (p *plan) leftFor(id string, target int) int {
	for _, m := range p.members {
		if m.Name == id {
			return max(0, m.NewSize-target)
		}
	}
	return 0
}

// planned is what is granted of an increase in the middle of a split, of which the question did not arrive here.
func (s *Sidecar) planned(g *groupView, delta int) verdict {
	left := min(delta, s.plan.leftFor(g.ID, s.book(g.ID).target))
	s.ignored = left == 0 // a second time in a row is no accident
	if ok, why := s.canShare(); !ok {
		return verdict{nodes: delta, reason: "in full: " + why, hide: s.hides()}
	}
	return verdict{nodes: left, reason: "what the split has left for it; the expander was not asked before", hide: s.hides(), shared: true}
}

// grownIn tells whether another group of the set was increased since the expander was asked.
func (s *Sidecar) grownIn(set, but string) bool {
	for id := range s.grown {
		if id != but && s.set(id) == set {
			return true
		}
	}
	return false
}

func (s *Sidecar) set(id string) string {
	if set := s.sets[id]; set != "" {
		return set
	}
	return id
}

// place orders nodes from the cloud. Where the cloud is slower than Cluster Autoscaler waits, the order goes on, and until it
// ends its nodes count as ordered. What may be kept from Cluster Autoscaler is answered early then, with success.
func (s *Sidecar) place(ctx context.Context, id string, v verdict) error {
	ended := make(chan error, 1)
	s.orders.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.BackendTimeout)
		defer cancel()
		err := s.backend.IncreaseSize(ctx, id, v.nodes)
		ended <- s.settle(ctx, id, err)
	})
	out, stop := s.patience(ctx)
	defer stop()
	select {
	case err := <-ended:
		return err
	case <-out:
	case <-ctx.Done():
	}
	if v.hide {
		return nil
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle books how an order ended. Of an unclear end the target size tells; where that has not risen, it is looked at
// again later. It returns the error of an order that was refused.
func (s *Sidecar) settle(ctx context.Context, id string, err error) error {
	var target int
	unclear := err != nil && !cloudprovider.Refused(err)
	readErr := errors.New("not read")
	if unclear {
		target, readErr = s.backend.TargetSize(ctx, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.book(id)
	o := b.order
	if o == nil {
		return nil // the group has gone meanwhile
	}
	switch {
	case err == nil:
		s.taken(b)
	case !unclear:
		b.resize(-o.Delta)
		s.refused(id, b, err)
		return err
	case readErr == nil && target >= o.Before+o.Delta:
		s.taken(b)
	default:
		o.failed, o.err = s.o.Clock.Now(), err
		b.revision++
	}
	return nil
}

// taken ends an order that the cloud has taken.
func (s *Sidecar) taken(b *book) {
	b.order, b.ordered = nil, s.o.Clock.Now()
	if b.proof == takeOrder {
		b.proof = proven
	}
}

// refused ends an order that was not carried out; the caller puts the target size right.
func (s *Sidecar) refused(id string, b *book, err error) {
	s.provided = provided{}
	if s.plan != nil {
		s.plan.left += b.order.Delta
		s.plan.granted -= b.order.Delta
	}
	b.order = nil
	if !cloudprovider.OwnMistake(err) {
		s.fail(id, err.Error(), takeOrder)
	}
	s.note(Decision{Call: "IncreaseSize", Group: id, Reason: "refused by the cloud; others take its share", Error: err.Error()})
}

// conclude books the answer to an increase and gives it.
func (s *Sidecar) conclude(ctx context.Context, g *groupView, asked int, v verdict, err error) error {
	granted := v.nodes
	if err != nil {
		granted = 0
	}
	heard := ctx.Err() == nil
	if left, ok := left(ctx); ok && left < margin {
		heard = false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.book(g.ID)
	s.advance(v, granted)
	if err != nil && !v.hide {
		b.seen = false // an error makes Cluster Autoscaler back the group off
		s.note(Decision{Call: "IncreaseSize", Group: g.ID, Asked: asked, Reason: v.reason, Error: err.Error()})
		return err
	}
	b.seen, b.away = heard && !v.restored, false
	b.asked = s.o.Clock.Now()
	s.unheard = &answer{g.ID, b.asked, s.o.Connection(ctx), true}
	b.grant = nil
	if v.pick != nil && granted > 0 && len(v.pick.pods) > 0 {
		b.grant = &grant{s.loop, v.pick.pods}
	}
	s.o.Metrics.granted(asked, granted)
	s.note(Decision{Call: "IncreaseSize", Group: g.ID, Asked: asked, Granted: granted, Reason: v.reason, Error: text(err)})
	return nil
}

// advance begins a plan, or takes what was granted off it.
func (s *Sidecar) advance(v verdict, granted int) {
	if v.pick == nil || v.pick.split == nil || len(v.pick.split.members) == 0 {
		return
	}
	split := v.pick.split
	if s.plan == nil || s.plan.chosen != split.chosen {
		s.plan = &plan{since: s.o.Clock.Now(), chosen: split.chosen, why: split.why, need: split.need, pods: map[types.UID]bool{}, kinds: map[string]bool{}}
		for i := range split.members {
			if split.members[i].option == nil {
				continue
			}
			maps.Copy(s.plan.pods, v.pick.from.uids(split.members[i].option))
			maps.Copy(s.plan.kinds, v.pick.from.kinds(split.members[i].option))
		}
	}
	s.plan.granted += granted
	s.plan.left = split.need - granted
	s.plan.members = split.result
	if s.plan.left <= 0 {
		if v.pick.whole {
			s.provide(v.pick)
		}
		s.plan = nil
	}
}

// DecreaseTargetSize implements cloudprovider.Provider. Cluster Autoscaler takes back all it has asked for, also what was
// not granted and what has come since, so this is cut to what has no instance yet.
func (s *Sidecar) DecreaseTargetSize(ctx context.Context, id string, delta int) error {
	if delta >= 0 {
		return fmt.Errorf("node group %q: decrease by %d: %w", id, delta, cloudprovider.ErrInvalidDelta)
	}
	if m, _ := s.modeNow(); m == dryRun {
		return s.decrease(ctx, id, delta, "passed on")
	}
	instances, err := s.backend.Nodes(ctx, id)
	if err != nil {
		return err
	}
	target, err := s.backend.TargetSize(ctx, id)
	if err != nil {
		return err
	}
	there := (&groupView{instances: instances}).existing()
	s.givenUp(id)
	missing := max(0, target-there)
	cut := min(-delta, missing)
	reason := fmt.Sprintf("cut to the %d nodes that have no instance", missing)
	if cut == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.book(id).seen = false
		s.note(Decision{Call: "DecreaseTargetSize", Group: id, Asked: delta, Reason: reason})
		return nil
	}
	return s.decrease(ctx, id, -cut, reason)
}

// givenUp is told that Cluster Autoscaler takes an increase back: its time is over. Where it has heard the answer to the last
// one, that is what it means.
func (s *Sidecar) givenUp(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, g := s.book(id), s.view.group(id)
	if g == nil || !b.seen || b.order != nil {
		return
	}
	if n := s.look().count(g, b).inFlight; n > 0 {
		s.undelivered(g, b, n, fmt.Sprintf("Cluster Autoscaler has given up %d nodes", n))
	}
}

func (s *Sidecar) decrease(ctx context.Context, id string, delta int, reason string) error {
	err := s.backend.DecreaseTargetSize(ctx, id, delta)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.book(id)
	b.seen = false // taking back is what Cluster Autoscaler does before it backs a group off
	if err == nil {
		b.resize(delta)
	}
	s.note(Decision{Call: "DecreaseTargetSize", Group: id, Asked: delta, Granted: delta, Reason: reason, Error: text(err)})
	return err
}

func (s *Sidecar) modeNow() (mode, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode()
}

// DeleteNodes implements cloudprovider.Provider.
func (s *Sidecar) DeleteNodes(ctx context.Context, id string, nodes []*v1.Node) error {
	if err := s.backend.DeleteNodes(ctx, id, nodes); err != nil {
		return err
	}
	target, err := s.backend.TargetSize(ctx, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.book(id)
	if n := b.deletedBy(nodes, s.o.Clock.Now()); n > 0 && s.hides() {
		s.fail(id, fmt.Sprintf("%d instances never became nodes", n), bringNode)
	}
	if err == nil && b.order == nil {
		b.target = target
		b.revision++
	} else {
		b.resize(-len(nodes)) // until the next reading
	}
	return nil
}
