package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

const (
	balancerPage = "../docs/balancer.md"
	// shownWithin is how long it may take until a command prints what the page shows.
	shownWithin = settledWithin
)

// The worked examples of docs/balancer.md: the commands that the page shows are run, on the very
// files of configs/samples, until they print what the page shows. The controller has the rights
// that its manifests give it.
func TestBalancerSamples(t *testing.T) {
	t.Parallel()
	ctx := t.Context() // each wait has a limit of its own
	plane := controlplane.Start(t, controlplane.Options{Args: map[controlplane.Program][]string{controlplane.ControllerManager: {
		"--horizontal-pod-autoscaler-sync-period=1s",
		"--horizontal-pod-autoscaler-downscale-stabilization=3s",
		"--horizontal-pod-autoscaler-initial-readiness-delay=1s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=1s",
	}}})
	w := withBalancers(ctx, t, plane)
	createAll(ctx, t, plane, podMetricsInstalled)
	w.controller(t)
	if err := plane.AddNodes(ctx, sampleNodes()...); err != nil {
		t.Fatal(err)
	}
	scenes := map[string]func(context.Context, *testing.T){}
	for _, e := range examples(w) {
		scenes[e.name] = func(ctx context.Context, t *testing.T) {
			if err := w.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.name}}); err != nil {
				t.Fatal(err)
			}
			e.play(ctx, t, newKubectl(t, plane, w, e.name))
		}
	}
	together(ctx, t, scenes)
}

// examples are those of the page.
func examples(c client.WithWatch) []example {
	demand := &podLoad{client: c, namespace: "hpa"}
	return []example{
		{name: "spot", heading: "### Spot machines first", before: map[int]scene{1: shorten("worker")}, after: movesAreAMinuteApart},
		{name: "zones", heading: "### Three zones, evenly", before: map[int]scene{2: shorten("web")}},
		{name: "hpa", heading: "### An autoscaler on top", before: map[int]scene{
			0: func(ctx context.Context, t *testing.T, k *kubectl) {
				demand.set(50)
				demand.start(ctx, t)
				sharedEvenly(ctx, t, c, k.namespace)
			},
			1: func(context.Context, *testing.T, *kubectl) { demand.set(700) },
			2: func(context.Context, *testing.T, *kubectl) { demand.set(50) },
		}},
	}
}

// sampleNodes are a node for each zone and one for pods on demand, without bounds, and three for
// spot that take six pods each.
func sampleNodes() []*v1.Node {
	labelled := func(name, label, value string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: value}}}
	}
	const machines = "example.com/machines"
	nodes := []*v1.Node{labelled("on-demand-1", machines, "on-demand")}
	for _, zone := range []string{"zone-a", "zone-b", "zone-c"} {
		nodes = append(nodes, labelled(zone, v1.LabelTopologyZone, zone))
	}
	for _, name := range []string{"spot-1", "spot-2", "spot-3"} {
		n := labelled(name, machines, "spot")
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("10"), v1.ResourceMemory: resource.MustParse("10Gi"), v1.ResourcePods: resource.MustParse("6"),
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// A scene is what happens in an example that the page describes, but no command of it does.
type scene func(context.Context, *testing.T, *kubectl)

// shorten shortens the times of a Balancer's fallback, which are minutes in the files. Nothing else
// of them is changed.
func shorten(name string) scene {
	return func(ctx context.Context, t *testing.T, k *kubectl) {
		b := &v1alpha1.Balancer{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: name}}
		patch := `{"spec": {"policy": {"fallback": {"startupTimeout": "20s", "stabilizationTime": "10s"}}}}`
		if err := k.Patch(ctx, b, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
}

// movesAreAMinuteApart: as many replicas as may move in a minute moved at once, and the last one a
// minute later.
func movesAreAMinuteApart(ctx context.Context, t *testing.T, k *kubectl) {
	var list eventsv1.EventList
	if err := k.List(ctx, &list, client.InNamespace(k.namespace)); err != nil {
		t.Fatal(err)
	}
	var moved []time.Time
	for _, e := range list.Items {
		var from, to int
		if n, _ := fmt.Sscanf(e.Note, "target on-demand: from %d to %d", &from, &to); n == 2 && to < from {
			moved = append(moved, e.EventTime.Time)
		}
	}
	if len(moved) < 2 {
		t.Fatalf("on-demand was scaled down %d times", len(moved))
	}
	if apart := slices.MaxFunc(moved, time.Time.Compare).Sub(slices.MinFunc(moved, time.Time.Compare)); apart < time.Minute {
		t.Errorf("six replicas moved within %v", apart)
	}
}

// An example is a section of the page. Before some of its console blocks, counted from 0, something
// happens, and after the last.
type example struct {
	name    string // and its namespace
	heading string
	before  map[int]scene
	after   scene
}

// A typed command, and what it prints.
type typed struct {
	command string
	prints  []string
}

func (e example) play(ctx context.Context, t *testing.T, k *kubectl) {
	blocks := e.blocks(t)
	if len(blocks) < 3 {
		t.Fatalf("%d console blocks in %q", len(blocks), e.heading)
	}
	for i, block := range blocks {
		if happens := e.before[i]; happens != nil {
			happens(ctx, t, k)
		}
		for _, step := range block {
			step.play(ctx, t, k)
		}
	}
	if e.after != nil {
		e.after(ctx, t, k)
	}
}

// play runs the command: once if it changes anything, else until it prints what is shown.
func (s typed) play(ctx context.Context, t *testing.T, k *kubectl) {
	t.Helper()
	reads := strings.HasPrefix(s.command, "kubectl get ") || strings.HasPrefix(s.command, "kubectl events ")
	ctx, cancel := context.WithTimeout(ctx, shownWithin)
	defer cancel()
	var out []string
	started := time.Now()
	err := wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var err error
		out, err = k.run(ctx, s.command)
		return err != nil || !reads || s.shows(out), err
	})
	if err != nil || !s.shows(out) {
		t.Fatalf("$ %s\n%s\nis shown as\n%s\n%v", s.command, strings.Join(out, "\n"), strings.Join(s.prints, "\n"), err)
	}
	t.Logf("%.1fs: $ %s", time.Since(started).Seconds(), s.command)
}

// shows reports whether the page shows what is printed, but for ages. Of events it shows some, in
// any order, after a line "...".
func (s typed) shows(out []string) bool {
	shown, printed := ageless(s.prints), ageless(out)
	if !strings.HasPrefix(s.command, "kubectl events ") {
		return slices.Equal(shown, printed)
	}
	if len(shown) > 0 && shown[0] != "..." {
		slices.Sort(shown)
		slices.Sort(printed)
		return slices.Equal(shown, printed)
	}
	return !slices.ContainsFunc(shown[1:], func(line string) bool { return !slices.Contains(printed, line) })
}

var age = regexp.MustCompile(`\b(\d+[smhd])+\b`)

// ageless makes lines comparable that differ in ages, and so perhaps in the width of columns.
func ageless(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = strings.Join(strings.Fields(age.ReplaceAllString(line, "AGE")), " ")
	}
	return out
}

// blocks reads the console blocks of the section.
func (e example) blocks(t *testing.T) [][]typed {
	t.Helper()
	text, err := os.ReadFile(balancerPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+e.heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", balancerPage, e.heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	section, _, _ = strings.Cut(section, "\n### ")
	var blocks [][]typed
	for _, rest := range strings.Split(section, "\n```console\n")[1:] {
		text, _, _ := strings.Cut(rest, "\n```\n")
		var block []typed
		for line := range strings.SplitSeq(text, "\n") {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				block = append(block, typed{command: command})
			} else {
				last := &block[len(block)-1]
				last.prints = append(last.prints, line)
			}
		}
		blocks = append(blocks, block)
	}
	return blocks
}
