package scaleup

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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
}

func newSchedulers(checker *predicates.Checker) schedulers {
	return schedulers{existing: checker.Rehearsal(), coming: checker.Rehearsal()}
}

// simulation simulates what the scheduler will do with the pods that wait. Of nodes
// with the same score the scheduler picks any, so a what-if has several outcomes.
type simulation struct {
	scheduler *predicates.Scheduler
	pods      []*v1.Pod         // all that wait
	nodes     []predicates.Node // that exist, with the pods that fit there
	closed    int               // the first of them, which take no pod that waits, whatever comes
	at        []int             // the node of each pod, below zero where it waits on
	settled   int               // pods that have one
	coming    []arrival
	group     func(name string) *Group
	clones    map[string][]*v1.Node // nodes that do not exist yet, by group and draw
	draws     int                   // outcomes of each what-if
	atOnce    bool                  // nodes come together: some claim is bound with its pod, and only for the time of one call
	results   map[string]outcomes   // by what is new
	work      int                   // done so far, about in nanoseconds
}

// arrival are nodes of one group that will be there after a time; without one they
// may come before others or after them.
type arrival struct {
	group, name string
	n           int
	in          time.Duration
	machine     predicates.Node
}

func machine(t *cloudprovider.Template) predicates.Node {
	return predicates.Node{Node: t.Node, Pods: t.Pods}
}

// underway are nodes ordered before; those of which it is not known when come first.
func underway(g *Group, machine predicates.Node, now time.Time) []arrival {
	all := []arrival{{group: g.ID, name: "coming", n: g.Upcoming, machine: machine}}
	for _, o := range latest(g.Orders, g.Upcoming) {
		batch := all[0]
		batch.n = o.Nodes
		if g.StartupTime > 0 {
			batch.in = max(0, o.At.Add(g.StartupTime).Sub(now))
		}
		all[0].n -= o.Nodes
		all = append(all, batch)
	}
	return all
}

// fresh are nodes ordered now.
func fresh(g *Group, name string, n int64) arrival {
	return arrival{group: g.ID, name: name, n: int(n), in: g.StartupTime, machine: machine(g.Template)}
}

// outcome is what happens to all pending pods, were some nodes there.
type outcome struct {
	nodes  []predicates.Node // that are not closed, with the pods that are on them then
	groups []string          // of the nodes that do not exist yet, the last of nodes
	at     []int             // the node of each pending pod, closed ones counted, below zero where it waits on
	placed int
	empty  map[string]int64 // nodes that no pod is on, of those that do not exist yet, by group
}

// outcomes are those of one what-if, one for each draw.
type outcomes []*outcome

// Small worlds have several outcomes of each what-if.
const (
	manyDraws = 3
	manyPairs = 200_000
)

// newSimulation lets the scheduler bind the pods that fit on nodes that exist: they will
// be there before any other node comes.
func newSimulation(by schedulers, w *World, coming []arrival, group func(name string) *Group) (simulation, error) {
	s := simulation{
		scheduler: by.existing, pods: w.Pending, coming: coming, group: group, draws: manyDraws,
		clones: map[string][]*v1.Node{}, results: map[string]outcomes{},
	}
	if len(s.pods)*(len(w.Nodes)+len(s.pods)) > manyPairs {
		s.draws = 1
	}
	s.atOnce = slices.ContainsFunc(s.pods, hasClaims)
	t := &outcome{nodes: slices.Clone(w.Nodes), at: slices.Repeat([]int{-1}, len(s.pods))}
	err := s.bind(t)
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
func (s simulation) with(coming []arrival) simulation {
	s.coming, s.results = coming, map[string]outcomes{}
	return s
}

// simulate binds the pods that wait: to the nodes there are, to those on their way and
// to planned ones, as they come. Nodes of groups whose start-up time is not known are
// there at once; planned ones of the group named last, if any, come after all others.
func (s *simulation) simulate(planned map[string]int64, last string) (outcomes, error) {
	if last != "" && s.group(last).StartupTime > 0 {
		last = ""
	}
	key := fmt.Sprint(planned, last)
	if r, ok := s.results[key]; ok {
		return r, nil
	}
	arriving := slices.Clone(s.coming)
	for _, group := range slices.Sorted(maps.Keys(planned)) {
		arriving = append(arriving, fresh(s.group(group), "new", planned[group]))
	}
	if last != "" {
		for i := range arriving {
			if arriving[i].group == last && arriving[i].name == "new" {
				arriving[i].in = math.MaxInt64
			}
		}
	}
	slices.SortStableFunc(arriving, func(a, b arrival) int { return cmp.Compare(a.in, b.in) })
	var r outcomes
	for n := range s.draws {
		t, err := s.run(n, arriving)
		if err != nil {
			return nil, err
		}
		r = append(r, t)
	}
	s.results[key] = r
	return r, nil
}

// run lets nodes come in the order given.
func (s *simulation) run(n int, arriving []arrival) (*outcome, error) {
	t := &outcome{nodes: slices.Clone(s.nodes[s.closed:]), at: slices.Clone(s.at), placed: s.settled}
	count := map[string]int{}
	for i, a := range arriving {
		name := fmt.Sprintf("%s~%s-%d", a.group, a.name, n)
		for _, node := range s.cloned(name, a.machine.Node, count[name]+a.n)[count[name]:] {
			t.nodes = append(t.nodes, predicates.Node{Node: node, Pods: a.machine.Pods})
			t.groups = append(t.groups, a.group)
		}
		count[name] += a.n
		if i+1 < len(arriving) && (s.atOnce || arriving[i+1].in == a.in) {
			continue
		}
		if err := s.bind(t); err != nil {
			return nil, err
		}
	}
	t.empty = map[string]int64{}
	taken := make([]bool, len(s.nodes)+len(t.groups))
	for _, at := range t.at {
		if at >= 0 {
			taken[at] = true
		}
	}
	for i, group := range t.groups {
		if !taken[len(s.nodes)+i] {
			t.empty[group]++
		}
	}
	return t, nil
}

// cloned returns nodes made from a template. They are the same objects whenever they
// are asked for, which spares the scheduler a look.
func (s *simulation) cloned(name string, template *v1.Node, count int) []*v1.Node {
	for i := len(s.clones[name]); i < count; i++ {
		n := *template
		n.Name = fmt.Sprintf("%s-%d", name, i)
		n.Labels = make(map[string]string, len(template.Labels)+1)
		maps.Copy(n.Labels, template.Labels)
		n.Labels[v1.LabelHostname] = n.Name
		s.clones[name] = append(s.clones[name], &n)
	}
	return s.clones[name][:count]
}

// bind lets the scheduler bind the pods that wait on.
func (s *simulation) bind(t *outcome) error {
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
	s.work += 50_000 + 100*len(pods)*len(t.nodes)
	places, err := s.scheduler.Bind(t.nodes, nil, pods)
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

// best is the outcome in which most pods found a place.
func (r outcomes) best() *outcome {
	return slices.MaxFunc(r, func(a, b *outcome) int { return a.placed - b.placed })
}

// noWorseThan reports whether in no outcome fewer pods found a place.
func (r outcomes) noWorseThan(other outcomes) bool {
	for i, t := range r {
		if t.placed < other[i].placed {
			return false
		}
	}
	return true
}

// helps reports whether in most outcomes more pods found a place.
func (r outcomes) helps(other outcomes) bool {
	n := 0
	for i, t := range r {
		if t.placed > other[i].placed {
			n++
		}
	}
	return 2*n > len(r)
}

// unused is how many nodes of a group are empty in some outcome, beside those that are
// empty in the other outcomes too.
func (r outcomes) unused(group string, other outcomes) int64 {
	most := int64(0)
	for i, t := range r {
		most = max(most, t.empty[group]-other[i].empty[group])
	}
	return most
}
