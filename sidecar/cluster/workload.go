package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/steering"
)

// Workload knows pods and nodes from watches. Of each it keeps what matters for where pods go, some
// 1.5 kB per pod. Nothing waits for it: where pods may not be read, it never knows them.
type Workload struct {
	pods     collection[*v1.Pod]
	nodes    collection[*v1.Node]
	defaults *defaults
	client   kubernetes.Interface
	clock    clock.Clock
	log      logr.Logger
}

func newWorkload(client kubernetes.Interface, o *Options) *Workload {
	w := &Workload{defaults: newDefaults(o.DefaultConstraints), client: client, clock: o.Clock, log: o.Log}
	w.pods.stripped, w.nodes.stripped = strippedPod, strippedNode
	return w
}

// List returns all pods that have not finished, as Complete does, and all nodes, by name. They are
// not known, and ok is false, until both were listed, and while the API server refuses to show them.
func (w *Workload) List() (workload steering.Workload, ok bool) {
	pods, known := w.pods.list()
	nodes, both := w.nodes.list()
	return w.completed(steering.Workload{Pods: pods, Nodes: nodes}), known && both
}

// run watches until ctx ends.
func (w *Workload) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, w.log)
	unfinished := fields.AndSelectors(fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed))).String()
	core, apps := w.client.CoreV1(), w.client.AppsV1()
	var all sync.WaitGroup
	all.Go(func() { follow(ctx, w, &w.pods, &v1.Pod{}, source(core.Pods(metav1.NamespaceAll), unfinished)) })
	all.Go(func() { follow(ctx, w, &w.nodes, &v1.Node{}, source(core.Nodes(), "")) })
	if d := w.defaults; len(d.constraints) > 0 {
		all.Go(func() { follow(ctx, w, &d.services, &v1.Service{}, source(core.Services(metav1.NamespaceAll), "")) })
		all.Go(func() {
			follow(ctx, w, &d.controllers, &v1.ReplicationController{}, source(core.ReplicationControllers(metav1.NamespaceAll), ""))
		})
		all.Go(func() {
			follow(ctx, w, &d.replicaSets, &appsv1.ReplicaSet{}, source(apps.ReplicaSets(metav1.NamespaceAll), ""))
		})
		all.Go(func() {
			follow(ctx, w, &d.statefulSets, &appsv1.StatefulSet{}, source(apps.StatefulSets(metav1.NamespaceAll), ""))
		})
	}
	all.Wait()
}

// client is how objects of one kind are read.
type client[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// source lists and watches the objects that a field selector selects.
func source[L runtime.Object](c client[L], selected string) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selected
			return c.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selected
			return c.Watch(ctx, o)
		},
	}
}

// follow keeps a collection up to date until ctx ends.
func follow[T metav1.Object](ctx context.Context, w *Workload, c *collection[T], example T, source *cache.ListWatch) {
	list, begin := source.ListWithContextFunc, source.WatchFuncWithContext
	source.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		all, err := list(ctx, o)
		c.asked(ctx, w.log, err)
		return all, err
	}
	source.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		events, err := begin(ctx, o)
		c.asked(ctx, w.log, err)
		return events, err
	}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, w.client), example, c, cache.ReflectorOptions{
		Name: fmt.Sprintf("workload %T", example), Logger: &w.log, Clock: w.clock,
	})
	reflector.RunWithContext(ctx)
}

// collection is what a watch writes to: objects by namespace and name.
type collection[T metav1.Object] struct {
	stripped func(T) T

	mu      sync.RWMutex
	objects map[string]T // nil before the first list
	refused bool
}

// asked notes whether the API server lets the sidecar read.
func (c *collection[T]) asked(ctx context.Context, log logr.Logger, err error) {
	if ctx.Err() != nil {
		return
	}
	refused := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
	c.mu.Lock()
	was := c.refused
	c.refused = refused
	c.mu.Unlock()
	if refused && !was {
		log.Info("Pods with a topology spread get nodes as Cluster Autoscaler asks for them: what that takes may not be read", "reason", err.Error())
	}
}

// known reports whether the objects were listed and may be read.
func (c *collection[T]) known() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objects != nil && !c.refused
}

// get returns the object of a namespace and a name.
func (c *collection[T]) get(key string) (object T, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	object, ok = c.objects[key]
	return object, ok
}

// list returns the objects by namespace and name.
func (c *collection[T]) list() (objects []T, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.objects == nil || c.refused {
		return nil, false
	}
	return slices.SortedFunc(maps.Values(c.objects), func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	}), true
}

var _ cache.TransformingStore = (*collection[*v1.Pod])(nil)

// Transformer lets the watch drop, while it still gathers the first list, what is not looked at.
func (c *collection[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if one, ok := object.(T); ok {
			return c.stripped(one), nil
		}
		return object, nil
	}
}

func key[T metav1.Object](object T) string { return object.GetNamespace() + "/" + object.GetName() }

func (c *collection[T]) Add(object any) error { return c.Update(object) }

func (c *collection[T]) Update(object any) error {
	one, ok := object.(T)
	if !ok {
		return fmt.Errorf("watching %T: got a %T", one, object)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects == nil {
		c.objects = map[string]T{}
	}
	c.objects[key(one)] = one
	return nil
}

func (c *collection[T]) Delete(object any) error {
	one, ok := object.(T)
	if !ok {
		return fmt.Errorf("watching %T: got a %T", one, object)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, key(one))
	return nil
}

func (c *collection[T]) Replace(objects []any, _ string) error {
	all := make(map[string]T, len(objects))
	for _, object := range objects {
		one, ok := object.(T)
		if !ok {
			return fmt.Errorf("listing %T: got a %T", one, object)
		}
		all[key(one)] = one
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects = all
	return nil
}

func (*collection[T]) Resync() error { return nil }

// strippedPod keeps of a pod what decides where it goes, and of one on a node what it takes there.
func strippedPod(pod *v1.Pod) *v1.Pod {
	out := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, Labels: pod.Labels,
	}}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	out.Status.Phase = pod.Status.Phase
	spec := &pod.Spec
	out.Spec = v1.PodSpec{NodeName: spec.NodeName, Overhead: spec.Overhead, Resources: spec.Resources, InitContainers: strippedContainers(spec.InitContainers), Containers: strippedContainers(spec.Containers)}
	if spec.NodeName == "" {
		out.Spec.NodeSelector, out.Spec.Affinity, out.Spec.Tolerations = spec.NodeSelector, spec.Affinity, spec.Tolerations
		out.Spec.TopologySpreadConstraints, out.Spec.SchedulingGates = spec.TopologySpreadConstraints, spec.SchedulingGates
		out.Spec.ResourceClaims = spec.ResourceClaims
		for i := range spec.Volumes {
			if v := &spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
				out.Spec.Volumes = append(out.Spec.Volumes, *v)
			}
		}
	}
	return out
}

func strippedContainers(containers []v1.Container) []v1.Container {
	out := make([]v1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		out[i] = v1.Container{Resources: v1.ResourceRequirements{Requests: c.Resources.Requests}, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
	}
	return out
}

// strippedNode keeps of a node what decides which pods it takes.
func strippedNode(n *v1.Node) *v1.Node {
	out := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels}}
	out.Spec = v1.NodeSpec{ProviderID: n.Spec.ProviderID, Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints}
	out.Status.Allocatable, out.Status.Capacity = n.Status.Allocatable, n.Status.Capacity
	return out
}
