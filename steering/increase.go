package steering

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// grant is what is granted of an increase, until Cluster Autoscaler is answered.
type grant struct {
	nodes  int // to order from the cloud; 0 for none
	group  *Group
	asked  int
	reason string
	refuse bool // Cluster Autoscaler is to leave the group alone
	hide   bool // a refusal is kept from Cluster Autoscaler: another answer of the expander makes up for it
	shared bool // in part, or nothing: needs the journal
	inFull bool // although it should have been split
	// restored: chosen by an earlier process. This one cannot know whether the answer arrives.
	restored bool
	pick     *pick
	about    *pick // the answer to the question with an option of the group; nil if there was none
}

// Increase is Cluster Autoscaler increasing a group. The answer has the Nodes to order from the cloud: the
// group's share of the split and no more. Cluster Autoscaler sees how far the target size has risen and
// comes back for the rest. If there are nodes to order, the caller saves the journal; Order comes next,
// and OrderEnded once the cloud has answered. Answered comes at last, with the error of the one before.
type Increase struct {
	Group string
	Delta int
}

func (e Increase) apply(s *State) Answer {
	g, p := s.view.group(e.Group), s.caller.pick
	s.caller.grant = nil
	if g == nil {
		return Answer{Err: fmt.Errorf("node group %q: %w", e.Group, cloudprovider.ErrNotFound)}
	}
	v := s.grantOf(g, e.Delta)
	v.group, v.asked = g, e.Delta
	if p != nil && p.from != nil && p.from.options[g.ID] != nil {
		v.about = p
	}
	b := s.state(g.ID)
	var err error
	switch {
	case v.refuse:
		err = fmt.Errorf("node group %q: %w: %s", g.ID, cloudprovider.ErrOutOfResources, v.reason)
	case v.nodes == 0:
	case b.order != nil:
		v = grant{group: g, asked: e.Delta, reason: "an earlier increase has not ended yet", hide: v.hide}
		if !v.hide {
			err = fmt.Errorf("node group %q: %s: %w", g.ID, v.reason, cloudprovider.ErrUnavailable)
		}
	default:
		b.order = &order{Before: b.target, Delta: v.nodes, At: s.now}
	}
	s.caller.grant = &v
	return v.answer(err)
}

func (v *grant) answer(err error) Answer { return Answer{Nodes: v.nodes, Hide: v.hide, Err: err} }

// Order is the moment before the nodes of an increase are ordered. If the journal could not be saved, the
// increase gets nothing for the moment, and is granted in full if that does not help; a replica that does
// not lead orders nothing. The answer is that to Increase, anew.
type Order struct{ JournalErr error }

func (e Order) apply(s *State) Answer {
	v := s.caller.grant
	if v == nil || v.nodes == 0 {
		return Answer{}
	}
	b := s.state(v.group.ID)
	mode, _ := s.Mode()
	switch {
	case e.JournalErr == nil || mode == DryRun:
	case errors.Is(e.JournalErr, ErrNotLeader):
		s.withdraw("nothing")
		v.hide = false
		return v.answer(fmt.Errorf("node group %q: %w: %w", v.group.ID, cloudprovider.ErrUnavailable, e.JournalErr))
	case !v.shared: // the journal is no condition
	case errors.Is(e.JournalErr, ErrOutdated) || s.saved.wait(s.now):
		s.withdraw("nothing for now: " + e.JournalErr.Error())
		return v.answer(nil)
	default:
		v.nodes, v.reason, v.inFull = min(v.asked, max(v.nodes, v.group.MaxSize-b.target)), "in full: "+e.JournalErr.Error(), true
		b.order.Delta = v.nodes
	}
	b.resize(v.nodes)
	b.watchEmpty(v.group, s.now)
	return v.answer(nil)
}

// Withdraw takes the place of Order if Cluster Autoscaler does not wait for the answer to its increase any
// more, and so takes it for failed: nothing is ordered.
type Withdraw struct{}

func (Withdraw) apply(s *State) Answer {
	if s.caller.grant != nil {
		s.withdraw("nothing: Cluster Autoscaler has stopped waiting")
	}
	return Answer{}
}

func (s *State) withdraw(reason string) {
	v := s.caller.grant
	v.nodes, v.reason = 0, reason
	s.state(v.group.ID).order = nil
}

// scanInterval is how often Cluster Autoscaler looks while nothing happens.
const scanInterval = 10 * time.Second

// unshared returns what is granted where increases cannot be granted in part; ok is false where they
// can.
func (s *State) unshared(delta int, p *pick) (v grant, ok bool) {
	can, why := s.saved.can()
	switch {
	case can:
		return grant{}, false
	case s.saved.err != nil && !errors.Is(s.saved.err, ErrNotLeader) && (errors.Is(s.saved.err, ErrOutdated) || s.saved.wait(s.now)):
		return grant{reason: "nothing for now: " + why, hide: s.HidesFailures(), shared: true}, true
	}
	return grant{nodes: delta, reason: "in full: " + why, hide: s.HidesFailures(), pick: p, inFull: s.caller.balancing != byItself}, true
}

// grantOf returns what is granted, and takes the pick.
func (s *State) grantOf(g *Group, delta int) grant {
	mode, why := s.Mode()
	full := func(reason string) grant { return grant{nodes: delta, reason: reason} }
	away := s.zones.away(g.ID)
	if away == "" && s.raisesToMin(g, delta) {
		if s.HidesFailures() && s.shut(g.ID) {
			return grant{reason: "nothing: it is left alone, even below its minimum size", hide: true, shared: true}
		}
		return full("up to the group's minimum size")
	}
	p := s.answerFor(g.ID)
	switch {
	case away != "" && mode != DryRun && (p == nil || p.Group != g.ID || p.refuse == ""):
		// Where Cluster Autoscaler does not come back at once for another group, only a refusal makes
		// it take one.
		return grant{reason: "nothing: " + away, hide: s.HidesFailures(), shared: true, refuse: mode != Steering}
	case mode != Steering:
		return grant{nodes: delta, reason: why, inFull: s.caller.unasked}
	case g.ZeroOrMax:
		return full("the group is resized to its maximum or to zero, never split")
	case p == nil && s.caller.stopped && !s.caller.ignored:
		s.caller.ignored = true // a second time in a row is no accident
		return grant{reason: "nothing: the expander had stopped the scale-up, and its answer may not have arrived", hide: s.HidesFailures(),
			shared: true}
	case p == nil:
		return s.grantUnasked(g, delta)
	}
	if s.noticeBalancing(p, g, delta); p.Group != g.ID && !s.covers(p, g.ID) {
		return s.grantOther(p, g, delta)
	}
	s.caller.ignored = false
	switch {
	case p.full:
		return full(p.why)
	case p.refuse != "":
		return grant{reason: p.refuse, refuse: true}
	}
	return s.shareOf(p, g, delta)
}

// answerFor returns the answer to the question that an increase of a group follows, and notes the
// increase; nil if there was no question, or the group was increased since.
func (s *State) answerFor(id string) *pick {
	if s.caller.grown[id] {
		return nil
	}
	s.caller.grown[id] = true
	return s.caller.pick
}

// covers reports whether the answer says how much a group besides the one it names gets: a member of the
// same set, when Cluster Autoscaler balances by itself or increases one by chance because the answer did
// not arrive.
func (s *State) covers(p *pick, id string) bool {
	if _, member := p.Shares[id]; member || p.refuse != "" {
		return member
	}
	first := s.firstOf()
	return first[id] != "" && first[id] == first[p.Group]
}

// noticeBalancing learns from an increase after a question whether Cluster Autoscaler balances by itself:
// it then increases several groups of one set, or another than was the answer, and asks for all nodes of the
// option in one otherwise.
func (s *State) noticeBalancing(p *pick, g *Group, delta int) {
	switch {
	case p.from == nil || p.from.options[g.ID] == nil:
	case s.grownIn(s.set(g.ID), g.ID), p.Group != g.ID && s.set(p.Group) == s.set(g.ID):
		s.caller.balancing = byItself
	case s.caller.balancing == "" && p.Group == g.ID && p.count > 1 && delta >= p.count && len(p.from.similarTo(g.ID)) > 1:
		s.caller.balancing = byNobody
	}
	if p.full && s.caller.balancing == byNobody && p.from.atomic(p.from.options[p.Group]) {
		s.warn("ProvisioningRequestNotBalanced", "Cluster Autoscaler gets all nodes of a ProvisioningRequest from one node group: "+
			"start it with --balance-similar-node-groups, so that it splits them")
	}
}

// maxSkipped is how often in a row nothing is granted because the expander's question could not be
// read.
const maxSkipped = 2

// raisesToMin reports whether an increase that the expander has not picked goes no further than the
// group's minimum.
func (s *State) raisesToMin(g *Group, delta int) bool {
	target := s.state(g.ID).target
	return (s.caller.pick == nil || s.caller.pick.Group != g.ID || s.caller.grown[g.ID]) && target < g.MinSize && target+delta <= g.MinSize
}

// grantUnasked returns what is granted of an increase without a question before it.
func (s *State) grantUnasked(g *Group, delta int) grant {
	if s.plan.current.has(g.ID) && (s.plan.current.leftFor(g.ID, s.state(g.ID).target) > 0 || !s.caller.ignored) {
		return s.planned(g, delta)
	}
	if s.caller.unread && s.caller.skipped < maxSkipped {
		s.caller.skipped++
		return grant{reason: "nothing: the expander's question could not be read in time, and comes again", hide: s.HidesFailures(), shared: true}
	}
	s.caller.unasked = true
	return grant{nodes: delta, reason: "the expander was not asked before", inFull: true}
}

// grantOther returns what is granted of an increase of a group that the expander has not picked.
func (s *State) grantOther(p *pick, g *Group, delta int) grant {
	switch {
	case p.knows(g.ID):
		return s.shareOfOther(p, g, delta)
	case !p.full && !s.caller.ignored:
		s.caller.ignored = true
		return grant{reason: "nothing: the expander had picked " + p.Group + ", and its answer may not have arrived", hide: s.HidesFailures(),
			shared: true}
	}
	return grant{nodes: delta, reason: "the expander had picked " + p.Group, inFull: !p.full}
}

// shareOf grants the group's part of the split, or all if increases cannot be granted in part.
func (s *State) shareOf(p *pick, g *Group, delta int) grant {
	if v, ok := s.unshared(delta, p); ok {
		return v
	}
	if p.split == nil { // chosen by the process before this one
		return grant{nodes: min(delta, p.Shares[g.ID]), hide: s.HidesFailures(), shared: true, restored: true,
			reason: "its share, as chosen before a restart"}
	}
	if s.caller.balancing == byNobody && delta < p.count && len(p.split.members) > 0 && delta < p.split.need+p.split.lowered {
		if err := p.from.cut(p.split, delta); err != nil {
			return grant{nodes: delta, reason: "in full: " + err.Error(), hide: s.HidesFailures(), pick: p, inFull: true}
		}
	}
	if s.caller.balancing != byNobody && delta > p.split.shares[g.ID] && !s.state(g.ID).onTrial {
		p.moveLastNode(g.ID, s.caller.grown)
	}
	v := grant{nodes: min(delta, p.split.shares[g.ID]), hide: s.HidesFailures(), shared: true, pick: p}
	if n := s.neverComing(g, s.nodes.at); n > 0 && v.nodes == 0 {
		return grant{reason: sayNeverComing(n, "it"), refuse: true}
	}
	switch {
	case len(p.split.members) == 0:
		v.reason = "nothing, so that Cluster Autoscaler counts what is on its way"
	default:
		v.reason = fmt.Sprintf("its share of %d nodes for the set of %s", p.split.need, p.split.chosen)
	}
	return v
}

// knows reports whether the share of a group follows from the question, whichever group was the
// answer.
func (p *pick) knows(id string) bool {
	return p.from != nil && !p.full && p.refuse == "" && len(p.split.members) > 0 && p.from.options[id] != nil
}

// shareOfOther grants the share of a group of another set, which Cluster Autoscaler has increased by
// chance, because the answer to its question did not arrive.
func (s *State) shareOfOther(p *pick, g *Group, delta int) grant {
	q, _ := p.from.share(g.ID, p.split.why, p.from.growable())
	if q == nil || q.full {
		return grant{reason: "nothing: the expander had picked " + p.Group + ", and its answer may not have arrived", hide: s.HidesFailures(),
			shared: true}
	}
	q.from, q.Group, q.count = p.from, g.ID, p.from.options[g.ID].NodeCount
	v := s.shareOf(q, g, delta)
	v.reason += "; the expander had picked " + p.Group + ", and its answer did not arrive"
	return v
}

// planned grants an increase in the middle of a split whose question did not arrive here.
func (s *State) planned(g *Group, delta int) grant {
	left := min(delta, s.plan.current.leftFor(g.ID, s.state(g.ID).target))
	s.caller.ignored = left == 0 // a second time in a row is no accident
	if v, ok := s.unshared(delta, nil); ok {
		return v
	}
	return grant{nodes: left, reason: "what the split has left for it; the expander was not asked before", hide: s.HidesFailures(),
		shared: true}
}

// grownIn reports whether another group of the set was increased since the expander was asked.
func (s *State) grownIn(set, but string) bool {
	for id := range s.caller.grown {
		if id != but && s.set(id) == set {
			return true
		}
	}
	return false
}

// set names the set of a group by its first member.
func (s *State) set(id string) string { return cmp.Or(s.sets.first[id], id) }

// OrderEnded is the cloud's answer to an order. If it is unclear, the Target size decides, provided that
// it could be read since; if it has not risen, later readings decide. The answer has the error of an
// order that was refused.
type OrderEnded struct {
	Group   string
	Err     error
	Target  int
	ReadErr error
}

func (e OrderEnded) apply(s *State) Answer {
	b := s.state(e.Group)
	o := b.order
	switch {
	case o == nil: // the group has gone meanwhile
	case e.Err == nil:
		s.accepted(b)
	case cloudprovider.Refused(e.Err):
		b.resize(-o.Delta)
		s.refused(e.Group, b, e.Err)
		return Answer{Err: e.Err}
	case e.ReadErr == nil && e.Target >= o.Before+o.Delta:
		s.accepted(b)
	default:
		o.failed, o.err = s.now, e.Err
		b.revision++
	}
	return Answer{}
}

// accepted ends an order that the cloud has accepted.
func (s *State) accepted(b *groupState) {
	b.order, b.ordered = nil, s.now
}

// refused ends an order that was not carried out. The caller corrects the target size.
func (s *State) refused(id string, b *groupState, err error) {
	if s.plan.current != nil {
		s.plan.current.Left += b.order.Delta
		s.plan.current.granted -= b.order.Delta
	}
	b.order = nil
	if !cloudprovider.OwnMistake(err) {
		s.failHidden(id, ordering(err), err.Error(), false)
	}
	s.note(Decision{Call: "IncreaseSize", Group: id, Reason: "refused by the cloud; others take its share", Error: err.Error()})
}

// Answered is the answer that Cluster Autoscaler is given to its increase: the error of the event before,
// whether it still waited for the answer, and the connection. The answer has the error to answer with.
type Answered struct {
	Err        error
	Received   bool
	Connection string
}

func (e Answered) apply(s *State) Answer {
	if s.caller.grant == nil {
		return Answer{Err: e.Err} // of no group
	}
	v := *s.caller.grant
	s.caller.grant = nil
	granted := v.nodes
	if e.Err != nil {
		granted = 0
	}
	id := v.group.ID
	b := s.state(id)
	s.advance(v, granted)
	s.noticeAnswer(v, granted, e.Err)
	if e.Err != nil && !v.hide {
		b.seen = false // an error makes Cluster Autoscaler back the group off
		s.note(Decision{Call: "IncreaseSize", Group: id, Asked: v.asked, Reason: v.reason, Error: e.Err.Error()})
		return Answer{Err: e.Err}
	}
	s.succeeded(&v, granted, e)
	d := Decision{Call: "IncreaseSize", Group: id, Asked: v.asked, Granted: granted, Reason: v.reason, Error: text(e.Err)}
	if v.inFull && granted > 0 && s.hasPeers(id) {
		s.grantedInFull(&d)
	}
	s.note(d)
	return Answer{}
}

// succeeded notes that an increase is answered with success, whatever was granted of it.
func (s *State) succeeded(v *grant, granted int, e Answered) {
	id := v.group.ID
	b := s.state(id)
	b.seen, b.doubts = e.Received && !v.restored, streak{}
	b.asked = s.now
	if granted != v.asked {
		s.caller.raised[id] = true
	}
	if granted < v.asked {
		b.short = true
	}
	b.unshown = 0
	s.caller.unconfirmed = &answer{id, b.asked, e.Connection, true}
	if v.pick != nil && v.pick.from != nil && granted > 0 {
		b.orderedFor(v.pick.from, id)
	}
	s.count(NodesAsked, v.asked)
	s.count(NodesGranted, granted)
	if s.plan.question != nil {
		s.plan.question.nodes -= granted
	}
}

// advance begins a plan, or subtracts what was granted from it.
func (s *State) advance(v grant, granted int) {
	if v.pick == nil || v.pick.split == nil || len(v.pick.split.members) == 0 {
		return
	}
	split := v.pick.split
	if s.plan.current == nil || s.plan.current.Chosen != split.chosen {
		s.plan.current = &plan{Since: s.now, Chosen: split.chosen, why: split.why, need: split.need, pods: map[types.UID]bool{}}
		for i := range split.members {
			for _, pod := range split.members[i].option.Pods {
				s.plan.current.pods[uid(v.pick.from.request.Pods[pod])] = true
			}
		}
	}
	split.granted += granted
	s.plan.current.granted += granted
	s.plan.current.Left = split.need - split.granted
	s.plan.current.members = split.result
	for _, m := range split.result {
		s.state(m.Name).held = split.held(m)
	}
	for _, name := range split.sparse {
		s.state(name).held = sparse
	}
	if s.plan.current.Left <= 0 {
		s.plan.current = nil
	}
}

// grantedInFull has everybody notice that a group has got all that was asked of its set: the set may
// have become uneven.
func (s *State) grantedInFull(d *Decision) {
	why := strings.TrimPrefix(d.Reason, "in full: ")
	d.InFull, s.state(d.Group).inFull = true, why
	s.count(GrantsInFull, 1)
	s.alarm("GrantedInFull", fmt.Sprintf("Node group %s gets all %d nodes, and its set may become uneven: %s", d.Group, d.Granted, why))
}
