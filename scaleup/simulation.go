package scaleup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/predicates"
)

// schedulers are two for simulations: each remembers the nodes that it was given last.
type schedulers struct {
	existing *predicates.Scheduler // has all nodes
	coming   *predicates.Scheduler // has those that do not exist yet, where the others take no pod
	unborn   unborn
	work     *int // done in this round, about in nanoseconds
}

func newSchedulers(checker *predicates.Checker) schedulers {
	return schedulers{existing: checker.Rehearsal(), coming: checker.Rehearsal(), unborn: unborn{}, work: new(int)}
}

// unborn are nodes that do not exist yet. They are the same objects whenever they are asked for,
// which spares the scheduler a look.
type unborn map[unbornKey]*v1.Node

type unbornKey struct {
	group    string
	i        int // in the order in which the group gets nodes
	template *v1.Node
}

func (u unborn) node(g *Group, i int, template *v1.Node) *v1.Node {
	key := unbornKey{g.ID, g.arrived + i, template}
	n := u[key]
	if n == nil {
		made := *template
		n, u[key] = &made, &made
		n.Name = fmt.Sprintf("%s~%d", g.ID, key.i)
		if g.NodeName != nil {
			n.Name = g.NodeName(key.i)
		}
		n.Labels = make(map[string]string, len(template.Labels)+1)
		maps.Copy(n.Labels, template.Labels)
		n.Labels[v1.LabelHostname] = n.Name
	}
	return n
}

// simulation simulates what the scheduler will do with the pods that wait. Of nodes with the same
// score it picks one by their names, so it is exact where these are known.
type simulation struct {
	scheduler *predicates.Scheduler
	pods      []*v1.Pod         // all that wait
	nodes     []predicates.Node // that exist, with the pods that fit there
	closed    int               // the first of them, which take no pod that waits, whatever comes
	at        []int             // the node of each pod, below zero where it waits on
	settled   int               // pods that have one
	coming    []arrival
	group     func(name string) *Group
	unborn    unborn
	atOnce    bool                // nodes come together: some claim is bound with its pod, and only for the time of one call
	results   map[string]*outcome // by what is new
	work      *int                // done so far, about in nanoseconds
}

// arrival are nodes of one group that will be there after a time.
type arrival struct {
	group   string
	from, n int // in the order in which the group gets nodes
	ordered when
	chosen  string        // the option that is ordered later
	seen    time.Duration // until it registers
	in      time.Duration // until pods run on it
	machine predicates.Node
}

// when says when nodes are ordered, as seen from the round that is planned.
type when int

const (
	orderedBefore when = iota
	orderedNow
	orderedLater // the first of those that follow, and so on
)

func machine(t *cloudprovider.Template) predicates.Node {
	return predicates.Node{Node: t.Node, Pods: t.Pods}
}

// next is the machine that comes next of those on their way: what came last says more of it than
// the template.
func (g *Group) next() predicates.Node {
	if len(g.Came) > 0 {
		return machine(&g.Came[0])
	}
	return machine(g.Template)
}

// someTime is how long nodes still take where it is not known, whenever they were ordered.
const someTime = time.Minute

// underway are nodes ordered before, in the order in which they come.
func underway(g *Group, machine predicates.Node, now time.Time) []arrival {
	all, from := []arrival{{group: g.ID, n: g.Upcoming, seen: someTime, in: someTime, machine: machine}}, g.Upcoming
	for _, o := range slices.Backward(g.Orders.Last(g.Upcoming)) {
		from -= o.Nodes
		batch := all[0]
		batch.from, batch.n = from, o.Nodes
		if g.StartupTime.Ready > 0 {
			ago := now.Sub(o.At)
			batch.seen, batch.in = g.StartupTime.Registered-ago, max(0, g.StartupTime.Ready-ago)
		}
		all = append(all, batch)
	}
	oldest := all[len(all)-1]
	all[0].n, all[0].seen, all[0].in = from, min(someTime, oldest.seen), min(someTime, oldest.in)
	slices.Reverse(all[1:])
	return all
}

// fresh are nodes ordered now.
func fresh(g *Group, n int64) arrival {
	a := arrival{group: g.ID, from: g.Upcoming, n: int(n), ordered: orderedNow, seen: someTime, in: someTime, machine: machine(g.Template)}
	if g.StartupTime.Ready > 0 {
		a.seen, a.in = g.StartupTime.Registered, g.StartupTime.Ready
	}
	return a
}

// outcome is what happens to all pending pods, were some nodes there.
type outcome struct {
	nodes  []predicates.Node // that are not closed, with the pods that are on them then
	groups []string          // of the nodes that do not exist yet, the last of nodes
	at     []int             // the node of each pending pod, closed ones counted, below zero where it waits on
	placed int
	waited time.Duration // of all pods that have a place, together
	last   time.Duration // until the last of them has it
	empty  []arrival     // how many of the nodes that do not exist yet no pod is on
}

// unused is how many nodes of a group ordered now no pod is on.
func (t *outcome) unused(group string) int64 {
	n := 0
	for _, a := range t.empty {
		if a.ordered == orderedNow && a.group == group {
			n += a.n
		}
	}
	return int64(n)
}

// asGoodAs reports whether as many pods run, as soon.
func (t *outcome) asGoodAs(other *outcome) bool {
	return t.placed > other.placed || t.placed == other.placed && t.waited <= other.waited
}

// stranded is how many nodes ordered before no pod is on.
func (t *outcome) stranded() int64 {
	n := 0
	for _, a := range t.empty {
		if a.ordered == orderedBefore {
			n += a.n
		}
	}
	return int64(n)
}

// newSimulation lets the scheduler bind the pods that fit on nodes that exist: they will
// be there before any other node comes.
func newSimulation(by schedulers, w *World, coming []arrival, group func(name string) *Group) (simulation, error) {
	s := simulation{
		scheduler: by.existing, pods: w.Pending, coming: coming, group: group, unborn: by.unborn, work: by.work, results: map[string]*outcome{},
	}
	s.atOnce = slices.ContainsFunc(s.pods, hasClaims)
	t := &outcome{nodes: slices.Clone(w.Nodes), at: slices.Repeat([]int{-1}, len(s.pods))}
	err := s.bind(t, s.registered(coming, 0))
	s.nodes, s.at, s.settled = t.nodes, t.at, t.placed
	if !slices.ContainsFunc(everyIndex(len(s.pods)), func(i int) bool { return s.at[i] < 0 && dependsOnOthers(s.pods[i]) }) &&
		!slices.ContainsFunc(s.nodes, func(n predicates.Node) bool { return slices.ContainsFunc(n.Pods, repels) }) {
		s.closed, s.scheduler = len(s.nodes), by.coming
	}
	return s, err
}

// dependsOnOthers reports whether what runs elsewhere may decide which nodes a pod
// fits. It is wider than estimator.DependsOnDomain: preferences, hostnames and claims
// count too.
func dependsOnOthers(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return len(pod.Spec.TopologySpreadConstraints) > 0 || len(pod.Spec.ResourceClaims) > 0 ||
		affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) ||
		hasClaims(pod)
}

func hasClaims(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// repels reports whether a pod keeps others from its domain.
func repels(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return affinity != nil && affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// with returns the same simulation with other nodes on their way.
func (s simulation) with(coming []arrival, group func(name string) *Group) simulation {
	s.coming, s.group, s.results = coming, group, map[string]*outcome{}
	return s
}

// simulate binds the pods that wait: to the nodes there are, to those on their way and
// to planned ones, as they come.
func (s *simulation) simulate(planned map[string]int64) (*outcome, error) {
	key := fmt.Sprint(planned)
	if r, ok := s.results[key]; ok {
		return r, nil
	}
	arriving := slices.Clone(s.coming)
	for _, group := range slices.Sorted(maps.Keys(planned)) {
		arriving = append(arriving, fresh(s.group(group), planned[group]))
	}
	slices.SortStableFunc(arriving, func(a, b arrival) int { return cmp.Compare(a.in, b.in) })
	t, err := s.run(arriving)
	if err == nil {
		s.results[key] = t
	}
	return t, err
}

// run lets nodes come in the order given.
func (s *simulation) run(arriving []arrival) (*outcome, error) {
	t := &outcome{nodes: slices.Clone(s.nodes[s.closed:]), at: slices.Clone(s.at), placed: s.settled}
	for i, a := range arriving {
		for n := range a.n {
			t.nodes = append(t.nodes, predicates.Node{Node: s.unborn.node(s.group(a.group), a.from+n, a.machine.Node), Pods: a.machine.Pods})
			t.groups = append(t.groups, a.group)
		}
		if i+1 < len(arriving) && (s.atOnce || arriving[i+1].in == a.in) {
			continue
		}
		earlier := t.placed
		if err := s.bind(t, s.registered(arriving[i+1:], a.in)); err != nil {
			return nil, err
		}
		if n := t.placed - earlier; n > 0 {
			t.waited, t.last = t.waited+time.Duration(n)*a.in, a.in
		}
	}
	taken := make([]bool, len(s.nodes)+len(t.groups))
	for _, at := range t.at {
		if at >= 0 {
			taken[at] = true
		}
	}
	at := len(s.nodes)
	for _, a := range arriving {
		empty := a
		for _, taken := range taken[at : at+a.n] {
			if taken {
				empty.n--
			}
		}
		if at += a.n; empty.n > 0 {
			t.empty = append(t.empty, empty)
		}
	}
	return t, nil
}

// registered are the nodes that are not ready by a time and that pods are spread over all the same.
func (s *simulation) registered(coming []arrival, by time.Duration) (nodes []predicates.Node) {
	if s.closed > 0 {
		return nil // nobody looks at them
	}
	for _, a := range coming {
		if a.in == 0 || a.seen > by {
			continue
		}
		for n := range a.n {
			nodes = append(nodes, predicates.Node{Node: s.unborn.node(s.group(a.group), a.from+n, a.machine.Node), Pods: a.machine.Pods})
		}
	}
	return nodes
}

// bind lets the scheduler bind the pods that wait on.
func (s *simulation) bind(t *outcome, closed []predicates.Node) error {
	var waiting []int
	var pods []*v1.Pod
	for i, pod := range s.pods {
		if t.at[i] < 0 {
			waiting, pods = append(waiting, i), append(pods, pod)
		}
	}
	if len(pods) == 0 || len(t.nodes) == 0 {
		return nil
	}
	*s.work += 50_000 + 100*len(pods)*len(t.nodes)
	places, err := s.scheduler.Bind(t.nodes, closed, pods)
	if err != nil {
		return err
	}
	came := map[int][]*v1.Pod{}
	for i, at := range places {
		if at >= 0 {
			t.at[waiting[i]] = s.closed + at
			t.placed++
			came[at] = append(came[at], pods[i])
		}
	}
	for at, pods := range came {
		n := &t.nodes[at]
		n.Pods = slices.Concat(n.Pods, pods)
	}
	return nil
}
