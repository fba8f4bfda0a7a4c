package predicates

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// Preemptor finds pods of lower priority that make room for a pod, by kube-scheduler's own plugin
// DefaultPreemption. It keeps what it learned of nodes and pods from call to call, as a Scheduler does.
type Preemptor struct {
	c      *Checker
	plugin *defaultpreemption.DefaultPreemption // nil: the profile has none
	nodes  map[string]*knownNode                // by name
}

// Preemption is what makes room for a pod.
type Preemption struct {
	Node    int       // position of the node
	Victims []*v1.Pod // that have to go from it, the most important first
	// Violations is how many of them go although their budget allows no eviction.
	Violations int
}

// knownNode is a node with its pods as plugins see them.
type knownNode struct {
	given  Node
	lowest int32                            // priority of its pods; the greatest if there are none
	info   *framework.NodeInfo              // nil: not built yet
	pods   map[types.NamespacedName]*v1.Pod // as they were given
}

// Preemptor returns one that knows no nodes yet.
func (c *Checker) Preemptor() *Preemptor {
	p := &Preemptor{c: c, nodes: map[string]*knownNode{}}
	if p.plugin = c.preemption; p.plugin != nil {
		p.plugin.MoreImportantPod = moreImportant
	}
	return p
}

// Find returns which pods of which open node make room for a pod, or nil if none do or the pod may not
// preempt. As in kube-scheduler, a tenth of the nodes that may do and at least a hundred are tried, from
// one on that a hash of the pod's name picks; of those the one is taken with the fewest violations of
// budgets, then that with the lowest of the highest priorities of victims, the smallest sum of their
// priorities, the fewest victims, and the latest start of those of the highest priority. A hash of
// the names of pod and node decides between nodes that are equal in all of this.
//
// The budgets are those that have a status. A pod started when its status says so, else when it was
// created. Objects may be looked at again in later calls and must not be changed. The error is
// ErrNilObject, or ErrInterrupted.
func (p *Preemptor) Find(nodes []Node, open func(int) bool, pod *v1.Pod, budgets []*policyv1.PodDisruptionBudget) (*Preemption, error) {
	if p.plugin == nil || pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return nil, nil
	}
	candidates, err := p.candidates(nodes, open, corev1.PodPriority(pod))
	if err != nil || len(candidates) == 0 {
		return nil, err
	}
	found, err := p.dryRun(nodes, candidates, pod, budgets)
	if err != nil {
		return nil, err
	}
	hash := hashOf(pod.Namespace, pod.Name)
	rank := func(at int) uint64 { return mix(hashOf(nodes[at].Node.Name), hash) }
	slices.SortStableFunc(found, func(a, b Preemption) int { return cmp.Or(a.compare(&b), cmp.Compare(rank(a.Node), rank(b.Node))) })
	for i := range found {
		if fits, err := p.mounts(nodes, &found[i], pod); fits || err != nil {
			return &found[i], err
		}
	}
	return nil, nil
}

// candidates are the open nodes with a pod of lower priority.
func (p *Preemptor) candidates(nodes []Node, open func(int) bool, priority int32) (found []int, err error) {
	if len(p.nodes) > 2*len(nodes)+1000 {
		clear(p.nodes) // most have long gone
	}
	for i, n := range nodes {
		if n.Node == nil {
			return nil, fmt.Errorf("node %d: %w", i, ErrNilObject)
		}
		known := p.nodes[n.Node.Name]
		if known == nil || known.given.Node != n.Node || !slices.Equal(known.given.Pods, n.Pods) {
			known = &knownNode{given: n, lowest: math.MaxInt32}
			for _, other := range n.Pods {
				if other == nil {
					return nil, fmt.Errorf("pods of node %q: %w", n.Node.Name, ErrNilObject)
				}
				known.lowest = min(known.lowest, corev1.PodPriority(other))
			}
			p.nodes[n.Node.Name] = known
		}
		if known.lowest < priority && open(i) {
			found = append(found, i)
		}
	}
	return found, nil
}

// dryRun has the plugin choose the victims of candidates, until there are enough.
func (p *Preemptor) dryRun(nodes []Node, candidates []int, pod *v1.Pod, budgets []*policyv1.PodDisruptionBudget) ([]Preemption, error) {
	c := p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	infos := make([]fwk.NodeInfo, len(nodes))
	for i, n := range nodes {
		infos[i] = p.infoOf(n)
	}
	pod = identified(pod)
	c.seen.nodes = infos
	state := framework.NewCycleState()
	only, status, _ := c.fw.RunPreFilterPlugins(c.quiet, state, pod)
	if !status.IsSuccess() {
		return nil, nil
	}
	_, enough := p.plugin.GetOffsetAndNumCandidates(int32(len(nodes)))
	offset := int(hashOf(pod.Name, pod.Namespace) % uint64(len(candidates)))
	var found []Preemption
	harmless := false
	for i := range candidates {
		if err := c.interrupted(); err != nil {
			return nil, err
		}
		at := candidates[(offset+i)%len(candidates)]
		if name := nodes[at].Node.Name; !only.AllNodes() && !only.NodeNames.Has(name) {
			continue
		}
		victims, violations, status := p.plugin.SelectVictimsOnNode(c.quiet, state.Clone(), pod, infos[at].Snapshot(), budgets)
		if !status.IsSuccess() || len(victims) == 0 {
			continue
		}
		known := p.nodes[nodes[at].Node.Name]
		for k, victim := range victims {
			victims[k] = known.pods[types.NamespacedName{Namespace: victim.Namespace, Name: victim.Name}]
		}
		found = append(found, Preemption{Node: at, Victims: victims, Violations: violations})
		if harmless = harmless || violations == 0; harmless && len(found) >= int(enough) {
			break
		}
	}
	return found, nil
}

// infoOf returns a node as plugins see it.
func (p *Preemptor) infoOf(n Node) *framework.NodeInfo {
	known := p.nodes[n.Node.Name]
	if known.info == nil {
		as := Node{p.c.storage.withDriverLabels(n.Node), make([]*v1.Pod, len(n.Pods))}
		known.pods = make(map[types.NamespacedName]*v1.Pod, len(n.Pods))
		for i, pod := range n.Pods {
			as.Pods[i], known.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = identified(pod), pod
		}
		known.info, _ = infoOf(as) // candidates has found none to be nil
	}
	return known.info
}

// identified returns the pod with the UID that every pod of an API server has.
func identified(pod *v1.Pod) *v1.Pod {
	if pod.UID != "" {
		return pod
	}
	named := *pod
	named.UID = types.UID(pod.Namespace + "/" + pod.Name)
	return &named
}

// mounts reports whether the node takes the volumes of the pod once the victims are gone, which the
// plugin was not asked.
func (p *Preemptor) mounts(nodes []Node, found *Preemption, pod *v1.Pod) (bool, error) {
	if len(pod.Spec.Volumes) == 0 {
		return true, nil
	}
	without := slices.Clone(nodes)
	victim := func(other *v1.Pod) bool { return slices.Contains(found.Victims, other) }
	without[found.Node].Pods = slices.DeleteFunc(slices.Clone(nodes[found.Node].Pods), victim)
	placed, err := p.c.Cluster(without).Place(pod, 1, found.Node, found.Node+1)
	return len(placed) > 0, err
}

// compare puts the preemption first that kube-scheduler prefers.
func (a *Preemption) compare(b *Preemption) int {
	highest := func(p *Preemption) int32 { return corev1.PodPriority(p.Victims[0]) }
	sum := func(p *Preemption) (sum int64) {
		for _, victim := range p.Victims {
			sum += int64(corev1.PodPriority(victim)) + math.MaxInt32 + 1
		}
		return sum
	}
	return cmp.Or(cmp.Compare(a.Violations, b.Violations), cmp.Compare(highest(a), highest(b)), cmp.Compare(sum(a), sum(b)),
		cmp.Compare(len(a.Victims), len(b.Victims)), b.started().Compare(a.started().Time))
}

// started is when the first of the victims of the highest priority did.
func (a *Preemption) started() metav1.Time {
	first := startOf(a.Victims[0])
	for _, victim := range a.Victims[1:] {
		if at := startOf(victim); corev1.PodPriority(victim) == corev1.PodPriority(a.Victims[0]) && at.Time.Before(first.Time) {
			first = at
		}
	}
	return first
}

// moreImportant reports whether a pod is spared before another: it has a higher priority, or has run for
// longer.
func moreImportant(a, b *v1.Pod) bool {
	return cmp.Or(cmp.Compare(corev1.PodPriority(b), corev1.PodPriority(a)), startOf(a).Compare(startOf(b).Time),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

func startOf(p *v1.Pod) metav1.Time {
	if p.Status.StartTime != nil {
		return *p.Status.StartTime
	}
	return p.CreationTimestamp
}

// nobody is the nominator of a cluster in which no pod waits for the end of others.
type nobody struct{}

var _ fwk.PodNominator = nobody{}

func (nobody) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (nobody) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (nobody) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (nobody) NominatedPodsForNode(string) []fwk.PodInfo                     { return nil }
