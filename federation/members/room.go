package members

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// onNodes selects the pods that use something of a node.
const onNodes = "spec.nodeName!=,status.phase!=" + string(v1.PodSucceeded) + ",status.phase!=" + string(v1.PodFailed)

// room is what the nodes of a cluster have left, kept up to date by watches of all nodes and of all
// pods that have one.
type room struct {
	filled  []cache.DoneChecker
	changed func() // it is known, or not, for another reason than before

	mu     sync.Mutex
	denied map[string]bool // what may not be read: nodes, pods
	nodes  map[string]*v1.Node
	names  []string                        // of the nodes, sorted; nil if not known
	used   map[string]federation.Resources // by node
	bound  map[string]int32                // by namespace/name of the local object
	shown  *federation.Room                // nil if something has changed since
}

// boundPod is all that is kept of a pod: about 500 bytes.
type boundPod struct {
	metav1.ObjectMeta
	node     string
	requests federation.Resources
	local    string // namespace/name of its local object, unless it is about to end
}

// openRoom begins to read nodes and pods. It calls changed when their room is known, or may not be
// read.
func openRoom(ctx context.Context, clientset kubernetes.Interface, changed func()) (*room, error) {
	r := &room{changed: changed, denied: map[string]bool{}, nodes: map[string]*v1.Node{}, used: map[string]federation.Resources{}, bound: map[string]int32{}}
	nodes := informers.NewSharedInformerFactory(clientset, 0)
	pods := informers.NewSharedInformerFactoryWithOptions(clientset, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = onNodes }))
	for _, w := range []struct {
		kind      string
		informer  cache.SharedIndexInformer
		handler   cache.ResourceEventHandler
		transform cache.TransformFunc
	}{
		{"nodes", nodes.Core().V1().Nodes().Informer(), passes.Follow(r.setNode), trimNode},
		{"pods", pods.Core().V1().Pods().Informer(), passes.Follow(r.setPod), trimBound},
	} {
		filled, err := setUp(w.informer, w.handler, w.transform, func(_ context.Context, _ *cache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				r.allowed(w.kind, false)
			}
		})
		if err != nil {
			return nil, err
		}
		r.filled = append(r.filled, filled)
	}
	nodes.StartWithContext(ctx)
	pods.StartWithContext(ctx)
	go func() {
		if cache.WaitFor(ctx, "", r.filled...) {
			changed()
		}
	}()
	return r, nil
}

// allowed takes in whether a kind may be read.
func (r *room) allowed(kind string, is bool) {
	r.mu.Lock()
	was := !r.denied[kind]
	r.denied[kind] = !is
	r.mu.Unlock()
	if was != is {
		r.changed()
	}
}

// trimNode keeps of a node what matters for its room.
func trimNode(object any) (any, error) {
	node, ok := object.(*v1.Node)
	if !ok {
		return object, nil
	}
	conditions := slices.DeleteFunc(node.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type != v1.NodeReady })
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels, DeletionTimestamp: node.DeletionTimestamp},
		Spec:       v1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable},
		Status:     v1.NodeStatus{Allocatable: node.Status.Allocatable, Conditions: slices.Clone(conditions)},
	}, nil
}

// trimBound keeps of a pod what it uses.
func trimBound(object any) (any, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return object, nil
	}
	b := &boundPod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
	if pod.Spec.NodeName == "" || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return b, nil
	}
	b.node, b.requests = pod.Spec.NodeName, federation.RequestsOf(pod)
	if local, owned := localOf(pod); owned && pod.Labels[v1alpha1.LabelFederated] != "" && pod.DeletionTimestamp == nil {
		b.local = types.NamespacedName{Namespace: local.Namespace, Name: local.Name}.String()
	}
	return b, nil
}

func (r *room) setNode(before, now *v1.Node) {
	r.allowed("nodes", true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = nil
	if before == nil || now == nil {
		r.names = nil
	}
	if now != nil {
		r.nodes[now.Name] = now
	} else {
		delete(r.nodes, before.Name)
	}
}

func (r *room) setPod(before, now *boundPod) {
	r.allowed("pods", true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = nil
	r.count(before, -1)
	r.count(now, +1)
}

func (r *room) count(p *boundPod, sign int32) {
	if p == nil || p.node == "" {
		return
	}
	r.used[p.node] = r.used[p.node].Plus(int64(sign), p.requests)
	if r.used[p.node].Pods == 0 {
		delete(r.used, p.node)
	}
	if p.local == "" {
		return
	}
	if r.bound[p.local] += sign; r.bound[p.local] == 0 {
		delete(r.bound, p.local)
	}
}

// known reports whether everything has been read, or what may not be read.
func (r *room) known() (_ bool, denied []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range []string{"nodes", "pods"} {
		if r.denied[kind] {
			denied = append(denied, kind)
		}
	}
	return len(denied) == 0 && !slices.ContainsFunc(r.filled, func(f cache.DoneChecker) bool { return !cache.IsDone(f) }), denied
}

// show is what is left now. It is shared and must not be changed.
func (r *room) show() federation.Room {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown != nil {
		return *r.shown
	}
	if r.names == nil {
		r.names = slices.Sorted(maps.Keys(r.nodes))
	}
	r.shown = &federation.Room{Bound: maps.Clone(r.bound), Nodes: make([]federation.Node, 0, len(r.names))}
	for _, name := range r.names {
		if node := r.nodes[name]; schedulable(node) {
			allocatable := federation.ResourcesOf(node.Status.Allocatable)
			r.shown.Nodes = append(r.shown.Nodes, federation.Node{Object: node, Allocatable: allocatable, Free: allocatable.Plus(-1, r.used[name])})
		}
	}
	return *r.shown
}

// schedulable reports whether pods may go to a node, apart from its taints.
func schedulable(n *v1.Node) bool {
	return n.DeletionTimestamp == nil && !n.Spec.Unschedulable && template.IsReady(n)
}

// Room returns what the nodes of a cluster have left, if it has fixed nodes and they have been read.
// It is shared and must not be changed.
func (c *Cluster) Room() (_ federation.Room, known bool) {
	caches := c.read()
	if caches == nil || caches.room == nil {
		return federation.Room{}, false
	}
	if known, _ := caches.room.known(); !known {
		return federation.Room{}, false
	}
	return caches.room.show(), true
}

// roomKnown is the condition of that name; nil for a cluster without fixed nodes.
func (c *Cluster) roomKnown() *metav1.Condition {
	if !c.fixedNodes {
		return nil
	}
	out := metav1.Condition{Type: v1alpha1.ConditionRoomKnown, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnchecked, Message: "the nodes have not been read yet"}
	if c.caches == nil || c.caches.room == nil {
		return &out
	}
	known, denied := c.caches.room.known()
	switch {
	case known:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, v1alpha1.ReasonNodesRead, "the nodes and what their pods request are known"
	case len(denied) > 0:
		out.Reason = v1alpha1.ReasonForbidden
		out.Message = "the cluster does not allow to list and watch " + strings.Join(denied, " and ") + ": evenkeel cluster join with --fixed-nodes gives the right; until then the cluster is taken for one whose room is not known"
	}
	return &out
}
