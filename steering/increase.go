package steering

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Grant is what is granted of an increase. The caller hands it back until Cluster Autoscaler is
// answered.
type Grant struct {
	Nodes  int // to order from the cloud; 0 for none
	group  *Group
	asked  int
	reason string
	refuse bool // Cluster Autoscaler is to leave the group alone
	Hide   bool // a refusal is kept from Cluster Autoscaler: another answer of the expander makes up for it
	shared bool // in part, or nothing: needs the journal
	inFull bool // although it should have been split
	// restored: chosen by an earlier process. This one cannot know whether the answer arrives.
	restored bool
	pick     *pick
	about    *pick // the answer to the question with an option of the group; nil if there was none
}

// Increase returns what is granted of an increase: the group's share of the split and no more.
// Cluster Autoscaler sees how far the target size has risen and comes back for the rest. If there
// are nodes to order, the caller saves the journal, calls Order, orders them from the cloud, and
// calls OrderEnded. It then calls Answered. Without a grant the error is the answer.
func (s *Machine) Increase(g *Group, delta int) (*Grant, error) {
	p := s.pick
	v := s.grantOf(g, delta)
	v.group, v.asked = g, delta
	if p != nil && p.from != nil && p.from.options[g.ID] != nil {
		v.about = p
	}
	b := s.state(g.ID)
	switch {
	case v.refuse:
		return &v, fmt.Errorf("node group %q: %w: %s", g.ID, cloudprovider.ErrOutOfResources, v.reason)
	case v.Nodes == 0:
		return &v, nil
	case b.order != nil && !v.Hide:
		return nil, fmt.Errorf("node group %q: an earlier increase has not ended yet: %w", g.ID, cloudprovider.ErrUnavailable)
	case b.order != nil:
		return &Grant{group: g, asked: delta, reason: "an earlier increase has not ended yet", Hide: true}, nil
	}
	b.order = &order{Before: b.target, Delta: v.Nodes, At: s.now}
	return &v, nil
}

// Order records that a grant is ordered now. If the journal could not be saved, the increase gets
// nothing for the moment, and is granted in full if that does not help. A replica that does not lead
// orders nothing: the error is the answer then.
func (s *Machine) Order(v *Grant, journalErr error) error {
	b := s.state(v.group.ID)
	mode, _ := s.Mode()
	switch {
	case journalErr == nil || mode == DryRun:
	case errors.Is(journalErr, ErrNotLeader):
		s.withdraw(v, "nothing")
		v.Hide = false
		return fmt.Errorf("node group %q: %w: %w", v.group.ID, cloudprovider.ErrUnavailable, journalErr)
	case !v.shared: // the journal is no condition
	case errors.Is(journalErr, ErrOutdated) || s.waitForJournal():
		s.withdraw(v, "nothing for now: "+journalErr.Error())
		return nil
	default:
		v.Nodes, v.reason, v.inFull = min(v.asked, max(v.Nodes, v.group.MaxSize-b.target)), "in full: "+journalErr.Error(), true
		b.order.Delta = v.Nodes
	}
	b.resize(v.Nodes)
	b.watchEmpty(v.group, s.now)
	return nil
}

// Withdraw takes a grant back before it is ordered: Cluster Autoscaler does not wait for the answer
// any more, and takes the increase for failed.
func (s *Machine) Withdraw(v *Grant) {
	s.withdraw(v, "nothing: Cluster Autoscaler has stopped waiting")
}

func (s *Machine) withdraw(v *Grant, reason string) {
	v.Nodes, v.reason = 0, reason
	s.state(v.group.ID).order = nil
}

// scanInterval is how often Cluster Autoscaler looks while nothing happens.
const scanInterval = 10 * time.Second

// maxUnsaved is how often in a row nothing is granted because the journal could not be written.
// Loops that follow one another at once count as one: an API server takes longer to come back.
const maxUnsaved = 2

// waitForJournal reports whether an increase is to wait for the journal, and counts it.
func (s *Machine) waitForJournal() bool {
	if !s.mayWaitForJournal() {
		return false
	}
	if s.unsaved == 0 {
		s.unsavedSince = s.now
	}
	s.unsaved++
	return true
}

func (s *Machine) mayWaitForJournal() bool {
	return s.unsaved < maxUnsaved || s.now.Sub(s.unsavedSince) < scanInterval
}

// unshared returns what is granted where increases cannot be granted in part; ok is false where they
// can.
func (s *Machine) unshared(delta int, p *pick) (v Grant, ok bool) {
	can, why := s.CanShare()
	switch {
	case can:
		return Grant{}, false
	case s.journalErr != nil && !errors.Is(s.journalErr, ErrNotLeader) && (errors.Is(s.journalErr, ErrOutdated) || s.waitForJournal()):
		return Grant{reason: "nothing for now: " + why, Hide: s.HidesFailures(), shared: true}, true
	}
	return Grant{Nodes: delta, reason: "in full: " + why, Hide: s.HidesFailures(), pick: p, inFull: s.balancing != byItself}, true
}

// grantOf returns what is granted, and takes the pick.
func (s *Machine) grantOf(g *Group, delta int) Grant {
	mode, why := s.Mode()
	full := func(reason string) Grant { return Grant{Nodes: delta, reason: reason} }
	away := s.shiftedAway(g.ID)
	if away == "" && s.raisesToMin(g, delta) {
		if s.HidesFailures() && s.shut(g.ID) {
			return Grant{reason: "nothing: it is left alone, even below its minimum size", Hide: true, shared: true}
		}
		return full("up to the group's minimum size")
	}
	p := s.answerFor(g.ID)
	switch {
	case away != "" && mode != DryRun && (p == nil || p.Group != g.ID || p.refuse == ""):
		// Where Cluster Autoscaler does not come back at once for another group, only a refusal makes
		// it take one.
		return Grant{reason: "nothing: " + away, Hide: s.HidesFailures(), shared: true, refuse: mode != Steering}
	case mode != Steering:
		return Grant{Nodes: delta, reason: why, inFull: s.unasked}
	case g.ZeroOrMax:
		return full("the group is resized to its maximum or to zero, never split")
	case p == nil && s.stopped && !s.ignored:
		s.ignored = true // a second time in a row is no accident
		return Grant{reason: "nothing: the expander had stopped the scale-up, and its answer may not have arrived", Hide: s.HidesFailures(), shared: true}
	case p == nil:
		return s.grantUnasked(g, delta)
	}
	if s.noticeBalancing(p, g, delta); p.Group != g.ID && !s.covers(p, g.ID) {
		return s.grantOther(p, g, delta)
	}
	s.ignored = false
	switch {
	case p.full:
		return full(p.why)
	case p.refuse != "":
		return Grant{reason: p.refuse, refuse: true}
	}
	return s.shareOf(p, g, delta)
}

// answerFor returns the answer to the question that an increase of a group follows, and notes the
// increase; nil if there was no question, or the group was increased since.
func (s *Machine) answerFor(id string) *pick {
	if s.grown[id] {
		return nil
	}
	s.grown[id] = true
	return s.pick
}

// covers reports whether the answer says how much a group besides the one it names gets: a member of the
// same set, when Cluster Autoscaler balances by itself or increases one by chance because the answer did
// not arrive.
func (s *Machine) covers(p *pick, id string) bool {
	if _, member := p.Shares[id]; member || p.refuse != "" {
		return member
	}
	first := s.firstOf()
	return first[id] != "" && first[id] == first[p.Group]
}

// balancing is what is known of whether Cluster Autoscaler balances by itself.
type balancing string

const (
	byItself balancing = "Yes"
	byNobody balancing = "No"
)

// noticeBalancing learns from an increase after a question whether Cluster Autoscaler balances by itself:
// it then increases several groups of one set, or another than was the answer, and asks for all nodes of the
// option in one otherwise.
func (s *Machine) noticeBalancing(p *pick, g *Group, delta int) {
	switch {
	case p.from == nil || p.from.options[g.ID] == nil:
	case s.grownIn(s.set(g.ID), g.ID), p.Group != g.ID && s.set(p.Group) == s.set(g.ID):
		s.balancing = byItself
	case s.balancing == "" && p.Group == g.ID && p.count > 1 && delta >= p.count && len(p.from.similarTo(g.ID)) > 1:
		s.balancing = byNobody
	}
	if p.full && s.balancing == byNobody && p.from.atomic(p.from.options[p.Group]) {
		s.warn("ProvisioningRequestNotBalanced", "Cluster Autoscaler gets all nodes of a ProvisioningRequest from one node group: start it with --balance-similar-node-groups, so that it splits them")
	}
}

// maxSkipped is how often in a row nothing is granted because the expander's question could not be
// read.
const maxSkipped = 2

// raisesToMin reports whether an increase that the expander has not picked goes no further than the
// group's minimum.
func (s *Machine) raisesToMin(g *Group, delta int) bool {
	target := s.state(g.ID).target
	return (s.pick == nil || s.pick.Group != g.ID || s.grown[g.ID]) && target < g.MinSize && target+delta <= g.MinSize
}

// grantUnasked returns what is granted of an increase without a question before it.
func (s *Machine) grantUnasked(g *Group, delta int) Grant {
	if s.plan.has(g.ID) && (s.plan.leftFor(g.ID, s.state(g.ID).target) > 0 || !s.ignored) {
		return s.planned(g, delta)
	}
	if s.unread && s.skipped < maxSkipped {
		s.skipped++
		return Grant{reason: "nothing: the expander's question could not be read in time, and comes again", Hide: s.HidesFailures(), shared: true}
	}
	s.unasked = true
	return Grant{Nodes: delta, reason: "the expander was not asked before", inFull: true}
}

// grantOther returns what is granted of an increase of a group that the expander has not picked.
func (s *Machine) grantOther(p *pick, g *Group, delta int) Grant {
	switch {
	case p.knows(g.ID):
		return s.shareOfOther(p, g, delta)
	case !p.full && !s.ignored:
		s.ignored = true
		return Grant{reason: "nothing: the expander had picked " + p.Group + ", and its answer may not have arrived", Hide: s.HidesFailures(), shared: true}
	}
	return Grant{Nodes: delta, reason: "the expander had picked " + p.Group, inFull: !p.full}
}

// neverComing reports how many nodes of a group Cluster Autoscaler would wait for if an increase of it were answered with
// success, although none of them comes: those that are not ready any more and still young. It would take pods to have
// room on them.
func (s *Machine) neverComing(g *Group) int {
	n := s.at.count(g, s.state(g.ID)) // as of the question
	if n.inFlight > 0 {
		return 0
	}
	return n.overcounted()
}

// shareOf grants the group's part of the split, or all if increases cannot be granted in part.
func (s *Machine) shareOf(p *pick, g *Group, delta int) Grant {
	if v, ok := s.unshared(delta, p); ok {
		return v
	}
	if p.split == nil { // chosen by the process before this one
		return Grant{Nodes: min(delta, firstOrder(s.state(g.ID).Proof, p.Shares[g.ID])), Hide: s.HidesFailures(), shared: true, restored: true, reason: "its share, as chosen before a restart"}
	}
	if s.balancing == byNobody && delta < p.count && len(p.split.members) > 0 && delta < p.split.need+p.split.lowered {
		if err := p.from.cut(p.split, delta); err != nil {
			return Grant{Nodes: delta, reason: "in full: " + err.Error(), Hide: s.HidesFailures(), pick: p, inFull: true}
		}
	}
	v := Grant{Nodes: min(delta, firstOrder(s.state(g.ID).Proof, p.split.shares[g.ID])), Hide: s.HidesFailures(), shared: true, pick: p}
	if n := s.neverComing(g); n > 0 && v.Nodes == 0 {
		return Grant{reason: fmt.Sprintf("%d nodes of it will not come; its increase is refused, so that Cluster Autoscaler expects nothing of it", n), refuse: true}
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
func (s *Machine) shareOfOther(p *pick, g *Group, delta int) Grant {
	q, _ := p.from.share(g.ID, p.split.why, p.from.growable())
	if q == nil || q.full {
		return Grant{reason: "nothing: the expander had picked " + p.Group + ", and its answer may not have arrived", Hide: s.HidesFailures(), shared: true}
	}
	q.from, q.Group, q.count = p.from, g.ID, p.from.options[g.ID].NodeCount
	v := s.shareOf(q, g, delta)
	v.reason += "; the expander had picked " + p.Group + ", and its answer did not arrive"
	return v
}

// has reports whether the group is a member of the split in progress.
func (p *plan) has(id string) bool {
	return p != nil && slices.ContainsFunc(p.members, func(m PlanMember) bool { return m.Name == id })
}

// leftFor returns how many nodes the split still has for a group with a given target size.
func (p *plan) leftFor(id string, target int) int {
	for _, m := range p.members {
		if m.Name == id {
			return max(0, m.NewSize-target)
		}
	}
	return 0
}

// planned grants an increase in the middle of a split whose question did not arrive here.
func (s *Machine) planned(g *Group, delta int) Grant {
	left := min(delta, s.plan.leftFor(g.ID, s.state(g.ID).target))
	s.ignored = left == 0 // a second time in a row is no accident
	if v, ok := s.unshared(delta, nil); ok {
		return v
	}
	return Grant{Nodes: left, reason: "what the split has left for it; the expander was not asked before", Hide: s.HidesFailures(), shared: true}
}

// grownIn reports whether another group of the set was increased since the expander was asked.
func (s *Machine) grownIn(set, but string) bool {
	for id := range s.grown {
		if id != but && s.set(id) == set {
			return true
		}
	}
	return false
}

// set names the set of a group by its first member.
func (s *Machine) set(id string) string { return cmp.Or(s.sets[id], id) }

// OrderEnded records the cloud's answer to an order. If the answer is unclear, the target size
// decides, provided that it could be read since; if it has not risen, later readings decide.
// OrderEnded returns the error of an order that was refused.
func (s *Machine) OrderEnded(id string, err error, target int, readErr error) error {
	b := s.state(id)
	o := b.order
	if o == nil {
		return nil // the group has gone meanwhile
	}
	switch {
	case err == nil:
		s.taken(b)
	case cloudprovider.Refused(err):
		b.resize(-o.Delta)
		s.refused(id, b, err)
		return err
	case readErr == nil && target >= o.Before+o.Delta:
		s.taken(b)
	default:
		o.failed, o.err = s.now, err
		b.revision++
	}
	return nil
}

// taken ends an order that the cloud has accepted.
func (s *Machine) taken(b *groupState) {
	b.order, b.Ordered = nil, s.now
	if b.Proof == takeOrder {
		b.Proof = proven
	}
}

// refused ends an order that was not carried out. The caller corrects the target size.
func (s *Machine) refused(id string, b *groupState, err error) {
	if s.plan != nil {
		s.plan.Left += b.order.Delta
		s.plan.granted -= b.order.Delta
	}
	b.order = nil
	if !cloudprovider.OwnMistake(err) {
		s.failHidden(id, ordering(err), err.Error(), takeOrder)
	}
	s.note(Decision{Call: "IncreaseSize", Group: id, Reason: "refused by the cloud; others take its share", Error: err.Error()})
}

// Answered records the answer to an increase: the cloud's error, if any, whether Cluster Autoscaler
// was still waiting for the answer, and the connection. It returns the error to answer with.
func (s *Machine) Answered(v Grant, err error, received bool, connection string) error {
	granted := v.Nodes
	if err != nil {
		granted = 0
	}
	id := v.group.ID
	b := s.state(id)
	s.advance(v, granted)
	s.noticeAnswer(v, granted, err)
	if err != nil && !v.Hide {
		b.Seen = false // an error makes Cluster Autoscaler back the group off
		s.note(Decision{Call: "IncreaseSize", Group: id, Asked: v.asked, Reason: v.reason, Error: err.Error()})
		return err
	}
	b.Seen, b.doubts = received && !v.restored, streak{}
	b.Asked = s.now
	if granted != v.asked {
		s.raised[id] = true
	}
	if granted < v.asked {
		b.short = true
	}
	b.Unshown = 0
	s.unconfirmed = &answer{id, b.Asked, connection, true}
	if v.pick != nil && v.pick.from != nil && granted > 0 {
		b.orderedFor(v.pick.from, id)
	}
	s.count(NodesAsked, v.asked)
	s.count(NodesGranted, granted)
	if s.question != nil {
		s.question.nodes -= granted
	}
	d := Decision{Call: "IncreaseSize", Group: id, Asked: v.asked, Granted: granted, Reason: v.reason, Error: text(err)}
	if v.inFull && granted > 0 && s.hasPeers(id) {
		s.grantedInFull(&d)
	}
	s.note(d)
	return nil
}

// advance begins a plan, or subtracts what was granted from it.
func (s *Machine) advance(v Grant, granted int) {
	if v.pick == nil || v.pick.split == nil || len(v.pick.split.members) == 0 {
		return
	}
	split := v.pick.split
	if s.plan == nil || s.plan.Chosen != split.chosen {
		s.plan = &plan{Since: s.now, Chosen: split.chosen, why: split.why, need: split.need, pods: map[types.UID]bool{}}
		for i := range split.members {
			for _, pod := range split.members[i].option.Pods {
				s.plan.pods[uid(v.pick.from.request.Pods[pod])] = true
			}
		}
	}
	split.granted += granted
	s.plan.granted += granted
	s.plan.Left = split.need - split.granted
	s.plan.members = split.result
	for _, m := range split.result {
		s.state(m.Name).held = split.held(m)
	}
	if s.plan.Left <= 0 {
		s.plan = nil
	}
}
