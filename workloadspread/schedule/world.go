package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/component-helpers/scheduling/corev1"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// world is the cluster with the room that is held.
type world struct {
	o      *Options
	live   *predicates.Live
	nodes  map[string]*host
	guests map[string]*guest // by keyOf, and by nameOf if they are seen
	// seekers are the guests without a node, in the order in which the scheduler takes them if sorted is
	// true.
	seekers []*guest
	sorted  bool
	dirty   map[string]bool // nodes to show to live
	open    map[*guest]bool // guests that are not bound
	// starting are nodes that are not ready yet, and expires is when to look whether room is held too long.
	starting map[string]bool
	expires  time.Time
	claims   map[string]bool // that exist
	groups   *groups
	// karpenter are the nodes that Karpenter has made.
	karpenter map[string]bool
	serial    int
}

// host is a node and the pods that are on it.
type host struct {
	node  *v1.Node // as it is
	shown *v1.Node // as it will be when it is ready
	until time.Time
	// pods are bound to the node; seats are held there. Daemons are pods that come with a new node.
	pods, seats map[string]*guest
	daemons     []*v1.Pod
}

// guest is a pod that has a node or looks for one.
type guest struct {
	key    string
	pod    *v1.Pod
	bound  bool   // to node
	node   string // where it is, or where room is held for it
	seen   bool   // the pod exists
	since  time.Time
	serial int
	until  time.Time // how long room is held; zero: as long as the pod looks for a node
}

func newWorld(o *Options, live *predicates.Live) *world {
	w := &world{
		o: o, live: live, nodes: map[string]*host{}, guests: map[string]*guest{}, dirty: map[string]bool{}, open: map[*guest]bool{},
		starting: map[string]bool{}, karpenter: map[string]bool{}, claims: map[string]bool{},
	}
	w.groups = &groups{w: w}
	return w
}

// nameOf is the key of a pod that exists.
func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// keyOf is the key of a pod that was asked about: its name, or what identifies it until it has one.
func keyOf(p *v1.Pod) string {
	if id := assignment(p).ID; id != "" {
		return p.Namespace + "#" + id
	}
	return nameOf(p)
}

func (w *world) host(name string) *host {
	h := w.nodes[name]
	if h == nil {
		h = &host{pods: map[string]*guest{}, seats: map[string]*guest{}}
		w.nodes[name] = h
	}
	return h
}

func (w *world) setNode(n *v1.Node) {
	h := w.host(n.Name)
	if h.node != nil && h.node.ResourceVersion == n.ResourceVersion && n.ResourceVersion != "" {
		return
	}
	w.groups.changed = w.groups.changed || h.node == nil || wasReady(h.node) != wasReady(n) || h.node.Spec.ProviderID != n.Spec.ProviderID
	h.node = n
	if byKarpenter(n) {
		w.karpenter[n.Name] = true
	} else {
		delete(w.karpenter, n.Name)
	}
	shown, until := w.onceReady(n)
	if h.until = until; !until.IsZero() {
		w.starting[n.Name] = true
	}
	if h.shown == nil || !alike(h.shown, shown) {
		h.shown = shown
		w.unseat(n.Name)
		w.dirty[n.Name] = true
	}
}

// alike reports whether two versions of a node take the same pods, so that heartbeats cost nothing.
func alike(a, b *v1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && a.Spec.Unschedulable == b.Spec.Unschedulable &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(a, b v1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }) &&
		slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures) && equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// onceReady is the node as it will be when it is ready, if it is a new one, and until when that is
// expected.
func (w *world) onceReady(n *v1.Node) (*v1.Node, time.Time) {
	until := n.CreationTimestamp.Add(w.o.ProvisionTime)
	shown := *n
	if w.o.Clock.Now().Before(until) {
		failed := wasReady(n)
		shown.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t v1.Taint) bool {
			return t.Key == v1.TaintNodeNotReady && !failed || template.StartsWith(t.Key, w.o.StartupTaints)
		})
	}
	if len(shown.Spec.Taints) == len(n.Spec.Taints) {
		until = time.Time{}
	}
	if w.o.Unlimited.Matches(labels.Set(n.Labels)) {
		shown.Status.Allocatable = unlimited(n.Status.Allocatable)
	}
	return &shown, until
}

// wasReady reports whether a node has been ready, so that one that is not has failed.
func wasReady(n *v1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue || c.LastTransitionTime.Sub(n.CreationTimestamp.Time) > registration
		}
	}
	return false
}

// registration is how long after its creation a node may report for the first time that it is not ready.
const registration = 10 * time.Second

// unlimited are resources that no pod exhausts; devices count as they are.
func unlimited(of v1.ResourceList) v1.ResourceList {
	out := maps.Clone(of)
	if out == nil {
		out = v1.ResourceList{}
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods} {
		out[name] = *resource.NewQuantity(1<<45, resource.DecimalSI)
	}
	return out
}

func (w *world) deleteNode(name string) {
	h := w.nodes[name]
	if h == nil {
		return
	}
	delete(w.karpenter, name)
	h.node, h.shown, h.daemons, h.until = nil, nil, nil, time.Time{}
	w.dirty[name], w.groups.changed = true, true
	w.unseat(name)
	if w.nodes[name] != nil {
		w.tidy(name)
	}
}

// setPod takes over a pod that exists.
func (w *world) setPod(p *v1.Pod) {
	key := nameOf(p)
	if asked := keyOf(p); asked != key {
		w.release(asked) // it is seen now
	}
	before := w.guests[key]
	if before != nil && before.seen && same(before.pod, p) {
		return
	}
	w.release(key)
	if finished(p) {
		return
	}
	g := w.newGuest(key, p)
	g.seen = true
	switch {
	case p.Spec.NodeName != "":
		g.node, g.bound = p.Spec.NodeName, true
		delete(w.open, g)
		h := w.host(g.node)
		h.pods[key] = g
		w.unseat(g.node) // it may have taken their room
		w.dirty[g.node] = true
	case p.DeletionTimestamp != nil || gated(p):
		w.release(key)
	case p.Status.NominatedNodeName != "":
		w.seat(g, p.Status.NominatedNodeName) // others leave it for the pod
	default:
		w.seek(g)
	}
}

func (w *world) newGuest(key string, p *v1.Pod) *guest {
	w.serial++
	g := &guest{key: key, pod: p, serial: w.serial, since: p.CreationTimestamp.Time}
	if g.since.IsZero() {
		g.since = w.o.Clock.Now()
	}
	w.guests[key], w.open[g] = g, true
	return g
}

// same reports whether two versions of a pod take the same room.
func same(a, b *v1.Pod) bool {
	return a.UID == b.UID && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && finished(a) == finished(b) &&
		a.Status.NominatedNodeName == b.Status.NominatedNodeName && maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

func finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// deletePod forgets a pod, unless another one of the name exists.
func (w *world) deletePod(p *v1.Pod) {
	key := nameOf(p)
	if g := w.guests[key]; g != nil && (g.pod.UID == p.UID || p.UID == "") {
		w.release(key)
	}
	if asked := keyOf(p); asked != key {
		w.release(asked)
	}
}

// release forgets a guest, and the room that it has.
func (w *world) release(key string) {
	g := w.guests[key]
	if g == nil {
		return
	}
	delete(w.guests, key)
	delete(w.open, g)
	w.leave(g)
}

// leave takes a guest from its node.
func (w *world) leave(g *guest) {
	if g.node == "" {
		return
	}
	name := g.node
	g.node = ""
	h := w.nodes[name]
	delete(h.pods, g.key)
	delete(h.seats, g.key)
	w.dirty[name] = true
	w.tidy(name)
}

// tidy forgets what is neither a node nor has pods.
func (w *world) tidy(name string) {
	if h := w.nodes[name]; h.shown == nil && len(h.pods)+len(h.seats) == 0 {
		delete(w.nodes, name)
	}
}

// seat holds room for a guest on a node.
func (w *world) seat(g *guest, node string) {
	h := w.host(node)
	g.node = node
	h.seats[g.key] = g
	w.dirty[node] = true
	if g.seen { // otherwise it is held for as long as was said when the pod was admitted
		from := w.o.Clock.Now()
		if h.until.After(from) {
			from = h.until
		}
		g.until = from.Add(HoldPending)
	}
}

// unseat makes those look again for whom room is held on a node that has changed.
func (w *world) unseat(name string) {
	for _, g := range sortedGuests(w.nodes[name].seats) {
		w.leave(g)
		w.seek(g)
	}
}

func (w *world) seek(g *guest) { w.seekers, w.sorted = append(w.seekers, g), false }

// hold holds room for a pod that was asked about.
func (w *world) hold(p *v1.Pod, node string) {
	w.release(keyOf(p))
	if p.Name == "" && assignment(p).ID == "" {
		return // nothing tells it from others
	}
	g := w.newGuest(keyOf(p), p.DeepCopy())
	g.until = w.o.Clock.Now().Add(HoldAdmitted)
	w.seat(g, node)
}

// admitted makes room for a pod with the rules that it was admitted with.
func (w *world) admitted(p *v1.Pod) {
	key := keyOf(p)
	if g := w.guests[key]; g != nil && (g.seen || assignment(g.pod) == assignment(p)) {
		return
	}
	w.release(key)
	if gated(p) {
		return
	}
	g := w.newGuest(key, p)
	g.until = g.since.Add(HoldAdmitted)
	w.seek(g)
}

// refused ends holding room for a pod that is not created.
func (w *world) refused(key string) {
	if g := w.guests[key]; g != nil && !g.seen {
		w.release(key)
	}
}

func assignment(p *v1.Pod) workloadspread.Assignment {
	a, _ := workloadspread.AssignmentOf(p)
	return a
}

// settle makes live know what has changed, and holds room for all that look for a node.
func (w *world) settle(stop func() bool) error {
	w.expire()
	w.groups.settle()
	if err := w.show(); err != nil {
		return err
	}
	if err := w.live.Settle(stop); err != nil {
		return err
	}
	w.seekers = slices.DeleteFunc(w.seekers, func(g *guest) bool { return w.guests[g.key] != g || g.node != "" })
	if !w.sorted {
		slices.SortStableFunc(w.seekers, inQueue)
		w.sorted = true
	}
	left := make([]*guest, 0, len(w.seekers))
	for i, g := range w.seekers {
		node, err := w.live.Find(g.pod, stop)
		if err == nil && node != "" {
			w.seat(g, node)
			err = w.show()
		} else {
			left = append(left, g)
		}
		if err != nil {
			w.seekers = append(left, w.seekers[i+1:]...)
			return err
		}
	}
	w.seekers = left
	return nil
}

// inQueue is the order in which the scheduler takes pods.
func inQueue(a, b *guest) int {
	return cmp.Or(cmp.Compare(corev1.PodPriority(b.pod), corev1.PodPriority(a.pod)), a.since.Compare(b.since), cmp.Compare(a.serial, b.serial))
}

// expire ends holding room for pods that are not created or that the scheduler does not bind to it, and
// waiting for nodes that do not become ready.
func (w *world) expire() {
	now := w.o.Clock.Now()
	if now.Before(w.expires) {
		return
	}
	w.expires = now.Add(time.Second)
	for name := range w.starting {
		h := w.nodes[name]
		if h == nil || h.node == nil || h.until.IsZero() {
			delete(w.starting, name)
		} else if !now.Before(h.until) {
			h.shown, h.until = w.onceReady(h.node)
			w.unseat(name)
			w.dirty[name] = true
		}
	}
	for g := range w.open {
		if !g.until.IsZero() && !now.Before(g.until) && (!g.seen || g.node != "") {
			w.release(g.key)
		}
	}
}

// show hands the nodes that have changed to live.
func (w *world) show() error {
	for name := range w.dirty {
		delete(w.dirty, name)
		h := w.nodes[name]
		if h == nil || h.shown == nil {
			w.live.Remove(name)
			continue
		}
		if err := w.live.Set(predicates.Node{Node: h.shown, Pods: h.on(nil)}); err != nil {
			return err
		}
	}
	return nil
}

// on returns the pods on a node, and those for whom room is held there, in a stable order. Without are
// guests that are left out.
func (h *host) on(without map[*guest]bool) []*v1.Pod {
	pods := append(make([]*v1.Pod, 0, len(h.daemons)+len(h.pods)+len(h.seats)), h.daemons...)
	for _, guests := range []map[string]*guest{h.pods, h.seats} {
		for _, g := range sortedGuests(guests) {
			if !without[g] {
				pods = append(pods, g.pod)
			}
		}
	}
	return pods
}

func sortedGuests(of map[string]*guest) []*guest {
	return slices.SortedFunc(maps.Values(of), func(a, b *guest) int { return cmp.Compare(a.key, b.key) })
}

func gated(p *v1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 }
