package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// cluster is the nodes and the pods, and the room that is held for pods that have no node yet.
type cluster struct {
	o       *Options
	live    *predicates.Live // has the pods on their nodes, and where room is held for them
	nodes   map[string]*nodeInfo
	pods    map[string]*podInfo // by nameOf or askedOf
	pending map[*podInfo]bool   // those that have no node
	next    time.Time           // of the next review
	autoscaler
}

// nodeInfo is a node that exists or is on its way.
type nodeInfo struct {
	object *v1.Node  // nil if it was ordered and has not come yet
	ready  *v1.Node  // what the filters read of it, once it is ready
	until  time.Time // when it is not waited for any more; zero if it is not waited for
}

// podInfo is a pod that exists or was admitted.
type podInfo struct {
	*v1.Pod
	key   string
	seen  bool // it exists
	since time.Time
	node  string    // where it is, or where room is held for it
	until time.Time // how long room is held; zero: as long as the pod is pending
}

func newCluster(o *Options, live *predicates.Live) *cluster {
	return &cluster{
		o: o, live: live, nodes: map[string]*nodeInfo{}, pods: map[string]*podInfo{}, pending: map[*podInfo]bool{},
	}
}

// nameOf is the key of a pod that exists.
func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// askedOf is the key of a pod until it is seen: it may have no name yet.
func askedOf(p *v1.Pod) string {
	a, _ := workloadspread.AssignmentOf(p)
	return p.Namespace + "#" + cmp.Or(a.ID, p.Name)
}

func (c *cluster) setNode(n *v1.Node) {
	c.recount = c.recount || c.nodes[n.Name] == nil
	now := &nodeInfo{object: n}
	now.ready, now.until = c.onceReady(n)
	if c.put(now) {
		c.live.SetNode(n.Name, now.ready)
	}
}

// put adds a node or replaces it. It reports whether that makes a difference to pods: heartbeats make none.
func (c *cluster) put(now *nodeInfo) bool {
	name := now.ready.Name
	before := c.nodes[name]
	c.nodes[name] = now
	if before != nil && equality.Semantic.DeepEqual(before.ready, now.ready) {
		return false
	}
	c.changed(name)
	return true
}

func (c *cluster) removeNode(name string) {
	delete(c.nodes, name)
	c.recount = true
	c.changed(name)
	c.live.SetNode(name, nil)
}

// changed makes those look again for whom room is held on a node that has changed.
func (c *cluster) changed(name string) {
	for p := range c.pending {
		if p.node == name {
			c.place(p, "")
		}
	}
}

// onceReady is what the filters read of a node, as it will be when it is ready if it is a new one, and until
// when that is expected.
func (c *cluster) onceReady(n *v1.Node) (*v1.Node, time.Time) {
	end, waits := n.CreationTimestamp.Add(c.o.ProvisionTime), false
	ready := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels},
		Spec:       v1.NodeSpec{Unschedulable: n.Spec.Unschedulable},
		Status:     v1.NodeStatus{Allocatable: n.Status.Allocatable, DeclaredFeatures: n.Status.DeclaredFeatures},
	}
	for _, t := range n.Spec.Taints {
		if c.o.Clock.Now().Before(end) && (t.Key == v1.TaintNodeNotReady && !wasReady(n) || template.StartsWith(t.Key, c.o.StartupTaints)) {
			waits = true
		} else {
			ready.Spec.Taints = append(ready.Spec.Taints, v1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	if c.o.Unlimited.Matches(labels.Set(n.Labels)) {
		ready.Status.Allocatable = unlimited(n.Status.Allocatable)
	}
	if !waits {
		end = time.Time{}
	}
	return ready, end
}

// wasReady reports whether a node has been ready, so that one that is not has failed.
func wasReady(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && (c.Status == v1.ConditionTrue || c.LastTransitionTime.Sub(n.CreationTimestamp.Time) > registration)
	})
}

// registration is how long after its creation a node may report for the first time that it is not ready.
const registration = 10 * time.Second

// unlimited returns resources that no pod exhausts; devices count as they are.
func unlimited(resources v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	maps.Copy(out, resources)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods} {
		out[name] = *resource.NewQuantity(1<<45, resource.DecimalSI)
	}
	return out
}

// setPod records a pod that exists. Pods with gates or endless rules, and those that are deleted before they have a node,
// hold no room.
func (c *cluster) setPod(now *v1.Pod) {
	c.forget(askedOf(now)) // it is seen now
	key, waits := nameOf(now), now.Spec.NodeName == ""
	ignored := waits && (now.DeletionTimestamp != nil || gated(now) || endless(now))
	if endless(now) {
		takesRoom := *now
		takesRoom.Spec.NodeSelector, takesRoom.Spec.Affinity, takesRoom.Spec.TopologySpreadConstraints = nil, nil, nil
		now = &takesRoom
	}
	switch before := c.pods[key]; {
	case finished(now), ignored:
		c.forget(key)
	case before == nil, !same(before.Pod, now):
		p := c.add(key, now, now.CreationTimestamp.Time)
		p.seen = true
		if !waits {
			delete(c.pending, p)
			c.changed(now.Spec.NodeName)
		}
		c.place(p, cmp.Or(now.Spec.NodeName, now.Status.NominatedNodeName)) // others leave a nominated node to the pod
	}
}

// same reports whether two versions of a pod take the same room.
func same(a, b *v1.Pod) bool {
	return a.UID == b.UID && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.Status.NominatedNodeName == b.Status.NominatedNodeName &&
		maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

func finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

func gated(p *v1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 }

// mostLabelKeys is how many labels the rules of a pod may name.
const mostLabelKeys = 200

// endless reports whether the rules of a pod name so many labels that they are not for nodes but against all others that ask:
// each label costs every answer. On its node such a pod only takes room.
func endless(p *v1.Pod) bool { return predicates.LabelKeys(p) > mostLabelKeys }

// claim holds room for a pod that is not seen yet: on a node, or on the one that it finds.
func (c *cluster) claim(pod *v1.Pod, node string) {
	key, now := askedOf(pod), c.o.Clock.Now()
	c.forget(key)
	if key == pod.Namespace+"#" || gated(pod) || endless(pod) {
		return // nothing tells it from others, or it may wait for anything
	}
	p := c.add(key, pod.DeepCopy(), now)
	p.until = now.Add(HoldAdmitted)
	c.place(p, node)
}

func (c *cluster) add(key string, pod *v1.Pod, since time.Time) *podInfo {
	c.forget(key)
	p := &podInfo{Pod: pod, key: key, since: since}
	c.pods[key], c.pending[p] = p, true
	return p
}

func (c *cluster) forget(key string) {
	if p := c.pods[key]; p != nil {
		c.place(p, "")
		delete(c.pods, key)
		delete(c.pending, p)
	}
}

// place moves a pod from its node to another one; "" is none.
func (c *cluster) place(p *podInfo, to string) {
	if p.node != "" {
		c.live.RemovePod(p.node, p.Pod)
	}
	if p.node = to; to == "" {
		return
	}
	c.live.AddPod(to, p.Pod)
	if p.seen { // otherwise room is held for as long as was said when the pod was admitted
		p.until = c.o.Clock.Now().Add(HoldPending)
		if n := c.nodes[to]; n != nil && !n.until.IsZero() {
			p.until = n.until.Add(HoldPending)
		}
	}
}

// update holds room for all pods that have no node, and has live take over what has changed.
func (c *cluster) update(stop func() bool) error {
	c.review()
	for _, p := range c.waiting() {
		name, err := c.live.Find(p.Pod, stop)
		if err != nil {
			return err
		}
		c.place(p, name)
	}
	return c.live.Sync(stop)
}

// review looks over all nodes, once a second at most: whether they are waited for any longer, and what an
// autoscaler does.
func (c *cluster) review() {
	now := c.o.Clock.Now()
	if now.Before(c.next) {
		return
	}
	c.next, c.karpenter = now.Add(time.Second), false
	for _, n := range c.nodes {
		if n.object == nil {
			continue
		}
		c.karpenter = c.karpenter || n.object.Labels[nodegroupset.KarpenterPool] != ""
		if !n.until.IsZero() && !now.Before(n.until) {
			c.setNode(n.object)
		}
	}
	if c.recount && c.groups != nil {
		c.order()
	}
}

// waiting are the pods for which no room is held, in the order in which the scheduler takes them. Those are
// forgotten that are not created, or that the scheduler does not bind to the room that is held for them.
func (c *cluster) waiting() (out []*podInfo) {
	now := c.o.Clock.Now()
	for p := range c.pending {
		if !p.until.IsZero() && !now.Before(p.until) && (!p.seen || p.node != "") {
			c.forget(p.key)
		} else if p.node == "" {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *podInfo) int {
		return cmp.Or(cmp.Compare(corev1.PodPriority(b.Pod), corev1.PodPriority(a.Pod)), a.since.Compare(b.since), cmp.Compare(a.key, b.key))
	})
	return out
}

// room says whether a pod would find a node, and which.
func (c *cluster) room(p *v1.Pod, stop func() bool) (workloadspread.Room, string, error) {
	if !c.understood(p) {
		return workloadspread.RoomUnknown, "", nil
	}
	name, err := c.live.Find(p, stop)
	if err == nil && name == "" && c.overtaken(p) {
		name, err = c.live.Find(p, stop)
	}
	switch {
	case err != nil:
		return workloadspread.RoomUnknown, "", err
	case name != "":
		return workloadspread.RoomOnNode, name, nil
	}
	room, err := c.bring(p, stop)
	return room, "", err
}

// overtaken makes those look again for room that come after a pod in the queue of the scheduler. It reports
// whether there are any.
func (c *cluster) overtaken(by *v1.Pod) (some bool) {
	for p := range c.pending {
		if p.node != "" && corev1.PodPriority(p.Pod) < corev1.PodPriority(by) {
			c.place(p, "")
			some = true
		}
	}
	return some
}

// understood reports whether the filters say all that decides about a pod. A gated pod may wait for
// anything; a scheduler of another name has rules of its own; devices are claimed by objects that only exist later,
// and so are claims of the pod's own.
func (c *cluster) understood(p *v1.Pod) bool {
	if gated(p) || len(p.Spec.ResourceClaims) > 0 || p.Spec.SchedulerName != "" && p.Spec.SchedulerName != v1.DefaultSchedulerName ||
		endless(p) {
		return false
	}
	return !slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		return v.Ephemeral != nil || v.PersistentVolumeClaim != nil && !c.live.HasClaim(p.Namespace, v.PersistentVolumeClaim.ClaimName)
	})
}
