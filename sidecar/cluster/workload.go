package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/steering"
)

// Workload knows pods and nodes from watches. Of each it keeps what matters for where pods go, some
// 1.5 kB per pod. Nothing waits for it: where pods may not be read, it never knows them.
type Workload struct {
	pods     *watched[*v1.Pod]
	nodes    *watched[*v1.Node]
	defaults *defaults
	client   kubernetes.Interface
	clock    clock.Clock
	log      logr.Logger
}

func newWorkload(client kubernetes.Interface, o *Options) *Workload {
	return &Workload{
		pods: newWatched(strippedPod, o.Log), nodes: newWatched(strippedNode, o.Log),
		defaults: newDefaults(o), client: client, clock: o.Clock, log: o.Log,
	}
}

// List returns all pods that have not finished, as Complete does, and all nodes, by name. They are
// not known, and ok is false, until both were listed, and while the API server refuses to show them.
func (w *Workload) List() (workload steering.Workload, ok bool) {
	if !w.pods.known() || !w.nodes.known() {
		return steering.Workload{}, false
	}
	return steering.Workload{Pods: w.Complete(w.pods.list()), Nodes: w.nodes.list()}, true
}

// run watches until ctx ends.
func (w *Workload) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, w.log)
	unfinished := fields.AndSelectors(fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed))).String()
	core, apps := w.client.CoreV1(), w.client.AppsV1()
	var all sync.WaitGroup
	all.Go(func() { follow(ctx, w, w.pods, core.Pods(metav1.NamespaceAll), unfinished) })
	all.Go(func() { follow(ctx, w, w.nodes, core.Nodes(), "") })
	if d := w.defaults; len(d.constraints) > 0 {
		all.Go(func() { follow(ctx, w, d.services, core.Services(metav1.NamespaceAll), "") })
		all.Go(func() {
			follow(ctx, w, d.controllers, core.ReplicationControllers(metav1.NamespaceAll), "")
		})
		all.Go(func() { follow(ctx, w, d.replicaSets, apps.ReplicaSets(metav1.NamespaceAll), "") })
		all.Go(func() {
			follow(ctx, w, d.statefulSets, apps.StatefulSets(metav1.NamespaceAll), "")
		})
	}
	all.Wait()
}

// follow keeps a collection up to date until ctx ends.
func follow[T object, L runtime.Object](ctx context.Context, w *Workload, c *watched[T], api client[L], selected string) {
	runReflector(ctx, w.client, source(api, selected, c.asked), &c.collection, cache.ReflectorOptions{
		Name: fmt.Sprintf("workload %T", *new(T)), Logger: &w.log, Clock: w.clock,
	})
}

// watched is a collection that is not known while the API server refuses to show it.
type watched[T object] struct {
	collection[T, T]
	log     logr.Logger
	refused atomic.Bool
}

func newWatched[T object](stripped func(T) T, log logr.Logger) *watched[T] {
	return &watched[T]{collection: collection[T, T]{stripped: stripped, kept: stripped}, log: log}
}

// asked notes whether the API server lets the sidecar read.
func (c *watched[T]) asked(_ string, err error) {
	refused := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
	if was := c.refused.Swap(refused); refused && !was {
		c.log.Info("Pods with a topology spread get nodes as Cluster Autoscaler asks for them: what that takes may not be read", "reason", err.Error())
	}
}

// known reports whether the objects were listed and may be read.
func (c *watched[T]) known() bool { return !c.refused.Load() && c.listed() }

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
