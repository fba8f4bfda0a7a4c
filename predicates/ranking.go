package predicates

import (
	"encoding/binary"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// ranking is what one kind of pods thinks of every node. What a node offers by
// itself is kept node by node; nodes that are equal in all else are of one
// standing, so that the rules over domains are worked out once for each standing.
type ranking struct {
	s *Scheduler
	t *tenant
	// exact: the rules of the pods are beyond the tables; every plugin is asked.
	exact bool
	// picky: the pods tell single nodes apart.
	picky           bool
	epoch, seen     int
	systemDefaulted bool
	seeksItself     bool // it meets its own required affinity

	censuses  []*census
	hosts     int // how many censuses are over hostnames
	preferred *nodeaffinity.PreferredSchedulingTerms
	// wantsCPU and wantsMem are what the pod counts for in NodeResourcesFit.
	wantsCPU, wantsMem int64

	classes  map[int]*class // by shape, or slot where picky; -1 is that of slots without a node
	numbered int            // classes there have been
	classOf  []*class       // of the slots
	host     []int          // counts over hostnames, so many for each slot
	score    []int16        // of the slots, for resources; rejected where they do not fit
	standing []int32        // of the slots

	standings []standing
	byKey     map[string]int32
	key       []byte
	totals    []int32 // of the standings; rejected where they are no candidates
	look      int
}

const rejected = -1

// class is the result of a pod for nodes of one shape, regardless of the pods on them.
type class struct {
	id        int
	rejected  bool
	taints    int64 // PreferNoSchedule ones that it does not tolerate
	preferred int64 // weights of the preferred node affinity that match
	// Of the censuses: the domain, whether the node has the label, and whether its
	// pods count.
	domain      []int
	has, counts []bool
	ignored     bool // lacks a key of a soft spread constraint
}

// standing is a number of nodes of one class with equal counts over hostnames.
type standing struct {
	class *class
	host  []int
	nodes int // all of them
	fit   int // those that are open and have the resources
	scores
}

// scores are the parts of a node's score by its standing, each 0 to 100, not yet
// weighted.
type scores struct {
	spread, affinity, taints, pods int64
	raw                            int64 // of spread
}

// ranking returns the ranking for a kind of pods, up to date.
func (s *Scheduler) ranking(t *tenant) *ranking {
	if t.ranking == nil {
		t.ranking = &ranking{s: s, t: t, epoch: -1}
		s.ranked++
	}
	r := t.ranking
	if r.epoch != s.epoch || len(s.journal)-r.seen > 2*len(s.slots)+1_000 {
		r.build()
	}
	for _, c := range s.journal[r.seen:] {
		r.apply(c)
	}
	r.seen = len(s.journal)
	return r
}

// needsOthers reports whether pods that are bound can make a node do for the pod
// that did not do before.
func (t *tenant) needsOthers() bool {
	return len(t.info.RequiredAffinityTerms) > 0 || len(t.info.Pod.Spec.TopologySpreadConstraints) > 0
}

// beyondTables reports whether the plugins must be asked about every node.
func (s *Scheduler) beyondTables(p *v1.Pod) bool {
	return !s.c.standard || len(p.Spec.ResourceClaims) > 0 || slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return volumeChecked(p, &v) })
}

// build looks at every node anew.
func (r *ranking) build() {
	s, p := r.s, r.t.info.Pod
	*r = ranking{s: s, t: r.t, epoch: s.epoch, seen: len(s.journal), classes: map[int]*class{}, byKey: map[string]int32{}}
	if r.exact = s.beyondTables(p); r.exact {
		return
	}
	var err error
	if r.censuses, r.systemDefaulted, err = s.censuses(r.t); err == nil && preferredNodes(p) != nil {
		r.preferred, err = nodeaffinity.NewPreferredSchedulingTerms(preferredNodes(p))
	}
	for _, c := range r.censuses {
		if c.host >= 0 {
			r.hosts++
			r.exact = r.exact || s.sharedHosts && c.role != shouldSpread
		}
	}
	if r.exact = r.exact || err != nil; r.exact {
		return // where it is an error, the plugins tell it
	}
	r.picky = picksNodes(p) || slices.ContainsFunc(preferredNodes(p), func(t v1.PreferredSchedulingTerm) bool {
		return onHost(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{t.Preference}})
	})
	r.seeksItself = meetsAll(s.c.withNamespaces(r.t.info.RequiredAffinityTerms), p)
	r.wantsCPU, r.wantsMem = scoredRequests(p)
	n := len(s.slots)
	r.classOf, r.score, r.standing = make([]*class, n), make([]int16, n), make([]int32, n)
	r.host = make([]int, n*r.hosts)
	for i, sl := range s.slots {
		r.enter(i)
		for _, it := range sl.items {
			r.add(i, it.tenant, it.n)
		}
		r.standing[i] = -1
		r.rank(i)
	}
}

// enter takes in the node of a slot.
func (r *ranking) enter(i int) {
	cl := r.class(i)
	r.classOf[i] = cl
	for ci, c := range r.censuses {
		if cl.counts[ci] && c.host < 0 {
			c.members[cl.domain[ci]]++
		}
	}
}

// exchange takes in another node for that of a slot, from which all pods have left.
func (r *ranking) exchange(i int) {
	for i >= len(r.classOf) {
		r.classOf, r.score, r.standing = append(r.classOf, nil), append(r.score, rejected), append(r.standing, -1)
		r.host = append(r.host, make([]int, r.hosts)...)
	}
	if cl := r.classOf[i]; cl != nil {
		for ci, c := range r.censuses {
			if cl.counts[ci] && c.host < 0 {
				c.members[cl.domain[ci]]--
			}
		}
	}
	if r.picky {
		delete(r.classes, i)
	}
	r.enter(i)
}

// add counts pods that come to a node or, below zero, leave it.
func (r *ranking) add(i int, t *tenant, n int) {
	cl := r.classOf[i]
	for ci, c := range r.censuses {
		if cl.counts[ci] {
			r.count(i, ci, c.of(t)*n)
		}
	}
}

// scoredRequests are the requests of a pod as NodeResourcesFit counts them, with
// defaults for containers that have none.
func scoredRequests(p *v1.Pod) (cpu, memory int64) {
	requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		NonMissingContainerRequests: v1.ResourceList{
			v1.ResourceCPU:    *resource.NewMilliQuantity(schedutil.DefaultMilliCPURequest, resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(schedutil.DefaultMemoryRequest, resource.BinarySI),
		},
	})
	return requests.Cpu().MilliValue(), requests.Memory().Value()
}

// apply takes over that pods came to a node or left it, or that the node changed.
func (r *ranking) apply(c change) {
	switch {
	case r.exact:
		return
	case c.tenant == nil:
		r.exchange(c.slot)
	default:
		r.add(c.slot, c.tenant, c.n)
	}
	r.rank(c.slot)
}

// count adds to a census where the node of a slot is.
func (r *ranking) count(slot, ci, n int) {
	c := r.censuses[ci]
	c.total += n
	if c.host >= 0 {
		r.host[slot*r.hosts+c.host] += n
		return
	}
	c.count[r.classOf[slot].domain[ci]] += n
}

// rank finds the standing of a node and its score for resources.
func (r *ranking) rank(i int) {
	cl, host := r.classOf[i], r.host[i*r.hosts:(i+1)*r.hosts]
	r.key = binary.AppendUvarint(r.key[:0], uint64(cl.id))
	for _, n := range host {
		r.key = binary.AppendVarint(r.key, int64(n))
	}
	to, known := r.byKey[string(r.key)]
	if !known {
		to = int32(len(r.standings))
		r.byKey[string(r.key)] = to
		r.standings = append(r.standings, standing{class: cl, host: slices.Clone(host)})
		r.totals = append(r.totals, rejected)
	}
	if from := r.standing[i]; from >= 0 {
		r.standings[from].nodes--
		if r.score[i] != rejected {
			r.standings[from].fit--
		}
	}
	r.standing[i], r.score[i] = to, rejected
	r.standings[to].nodes++
	if sl := r.s.slots[i]; !cl.rejected && r.fits(sl) {
		least, balanced := r.resources(sl)
		r.score[i] = int16(least + balanced)
		r.standings[to].fit++
	}
}

// fits reports whether an open node has room and free host ports.
func (r *ranking) fits(sl *slot) bool {
	if sl.closed || room(sl.allocatable, sl.pods, &sl.used, &r.t.asks, false) == 0 {
		return false
	}
	if r.t.ports != nil {
		for _, it := range sl.items {
			if it.ports != nil && conflict(it.ports, r.t.ports) {
				return false
			}
		}
	}
	return true
}

func conflict(taken, wanted fwk.HostPortInfo) bool {
	for ip, ports := range wanted {
		for port := range ports {
			if taken.CheckConflict(ip, port.Protocol, port.Port) {
				return true
			}
		}
	}
	return false
}

// resources returns the scores of NodeResourcesFit (least allocated) and of
// NodeResourcesBalancedAllocation, 0 to 100 each.
func (r *ranking) resources(sl *slot) (least, balanced int64) {
	cpu, memory := sl.allocatable.MilliCPU, sl.allocatable.Memory
	sum, resources := int64(0), int64(0)
	for _, of := range [2][2]int64{{sl.non0CPU + r.wantsCPU, cpu}, {sl.non0Mem + r.wantsMem, memory}} {
		if used, all := of[0], of[1]; all > 0 {
			resources++
			if used <= all {
				sum += (all - used) * fwk.MaxScore / all
			}
		}
	}
	if resources > 0 {
		least = sum / resources
	}
	if r.t.need.cpu == 0 && r.t.need.memory == 0 {
		return least, 0 // not scored
	}
	with := balance(sl.used.cpu+r.t.need.cpu, cpu, sl.used.memory+r.t.need.memory, memory)
	without := balance(sl.used.cpu, cpu, sl.used.memory, memory)
	const half = fwk.MaxScore / 2
	return least, half + (half+with-without)/2
}

// balance says how close the used shares of cpu and memory are: 100 where they
// are the same, 50 where one is full and the other free.
func balance(usedCPU, cpu, usedMemory, memory int64) int64 {
	apart := 0.0
	if cpu > 0 && memory > 0 {
		shareCPU := min(float64(usedCPU)/float64(cpu), 1)
		apart = math.Abs((shareCPU - min(float64(usedMemory)/float64(memory), 1)) / 2)
	}
	return int64((1 - apart) * float64(fwk.MaxScore))
}

// class returns the class of a slot.
func (r *ranking) class(i int) *class {
	sl := r.s.slots[i]
	key := sl.shape
	switch {
	case sl.gone:
		key = -1
	case r.picky:
		key = i
	}
	if cl := r.classes[key]; cl != nil {
		return cl
	}
	p, n := r.t.info.Pod, len(r.censuses)
	cl := &class{id: r.numbered, domain: make([]int, n), has: make([]bool, n), counts: make([]bool, n)}
	r.numbered++
	r.classes[key] = cl
	if sl.gone {
		cl.rejected = true
		return cl
	}
	cl.rejected, cl.taints = r.turnsAway(sl), untolerated(p, sl.node)
	if r.preferred != nil {
		cl.preferred = r.preferred.Score(sl.node)
	}
	lacksHard, affinity := false, nodeaffinity.GetRequiredNodeAffinity(p)
	for ci, c := range r.censuses {
		value, has := sl.node.Labels[c.key]
		cl.has[ci] = has
		cl.ignored = cl.ignored || c.role == shouldSpread && !has && !r.systemDefaulted
		lacksHard = lacksHard || c.role == mustSpread && !has
		if c.host < 0 {
			cl.domain[ci] = c.domain(value)
		}
	}
	for ci, c := range r.censuses {
		switch {
		case c.role == mustSpread:
			cl.counts[ci] = !lacksHard && c.constraint.Includes(p, affinity, sl.node)
		case c.role == shouldSpread && c.host < 0:
			cl.counts[ci] = !cl.ignored && c.constraint.Includes(p, affinity, sl.node)
		default:
			cl.counts[ci] = cl.has[ci]
		}
	}
	return cl
}

// untolerated counts the taints that a pod would rather keep away from.
func untolerated(p *v1.Pod, n *v1.Node) int64 {
	count := int64(0)
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect == v1.TaintEffectPreferNoSchedule {
			if !corev1.TolerationsTolerateTaint(klog.Logger{}, p.Spec.Tolerations, t, false) {
				count++
			}
		}
	}
	return count
}

// turnsAway is asked once for all nodes that the pods cannot tell apart.
func (r *ranking) turnsAway(sl *slot) bool {
	p, t := r.t.info.Pod, r.t
	if r.picky {
		return r.s.turnsAway(p, sl.node)
	}
	if t.turnedAway == nil {
		t.turnedAway, t.selects = map[string]bool{}, compacted(selectorKeysOf(p))
	}
	if looksUpVolumes(p) {
		r.key = binary.AppendUvarint(r.key[:0], uint64(sl.shape))
	} else {
		r.key = appendLabels(binary.AppendUvarint(r.key[:0], uint64(sl.body)), sl.node, t.selects)
	}
	away, known := t.turnedAway[string(r.key)]
	if !known {
		away = r.s.turnsAway(p, sl.node)
		t.turnedAway[string(r.key)] = away
	}
	return away
}

// turnsAway reports whether a plugin that looks at nothing but the node itself
// rejects the pod, whatever the node's resources.
func (s *Scheduler) turnsAway(p *v1.Pod, n *v1.Node) bool {
	bare := framework.NewNodeInfo()
	bare.SetNode(n)
	cy := s.c.begin(p, one(bare))
	tabled := func(status *fwk.Status) bool {
		return status.Plugin() == names.NodeResourcesFit || stateDependent(status.Plugin())
	}
	first := cy.filter(bare)
	if first == nil || !tabled(first) {
		return first != nil
	}
	return slices.ContainsFunc(cy.all(bare), func(status *fwk.Status) bool { return !tabled(status) })
}
