package steering

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/podfit"
)

// choice is a question to the expander while it is being answered.
type choice struct {
	s       *State
	request Question
	at      *observation
	options map[string]*expander.Offer // those of groups that are known, by group
	names   []string                   // of options, sorted
	counts  map[string]int             // nodes of the options as Cluster Autoscaler asked
	similar map[string][]string        // groups a group can be levelled with, itself included
	// policies are how declared sets share nodes, by group
	policies map[string]*nodegroupset.Terms

	requests []podfit.Resources         // of the pods
	offers   map[string]expander.Option // for the strategies, by group
}

// Question is what the expander is asked.
type Question = expander.Question

// Asked is a question to the expander. The answer has the Group to grow, none to stop the scale-up for
// this loop, and whether to Save the journal: the set of groups is chosen by the configured
// strategies, and in the set the member that grows now.
type Asked struct{ Question Question }

func (e Asked) apply(s *State) Answer {
	answer, err := s.asked(e.Question)
	answer.Err = err
	return answer
}

func (s *State) asked(request Question) (Answer, error) {
	s.caller.pick, s.caller.stopped, s.caller.unread, s.caller.unasked, s.caller.skipped = nil, false, false, false, 0
	clear(s.caller.grown)
	if len(request.Options) == 0 {
		return Answer{}, nil
	}
	if s.o.ExpanderOnly {
		s.addUnknown(&request)
	}
	if s.view == nil {
		return Answer{}, fmt.Errorf("the groups are not known yet: %w", cloudprovider.ErrUnavailable)
	}
	c, err := s.newChoice(request)
	if err != nil {
		return Answer{}, err
	}
	c.noticeAsked()
	p, decision := c.decide()
	decision.Call = "BestOptions"
	mode, why := s.Mode()
	if mode == DryRun {
		decision.Reason = "would: " + decision.Reason
		s.note(decision)
		return Answer{}, nil
	}
	c.noticeQuestion(p, decision.Reason)
	s.note(decision)
	if p == nil {
		s.caller.stopped = decision.Error == ""
		return Answer{Save: s.caller.stopped && !s.saved.stopped}, nil
	}
	if mode == Choosing {
		c.notePinned(c.similarTo(p.Group))
		s.noticeLarge(p, p.count)
		s.noticeUnsplit(p)
		s.answered(p.Group, p.count)
		return Answer{Group: p.Group}, nil
	}
	if mode == PassThrough {
		p.full, p.why = true, why
	}
	p.from, s.caller.pick = c, p
	return Answer{Group: p.Group, Save: !p.full}, nil
}

// Unread is a question to the expander that arrived and could not be read, because Cluster Autoscaler
// had stopped waiting for the answer. It then increases a group by chance. The caller saves the
// journal.
type Unread struct{}

func (Unread) apply(s *State) Answer {
	s.unheard()
	s.caller.pick, s.caller.stopped, s.caller.unread, s.caller.unasked = nil, false, true, false
	clear(s.caller.grown)
	s.note(Decision{Call: "BestOptions", Reason: "Cluster Autoscaler stopped waiting before its question was read"})
	return Answer{}
}

func (s *State) newChoice(request Question) (*choice, error) {
	c := &choice{s: s, request: request, at: s.observe(), options: map[string]*expander.Offer{}, counts: map[string]int{},
		similar: map[string][]string{}}
	for i := range request.Options {
		o := &request.Options[i]
		if s.view.Groups[o.Group] == nil {
			continue // gone since Cluster Autoscaler listed the groups
		}
		if c.options[o.Group] != nil {
			return nil, fmt.Errorf("two options for node group %q", o.Group)
		}
		c.options[o.Group], c.counts[o.Group] = o, o.NodeCount
	}
	c.names = slices.Sorted(maps.Keys(c.options))
	if err := s.compare(&request); err != nil {
		return nil, err
	}
	c.policies = s.terms(request.Nodes)
	s.learnLabels(request.Nodes)
	s.shiftZones()
	return c, nil
}

// decide returns nil if no group is to grow now.
func (c *choice) decide() (*pick, Decision) {
	if c.s.HidesFailures() {
		for _, show := range []func() (*pick, Decision){c.showUnseen, c.showFailed} {
			if p, d := show(); p != nil {
				return p, d
			}
		}
	}
	growable := c.growable()
	c.publishWaiting(growable)
	if len(growable) == 0 {
		return nil, Decision{Reason: "every group that could grow is backed off or shifted away: " + c.backoffs(c.names)}
	}
	growable = c.stay(growable)
	var passed []string
	for slices.ContainsFunc(growable, c.needed) {
		chosen, why, err := c.chooseSet(growable)
		if err != nil {
			return nil, Decision{Reason: "no choice", Error: err.Error()}
		}
		p, d := c.share(chosen, why, growable)
		if p != nil {
			return p, d
		}
		// What this set needs is on its way. Other sets may still grow for pods that this one
		// cannot take.
		if d.Error != "" {
			d.Reason += ": " + d.Error
		}
		passed = append(passed, d.Reason)
		growable = c.without(growable, chosen)
		c.s.plan.current = nil
	}
	return nil, Decision{Reason: strings.Join(passed, "; ")}
}

// showUnseen picks a group with nodes on their way that Cluster Autoscaler does not count, and
// grants nothing: an increase answered with success makes it count all of them.
func (c *choice) showUnseen() (*pick, Decision) {
	for _, name := range c.names {
		n := c.s.unseen(c.s.view.Groups[name], c.at)
		if n > 0 && !c.single(name) && c.patient(name) {
			p := &pick{Group: name, count: c.options[name].NodeCount, split: &split{}}
			reason := fmt.Sprintf("%d nodes of %s are on their way and Cluster Autoscaler may not count them; nothing is added until it does", n,
				name)
			return p, Decision{Group: name, Reason: reason}
		}
	}
	return nil, Decision{}
}

// maxDoubts is for how many loops in a row less is granted on account of nodes on their way of which it is not
// certain that the pods could run on them.
const maxDoubts = 2

// patience is for how long after Cluster Autoscaler has asked for the second time less is granted on account
// of nodes on their way, whatever is known of them: most nodes are ready by then.
const patience = 3 * time.Minute

// patient reports whether what is on its way in a group, and not counted by Cluster Autoscaler, may still keep it from
// getting what it asks for, and counts the loop.
func (c *choice) patient(name string) bool {
	b := c.s.state(name)
	return b.doubts.in(c.s.caller.loop, c.at.now) <= maxDoubts || c.at.now.Sub(b.doubts.second) < patience
}

// showFailed picks a group of which Cluster Autoscaler waits for nodes that will not come, if it has failed or others have room for
// its share. The increase is refused: Cluster Autoscaler then leaves the group alone, expects nothing of it, and asks for nodes for
// all pods.
func (c *choice) showFailed() (*pick, Decision) {
	for _, name := range c.names {
		g, b := c.s.view.Groups[name], c.s.state(name)
		n := c.s.neverComing(g, c.at)
		if n > 0 && b.seen && !c.single(name) && (c.s.failing(g, c.at) || c.s.roomBeside(name) > 0) {
			c.s.writeOff(g, b) // it counts none of them from now on
			reason := sayNeverComing(n, name)
			return &pick{Group: name, count: c.options[name].NodeCount, refuse: reason}, Decision{Group: name, Reason: reason}
		}
	}
	return nil, Decision{}
}

// single reports whether an option must neither be split nor levelled with others.
func (c *choice) single(name string) bool {
	return c.s.view.Groups[name].ZeroOrMax || c.atomic(c.options[name])
}

// The annotations of pods that stand for a ProvisioningRequest, and the class that is not about
// adding nodes at all.
const (
	consumesRequest = "autoscaling.x-k8s.io/consume-provisioning-request"
	requestClass    = "autoscaling.x-k8s.io/provisioning-class-name"
	checkCapacity   = "check-capacity.autoscaling.x-k8s.io"
)

// atomic reports whether the option is for a ProvisioningRequest, which Cluster Autoscaler reports
// as provisioned as soon as the increase has succeeded.
func (c *choice) atomic(o *expander.Offer) bool {
	for _, i := range o.Pods {
		annotations := c.request.Pods[i].Annotations
		if annotations[consumesRequest] != "" && annotations[requestClass] != checkCapacity {
			return true
		}
	}
	return false
}

// needed reports whether the option has pods without room.
func (c *choice) needed(name string) bool { return c.options[name].NodeCount > 0 }

// growable returns the groups with an option that are neither backed off nor shifted away. Where
// backoffs leave a set without a member, those count that may be tried all the same, and an event is
// published.
func (c *choice) growable() []string {
	var growable []string
	for _, name := range c.names {
		_, _, off := c.s.failures.backoff.Active(name, c.at.now)
		if c.s.zones.away(name) != "" || off && !c.s.o.ExpanderOnly && (c.open(name) || c.at.now.Sub(c.s.state(name).hidden) < retry) {
			continue
		}
		// The option of a group near its maximum may hold only pods that have room, and the
		// group can take others as well.
		if c.options[name].NodeCount > 0 || c.limited(name) {
			growable = append(growable, name)
		}
	}
	for _, name := range c.names {
		set := c.s.set(name)
		if c.open(name) {
			delete(c.s.failures.closed, set)
		} else if !c.s.failures.closed[set] {
			c.s.failures.closed[set] = true
			c.s.event("SetBackedOff", fmt.Sprintf("No member of the set of node group %s can grow: %s", set, c.backoffs(c.similarTo(name))))
		}
	}
	return growable
}

// retry is after what time a failure that was hidden from Cluster Autoscaler no longer keeps a group
// from being tried, if no other member can take its share. Of failures that it has seen Cluster
// Autoscaler decides by itself whether to ask for the group again.
const retry = time.Minute

// open reports whether a member of the group's set is neither backed off nor shifted away, and can grow.
func (c *choice) open(name string) bool {
	return slices.ContainsFunc(c.similarTo(name), func(other string) bool {
		g := c.s.view.Groups[other]
		return !c.s.shut(other) && g != nil && c.s.state(other).target < g.MaxSize
	})
}

// backoffs explains why and until when groups are backed off.
func (c *choice) backoffs(names []string) string {
	var out []string
	for _, name := range names {
		if why := c.s.zones.away(name); why != "" {
			out = append(out, fmt.Sprintf("%s (%s)", name, why))
			continue
		}
		if until, why, off := c.s.failures.backoff.Active(name, c.at.now); off {
			out = append(out, fmt.Sprintf("%s until %s (%s)", name, until.UTC().Format(time.TimeOnly), why))
		}
	}
	return strings.Join(out, ", ")
}

// stay returns the members of the set of the plan as long as pods of the plan are pending, and
// otherwise all groups.
func (c *choice) stay(growable []string) []string {
	if c.s.plan.current == nil {
		return growable
	}
	if c.s.plan.current.Left <= 0 || c.at.now.Sub(c.s.plan.current.Since) > c.s.o.MaxNodeProvisionTime {
		c.s.plan.current = nil
		return growable
	}
	var members []string
	pending := false // options of members near their maximum hold only some of the pods
	for _, name := range growable {
		if slices.Contains(c.similarTo(c.s.plan.current.Chosen), name) {
			members = append(members, name)
			pending = pending || c.has(c.options[name], c.s.plan.current.pods)
		}
	}
	if !pending {
		c.s.plan.current = nil
		return growable
	}
	return members
}

// similarTo returns the groups similar to a group, itself included.
func (c *choice) similarTo(name string) []string {
	if c.similar[name] == nil {
		c.similar[name] = append(c.s.sets.index.Similar(name), name)
	}
	return c.similar[name]
}

// has reports whether the option helps one of the pods; nil stands for any pod.
func (c *choice) has(o *expander.Offer, pods map[types.UID]bool) bool {
	return pods == nil || slices.ContainsFunc(o.Pods, func(i int) bool { return pods[uid(c.request.Pods[i])] })
}

// uid identifies a pod. Pods that stand for a ProvisioningRequest have one too.
func uid(pod *v1.Pod) types.UID {
	return cmp.Or(pod.UID, types.UID(pod.Namespace+"/"+pod.Name))
}

// counted are the numbers of a group's nodes.
func (c *choice) counted(name string) counted {
	return c.at.count(c.s.view.Groups[name], c.s.state(name))
}

// podsOf returns the pods of the options of groups.
func (c *choice) podsOf(names []string) map[int]bool {
	pods := map[int]bool{}
	for _, name := range names {
		if o := c.options[name]; o != nil {
			for _, i := range o.Pods {
				pods[i] = true
			}
		}
	}
	return pods
}

// chooseSet asks the strategies; each set counts as one choice. A plan keeps the group it was
// chosen for.
func (c *choice) chooseSet(growable []string) (chosen, why string, err error) {
	if c.s.plan.current != nil {
		if slices.Contains(growable, c.s.plan.current.Chosen) {
			return c.s.plan.current.Chosen, c.s.plan.current.why, nil
		}
		return growable[0], c.s.plan.current.why, nil
	}
	options := make([]expander.Option, 0, len(growable))
	for _, name := range growable {
		if c.needed(name) {
			options = append(options, c.offer(name))
		}
	}
	best, trail, err := c.s.o.Chain.Choose(options)
	if err != nil {
		return "", "", err
	}
	return best.Group, strings.ReplaceAll(strings.TrimSpace(trail.String()), "\n", "; "), nil
}

// offer returns the option of a group as the strategies take it. Adding up the requests of pods
// takes longest, so it is done only once per group.
func (c *choice) offer(name string) expander.Option {
	if offer, ok := c.offers[name]; ok {
		return offer
	}
	if c.offers == nil {
		c.offers = make(map[string]expander.Option, len(c.options))
		c.requests = make([]podfit.Resources, len(c.request.Pods))
		for i, pod := range c.request.Pods {
			c.requests[i] = podfit.Requests(pod)
		}
	}
	o := c.options[name]
	offer := expander.Option{
		Group: name, Set: c.s.set(name), NodeCount: o.NodeCount, Pods: len(o.Pods),
		Template: cloudprovider.Template{Node: c.request.Nodes[name]}, Requested: podfit.Resources{},
	}
	if c.single(name) {
		offer.Set = ""
	}
	for _, i := range o.Pods {
		offer.Requested.Add(1, c.requests[i])
	}
	if g := c.s.view.Groups[name]; g.HasPrice {
		offer.NodePrice, offer.HasPrice = g.Price, true
	}
	c.offers[name] = offer
	return offer
}

// without leaves out the members of the set of a group, and the options whose pods that set would
// take.
func (c *choice) without(growable []string, chosen string) []string {
	served := c.podsOf(c.similarTo(chosen))
	return slices.DeleteFunc(slices.Clone(growable), func(name string) bool {
		return slices.Contains(c.similarTo(chosen), name) ||
			!slices.ContainsFunc(c.options[name].Pods, func(i int) bool { return !served[i] })
	})
}

// ChooseBy replaces the expander chain. With an Err its configuration could not be read, and the one
// in use stays.
type ChooseBy struct {
	Chain expander.Chain `json:"-"` // from the configuration: see Recorded
	Err   error
}

func (e ChooseBy) apply(s *State) Answer {
	if e.Err != nil {
		s.warn("ExpanderRefused", "The new priorities of the expander are not used, those before stay: "+e.Err.Error())
		return Answer{}
	}
	s.o.Chain = e.Chain
	s.log(Log{Message: "Options are chosen by a new configuration", Values: []any{"expander", e.Chain.Names()}})
	return Answer{}
}
