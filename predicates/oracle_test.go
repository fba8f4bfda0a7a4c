package predicates

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// naive is the scheduler asked as plainly as can be: its own framework, and for
// every pod a fresh snapshot of every node, PreFilter, and Filter node by node.
type naive struct {
	objects informers.SharedInformerFactory
	fw      framework.Framework
	seen    *delegate
	ctx     context.Context
}

type delegate struct{ fwk.SharedLister }

func newNaive(t testing.TB, objects ...runtime.Object) *naive {
	t.Helper()
	return newConfigured(t, nil, objects...)
}

// newConfigured is newNaive with a scheduler configuration.
func newConfigured(t testing.TB, configuration []byte, objects ...runtime.Object) *naive {
	t.Helper()
	initMetrics.Do(metrics.InitMetrics)
	profile, err := readProfile(configuration)
	if err != nil {
		t.Fatal(err)
	}
	o := &naive{seen: &delegate{}, ctx: klog.NewContext(t.Context(), logr.Discard())}
	factory := informers.NewSharedInformerFactory(nil, 0)
	o.objects = factory
	for _, object := range objects {
		o.add(t, object)
	}
	noDevices, err := devices(o.ctx, factory)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(o.ctx)
	cancel()
	o.fw, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(o.seen),
		frameworkruntime.WithSharedDRAManager(noDevices),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodNominator(nobody{}),
		frameworkruntime.WithLogger(logr.Discard()))
	if err != nil {
		t.Fatal(err)
	}
	frameworkruntime.WaitForShutdown(o.fw)
	return o
}

func (o *naive) add(t testing.TB, object runtime.Object) {
	t.Helper()
	if err := informerFor(o.objects, object).GetIndexer().Add(object); err != nil {
		t.Fatal(err)
	}
}

// naiveCluster is a cluster as the oracle has it: nodes with unique names, each with the
// pods on it.
type naiveCluster []Node

func (w naiveCluster) copy() naiveCluster {
	c := make(naiveCluster, len(w))
	for i, n := range w {
		c[i] = Node{Node: n.Node, Pods: append([]*v1.Pod(nil), n.Pods...)}
	}
	return c
}

// show makes the cluster what the plugins see.
func (o *naive) show(w naiveCluster) *cache.Snapshot {
	var nodes []*v1.Node
	var pods []*v1.Pod
	for _, n := range w {
		nodes = append(nodes, n.Node)
		for _, p := range n.Pods {
			if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
				continue
			}
			bound := *p
			bound.Spec.NodeName = n.Node.Name
			pods = append(pods, &bound)
		}
	}
	snap := cache.NewSnapshot(pods, nodes)
	o.seen.SharedLister = snap
	return snap
}

// fits answers whether the pod passes node i of the cluster.
func (o *naive) fits(w naiveCluster, pod *v1.Pod, i int) bool {
	return o.first(w, pod, i, i+1) == i
}

// first returns the first node of lo..hi the pod passes, or -1.
func (o *naive) first(w naiveCluster, pod *v1.Pod, lo, hi int) int {
	snap := o.show(w)
	state := framework.NewCycleState()
	result, status, _ := o.fw.RunPreFilterPlugins(o.ctx, state, pod)
	if !status.IsSuccess() {
		return -1
	}
	for i := lo; i < hi; i++ {
		name := w[i].Node.Name
		if !result.AllNodes() && !result.NodeNames.Has(name) {
			continue
		}
		info, err := snap.Get(name)
		if err != nil {
			return -1
		}
		if o.fw.RunFilterPlugins(o.ctx, state, pod, info).IsSuccess() {
			return i
		}
	}
	return -1
}

// place puts up to count pods on the nodes lo..hi, first fit, one by one.
func (o *naive) place(w naiveCluster, pod *v1.Pod, count, lo, hi int) (naiveCluster, map[int]int) {
	placed := map[int]int{}
	for range count {
		i := o.first(w, pod, lo, hi)
		if i < 0 {
			break
		}
		w[i].Pods = append(w[i].Pods, pod)
		placed[i]++
	}
	return w, placed
}

// placeOnNew opens copies of a template as needed, one by one.
func (o *naive) placeOnNew(w naiveCluster, template Node, pod *v1.Pod, count, maxNodes int) (naiveCluster, map[int]int) {
	placed := map[int]int{}
	first := len(w)
	for range count {
		i := o.first(w, pod, first, len(w))
		if i < 0 {
			if len(w)-first >= maxNodes {
				break
			}
			w = append(w, o.copyOf(template, len(w)))
			if i = o.first(w, pod, len(w)-1, len(w)); i < 0 {
				w = w[:len(w)-1]
				break
			}
		}
		w[i].Pods = append(w[i].Pods, pod)
		placed[i]++
	}
	return w, placed
}

func (o *naive) copyOf(template Node, id int) Node {
	n := template.Node.DeepCopy()
	n.Name = fmt.Sprintf("copy-%d", id)
	n.Labels = maps.Clone(n.Labels)
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[v1.LabelHostname] = n.Name
	return Node{Node: n, Pods: append([]*v1.Pod(nil), template.Pods...)}
}
