package members

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/podcache"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/podfit"
)

// caches hold the local objects of a cluster, what their pods count as and, if it has fixed nodes, what these have
// left, kept up to date by watches. Without fixed nodes, only what has the label of federated objects is read.
//
// The caches of controller-runtime would do less here: they keep whole pods only, and log the address of a cluster.
type caches struct {
	cluster    *Cluster
	cancel     context.CancelFunc
	fixedNodes bool
	local      map[string]cache.SharedIndexInformer // by kind
	read       []cache.DoneChecker                  // when what was there first is counted, apart from nodes
	nodesRead  cache.DoneChecker

	mu     sync.Mutex
	tally  *tally
	denied map[string]bool // the kinds that may not be read
}

// node is the kind without which decisions are made as if the room of the cluster was not known.
const node = "Node"

// openCaches begins to fill caches, which are kept up to date until ctx is done or they are closed.
func openCaches(ctx context.Context, clientset kubernetes.Interface, cluster *Cluster, fixedNodes bool) *caches {
	labelled := informers.NewSharedInformerFactoryWithOptions(clientset, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.LabelFederated }))
	nodes, pods := informers.NewSharedInformerFactory(clientset, 0), labelled
	if fixedNodes {
		pods = informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "status.phase!=" + string(v1.PodSucceeded) + ",status.phase!=" + string(v1.PodFailed)
		}))
	}
	c := &caches{cluster: cluster, fixedNodes: fixedNodes, tally: newTally(), denied: map[string]bool{}}
	c.local = map[string]cache.SharedIndexInformer{
		ReplicaSet: labelled.Apps().V1().ReplicaSets().Informer(),
		Deployment: labelled.Apps().V1().Deployments().Informer(),
	}
	// Reflectors log the address of the cluster.
	ctx, c.cancel = context.WithCancel(logr.NewContext(ctx, logr.Discard()))
	_ = c.local[ReplicaSet].AddIndexers(cache.Indexers{byOwner: ownerOf}) // it does not run yet
	for kind, informer := range c.local {
		c.read = append(c.read, c.follow(ctx, informer, trimLocal, passes.Follow(func(before, now metav1.Object) {
			c.localChanged(kind, cmp.Or(now, before))
		})))
	}
	c.read = append(c.read, c.follow(ctx, pods.Core().V1().Pods().Informer(), trimPod(fixedNodes), passes.Follow(c.podChanged)))
	if fixedNodes {
		c.nodesRead = c.follow(ctx, nodes.Core().V1().Nodes().Informer(), podcache.TrimNode, passes.Follow(c.nodeChanged))
	}
	go func() {
		if cache.WaitFor(ctx, "", c.read...) {
			cluster.ask()
		}
		if fixedNodes && cache.WaitFor(ctx, "", c.nodesRead) {
			cluster.ask()
		}
	}()
	return c
}

// follow starts an informer. It returns what is done when the handler has seen all that was there first.
func (c *caches) follow(ctx context.Context, informer cache.SharedIndexInformer, trim cache.TransformFunc,
	changed cache.ResourceEventHandler) cache.DoneChecker {
	// None of these fails before it runs.
	_ = informer.SetTransform(trim)
	_ = informer.SetWatchErrorHandlerWithContext(c.failed)
	registration, _ := informer.AddEventHandler(changed)
	go informer.RunWithContext(ctx)
	return registration.HasSyncedChecker()
}

// failed is a cache.WatchErrorHandlerWithContext.
func (c *caches) failed(_ context.Context, r *cache.Reflector, err error) {
	if apierrors.IsForbidden(err) {
		c.deny(strings.TrimPrefix(r.TypeDescription(), "*v1."), true)
	}
}

// deny records whether a kind may not be read.
func (c *caches) deny(kind string, is bool) {
	c.mu.Lock()
	was := c.denied[kind]
	c.denied[kind] = is
	c.mu.Unlock()
	if was != is {
		c.cluster.ask()
	}
}

// localChanged reports a change of a local object. A ReplicaSet that belongs to a Deployment is none: the
// Deployment shows what matters.
func (c *caches) localChanged(kind string, o metav1.Object) {
	if owner := metav1.GetControllerOfNoCopy(o); owner == nil || owner.Kind != Deployment {
		c.cluster.members.report(c.cluster.name, &Local{kind, o.GetNamespace(), o.GetName()})
	}
}

func (c *caches) podChanged(before, now *pod) {
	c.mu.Lock()
	changed := c.tally.count(before, now)
	c.mu.Unlock()
	for i := range changed {
		c.cluster.members.report(c.cluster.name, &changed[i])
	}
}

func (c *caches) nodeChanged(before, now *v1.Node) {
	c.deny(node, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.setNode(before, now)
}

func forbidden(what string) *Problem {
	return problemOf(v1alpha1.ReasonForbidden, "the cluster does not allow to %s: evenkeel cluster join gives the rights that are needed",
		what)
}

// ready reports whether what was there first has been read, apart from nodes, and what may not be read.
func (c *caches) ready() (_ bool, problem *Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(c.denied)) {
		if kind != node {
			problem = forbidden("list and watch " + kind + "s in all namespaces")
		}
	}
	return !slices.ContainsFunc(c.read, func(f cache.DoneChecker) bool { return !cache.IsDone(f) }), problem
}

// nodesKnown reports whether the nodes are read, or may not be.
func (c *caches) nodesKnown() (known, denied bool) {
	if c == nil || !c.fixedNodes {
		return false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.denied[node] && cache.IsDone(c.nodesRead), c.denied[node]
}

// annotationContent of a local object in a cache is the hash of its pod template, which is not kept.
const annotationContent = "evenkeel.dev/content"

// trimLocal keeps of a local object what is read of it. It may be of anybody who writes in the member, and large.
func trimLocal(object any) (any, error) {
	var o *metav1.ObjectMeta
	var template *v1.PodTemplateSpec
	var selector **metav1.LabelSelector
	switch is := object.(type) {
	case *appsv1.Deployment:
		o, template, selector = &is.ObjectMeta, &is.Spec.Template, &is.Spec.Selector
	case *appsv1.ReplicaSet:
		o, template, selector = &is.ObjectMeta, &is.Spec.Template, &is.Spec.Selector
	}
	if template == nil || len(template.Spec.Containers) == 0 && o.Annotations[annotationContent] != "" { // it is trimmed
		return object, nil
	}
	annotations := map[string]string{annotationContent: HashTemplate(template)}
	for key, value := range o.Annotations {
		if strings.HasPrefix(key, v1alpha1.LabelFederated) && len(value) <= longestAnnotation {
			annotations[key] = value
		}
	}
	owner := metav1.GetControllerOf(o)
	o.Annotations, o.Labels, o.ManagedFields, o.Finalizers, o.OwnerReferences = annotations, nil, nil, nil, nil
	if owner != nil {
		o.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	*template, *selector = v1.PodTemplateSpec{}, nil
	return object, nil
}

// longestAnnotation is longer than all that evenkeel writes on local objects.
const longestAnnotation = 256

// HashTemplate is a hash of what a pod template is as JSON.
func HashTemplate(template *v1.PodTemplateSpec) string {
	text, _ := json.Marshal(template) // it has been JSON
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:8])
}

// ContentOf is the HashTemplate of a local object that was last seen, which is without its template.
func ContentOf(o metav1.Object) string { return o.GetAnnotations()[annotationContent] }

// pods counts the pods of a local object.
func (c *caches) pods(l Local) Pods {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tally.counts[l]
}

// room is what the nodes have left now, apart from those that take no pods. It is shared and must not be changed.
func (c *caches) room() federation.Room {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tally
	if t.room != nil {
		return *t.room
	}
	t.room = &federation.Room{Bound: map[string]int32{}, Created: map[string]int32{}, Nodes: make([]federation.Node, 0, len(t.nodes))}
	for l, pods := range t.counts {
		if pods.Created > 0 {
			t.room.Bound[l.Namespace+"/"+l.Name] += pods.Scheduled
			t.room.Created[l.Namespace+"/"+l.Name] += pods.Created
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		if n := t.nodes[name]; n.DeletionTimestamp == nil && !n.Spec.Unschedulable && template.IsReady(n) {
			allocatable := podfit.Allocatable(n)
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
	o, _, _ := c.local[l.Kind].GetStore().GetByKey(cache.NewObjectName(l.Namespace, l.Name).String()) // no key is refused
	return o
}

// byOwner is the index of ReplicaSets by the UID of the Deployment that they belong to.
const byOwner = "owner"

// ownerOf is a cache.IndexFunc.
func ownerOf(object any) ([]string, error) {
	if r, ok := object.(*appsv1.ReplicaSet); ok {
		if owner := metav1.GetControllerOfNoCopy(r); owner != nil {
			return []string{string(owner.UID)}, nil
		}
	}
	return nil, nil
}

func (c *caches) replicaSetsOf(d *appsv1.Deployment) (all []*appsv1.ReplicaSet) {
	if c == nil {
		return nil
	}
	found, _ := c.local[ReplicaSet].GetIndexer().ByIndex(byOwner, string(d.UID)) // there is such an index
	for _, o := range found {
		if r, ok := o.(*appsv1.ReplicaSet); ok {
			all = append(all, r)
		}
	}
	return all
}
