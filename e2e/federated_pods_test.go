package e2e

import (
	"context"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// podLedger follows the pods of all clusters. While a cluster cannot be reached, its pods count as
// they were last seen.
type podLedger struct {
	mu  sync.Mutex
	now map[string]map[podIn]bool // whether a pod is ready, by namespace
	// Since begin, by namespace: the most pods, the fewest that were ready, and how many went away
	// in each cluster.
	most, fewest map[string]int
	gone         map[string]map[string]int
}

// podIn is a pod in a cluster.
type podIn struct{ cluster, name string }

// watchPods follows them as long as the test.
func watchPods(ctx context.Context, t *testing.T, members map[string]*controlplane.ControlPlane) *podLedger {
	t.Helper()
	l := &podLedger{now: map[string]map[podIn]bool{}, most: map[string]int{}, fewest: map[string]int{}, gone: map[string]map[string]int{}}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for name, plane := range members {
		config := rest.CopyConfig(plane.Config)
		config.ContentType = runtime.ContentTypeProtobuf
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		informer := informers.NewSharedInformerFactory(c, 0).Core().V1().Pods().Informer()
		see := func(o any) { l.see(name, o, false) }
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: see, UpdateFunc: func(_, after any) { see(after) }, DeleteFunc: func(o any) { l.see(name, o, true) },
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	return l
}

func (l *podLedger) see(cluster string, o any, deleted bool) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	pod, ok := o.(*v1.Pod)
	if !ok {
		return
	}
	ready := false
	for _, c := range pod.Status.Conditions {
		ready = ready || c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.now[pod.Namespace]
	if all == nil {
		all = map[podIn]bool{}
		l.now[pod.Namespace], l.gone[pod.Namespace] = all, map[string]int{}
	}
	key := podIn{cluster, pod.Name}
	_, known := all[key]
	if deleted || pod.DeletionTimestamp != nil {
		if known {
			l.gone[pod.Namespace][cluster]++
		}
		delete(all, key)
	} else {
		all[key] = ready
	}
	l.count(pod.Namespace)
}

func (l *podLedger) count(namespace string) {
	ready := 0
	for _, is := range l.now[namespace] {
		if is {
			ready++
		}
	}
	l.most[namespace], l.fewest[namespace] = max(l.most[namespace], len(l.now[namespace])), min(l.fewest[namespace], ready)
}

// begin has the pods of a namespace counted from now on.
func (l *podLedger) begin(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone[namespace] = map[string]int{}
	l.most[namespace], l.fewest[namespace] = 0, len(l.now[namespace])
	l.count(namespace)
}

// pods are the most pods since begin, the fewest that were ready, and how many went away in each
// cluster, as they are known now.
func (l *podLedger) pods(namespace string) (most, fewest int, gone []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range clusterNames {
		gone = append(gone, l.gone[namespace][name])
	}
	return l.most[namespace], l.fewest[namespace], gone
}

// bounds checks that since the last change there were never more pods than that, and never fewer
// that were ready.
func (s *stage) bounds(t *testing.T, when string, least, most int) {
	t.Helper()
	high, low, gone := s.ledger.pods(s.namespace)
	t.Logf("%s: %d to %d pods, %v went away", when, low, high, gone)
	if high > most || low < least {
		t.Errorf("%s: there were up to %d pods, at least %d of them ready; want %d at most, %d at least", when, high, low, most, least)
	}
}
