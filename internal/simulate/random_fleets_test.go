package simulate_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

var (
	fleets     = flag.Uint64("fleets", 12, "how many random fleets of each kind are played; one fleet is printed as well")
	fleetsFrom = flag.Uint64("fleets-from", 0, "the seed of the first random fleet")
)

// fleetKind is a kind of random fleets.
type fleetKind struct {
	name string
	// draw draws the spec of a scenario in which MODE and SEED stand for what differs between runs.
	draw func(*rand.Rand) string
	// alone is how often Cluster Autoscaler alone is played, each time with another seed: what comes out of it is chance. Where
	// another mode does worse than all of these runs, more are played, most in all.
	alone, most int
	// worse says what is worse than in all runs of Cluster Autoscaler alone; it is empty if nothing is. What differs by no more than
	// the slack, a loop for each member of a set, is not.
	worse func(got *v1alpha1.ScenarioReportStatus, alone []*v1alpha1.ScenarioReportStatus, slack time.Duration) string
	modes map[simulate.Mode]fleetLimits
}

// fleetLimits bound how much worse than Cluster Autoscaler alone a mode is. Cluster Autoscaler alone has none: one more run of
// it shows how often chance makes a mode worse, and by how much figures differ by chance.
type fleetLimits struct {
	missesOneOf uint64 // of so many fleets a mode may be worse on one; 0 for no limit
	// fair demands that of two runs, one of the mode and one of Cluster Autoscaler alone, that of the mode is worse on no more fleets
	// than the other: whatever takes another course is worse somewhere, two runs of Cluster Autoscaler alone as well.
	fair bool
	// most is how much of a figure the mode may have in sum, by that of Cluster Autoscaler alone on average. Twice the standard
	// error is added: in few fleets one of them decides much.
	most map[string]float64
}

// fleetKinds are what the modes hold today. A linked build plans for the time when all nodes are there, so it is behind where
// those of one zone come first and take pods that the others would have kept out. The sidecar sees less, and grants one member
// after the other.
var fleetKinds = []fleetKind{
	{"tight", tightScenario, 5, 100, fewerRun, map[simulate.Mode]fleetLimits{
		simulate.Stock:    {},
		simulate.Expander: {4, false, map[string]float64{"podsPending": 1.02, "nodesOrdered": 1.02, "pendingPodSeconds": 1.04}},
		simulate.Linked:   {300, false, map[string]float64{"podsPending": 1.02, "nodesOrdered": 1.02, "pendingPodSeconds": 1.02}},
		simulate.Sidecar:  {12, false, map[string]float64{"podsPending": 1.02, "nodesOrdered": 1.02, "pendingPodSeconds": 1.02}},
	}},
	{"mixed", mixedScenario, 3, 10, startsLater, map[simulate.Mode]fleetLimits{
		simulate.Stock:    {},
		simulate.Expander: {3, false, map[string]float64{"podsPending": 1.02, "nodesOrdered": 1, "pendingPodSeconds": 1.02, "nodeHours": 1}},
		simulate.Sidecar:  {8, true, map[string]float64{"podsPending": 1, "nodesOrdered": 1.01, "pendingPodSeconds": 0.99, "nodeHours": 1}},
	}},
}

// TestModesOnRandomFleets: on a random fleet a mode is not worse than Cluster Autoscaler alone may be, except on few. In sum over
// all fleets no mode leaves notably more pods waiting, lets them wait notably longer or needs notably more nodes than Cluster
// Autoscaler does on average.
func TestModesOnRandomFleets(t *testing.T) {
	if testing.Short() {
		t.Skip("plays hundreds of runs")
	}
	t.Parallel()
	for _, kind := range fleetKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			results := map[simulate.Mode]*fleetResults{}
			for mode := range kind.modes {
				results[mode] = &fleetResults{sums: map[string]*fleetSum{}}
			}
			for seed := *fleetsFrom; seed < *fleetsFrom+*fleets; seed++ {
				playFleet(t, &kind, seed, results)
			}
			for _, mode := range slices.Sorted(maps.Keys(results)) {
				results[mode].check(t, mode, kind.modes[mode])
			}
		})
	}
}

// playFleet plays one fleet in all modes, and with Cluster Autoscaler alone.
func playFleet(t *testing.T, kind *fleetKind, seed uint64, results map[simulate.Mode]*fleetResults) {
	t.Helper()
	spec := scenario(kind.draw(rand.New(rand.NewPCG(seed, 5))))
	if *fleets == 1 {
		t.Log(spec)
	}
	var slack time.Duration
	play := func(mode simulate.Mode, seed int) *v1alpha1.ScenarioReport {
		setup := loadFiles(t, strings.NewReplacer("MODE", string(mode), "SEED", fmt.Sprint(seed)).Replace(spec), nil)
		slack = 3 * (setup.ScanInterval + time.Second) // no set has more members than there are zones
		return run(t, setup)
	}
	var alone []*v1alpha1.ScenarioReport
	var statuses []*v1alpha1.ScenarioReportStatus
	again := func() {
		alone = append(alone, play(simulate.Stock, len(alone)))
		statuses = append(statuses, &alone[len(alone)-1].Status)
	}
	for range kind.alone {
		again()
	}
	for mode, r := range results {
		got := play(mode, kind.most) // a seed that none of the runs of Cluster Autoscaler alone has
		compared := simulate.Compare(got, alone[0], nil, alone[1:kind.alone]...)
		miss := kind.worse(&got.Status, statuses, slack)
		for miss != "" && len(alone) < kind.most {
			again()
			miss = kind.worse(&got.Status, statuses, slack)
		}
		r.add(seed, miss, compared.Status.Figures)
		r.compare(kind, &got.Status, statuses, slack)
	}
}

// fleetResults are those of a mode on all fleets.
type fleetResults struct {
	sums   map[string]*fleetSum // by figure
	misses int
	// worse and better are on how many fleets the one run of the mode is worse than the first of Cluster Autoscaler alone, and the
	// other way round; on some it is both.
	worse, better int
	rows          []fleetRow
}

// fleetSum is a figure of a mode beside that of Cluster Autoscaler alone on average.
type fleetSum struct{ got, alone, squares float64 }

// fleetRow is one fleet: how many seconds longer pods waited than with Cluster Autoscaler alone on average, and what was worse.
type fleetRow struct {
	seed   uint64
	waited float64
	miss   string
}

func (r *fleetResults) add(seed uint64, miss string, figures []v1alpha1.ComparedFigure) {
	row := fleetRow{seed: seed, miss: miss}
	for i := range figures {
		f := &figures[i]
		got, _ := f.Baseline.Float64()
		alone, _ := f.Changed.Float64()
		for _, further := range f.Further {
			n, _ := further.Float64()
			alone += n
		}
		alone /= float64(1 + len(f.Further))
		r.sum(f.Name, got, alone)
		if f.Name == "pendingPodSeconds" {
			row.waited = got - alone
		}
	}
	if miss != "" {
		r.misses++
	}
	r.rows = append(r.rows, row)
}

// sum adds a figure of a fleet.
func (r *fleetResults) sum(name string, got, alone float64) {
	sum := r.sums[name]
	if sum == nil {
		sum = &fleetSum{}
		r.sums[name] = sum
	}
	sum.got, sum.alone, sum.squares = sum.got+got, sum.alone+alone, sum.squares+(got-alone)*(got-alone)
}

// compare counts which of two runs is worse, and adds for how many hours pods ran.
func (r *fleetResults) compare(kind *fleetKind, got *v1alpha1.ScenarioReportStatus, alone []*v1alpha1.ScenarioReportStatus,
	slack time.Duration) {
	if kind.worse(got, alone[:1], slack) != "" {
		r.worse++
	}
	if kind.worse(alone[0], []*v1alpha1.ScenarioReportStatus{got}, slack) != "" {
		r.better++
	}
	end, sum := got.End.Duration, 0.0
	for _, status := range alone[:kind.alone] {
		end = max(end, status.End.Duration)
	}
	for _, status := range alone[:kind.alone] {
		sum += podHours(status, end)
	}
	r.sum("podHours", podHours(got, end), sum/float64(kind.alone))
}

// podHours is for how long pods run until an end, added up. A run that has settled goes on as it is.
func podHours(s *v1alpha1.ScenarioReportStatus, end time.Duration) (hours float64) {
	for i := range s.Pods {
		for _, run := range s.Pods[i].Runs {
			until := end
			if run.To != nil {
				until = run.To.Duration
			}
			hours += (until - run.From.Duration).Hours()
		}
	}
	return hours
}

// check prints the sums and the worst fleets, and holds them against the limits.
func (r *fleetResults) check(t *testing.T, mode simulate.Mode, limits fleetLimits) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s: worse on %d of %d fleets; in one run each worse on %d, better on %d", mode, r.misses, len(r.rows), r.worse, r.better)
	for _, figure := range []string{"pendingPodSeconds", "podsPending", "nodeHours", "podHours", "nodesOrdered"} {
		sum := r.sums[figure]
		err := math.Sqrt(sum.squares)
		fmt.Fprintf(&b, "; %s %.1f, alone %.1f (%.4f ± %.4f)", figure, sum.got, sum.alone, sum.got/sum.alone, err/sum.alone)
		limit, limited := limits.most[figure]
		if most := limit*sum.alone + 2*err; limited && sum.got > most {
			t.Errorf("%s: %s is %.1f, want at most %.1f; with Cluster Autoscaler alone it is %.1f", mode, figure, sum.got, most, sum.alone)
		}
	}
	slices.SortStableFunc(r.rows, func(a, b fleetRow) int { return cmp.Compare(b.waited, a.waited) })
	for _, row := range r.rows[:min(20, len(r.rows))] {
		fmt.Fprintf(&b, "\nseed %d: pods wait %+.0f s: %s", row.seed, row.waited, cmp.Or(row.miss, "as alone with some seeds"))
	}
	t.Log(b.String())
	if limits.missesOneOf > 0 && uint64(r.misses) > uint64(len(r.rows))/limits.missesOneOf {
		t.Errorf("%s: worse on %d of %d fleets, want at most one of %d", mode, r.misses, len(r.rows), limits.missesOneOf)
	}
	if chance := 2 * math.Sqrt(float64(r.worse+r.better)); limits.fair && float64(r.worse-r.better) > chance {
		t.Errorf("%s: in one run each worse on %d of %d fleets, and better on %d", mode, r.worse, len(r.rows), r.better)
	}
}

// startsLater says which pods of a workload that arrived together ran later than in all runs of Cluster Autoscaler alone, or which
// ProvisioningRequest got room later. One of these pods is as good as another: the first to run is compared with the first.
func startsLater(got *v1alpha1.ScenarioReportStatus, alone []*v1alpha1.ScenarioReportStatus, slack time.Duration) string {
	latest := map[string][]time.Duration{}
	for _, s := range alone {
		for pods, at := range firstRuns(s, false) {
			for i, known := range latest[pods] {
				if i < len(at) {
					latest[pods][i] = max(known, at[i])
				}
			}
			if len(at) > len(latest[pods]) {
				latest[pods] = append(latest[pods], at[len(latest[pods]):]...)
			}
		}
	}
	worst, text := slack, ""
	runs := firstRuns(got, true)
	for _, pods := range slices.Sorted(maps.Keys(runs)) {
		for i, at := range runs[pods][:min(len(runs[pods]), len(latest[pods]))] {
			if late := at - latest[pods][i]; late > worst {
				worst, text = late, fmt.Sprintf("%d of %d %s got room after %s, alone after %s at the latest", i+1, len(runs[pods]), pods, at,
					latest[pods][i])
			}
		}
	}
	return text
}

// firstRuns are when pods first ran, in order, by workload and arrival. Those that never did come last, with the time until which
// they waited if atLeast is true.
func firstRuns(s *v1alpha1.ScenarioReportStatus, atLeast bool) map[string][]time.Duration {
	first, never := map[string][]time.Duration{}, map[string][]time.Duration{}
	add := func(name string, at, until time.Duration) {
		switch {
		case at >= 0:
			first[name] = append(first[name], at)
		case atLeast:
			never[name] = append(never[name], until)
		default:
			never[name] = append(never[name], math.MaxInt64)
		}
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		at, until := time.Duration(-1), s.End.Duration
		if pod.Left != nil {
			until = pod.Left.Duration
		}
		if len(pod.Runs) > 0 {
			at = pod.Runs[0].From.Duration
		}
		add(fmt.Sprintf("%s of +%s", pod.Workload, pod.Arrived.Duration), at, until)
	}
	for i := range s.Timeline {
		if row := &s.Timeline[i]; row.Reason == v1alpha1.PodsProvisioned {
			add(row.Text, row.At.Duration, 0)
		}
	}
	for name, at := range first {
		slices.Sort(at)
		first[name] = at
	}
	for name, until := range never {
		slices.Sort(until)
		first[name] = append(first[name], until...)
	}
	return first
}
