package members

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// caches hold the local objects of a cluster, what their pods count as and, if it has fixed nodes, what these have
// left, kept up to date by watches. Without fixed nodes, only what has the label of federated objects is read.
//
// The caches of controller-runtime would do less here: they keep whole pods only, and log the address of a cluster.
type caches struct {
	of         *Cluster
	cancel     context.CancelFunc
	fixedNodes bool
	local      map[string]cache.SharedIndexInformer // by kind
	read       []cache.DoneChecker                  // when what was there first is counted, apart from nodes
	nodesRead  cache.DoneChecker

	mu          sync.Mutex
	tally       *tally
	problem     error // what may not be read, apart from nodes
	nodesDenied bool
}

// watch is how objects of a kind are followed.
type watch struct {
	api      rest.Interface
	resource string
	object   runtime.Object
	choose   func(*metav1.ListOptions)
	trim     cache.TransformFunc
	changed  cache.ResourceEventHandler
	denied   func(*cache.Reflector)
}

// start begins to follow them. It returns what is done when all that was there first was reported.
func (w *watch) start(ctx context.Context) (cache.SharedIndexInformer, cache.DoneChecker, error) {
	informer := cache.NewSharedIndexInformer(
		cache.NewFilteredListWatchFromClient(w.api, w.resource, metav1.NamespaceAll, w.choose), w.object, 0, cache.Indexers{byOwner: ownerOf})
	err := errors.Join(informer.SetTransform(w.trim), informer.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			w.denied(r)
		}
	}))
	registration, failed := informer.AddEventHandler(w.changed)
	if err := errors.Join(err, failed); err != nil {
		return nil, nil, err
	}
	go informer.RunWithContext(ctx)
	return informer, registration.HasSyncedChecker(), nil
}

// openCaches begins to fill caches, which are kept up to date until ctx is done or they are closed.
func openCaches(ctx context.Context, clientset kubernetes.Interface, of *Cluster, fixedNodes bool) (*caches, error) {
	c := &caches{of: of, fixedNodes: fixedNodes, local: map[string]cache.SharedIndexInformer{}, tally: newTally()}
	// Reflectors log the address of the cluster.
	ctx, c.cancel = context.WithCancel(logr.NewContext(ctx, logr.Discard()))
	labelled := func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.LabelFederated }
	pods := watch{
		clientset.CoreV1().RESTClient(), "pods", &v1.Pod{}, labelled, trimPod(fixedNodes), passes.Follow(c.podChanged), c.denied,
	}
	if fixedNodes {
		pods.choose = func(o *metav1.ListOptions) {
			o.FieldSelector = "status.phase!=" + string(v1.PodSucceeded) + ",status.phase!=" + string(v1.PodFailed)
		}
	}
	_, read, err := pods.start(ctx)
	c.read = append(c.read, read)
	for kind, w := range map[string]watch{ReplicaSet: {resource: "replicasets", object: &appsv1.ReplicaSet{}}, Deployment: {resource: "deployments", object: &appsv1.Deployment{}}} {
		w.api, w.choose, w.trim, w.denied = clientset.AppsV1().RESTClient(), labelled, trimLocal, c.denied
		w.changed = passes.Follow(func(before, now metav1.Object) { c.localChanged(kind, cmp.Or(now, before)) })
		informer, read, failed := w.start(ctx)
		c.local[kind], c.read, err = informer, append(c.read, read), errors.Join(err, failed)
	}
	if fixedNodes && err == nil {
		nodes := watch{
			clientset.CoreV1().RESTClient(), "nodes", &v1.Node{}, func(*metav1.ListOptions) {}, trimNode, passes.Follow(c.nodeChanged),
			func(*cache.Reflector) { c.denyNodes(true) },
		}
		_, c.nodesRead, err = nodes.start(ctx)
	}
	if err != nil {
		c.cancel()
		return nil, err
	}
	go func() {
		if cache.WaitFor(ctx, "", c.read...) {
			of.ask()
		}
		if fixedNodes && cache.WaitFor(ctx, "", c.nodesRead) {
			of.changed()
		}
	}()
	return c, nil
}

// localChanged reports a change of a local object. A ReplicaSet that belongs to a Deployment is none: the
// Deployment shows what matters.
func (c *caches) localChanged(kind string, o metav1.Object) {
	if owner := metav1.GetControllerOfNoCopy(o); owner == nil || owner.Kind != Deployment {
		c.of.localChanged(Local{kind, o.GetNamespace(), o.GetName()})
	}
}

func (c *caches) podChanged(before, now *pod) {
	c.mu.Lock()
	changed := c.tally.count(before, now)
	c.mu.Unlock()
	for _, l := range changed {
		c.of.localChanged(l)
	}
}

func (c *caches) nodeChanged(before, now *v1.Node) {
	c.denyNodes(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.setNode(before, now)
}

// denyNodes takes in whether nodes may not be read.
func (c *caches) denyNodes(denied bool) {
	c.mu.Lock()
	was := c.nodesDenied
	c.nodesDenied = denied
	c.mu.Unlock()
	if was != denied {
		c.of.changed()
	}
}

// denied takes in that something may not be read without which nothing can be decided.
func (c *caches) denied(r *cache.Reflector) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem = forbidden("list and watch " + strings.TrimPrefix(r.TypeDescription(), "*v1.") + "s in all namespaces")
}

func forbidden(what string) *Problem {
	return &Problem{v1alpha1.ReasonForbidden, "the cluster does not allow to " + what + ": evenkeel cluster join gives the rights that are needed"}
}

// ready reports whether what was there first has been read, or what may not be read.
func (c *caches) ready() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.read, func(f cache.DoneChecker) bool { return !cache.IsDone(f) }), c.problem
}

// nodesKnown reports whether the nodes are read, or may not be.
func (c *caches) nodesKnown() (known, denied bool) {
	if c == nil || !c.fixedNodes {
		return false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.nodesDenied && cache.IsDone(c.nodesRead), c.nodesDenied
}

// trimLocal drops who wrote which field, which is most of a small object.
func trimLocal(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
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

// pods counts the pods of a local object.
func (c *caches) pods(l Local) Pods {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tally.of[l]
}

// room is what the nodes have left now, apart from those that take no pods. It is shared and must not be changed.
func (c *caches) room() federation.Room {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tally
	if t.room != nil {
		return *t.room
	}
	t.room = &federation.Room{Bound: map[string]int32{}, Nodes: make([]federation.Node, 0, len(t.nodes))}
	for l, pods := range t.of {
		if pods.Scheduled > 0 {
			t.room.Bound[l.Namespace+"/"+l.Name] += pods.Scheduled
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		if n := t.nodes[name]; n.DeletionTimestamp == nil && !n.Spec.Unschedulable && template.IsReady(n) {
			allocatable := federation.ResourcesOf(n.Status.Allocatable)
			t.room.Nodes = append(t.room.Nodes, federation.Node{Object: n, Allocatable: allocatable, Free: allocatable.Plus(-1, t.used[name])})
		}
	}
	return *t.room
}

// get returns a local object; nil if there is none, or nothing was read.
func (c *caches) get(l Local) any {
	if c == nil {
		return nil
	}
	o, _, err := c.local[l.Kind].GetStore().GetByKey(cache.NewObjectName(l.Namespace, l.Name).String())
	if err != nil {
		return nil // it never is: the key is a name
	}
	return o
}

// byOwner is the index of ReplicaSets by the UID of the Deployment that they belong to.
const byOwner = "owner"

// ownerOf is a cache.IndexFunc.
func ownerOf(object any) ([]string, error) {
	if o, err := meta.Accessor(object); err == nil {
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			return []string{string(owner.UID)}, nil
		}
	}
	return nil, nil
}

func (c *caches) replicaSetsOf(d *appsv1.Deployment) (all []*appsv1.ReplicaSet) {
	if c == nil {
		return nil
	}
	found, err := c.local[ReplicaSet].GetIndexer().ByIndex(byOwner, string(d.UID))
	if err != nil {
		return nil // it never is: there is such an index
	}
	for _, o := range found {
		if r, ok := o.(*appsv1.ReplicaSet); ok {
			all = append(all, r)
		}
	}
	return all
}
