package predicates

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestNewLeavesNoGoroutineBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c := newChecker(t, Options{Objects: []runtime.Object{&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}})
	s := c.Cluster(nodesOf(3, zoned("a")))
	if _, err := s.Place(aPod(spread(v1.LabelHostname, 1)), 3, 0, 3); err != nil {
		t.Fatal(err)
	}
}

func TestNewOutlivesItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := New(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	f, err := c.Fits(nil, []Node{aNode("t", zoned("a"))}, []*v1.Pod{aPod(spread(v1.LabelTopologyZone, 1))})
	if err != nil || !f.Passes(0, 0) {
		t.Errorf("after the context has ended: %v, %v", err, f.Reasons(0, 0))
	}
	if _, err := New(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("New with an ended context: %v", err)
	}
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		o    Options
		want error
	}{
		"object no plugin looks up": {Options{Objects: []runtime.Object{&v1.ConfigMap{}}}, ErrUnknownObject},
		"nil object":                {Options{Objects: []runtime.Object{nil}}, ErrUnknownObject},
		"broken configuration":      {Options{Configuration: []byte("{")}, ErrConfiguration},
		"another kind":              {Options{Configuration: []byte(`{"apiVersion":"v1","kind":"Pod"}`)}, ErrConfiguration},
		"an unknown field":          {Options{Configuration: []byte(schedulerHeader + "profils: []\n")}, ErrConfiguration},
		"two profiles": {Options{Configuration: []byte(schedulerHeader + "profiles: [{schedulerName: a}, {schedulerName: b}]\n")},
			ErrConfiguration},
		"affinity to single nodes": {Options{Configuration: []byte(schedulerHeader + `profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]
`)}, ErrConfiguration},
	} {
		if _, err := New(t.Context(), tc.o); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

const schedulerHeader = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func TestDefaultSpreadConstraintsOfAConfigurationHold(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{
		Configuration: []byte(schedulerHeader + `profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
`),
		Objects: []runtime.Object{
			&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}},
			&appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
				Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "db"}}},
			}},
	})
	owned := aPod(podLabel("app", "db"), podLabel("role", "db"), func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "db", Controller: ptr.To(true)}}
	})
	for name, p := range map[string]*v1.Pod{"by service": aPod(), "by controller": owned} {
		nodes := []Node{aNode("a", zoned("a")), aNode("b", zoned("b"))}
		s := c.Cluster(nodes)
		runs, err := s.Place(p, 8, 0, 1)
		if err != nil || len(runs) != 1 || runs[0].PerNode != 1 {
			t.Errorf("%s: %v, %v, want one pod in zone a before one is in zone b", name, runs, err)
		}
	}
	unmatched := aPod(podLabel("app", "other"))
	if runs, err := c.Cluster([]Node{aNode("a", zoned("a")), aNode("b", zoned("b"))}).Place(unmatched, 8, 0, 1); err != nil ||
		runs[0].PerNode != 4 {
		t.Errorf("no service: %v, %v, want four pods", runs, err)
	}
	f, err := c.Fits(nil, []Node{aNode("t")}, []*v1.Pod{aPod(), aPod(podLabel("app", "other"))})
	if err != nil || len(f.Kinds()) != 2 {
		t.Errorf("%d kinds (%v), want 2: a service looks at the label", len(f.Kinds()), err)
	}
}

func TestDisabledPluginsAreNotAsked(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{Configuration: []byte(schedulerHeader + `profiles:
- plugins:
    multiPoint: {disabled: [{name: NodeResourcesFit}]}
`)})
	if runs, err := c.Cluster(nodesOf(1)).Place(aPod(hostPort(1)), 3, 0, 1); err != nil || runs[0].PerNode != 1 {
		t.Errorf("host port: %v, %v, want one pod", runs, err)
	}
	if runs, err := c.Cluster(nodesOf(2)).Place(aPod(), 9, 0, 2); err != nil || len(runs) != 1 || runs[0].PerNode != 9 {
		t.Errorf("%v, %v, want all nine pods on the first node", runs, err)
	}
}

func TestIgnoredResourcesAreNotCounted(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{Configuration: []byte(schedulerHeader + `profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/gpu]}
`)})
	for resource, want := range map[string]int{"example.com/gpu": 4, "example.com/other": 0} {
		runs, err := c.Cluster(nodesOf(1)).Place(aPod(asking("cpu", "1", resource, "1")), 9, 0, 1)
		if got := total(runs); err != nil || got != want {
			t.Errorf("%s: %d placed (%v), want %d", resource, got, err, want)
		}
	}
}

func total(runs []Placement) int {
	n := 0
	for _, r := range runs {
		n += r.Nodes * r.PerNode
	}
	return n
}

func TestCheckerMayBeSharedByGoroutines(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	base := c.Cluster(nodesOf(20, zoned("a")))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := base.Fork()
			p := aPod(spread(v1.LabelHostname, 1))
			if i%2 == 0 {
				p = aPod(selecting("pool", "x"))
			}
			if _, err := s.Place(p, 10, 0, s.Len()); err != nil {
				t.Error(err)
			}
			if _, err := c.Fits(nil, []Node{aNode("t")}, []*v1.Pod{p}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for id := range base.Len() {
		if n := base.nodes[id].pods; n != 0 {
			t.Errorf("%d pods on node %d of the base", n, id)
		}
	}
}

func TestQuestionsEndOnceNobodyWaitsForAnswers(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	c := newChecker(t, Options{Done: done})
	s := c.Cluster(nodesOf(3))
	if _, err := s.Place(aPod(), 1, 0, 3); err != nil {
		t.Fatal(err)
	}
	close(done)
	_, placing := s.Place(aPod(), 1, 0, 3)
	_, opening := s.PlaceOnNew(aNode("t"), aPod(), 1, 1)
	_, fitting := s.Fits([]Node{aNode("t")}, []*v1.Pod{aPod()})
	for _, err := range []error{placing, opening, fitting} {
		if !errors.Is(err, ErrInterrupted) {
			t.Errorf("error %v, want ErrInterrupted", err)
		}
	}
}
