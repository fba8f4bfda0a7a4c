package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// sizes follows how many replicas Deployments and ReplicaSets are asked for.
type sizes struct {
	mu      sync.Mutex
	of      map[types.NamespacedName]int32
	since   map[types.NamespacedName]time.Time // when that was seen
	changed chan struct{}                      // closed at the next change
}

// watchSizes watches the Deployments or ReplicaSets of all namespaces as long as the test. The API
// server ends a watch whose reader is late, and the informer begins another.
func watchSizes(ctx context.Context, t *testing.T, config *rest.Config,
	kind func(informers.SharedInformerFactory) cache.SharedIndexInformer) *sizes {
	t.Helper()
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s := &sizes{of: map[types.NamespacedName]int32{}, since: map[types.NamespacedName]time.Time{}, changed: make(chan struct{})}
	informer := kind(informers.NewSharedInformerFactory(c, 0))
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: s.see,
		UpdateFunc: func(_, after any) { s.see(after) }}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

func deployments(f informers.SharedInformerFactory) cache.SharedIndexInformer {
	return f.Apps().V1().Deployments().Informer()
}

func replicaSets(f informers.SharedInformerFactory) cache.SharedIndexInformer {
	return f.Apps().V1().ReplicaSets().Informer()
}

func (s *sizes) see(o any) {
	var key types.NamespacedName
	var replicas int32
	switch o := o.(type) {
	case *appsv1.Deployment:
		key, replicas = client.ObjectKeyFromObject(o), *o.Spec.Replicas
	case *appsv1.ReplicaSet:
		key, replicas = client.ObjectKeyFromObject(o), *o.Spec.Replicas
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.of[key]; known && before == replicas {
		return
	}
	s.of[key], s.since[key] = replicas, time.Now()
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until objects have the sizes that are wanted, and says since when.
func (s *sizes) await(ctx context.Context, want map[types.NamespacedName]int32) (time.Time, error) {
	return s.until(ctx, func() (time.Time, <-chan struct{}, error) { return s.compare(want) })
}

// change waits until an object has changed after a time, and says when.
func (s *sizes) change(ctx context.Context, key types.NamespacedName, after time.Time) (time.Time, error) {
	return s.until(ctx, func() (time.Time, <-chan struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if since := s.since[key]; since.After(after) {
			return since, nil, nil
		}
		return time.Time{}, s.changed, fmt.Errorf("%s still has %d replicas", key, s.of[key])
	})
}

func (s *sizes) until(ctx context.Context, wanted func() (since time.Time, changed <-chan struct{}, problem error)) (time.Time, error) {
	for {
		since, changed, problem := wanted()
		if problem == nil {
			return since, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%w: %w", ctx.Err(), problem)
		}
	}
}

// compare returns a size that differs, and what is closed when one changes; or else when the last
// one changed.
func (s *sizes) compare(want map[types.NamespacedName]int32) (since time.Time, changed <-chan struct{}, problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, replicas := range want {
		if has, known := s.of[key]; !known || has != replicas {
			return since, s.changed, fmt.Errorf("%s has %d replicas, want %d", key, has, replicas)
		}
		if s.since[key].After(since) {
			since = s.since[key]
		}
	}
	return since, nil, nil
}

// tally is what the controller wrote for one Balancer.
type tally struct {
	scales    map[string]int // by target, those that were accepted
	statuses  int            // likewise
	conflicts int            // of either kind
}

// judge checks what the controller wrote since then, where the layouts of Balancers before the
// changes are given: each target that differs once and no other, the status no more often than pods
// came or went, an event for each rescale. Without layouts all targets began with none.
func (f *balancerFleet) judge(t *testing.T, since controlplane.Mark, before map[*v1alpha1.Balancer]fleetLayout) {
	t.Helper()
	tallies, events := f.tallies(t, since)
	var scales, statuses, conflicts int
	for _, b := range f.balancers {
		is := layoutOf(b)
		was, changed := before[b]
		if !changed && before != nil {
			was = is
		}
		n := tallies[client.ObjectKeyFromObject(b)]
		most := 1
		for i, target := range fleetTargets {
			want := 0
			if is[i] != was[i] {
				want = 1
			}
			if got := n.scales[target]; got != want {
				t.Errorf("%s/%s: target %s, from %d to %d, was written %d times, want %d", b.Namespace, b.Name, target, was[i], is[i], got, want)
			}
			scales += n.scales[target]
			most += 2 * int(max(is[i]-was[i], was[i]-is[i])) // a pod comes, or goes, in two steps that matter
		}
		if n.statuses > most {
			t.Errorf("%s/%s: the status was written %d times, want %d at most", b.Namespace, b.Name, n.statuses, most)
		}
		statuses += n.statuses
		conflicts += n.conflicts
	}
	if events > scales {
		t.Errorf("%d events for %d rescales", events, scales)
	}
	t.Logf("written: %d targets, %d statuses, %d events, and %d conflicts", scales, statuses, events, conflicts)
}

// tallies sorts what the controller wrote since then by Balancer, and counts its events. Anything
// else is too much.
func (f *balancerFleet) tallies(t *testing.T, since controlplane.Mark) (of map[types.NamespacedName]*tally, events int) {
	t.Helper()
	of = map[types.NamespacedName]*tally{}
	for _, b := range f.balancers {
		of[client.ObjectKeyFromObject(b)] = &tally{scales: map[string]int{}}
	}
	for _, w := range f.written(t, since) {
		name, target := w.Name, ""
		if w.Resource == "deployments" {
			last := strings.LastIndexByte(name, '-')
			name, target = name[:last], name[last+1:]
		}
		n := of[types.NamespacedName{Namespace: w.Namespace, Name: name}]
		switch done := w.Code < http.StatusBadRequest; {
		case w.Resource == "events" && done:
			events++
		case n != nil && w.Code == http.StatusConflict:
			n.conflicts++
		case n != nil && done && w.Resource == "deployments" && w.Subresource == "scale":
			n.scales[target]++
		case n != nil && done && w.Resource == "balancers" && w.Subresource == "status":
			n.statuses++
		default:
			t.Errorf("written: %+v", w)
		}
	}
	return of, events
}
