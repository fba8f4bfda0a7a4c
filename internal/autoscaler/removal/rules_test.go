package removal

import (
	"math/big"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/predicates"
)

func TestPodsThatKeepTheirNode(t *testing.T) {
	onDisk := v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
	inMemory := v1.Volume{Name: "shm", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}
	onHost := v1.Volume{Name: "logs", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/var/log"}}}
	owner := func(kind string) func(*v1.Pod) { return func(p *v1.Pod) { p.OwnerReferences[0].Kind = kind } }
	annotate := func(key, value string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	system := func(age time.Duration) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Namespace, p.CreationTimestamp = metav1.NamespaceSystem, metav1.NewTime(start.Add(-age))
		}
	}
	ending := func(since time.Duration) func(*v1.Pod) {
		return func(p *v1.Pod) { at := metav1.NewTime(start.Add(-since)); p.DeletionTimestamp = &at }
	}
	both := func(changes ...func(*v1.Pod)) func(*v1.Pod) {
		return func(p *v1.Pod) {
			for _, change := range changes {
				change(p)
			}
		}
	}
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	few := Options{MinReplicas: 3, Replicas: func(*v1.Pod) int { return 2 }}
	volumes := func(v ...v1.Volume) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Volumes = v } }
	for name, c := range map[string]struct {
		change  func(*v1.Pod)
		opts    Options
		budgets []Budget
		want    string        // empty: it moves
		stays   bool          // it neither moves nor keeps the node
		waits   bool          // the node goes once it has completed
		free    bool          // whatever its budgets say
		holds   time.Duration // how long the answer does; 0 is forever
		once    bool          // it does not
	}{
		"a replica":       {change: func(*v1.Pod) {}},
		"a stateful one":  {change: owner("StatefulSet")},
		"of a job":        {change: owner("Job")},
		"of a daemon set": {change: owner("DaemonSet"), stays: true},
		"a static one":    {change: annotate(v1.MirrorPodAnnotationKey, "x"), stays: true},
		"finished":        {change: func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }, stays: true},
		"bare":            {change: func(p *v1.Pod) { p.OwnerReferences = nil }, want: "has a pod that has no controller"},
		"bare, to complete": {change: both(func(p *v1.Pod) { p.OwnerReferences = nil }, annotate(safeToEvict, "on-completion")),
			stays: true, waits: true},
		"bare and safe":          {change: func(p *v1.Pod) { p.OwnerReferences = nil; annotate(safeToEvict, "true")(p) }},
		"of a custom controller": {change: owner("GameServer"), want: "has a pod that has a controller of kind GameServer"},
		"of an allowed one":      {change: owner("GameServer"), opts: Options{AllowCustomControllers: true}},
		"of the system": {change: func(p *v1.Pod) { p.Namespace = metav1.NamespaceSystem },
			want: "has a pod that belongs to the system"},
		"of the system, allowed":     {change: func(p *v1.Pod) { p.Namespace = metav1.NamespaceSystem }, opts: Options{AllowSystemPods: true}},
		"of the system, young":       {change: system(time.Hour), want: "has a pod that belongs to the system", holds: 1},
		"of the system, old":         {change: both(system(time.Hour+1), volumes(onDisk)), free: true},
		"of the system, with budget": {change: system(0), budgets: []Budget{{Namespace: metav1.NamespaceSystem, Selector: web}}},
		"with a budget": {change: func(*v1.Pod) {}, budgets: []Budget{{Namespace: "default", Selector: web},
			{Namespace: "other", Selector: web}, {Namespace: "default", Selector: labels.Nothing()}}},
		"safe, with a budget": {change: annotate(safeToEvict, "true"), budgets: []Budget{{Namespace: "default", Selector: web}},
			free: true},
		"ending": {change: ending(time.Minute), holds: 1},
		"stuck":  {change: ending(time.Minute + 1), stays: true},
		"stuck by its own time": {change: both(ending(31*time.Second),
			func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64) }), stays: true},
		"of too few":                 {change: func(*v1.Pod) {}, opts: few, want: "has a pod that has too few replicas", once: true},
		"of too few, but safe":       {change: annotate(safeToEvict, "true"), opts: few, want: "has a pod that has too few replicas", once: true},
		"of too few, stateful":       {change: owner("StatefulSet"), opts: few},
		"not safe":                   {change: annotate(safeToEvict, "false"), want: "has a pod that is not safe to evict"},
		"safe when complete":         {change: annotate(safeToEvict, "on-completion"), stays: true, waits: true},
		"with a scratch volume":      {change: volumes(onDisk), want: "has a pod that has local storage"},
		"with a host path":           {change: volumes(inMemory, onHost), want: "has a pod that has local storage"},
		"with memory only":           {change: volumes(inMemory)},
		"with local storage allowed": {change: volumes(onDisk, onHost), opts: Options{AllowLocalStorage: true}},
		"with safe volumes":          {change: func(p *v1.Pod) { volumes(onDisk, onHost)(p); annotate(safeLocalVolumes, "logs,scratch")(p) }},
		"with one safe volume": {change: func(p *v1.Pod) { volumes(onDisk, onHost)(p); annotate(safeLocalVolumes, "logs")(p) },
			want: "has a pod that has local storage"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := replica("web", 100)
			c.change(pod)
			w := &World{Now: start, Budgets: c.budgets}
			d := w.drainOf(&Node{Node: predicates.Node{Node: machine("n", "a"), Pods: []*v1.Pod{pod}}}, &c.opts)
			moves := c.want == "" && !c.stays
			if d.reason != c.want || len(d.movable) == 1 != moves || d.completing != c.waits {
				t.Errorf("%d pods move, the node is kept: %q, one is to complete: %t; want %t and %q", len(d.movable), d.reason, d.completing, moves,
					c.want)
			}
			until := start.Add(c.holds)
			if c.holds == 0 {
				until = time.Time{}
			}
			if c.once {
				until = start
			}
			if !d.until.Equal(until) {
				t.Errorf("holds until %s, want %s", d.until, until)
			}
			switch {
			case !moves || len(c.budgets) == 0:
			case len(d.budgeted) != 1 || d.budgeted[0].free != c.free || !slices.Equal(d.budgeted[0].by, []int{0}):
				t.Errorf("held by budgets: %+v", d.budgeted)
			}
		})
	}
}

func TestUtilization(t *testing.T) {
	daemon := func(cpu int64) *v1.Pod {
		pod := replica("daemon", cpu)
		pod.OwnerReferences[0].Kind = "DaemonSet"
		return pod
	}
	gpus := func(n int64, kind v1.ResourceName, cpu int64) *v1.Pod {
		pod := replica("gpu", cpu)
		pod.Spec.Containers[0].Resources.Requests[kind] = *resource.NewQuantity(n, resource.DecimalSI)
		return pod
	}
	hungry := replica("hungry", 100)
	hungry.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("9Gi")
	for name, c := range map[string]struct {
		pods   []*v1.Pod
		ignore bool
		gpus   int64
		want   string
	}{
		"nothing":           {},
		"just half":         {pods: []*v1.Pod{replica("a", 1500), replica("b", 500)}},
		"above half":        {pods: []*v1.Pod{replica("a", 1500), replica("b", 501)}, want: "more than 50% of its cpu is requested"},
		"memory":            {pods: []*v1.Pod{hungry}, want: "more than 50% of its memory is requested"},
		"daemon sets count": {pods: []*v1.Pod{replica("a", 1500), daemon(1000)}, want: "more than 50% of its cpu is requested"},
		"or do not":         {pods: []*v1.Pod{replica("a", 1500), daemon(1000)}, ignore: true},
		"and leave less":    {pods: []*v1.Pod{replica("a", 1501), daemon(1000)}, ignore: true, want: "more than 50% of its cpu is requested"},
		"GPUs alone count":  {pods: []*v1.Pod{gpus(2, "nvidia.com/gpu", 4000)}, gpus: 4},
		"more than half": {pods: []*v1.Pod{gpus(3, "nvidia.com/gpu", 100)}, gpus: 4,
			want: "more than 50% of its nvidia.com/gpu is requested"},
		"GPUs not ready":      {pods: []*v1.Pod{gpus(3, "nvidia.com/gpu", 4000)}, gpus: -1},
		"of a node full":      {pods: []*v1.Pod{daemon(4000)}, ignore: true},
		"of one more than so": {pods: []*v1.Pod{daemon(4000), replica("a", 1)}, ignore: true, want: "more than 50% of its cpu is requested"},
	} {
		t.Run(name, func(t *testing.T) {
			g := group("a", 1, 0)
			g.Settings.IgnoreDaemonSetsUtilization = c.ignore
			n := machine("n", "a")
			if c.gpus != 0 {
				n.Labels["gpu"] = "k80"
				n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
				n.Status.Allocatable["nvidia.com/gpu"] = *resource.NewQuantity(max(0, c.gpus), resource.DecimalSI)
			}
			if got := inUseOf(&Node{Node: predicates.Node{Node: n, Pods: c.pods}}, &g); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	g := group("a", 1, 0)
	blank := machine("n", "a")
	blank.Status.Allocatable = nil
	if got, want := inUseOf(&Node{Node: predicates.Node{Node: blank}}, &g), "does not say how much cpu it has"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestExceedsIsExact compares with numbers of any size.
func TestExceedsIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Min(0))
		part, all, threshold := amount.Draw(t, "part"), amount.Draw(t, "all"), rapid.Int64Range(0, Whole).Draw(t, "threshold")
		left := new(big.Int).Mul(big.NewInt(part), big.NewInt(Whole))
		right := new(big.Int).Mul(big.NewInt(all), big.NewInt(threshold))
		if got, want := exceeds(part, all, threshold), left.Cmp(right) > 0; got != want {
			t.Fatalf("%d of %d exceeds %d millionths: %t, want %t", part, all, threshold, got, want)
		}
	})
}

func inUseOf(n *Node, g *Group) string {
	return Memory{}.factsOf(n, &World{}, &Options{}).inUse(n, g, "gpu")
}
