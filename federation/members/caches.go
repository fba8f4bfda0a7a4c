package members

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// caches hold the local objects of a cluster and what their pods count as, kept up to date by
// watches. Only what has the label of federated objects is read.
type caches struct {
	cancel context.CancelFunc
	local  map[string]cache.SharedIndexInformer // by kind
	tally  *tally
	filled []cache.DoneChecker // when what was there first is counted
	room   *room               // nil unless the cluster has fixed nodes

	mu      sync.Mutex
	problem error // what may not be read
}

// openCaches begins to fill caches, which are kept up to date until ctx is done or they are closed.
func openCaches(ctx context.Context, clientset kubernetes.Interface, of *Cluster, fixedNodes bool) (*caches, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.LabelFederated }))
	c := &caches{tally: newTally(), local: map[string]cache.SharedIndexInformer{
		ReplicaSet: factory.Apps().V1().ReplicaSets().Informer(),
		Deployment: factory.Apps().V1().Deployments().Informer(),
	}}
	if err := c.local[ReplicaSet].AddIndexers(cache.Indexers{byOwner: ownerOf}); err != nil {
		return nil, err
	}
	for kind, informer := range c.local {
		if err := c.setUp(informer, passes.Follow(func(before, now metav1.Object) {
			o := cmp.Or(now, before)
			if owner := metav1.GetControllerOfNoCopy(o); owner != nil && owner.Kind == Deployment {
				return // it is the Deployment that is local, and shows what matters
			}
			of.home.localChanged(of.name, Local{kind, o.GetNamespace(), o.GetName()})
		}), trimLocal); err != nil {
			return nil, err
		}
	}
	if err := c.setUp(factory.Core().V1().Pods().Informer(), passes.Follow(c.counting(func(l Local) { of.home.localChanged(of.name, l) })), trimPod); err != nil {
		return nil, err
	}
	// Reflectors log the address of the cluster.
	ctx, c.cancel = context.WithCancel(logr.NewContext(ctx, logr.Discard()))
	if fixedNodes {
		var err error
		if c.room, err = openRoom(ctx, clientset, func() { of.home.clusterChanged(of.name) }); err != nil {
			c.cancel()
			return nil, err
		}
	}
	factory.StartWithContext(ctx)
	return c, nil
}

func (c *caches) setUp(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler, transform cache.TransformFunc) error {
	filled, err := setUp(informer, handler, transform, c.failed)
	if err == nil {
		c.filled = append(c.filled, filled)
	}
	return err
}

// setUp prepares an informer. It returns what is done when the handler has seen all that was there
// first.
func setUp(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler, transform cache.TransformFunc, failed cache.WatchErrorHandlerWithContext) (filled cache.DoneChecker, err error) {
	if err := informer.SetTransform(transform); err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(failed); err != nil {
		return nil, err
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, err
	}
	return registration.HasSyncedChecker(), nil
}

// counting counts pods.
func (c *caches) counting(changed func(Local)) func(before, now *pod) {
	return func(before, now *pod) {
		of, counts := before, counted{}
		if now != nil {
			of, counts = now, now.counted
		}
		for _, l := range c.tally.set(types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, counts) {
			changed(l)
		}
	}
}

// trimLocal drops who wrote which field, which is most of a small object.
func trimLocal(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// pod is what is kept of a pod: of its metadata the name and the version only. There may be many,
// and an empty v1.Pod takes more than a kilobyte.
type pod struct {
	metav1.ObjectMeta
	counted
}

// trimPod keeps of a pod what is counted.
func trimPod(object any) (any, error) {
	p, ok := object.(*v1.Pod)
	if !ok {
		return object, nil
	}
	return &pod{metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion}, countedOf(p)}, nil
}

// failed is a cache.WatchErrorHandlerWithContext.
func (c *caches) failed(_ context.Context, r *cache.Reflector, err error) {
	if apierrors.IsForbidden(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.problem = forbidden("list and watch " + strings.TrimPrefix(r.TypeDescription(), "*v1.") + "s in all namespaces")
	}
}

func forbidden(what string) *Problem {
	return &Problem{v1alpha1.ReasonForbidden, "the cluster does not allow to " + what + ": evenkeel cluster join gives the rights that are needed"}
}

// wait waits until the caches are filled, or ctx is done.
func (c *caches) wait(ctx context.Context) bool { return cache.WaitFor(ctx, "", c.filled...) }

func (c *caches) ready() bool {
	return !slices.ContainsFunc(c.filled, func(f cache.DoneChecker) bool { return !cache.IsDone(f) })
}

// denied is what may not be read; nil if everything may, or nothing was read.
func (c *caches) denied() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
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
	o, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		return []string{string(owner.UID)}, nil
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
