package e2e

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// figures are what a fleet costs, and how long its pods wait. Those of daemon sets do not count.
type figures struct {
	run         *trialRun
	began, seen time.Time
	calls       int // that had been made before
	nodes       time.Duration
	pending     time.Duration
	// uneven is for how long the nodes of the groups of a set differed by more than one, by machine.
	uneven  map[string]time.Duration
	waiting map[types.UID]time.Time // since when
	waits   []time.Duration
	ran     map[types.UID]bool
	// gone are pods that were deleted without having run.
	gone    int
	methods map[string]int
	errors  int
}

func newFigures(w *trialRun) *figures {
	now := time.Now()
	return &figures{
		run: w, began: now, seen: now, calls: len(w.ordered.Calls()),
		uneven: map[string]time.Duration{}, waiting: map[types.UID]time.Time{}, ran: map[types.UID]bool{}, methods: map[string]int{},
	}
}

// look adds what has been so since the last look.
func (f *figures) look(ctx context.Context, now time.Time) {
	var nodes v1.NodeList
	var pods v1.PodList
	if f.run.plane.Client.List(ctx, &nodes) != nil || f.run.plane.Client.List(ctx, &pods) != nil {
		return // the next one will do
	}
	passed := now.Sub(f.seen)
	f.seen = now
	f.nodes += time.Duration(len(nodes.Items)) * passed
	sizes := map[string]int{}
	for i := range nodes.Items {
		sizes[nodes.Items[i].Annotations[groupAnnotation]]++
	}
	bounds := map[string][2]int{} // least and most, by machine
	for _, g := range f.run.groups {
		n := sizes[g.name]
		b, ok := bounds[g.machine]
		if !ok {
			b = [2]int{n, n}
		}
		bounds[g.machine] = [2]int{min(b[0], n), max(b[1], n)}
	}
	for machine, b := range bounds {
		if b[1] > b[0]+1 {
			f.uneven[machine] += passed
		}
	}
	f.lookAtPods(pods.Items, now, passed)
}

func (f *figures) lookAtPods(pods []v1.Pod, now time.Time, passed time.Duration) {
	still := map[types.UID]time.Time{}
	for i := range pods {
		p := &pods[i]
		owner := metav1.GetControllerOfNoCopy(p)
		switch {
		case p.DeletionTimestamp != nil || owner == nil || owner.Kind == "DaemonSet" || f.ran[p.UID]:
		case isRunning(p):
			f.ran[p.UID] = true
			if !p.CreationTimestamp.Time.Before(f.began.Truncate(time.Second)) {
				f.waits = append(f.waits, now.Sub(p.CreationTimestamp.Time))
			}
		default:
			still[p.UID] = p.CreationTimestamp.Time
			f.pending += passed
		}
	}
	for uid := range f.waiting {
		if _, waits := still[uid]; !waits && !f.ran[uid] {
			f.gone++
		}
	}
	f.waiting = still
}

// end counts calls and lines.
func (f *figures) end(t *testing.T) {
	t.Helper()
	for _, c := range f.run.ordered.Calls()[f.calls:] {
		f.methods[c.Method]++
	}
	slices.Sort(f.waits)
	log, err := os.Open(f.run.autoscaler.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if line := lines.Text(); len(line) > 1 && line[0] == 'E' && line[1] >= '0' && line[1] <= '9' {
			f.errors++
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

// wait is how long so great a part of the pods waited at most.
func (f *figures) wait(part float64) time.Duration {
	if len(f.waits) == 0 {
		return 0
	}
	return f.waits[int(part*float64(len(f.waits)-1))].Round(time.Second)
}

// skewed is the sum over all sets.
func (f *figures) skewed() (sum time.Duration) {
	for _, d := range f.uneven {
		sum += d
	}
	return sum
}

// figureRows are rows of a table.
func figureRows(alone, with *figures) string {
	var out strings.Builder
	row := func(name string, value func(*figures) any) {
		fmt.Fprintf(&out, "| %s | %v | %v |\n", name, value(alone), value(with))
	}
	row("node-minutes", func(f *figures) any { return int(f.nodes.Minutes()) })
	row("waits p50 / p99 / max", func(f *figures) any { return fmt.Sprintf("%s / %s / %s", f.wait(.5), f.wait(.99), f.wait(1)) })
	row("pods that ran / went before / still wait",
		func(f *figures) any { return fmt.Sprintf("%d / %d / %d", len(f.waits), f.gone, len(f.waiting)) })
	row("pending pod-seconds", func(f *figures) any { return int(f.pending.Seconds()) })
	row("seconds with a difference above 1, all sets", func(f *figures) any { return int(f.skewed().Seconds()) })
	for _, d := range alone.run.demands {
		row("of set "+d.machine, func(f *figures) any { return int(f.uneven[d.machine].Seconds()) })
	}
	row("error lines of CA", func(f *figures) any { return f.errors })
	row("nodes ordered", func(f *figures) any { return f.orderedNodes() })
	methods := maps.Clone(alone.methods)
	maps.Copy(methods, with.methods)
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		row("calls of "+method, func(f *figures) any { return f.methods[method] })
	}
	return out.String()
}

func (f *figures) orderedNodes() (sum int) {
	for _, c := range autoscaler.Increases(f.run.ordered.Calls()[f.calls:]) {
		sum += c.Delta
	}
	return sum
}

// notWorse fails the test if pods wait longer than with the autoscaler alone, or the fleet costs more, by more than
// two runs of the same differ.
func (f *figures) notWorse(t *testing.T, alone *figures) {
	t.Helper()
	const members, noise = 4, 1.1
	grace := 5*time.Second + members*2*time.Second // as in other comparisons
	for _, part := range []float64{.5, .99} {
		if got, want := f.wait(part), alone.wait(part)+grace; got > want {
			t.Errorf("%v of the pods wait up to %s, without the sidecar %s", part, got, alone.wait(part))
		}
	}
	for what, value := range map[string]func(*figures) float64{
		"node-minutes":        func(f *figures) float64 { return f.nodes.Minutes() },
		"pending pod-seconds": func(f *figures) float64 { return f.pending.Seconds() },
		"NodeGroupNodes":      func(f *figures) float64 { return float64(f.methods["NodeGroupNodes"]) },
	} {
		if got, than := value(f), value(alone); got > noise*than {
			t.Errorf("%s: %.0f, without the sidecar %.0f", what, got, than)
		}
	}
}
