package removal

import (
	"math/big"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	volumes := func(v ...v1.Volume) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Volumes = v } }
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		opts   Options
		want   string // empty: it moves
		stays  bool   // it neither moves nor keeps the node
	}{
		"a replica":                  {change: func(*v1.Pod) {}},
		"a stateful one":             {change: owner("StatefulSet")},
		"of a job":                   {change: owner("Job")},
		"of a daemon set":            {change: owner("DaemonSet"), stays: true},
		"a static one":               {change: annotate(v1.MirrorPodAnnotationKey, "x"), stays: true},
		"finished":                   {change: func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }, stays: true},
		"bare":                       {change: func(p *v1.Pod) { p.OwnerReferences = nil }, want: "has a pod that has no controller"},
		"bare and safe":              {change: func(p *v1.Pod) { p.OwnerReferences = nil; annotate(safeToEvict, "true")(p) }},
		"of a custom controller":     {change: owner("GameServer"), want: "has a pod that has a controller of kind GameServer"},
		"of an allowed one":          {change: owner("GameServer"), opts: Options{AllowCustomControllers: true}},
		"of the system":              {change: func(p *v1.Pod) { p.Namespace = metav1.NamespaceSystem }, want: "has a pod that belongs to the system"},
		"of the system, allowed":     {change: func(p *v1.Pod) { p.Namespace = metav1.NamespaceSystem }, opts: Options{AllowSystemPods: true}},
		"not safe":                   {change: annotate(safeToEvict, "false"), want: "has a pod that is not safe to evict"},
		"safe when complete":         {change: annotate(safeToEvict, "on-completion"), want: "has a pod that is to complete first"},
		"with a scratch volume":      {change: volumes(onDisk), want: "has a pod that has local storage"},
		"with a host path":           {change: volumes(inMemory, onHost), want: "has a pod that has local storage"},
		"with memory only":           {change: volumes(inMemory)},
		"with local storage allowed": {change: volumes(onDisk, onHost), opts: Options{AllowLocalStorage: true}},
		"with safe volumes":          {change: func(p *v1.Pod) { volumes(onDisk, onHost)(p); annotate(safeLocalVolumes, "logs,scratch")(p) }},
		"with one safe volume":       {change: func(p *v1.Pod) { volumes(onDisk, onHost)(p); annotate(safeLocalVolumes, "logs")(p) }, want: "has a pod that has local storage"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := replica("web", 100)
			c.change(pod)
			pods, example, reason := c.opts.movable(&Node{Node: predicates.Node{Node: machine("n", "a"), Pods: []*v1.Pod{pod}}})
			moves := c.want == "" && !c.stays
			if reason != c.want || len(pods) == 1 != moves || (example != "") != (c.want != "") {
				t.Errorf("%d pods move, %q keeps it: %q; want %t and %q", len(pods), example, reason, moves, c.want)
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
	hungry := replica("hungry", 100)
	hungry.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("9Gi")
	for name, c := range map[string]struct {
		pods   []*v1.Pod
		ignore bool
		want   string
	}{
		"nothing":             {},
		"just half":           {pods: []*v1.Pod{replica("a", 1500), replica("b", 500)}},
		"above half":          {pods: []*v1.Pod{replica("a", 1500), replica("b", 501)}, want: "more than 50% of its cpu is requested"},
		"memory":              {pods: []*v1.Pod{hungry}, want: "more than 50% of its memory is requested"},
		"daemon sets count":   {pods: []*v1.Pod{replica("a", 1500), daemon(1000)}, want: "more than 50% of its cpu is requested"},
		"or do not":           {pods: []*v1.Pod{replica("a", 1500), daemon(1000)}, ignore: true},
		"and leave less":      {pods: []*v1.Pod{replica("a", 1501), daemon(1000)}, ignore: true, want: "more than 50% of its cpu is requested"},
		"of a node full":      {pods: []*v1.Pod{daemon(4000)}, ignore: true},
		"of one more than so": {pods: []*v1.Pod{daemon(4000), replica("a", 1)}, ignore: true, want: "more than 50% of its cpu is requested"},
	} {
		t.Run(name, func(t *testing.T) {
			g := group("a", 1, 0)
			g.Settings.IgnoreDaemonSetsUtilization = c.ignore
			if got := inUseOf(&Node{Node: predicates.Node{Node: machine("n", "a"), Pods: c.pods}}, &g); got != c.want {
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

func inUseOf(n *Node, g *Group) string { return Memory{}.of(n, &Options{}).inUse(n, g) }
