package predicates

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// tenant stands for pods that are equal to the Scheduler, on nodes and waiting.
type tenant struct {
	id   int
	info *framework.PodInfo // of one of them, bound to no node
	need amounts            // what it takes on a node
	// asks is what it wants free; non0 is what it counts for in scores, with the
	// scheduler's defaults for containers without requests.
	asks             amounts
	non0CPU, non0Mem int64
	ports            fwk.HostPortInfo // nil: none

	ranking *ranking // nil until one of them is bound
	// turnedAway describes nodes whether plugins that look at the node alone reject the pods, by what
	// the pods look at: the body, and the labels under selects.
	turnedAway map[string]bool
	selects    []string
	failed     failure
}

// slot is a node with the pods on it.
type slot struct {
	name   string
	hash   uint64
	node   *v1.Node  // with the labels of storage drivers
	shown  *v1.Node  // as the caller gave it
	mark   nodeMark  // of shown
	given  []*v1.Pod // as the caller last gave them; nil: to be looked at again
	closed bool
	gone   bool // the slot waits for another node
	visit  int

	shape, body      int
	allocatable      *framework.Resource
	items            []occupants
	pods             int
	used             amounts
	non0CPU, non0Mem int64
	info             *framework.NodeInfo // nil: to be built
}

// occupants are equal pods on one node.
type occupants struct {
	*tenant
	n int
}

// tenant returns what stands for a pod.
func (s *Scheduler) tenant(p *v1.Pod) (*tenant, error) {
	if t, known, err := s.known.get(p); known {
		return t, err
	}
	s.look(p)
	key, err := s.enc.scheduled(p, s.podKeys)
	if err != nil {
		return nil, err
	}
	t := s.byKey[string(key)]
	if t == nil {
		t = s.newTenant(p)
		s.byKey[string(key)] = t
	}
	s.known.put(p, t)
	return t, nil
}

func (s *Scheduler) newTenant(p *v1.Pod) *tenant {
	if p.Spec.NodeName != "" {
		unbound := *p
		unbound.Spec.NodeName = ""
		p = &unbound
	}
	// Terms that cannot be parsed are left out, as the scheduler's cache does.
	info, _ := framework.NewPodInfo(p)
	total := info.CalculateResource()
	t := &tenant{
		id: len(s.tenants), info: info, need: needOf(info), asks: asksOf(p),
		non0CPU: total.Non0CPU, non0Mem: total.Non0Mem,
	}
	for _, port := range schedutil.GetHostPorts(p) {
		if t.ports == nil {
			t.ports = fwk.HostPortInfo{}
		}
		t.ports.Add(port.HostIP, string(port.Protocol), port.HostPort)
	}
	s.tenants = append(s.tenants, t)
	if a := p.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		s.turnOver() // others may have to count these pods
	}
	return t
}

// look notes the labels of nodes and pods that the rules of a pod look at.
func (s *Scheduler) look(p *v1.Pod) {
	s.grow(s.nodeKeys, withoutHost(scoredNodeKeysOf(p)))
	for _, c := range p.Spec.TopologySpreadConstraints {
		s.grow(s.podKeys, labelSelectorKeys(c.LabelSelector))
		s.grow(s.podKeys, c.MatchLabelKeys)
	}
	for _, t := range allTerms(p) {
		s.grow(s.podKeys, labelSelectorKeys(t.LabelSelector))
		s.grow(s.podKeys, t.MatchLabelKeys)
		s.grow(s.podKeys, t.MismatchLabelKeys)
	}
}

// grow adds keys to those looked at.
func (s *Scheduler) grow(keys sets.Set[string], more []string) {
	before := keys.Len()
	keys.Insert(more...)
	s.grown = s.grown || keys.Len() > before && len(s.slots)+len(s.tenants) > 0
}

// scoredNodeKeysOf returns the node label keys a pod looks at when it is bound,
// preferences included.
func scoredNodeKeysOf(p *v1.Pod) []string {
	keys := selectorKeysOf(p)
	for _, t := range preferredNodes(p) {
		keys = appendSelectorKeys(keys, &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{t.Preference}})
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		keys = append(keys, c.TopologyKey)
	}
	for _, t := range allTerms(p) {
		keys = append(keys, t.TopologyKey)
	}
	return keys
}

func preferredNodes(p *v1.Pod) []v1.PreferredSchedulingTerm {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
}

// allTerms returns the terms of pod affinity, required and preferred.
func allTerms(p *v1.Pod) []v1.PodAffinityTerm {
	terms := requiredTerms(p)
	if a := p.Spec.Affinity; a != nil {
		var weighted []v1.WeightedPodAffinityTerm
		if a.PodAffinity != nil {
			weighted = append(weighted, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
		}
		if a.PodAntiAffinity != nil {
			weighted = append(weighted, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
		}
		for i := range weighted {
			terms = append(terms, weighted[i].PodAffinityTerm)
		}
	}
	return terms
}

// takeOver brings the slots up to date with the nodes.
func (s *Scheduler) takeOver(open, closed []Node) error {
	s.visit++
	for i, nodes := range [][]Node{open, closed} {
		for _, n := range nodes {
			if n.Node == nil {
				return fmt.Errorf("node: %w", ErrNilObject)
			}
			if err := s.update(n, i == 1); err != nil {
				return fmt.Errorf("pods of node %q: %w", n.Node.Name, err)
			}
		}
	}
	if len(open)+len(closed) < len(s.slots) {
		s.slots = slices.DeleteFunc(s.slots, func(sl *slot) bool { return sl.visit != s.visit })
		clear(s.position)
		for i, sl := range s.slots {
			s.position[sl.name] = i
		}
		s.turnOver()
	}
	if shared := s.hostsShared(); shared != s.sharedHosts {
		s.sharedHosts = shared
		s.turnOver()
	}
	return nil
}

// hostsShared reports whether two nodes have the same hostname.
func (s *Scheduler) hostsShared() bool {
	hosts := make(map[string]bool, len(s.slots))
	for _, sl := range s.slots {
		if host, ok := sl.node.Labels[v1.LabelHostname]; ok {
			if hosts[host] {
				return true
			}
			hosts[host] = true
		}
	}
	return false
}

// update brings one slot up to date.
func (s *Scheduler) update(n Node, closed bool) error {
	at, known := s.position[n.Node.Name]
	if !known {
		at = len(s.slots)
		s.position[n.Node.Name] = at
		s.slots = append(s.slots, &slot{name: n.Node.Name, hash: hashOf(n.Node.Name), shape: -1})
	}
	sl := s.slots[at]
	sl.visit = s.visit
	if sl.shown == n.Node && sl.mark != markNode(n.Node) {
		return fmt.Errorf("the node itself: %w", ErrChangedObject)
	}
	if sl.shown != n.Node || sl.closed != closed {
		s.dress(at, n.Node, closed)
	}
	if sl.given != nil && slices.Equal(sl.given, n.Pods) {
		return nil
	}
	return s.settle(at, n.Pods)
}

// dress gives a slot another node object.
func (s *Scheduler) dress(at int, n *v1.Node, closed bool) {
	sl := s.slots[at]
	sl.shown, sl.mark = n, markNode(n)
	n = s.c.storage.dressed(n)
	allocatable := framework.NewResource(n.Status.Allocatable)
	shape, body := s.shape(n)
	same := sl.shape == shape && sl.node != nil && sl.closed == closed && sl.node.Labels[v1.LabelHostname] == n.Labels[v1.LabelHostname] && sameResource(sl.allocatable, allocatable)
	sl.node, sl.closed, sl.shape, sl.body, sl.allocatable, sl.info = n, closed, shape, body, allocatable, nil
	if !same {
		s.exchanged(at)
	}
}

// exchanged notes that the node of a slot is another one: its pods leave the old one and come to it.
func (s *Scheduler) exchanged(at int) {
	items := s.slots[at].items
	for _, it := range items {
		s.journal = append(s.journal, change{slot: at, n: -it.n, tenant: it.tenant})
	}
	s.journal = append(s.journal, change{slot: at})
	for _, it := range items {
		s.journal = append(s.journal, change{slot: at, n: it.n, tenant: it.tenant})
	}
}

func sameResource(a, b *framework.Resource) bool {
	if a.MilliCPU != b.MilliCPU || a.Memory != b.Memory || a.EphemeralStorage != b.EphemeralStorage ||
		a.AllowedPodNumber != b.AllowedPodNumber || len(a.ScalarResources) != len(b.ScalarResources) {
		return false
	}
	for name, q := range a.ScalarResources {
		if other, ok := b.ScalarResources[name]; !ok || other != q {
			return false
		}
	}
	return true
}

// shape numbers what pods can tell apart of nodes, but for their resources. The body is the same
// without labels.
func (s *Scheduler) shape(n *v1.Node) (shape, body int) {
	e := &s.enc
	e.key = e.key[:0]
	_, hasHost := n.Labels[v1.LabelHostname]
	e.flag(hasHost)
	e.flag(n.Spec.Unschedulable)
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		e.text(t.Key)
		e.text(t.Value)
		e.text(string(t.Effect))
	}
	e.count(len(n.Spec.Taints))
	for _, f := range n.Status.DeclaredFeatures {
		e.text(f)
	}
	e.count(len(n.Status.DeclaredFeatures))
	body = s.number(e.key)
	e.names = e.names[:0]
	for k := range n.Labels {
		if s.nodeKeys.Has(k) {
			e.names = append(e.names, k)
		}
	}
	slices.Sort(e.names)
	for _, k := range e.names {
		e.text(k)
		e.text(n.Labels[k])
	}
	e.text("")
	return s.number(e.key), body
}

func (s *Scheduler) number(key []byte) int {
	id, known := s.shapes[string(key)]
	if !known {
		id = len(s.shapes)
		s.shapes[string(key)] = id
	}
	return id
}

// settle makes the pods of a slot those given.
func (s *Scheduler) settle(at int, pods []*v1.Pod) error {
	sl := s.slots[at]
	count := map[*tenant]int{}
	var order []*tenant
	for _, p := range pods {
		if p == nil {
			return ErrNilObject
		}
		if finished(p) {
			continue
		}
		t, err := s.tenant(p)
		if err != nil {
			return err
		}
		if count[t] == 0 {
			order = append(order, t)
		}
		count[t]++
	}
	for _, it := range slices.Clone(sl.items) {
		if n := count[it.tenant]; n != it.n {
			s.put(at, it.tenant, n-it.n)
		}
		count[it.tenant] = 0
	}
	for _, t := range order {
		if count[t] > 0 {
			s.put(at, t, count[t])
		}
	}
	sl.given = append([]*v1.Pod{}, pods...)
	return nil
}

// put adds pods to a slot or, below zero, takes them away.
func (s *Scheduler) put(at int, t *tenant, n int) {
	sl := s.slots[at]
	i := slices.IndexFunc(sl.items, func(it occupants) bool { return it.tenant == t })
	switch {
	case i < 0:
		sl.items = append(sl.items, occupants{t, n})
	case sl.items[i].n+n == 0:
		sl.items = slices.Delete(sl.items, i, i+1)
	default:
		sl.items[i].n += n
	}
	sl.pods += n
	sl.used = sl.used.plus(&t.need, int64(n))
	sl.non0CPU += int64(n) * t.non0CPU
	sl.non0Mem += int64(n) * t.non0Mem
	sl.info = nil
	s.journal = append(s.journal, change{slot: at, n: n, tenant: t})
}

// attaches reports whether the limits on volumes let a pod onto a slot.
func (s *Scheduler) attaches(sl *slot, p *v1.Pod) bool {
	of := s.c.storage
	limits := of.limits(sl.node)
	if len(limits) == 0 || len(p.Spec.Volumes) == 0 || !s.c.rules.attach {
		return true
	}
	volumes := func(p *v1.Pod) *resident {
		return &resident{attaches: of.attachmentsOf(p, func(*v1.Volume) bool { return false })}
	}
	st := &state{shape: &shape{limits: limits}}
	var pods []*v1.Pod
	for _, it := range sl.items {
		st.items = append(st.items, item{resident: volumes(it.info.Pod), n: it.n})
		pods = append(pods, it.info.Pod)
	}
	st.leftovers = of.leftovers(sl.node, pods)
	room, _ := st.attachRoom(&kind{placed: volumes(p)})
	return room > 0
}

// nodeInfo returns the plugins' view of a slot. It must not be changed.
func (sl *slot) nodeInfo() *framework.NodeInfo {
	if sl.info == nil {
		sl.info = framework.NewNodeInfo()
		sl.info.SetNode(sl.node)
		for _, it := range sl.items {
			for range it.n {
				sl.info.AddPodInfo(it.info)
			}
		}
	}
	return sl.info
}
