package linked

import (
	"maps"
	"math"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// Spread is a scale-up for pods of which some have a topology spread over zones, or run only on some
// groups of a set. The autoscaler estimates nodes for the chosen group alone, and a spread lets only a
// few pods into one zone before the others must follow: so it asks for one node where all pods
// together need fifteen. Pods that run only in one zone get all nodes there, with all others.
type Spread[G NodeGroup] struct {
	Pods    []*v1.Pod // that the autoscaler helps now, the most important ones first
	Options []Option
	Chosen  int // of the options
	// Members are the groups of the chosen one's set that may grow, itself included.
	Members []G
	// Templates are those of the members and options by name, and Nodes what the cluster has and expects.
	Templates map[string]Template
	Nodes     []Template
	Lag       func(group string) int64                      // as in ScaleUp
	Declared  func(group string) (*nodegroupset.Terms, []G) // as in ScaleUp
	Deadlines *Deadlines[G]                                 // as in ScaleUp
	Limits    func(groups []Sized[G], more int64) (Limits, error)
	// Try has the autoscaler's scheduler put pods on nodes, and returns why it does not. New nodes of
	// groups are numbered after those that there are.
	Try func(added []string, pods []Placement) error
}

// Option is a group that the autoscaler may choose.
type Option struct {
	Group string
	Pods  []*v1.Pod
}

// Placement is a pod on a node, by its number.
type Placement struct {
	Pod  *v1.Pod
	Node int
}

// SpreadPlan is what all members of a set get for all pods at once.
type SpreadPlan[G NodeGroup] struct {
	Chosen   string
	Growth   []Growth[G]
	Pods     []*v1.Pod // that have room then
	decision splitDecision
}

// Spreads reports whether some of the pods have a topology spread over zones.
func Spreads(pods []*v1.Pod) bool { return slices.ContainsFunc(pods, spreadplan.Spreads) }

// Plan works out what the members need. Without a plan, why says what is in the way: the pods then
// get nodes as the autoscaler asks for them.
func (s *Spread[G]) Plan() (plan *SpreadPlan[G], why string) {
	if !s.Needed() {
		return nil, "all members take the same pods, and none has a topology spread"
	}
	chosen := s.Options[s.Chosen].Group
	terms, policy, why := s.terms(chosen)
	if why != "" {
		return nil, why
	}
	keys, kinds, why := s.kinds()
	if why != "" {
		return nil, why
	}
	pods := s.of(keys, kinds)
	sized, failed := readSizes(s.Members)
	if failed[chosen] != "" {
		return nil, failed[chosen]
	}
	limits := Limits{Room: math.MaxInt64}
	if s.Limits != nil {
		var err error
		if limits, err = s.Limits(sized, int64(len(pods))); err != nil {
			return nil, err.Error()
		}
	}
	w := &spreadWork[G]{Spread: s, keys: keys, kinds: kinds, pods: pods, limits: limits, request: spreadplan.Request{Terms: terms}}
	w.addMembers(sized)
	for i := range s.Nodes {
		w.request.Machines = append(w.request.Machines, machine(s.Nodes[i], false))
	}
	w.addOthers()
	result, why := w.within()
	if why != "" {
		return nil, why
	}
	return w.finish(result, splitDecision{Chosen: chosen, LeftOut: problems(failed), Policy: policy})
}

// Needed reports whether there is anything to plan for these pods and members: else the option is right
// as it is, and the other fields are not read.
func (s *Spread[G]) Needed() bool { return Spreads(s.Pods) || !s.alike() }

// alike reports whether all members take as many pods as the chosen one.
func (s *Spread[G]) alike() bool {
	takes := map[string]int{}
	for _, o := range s.Options {
		takes[o.Group] = len(o.Pods)
	}
	return !slices.ContainsFunc(s.Members, func(g G) bool { return takes[g.Id()] != len(s.Options[s.Chosen].Pods) })
}

// completion is that of a split by the policy of a set, as spreadplan.Request.Terms.
type completion = func(request nodegroupset.SplitRequest, member string,
	planned func(group string) (size int64, known bool)) nodegroupset.SplitRequest

// terms returns how splits are completed by the policy of the chosen group's set, nil if it shares
// nodes evenly. Its groups that are no members count for the policy too, and get nothing.
func (s *Spread[G]) terms(chosen string) (complete completion, policy, why string) {
	if s.Declared == nil {
		return nil, "", ""
	}
	terms, groups := s.Declared(chosen)
	switch {
	case terms == nil:
		return nil, "", ""
	case terms.Level():
		return nil, terms.Describe(), ""
	case !terms.Alike():
		return nil, "", "nodes of set " + terms.Set + " have different capacities, which its policy counts"
	}
	sizes := knownSizes(groups, nil)
	complete = func(request nodegroupset.SplitRequest, member string, planned func(string) (int64, bool)) nodegroupset.SplitRequest {
		return terms.Completed(request, member, func(name string) (int64, bool) {
			if size, known := planned(name); known {
				return size, true
			}
			return sizes(name)
		})
	}
	return complete, terms.Describe(), ""
}

// kinds are the kinds of the pods that the chosen group is for, and of those that only groups of its
// set are for, so that the expander has no choice. The autoscaler shows as many pods of a kind as
// the spread lets into one zone: all of them count.
func (s *Spread[G]) kinds() (keys map[*v1.Pod]string, kinds map[string]*spreadplan.Kind, why string) {
	keys = make(map[*v1.Pod]string, len(s.Pods))
	for _, pod := range s.Pods {
		keys[pod] = spreadplan.KeyOf(pod)
	}
	own, members := map[string]*v1.Pod{}, map[string]bool{}
	for _, g := range s.Members {
		members[g.Id()] = true
	}
	for _, o := range s.Options {
		for _, pod := range o.Pods {
			if !members[o.Group] {
				break
			}
			own[keys[pod]] = pod
		}
	}
	delete(own, "")
	shared := maps.Clone(own) // that other sets may take too
	for _, pod := range s.Options[s.Chosen].Pods {
		delete(shared, keys[pod])
	}
	for _, o := range s.Options {
		for _, pod := range o.Pods {
			if members[o.Group] || len(shared) == 0 {
				break
			}
			if key := keys[pod]; shared[key] != nil {
				delete(shared, key)
				delete(own, key)
			}
		}
	}
	kinds = map[string]*spreadplan.Kind{}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		if owner := metav1.GetControllerOfNoCopy(own[key]); owner != nil && owner.Kind == "ProvisioningRequest" {
			return nil, nil, "a ProvisioningRequest gets all of its nodes or none"
		}
		k, why := spreadplan.ReadKind(key, own[key])
		if why != "" {
			return nil, nil, why
		}
		kinds[key] = k
	}
	if len(kinds) == 0 {
		return nil, nil, "other sets take these pods too"
	}
	return keys, kinds, ""
}

// of are the pods of some kinds.
func (s *Spread[G]) of(keys map[*v1.Pod]string, kinds map[string]*spreadplan.Kind) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(pod *v1.Pod) bool { return kinds[keys[pod]] == nil })
}

// spreadWork is a plan while it is worked out.
type spreadWork[G NodeGroup] struct {
	*Spread[G]
	keys    map[*v1.Pod]string
	kinds   map[string]*spreadplan.Kind
	pods    []*v1.Pod // of these kinds
	limits  Limits
	sized   []Sized[G] // the members of the request, without lag
	sizes   []nodegroupset.Group
	request spreadplan.Request
}

// addMembers adds the groups whose sizes are known and that have a template. Each has the room that
// limits over several groups leave to it alone.
func (w *spreadWork[G]) addMembers(sized []Sized[G]) {
	for _, one := range sized {
		w.sizes = append(w.sizes, one.Group)
	}
	for _, one := range sized {
		template, known := w.Templates[one.Group.Name]
		if !known {
			continue
		}
		m := spreadplan.Member{Group: one.Group, New: func() *spreadplan.Machine { return machine(template, true) }}
		m.Max = m.Size + min(max(0, m.Max-m.Size), w.limits.left(w.sizes, m.Name))
		if w.Lag != nil {
			lag := min(w.Lag(m.Name), nodegroupset.MaxSize-m.Max)
			m.Size, m.Max = m.Size+lag, m.Max+lag
		}
		if allowed, tried := w.Deadlines.trial(m.Name); tried {
			m.Held, m.Allowed = true, allowed
		}
		w.sized, w.request.Members = append(w.sized, one), append(w.request.Members, m)
	}
}

// addOthers adds new nodes of the options that are no members.
func (w *spreadWork[G]) addOthers() {
	for _, o := range w.Options {
		template, known := w.Templates[o.Group]
		if known && !slices.ContainsFunc(w.Members, func(g G) bool { return g.Id() == o.Group }) {
			w.request.Others = append(w.request.Others, machine(template, true))
		}
	}
}

// within plans for all pods or, where limits over several groups leave less, for as many of the most
// important ones as they leave nodes for.
func (w *spreadWork[G]) within() (plan *spreadplan.Plan, why string) {
	plan, why = w.planFor(len(w.pods))
	if why != "" || w.limits.allow(w.sizes, plan.Added) {
		return plan, why
	}
	most := sort.Search(len(w.pods), func(n int) bool {
		plan, why := w.planFor(n + 1)
		return why != "" || !w.limits.allow(w.sizes, plan.Added)
	})
	if plan, why = w.planFor(most); why == "" && !w.limits.allow(w.sizes, plan.Added) {
		why = "limits over several node groups"
	}
	return plan, why
}

// planFor plans for the first of the pods.
func (w *spreadWork[G]) planFor(pods int) (plan *spreadplan.Plan, why string) {
	w.request.Kinds = nil
	for _, k := range w.kinds {
		k.Count = 0
	}
	for _, pod := range w.pods[:pods] {
		k := w.kinds[w.keys[pod]]
		if k.Count++; k.Count == 1 {
			w.request.Kinds = append(w.request.Kinds, k)
		}
	}
	return spreadplan.New(&w.request)
}

// finish has the scheduler try a plan. One that leaves a node empty would be refused too, but there
// is none: the plan puts a pod on each.
func (w *spreadWork[G]) finish(plan *spreadplan.Plan, d splitDecision) (*SpreadPlan[G], string) {
	if len(plan.Added) == 0 {
		return nil, "no new node would help"
	}
	waiting := map[string][]*v1.Pod{}
	for _, pod := range w.pods {
		waiting[w.keys[pod]] = append(waiting[w.keys[pod]], pod)
	}
	var placed []Placement
	used := map[int]bool{}
	out := &SpreadPlan[G]{Chosen: d.Chosen}
	for _, put := range plan.Put {
		key := put.Kind.Key
		for _, pod := range waiting[key][:put.Pods] {
			placed, out.Pods = append(placed, Placement{pod, put.Machine}), append(out.Pods, pod)
		}
		waiting[key] = waiting[key][put.Pods:]
		used[put.Machine] = true
	}
	for i, group := range plan.Added {
		if !used[len(w.Nodes)+i] {
			return nil, "a new node of " + group + " would stay empty"
		}
	}
	if err := w.Try(plan.Added, placed); err != nil {
		return nil, err.Error()
	}
	for i, one := range w.sized {
		m := &w.request.Members[i]
		more := plan.Sizes[m.Name] - m.Size
		d.Groups = append(d.Groups, splitMember{Name: m.Name, Size: one.Group.Size, NewSize: one.Group.Size + more})
		if more > 0 {
			size := int(one.Group.Size)
			out.Growth = append(out.Growth, Growth[G]{one.NodeGroup, size, size + int(more), int(one.Group.Max)})
		}
	}
	slices.SortFunc(out.Growth, func(a, b Growth[G]) int { return chosenFirst(d.Chosen, a.Group.Id(), b.Group.Id()) })
	d.Need, d.Pods, d.PodsLeft = len(plan.Added), len(out.Pods), len(w.pods)-len(out.Pods)
	out.decision = d
	return out, ""
}

// holds reports whether the groups are as large as they were when the plan was made.
func (p *SpreadPlan[G]) holds() bool {
	return !slices.ContainsFunc(p.Growth, func(g Growth[G]) bool {
		size, err := g.Group.TargetSize()
		return err != nil || size != g.Size
	})
}

// machine is a node as a plan sees it.
func machine(t Template, fresh bool) *spreadplan.Machine {
	m := &spreadplan.Machine{Node: t.Node, Free: podfit.Allocatable(t.Node), Usable: !t.Node.Spec.Unschedulable, Fresh: fresh, Pods: t.Pods()}
	m.Free.Add(-1, t.Requested)
	return m
}
