package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/doctor"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/simulate/htmlreport"
)

// trial plays the cluster's own pods, all of them pending, on its node groups without nodes, in each mode.
type trial struct {
	doctor.Trial
	scenario v1alpha1.Scenario
	dumped   *simulate.Dumped
}

// podsOfCluster is the name of the file with the pods, which is made as it is read.
const podsOfCluster = "pods of the cluster"

// newTrial makes a trial of the scenario of the cluster.
func newTrial(dumped *simulate.Dumped, of doctor.Trial) (*trial, error) {
	t := &trial{Trial: of, scenario: *dumped.Scenario, dumped: dumped}
	spec := &t.scenario.Spec
	// Without nodes it names no group, and Cluster Autoscaler itself does not know that it makes no difference.
	spec.GroupLabel = ""
	for object, err := range dumped.Objects(func(kind string) bool { return kind != "Node" && kind != "Pod" }) {
		if err != nil {
			return nil, err
		}
		spec.Objects = append(spec.Objects, object)
	}
	for _, err := range dumped.Items(isPod) {
		if err != nil {
			return nil, err
		}
		spec.PodsFrom = []v1alpha1.PodsSource{{FileSource: v1alpha1.FileSource{File: podsOfCluster}, Unbind: true}}
		break
	}
	return t, nil
}

func isPod(kind string) bool { return kind == "Pod" }

// open opens the pods.
func (t *trial) open(string) (io.ReadCloser, error) {
	in, out := io.Pipe()
	go func() {
		var err error
		for object, wrong := range t.dumped.Objects(isPod) {
			if err = wrong; err == nil {
				_, err = out.Write(object) // an error once nobody reads any more
			}
			if err != nil {
				break
			}
		}
		out.CloseWithError(err)
	}()
	return in, nil
}

// setup is the scenario in a mode, with the flags of Cluster Autoscaler.
func (t *trial) setup(mode simulate.Mode, flags *doctor.Flags) (*simulate.Setup, error) {
	scenario := t.scenario
	spec := &scenario.Spec
	spec.Autoscaler.Mode = string(mode)
	if mode != simulate.Linked && (t.Minor == 34 || t.Minor == 35) {
		spec.Autoscaler.Version = "1." + strconv.Itoa(t.Minor)
	}
	o := &spec.Options
	if most, err := strconv.ParseInt(flags.Get("max-nodes-per-scaleup", "0"), 10, 32); err == nil {
		o.MaxNodesPerScaleup = int32(most)
	}
	o.BalancingIgnoreLabels, o.BalancingLabels = flags.All("balancing-ignore-label"), flags.All("balancing-label")
	if mode == simulate.Stock {
		balances := flags.Is("balance-similar-node-groups", false)
		o.BalanceSimilarNodeGroups = &balances
	} else {
		o.BalancingLabels = nil
		o.BalancingIgnoreLabels = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.BalancingIgnoreLabels, t.IgnoreLabels))))
	}
	if len(o.BalancingLabels) > 0 {
		o.BalancingIgnoreLabels = nil
	} else {
		o.MemoryDifferenceRatio = json.Number(flags.Get("memory-difference-ratio", ""))
		o.MaxAllocatableDifferenceRatio = json.Number(flags.Get("max-allocatable-difference-ratio", ""))
		o.MaxFreeDifferenceRatio = json.Number(flags.Get("max-free-difference-ratio", ""))
	}
	doc := document.Document{File: "the cluster", Number: 1, Kind: v1alpha1.KindScenario, Name: scenario.Name, Object: &scenario}
	return simulate.Load(&doc, simulate.Files{Open: t.open})
}

// simulate plays the pods in all modes, with the flags as they are and as recommended, and adds the results to the diagnosis.
// Cluster Autoscaler has the flags that each mode is installed with: beside the sidecar it balances by itself, and the expander
// gets a few nodes at a time. What it returns compares the runs; it is nil if the node groups are not known.
func (c *checkup) simulate(ctx context.Context, d *doctor.Diagnosis, meter *meter) (*v1alpha1.ScenarioComparison, error) {
	dumped := c.scenario()
	if dumped == nil {
		return nil, nil
	}
	t, err := newTrial(dumped, d.Status.Trial)
	if err != nil {
		return nil, err
	}
	if note := c.strategies(t); note != "" {
		d.Status.Notes = append(d.Status.Notes, note)
	}
	type run struct {
		name  string
		mode  simulate.Mode
		flags *doctor.Flags
	}
	runs := []run{{"stock", simulate.Stock, &t.Now}}
	if d.Status.Recommendation.Way == doctor.WayAutoscaler {
		runs = append(runs, run{"stock, as recommended", simulate.Stock, &t.Recommended})
	}
	for _, mode := range simulate.Modes() {
		switch mode {
		case simulate.Stock:
		case simulate.Expander:
			runs = append(runs, run{string(mode), mode, &t.Expander})
		default:
			runs = append(runs, run{string(mode), mode, &t.Recommended})
		}
	}
	var setups []*simulate.Setup
	for _, one := range runs {
		setup, err := t.setup(one.mode, one.flags)
		if err != nil {
			return nil, err
		}
		setup.Name = one.name
		setups = append(setups, setup)
	}
	reports, err := play(ctx, setups, meter)
	if err != nil {
		return nil, err
	}
	for i, report := range reports {
		s := &report.Status
		sizes := map[string]int{}
		for _, g := range s.Groups {
			sizes[g.Name] = g.After
		}
		d.Status.Simulated = append(d.Status.Simulated, doctor.Simulation{
			Autoscaler: runs[i].name, Nodes: s.NodesOrdered, Apart: d.Status.ApartWith(sizes), Running: s.Running, Pending: s.Pending,
			Wait: s.PendingTime.P99.Duration.String(),
		})
	}
	recommended := slices.IndexFunc(runs, func(r run) bool {
		return r.mode != simulate.Stock && strings.EqualFold(string(r.mode), string(d.Status.Recommendation.Way)) || r.flags != &t.Now &&
			r.mode == simulate.Stock
	})
	if recommended > 0 {
		if costs := drawbacks(d.Status.Simulated[0], d.Status.Simulated[recommended]); costs != "" {
			d.Status.Notes = append(d.Status.Notes, fmt.Sprintf("in this simulation, which starts without nodes, what is recommended (%s) has %s: "+
				"weigh that before you change anything", runs[recommended].name, costs))
		}
	}
	return compareTrials(reports), nil
}

// drawbacks are the figures in which one run is worse than another; empty if it is worse in none.
func drawbacks(now, recommended doctor.Simulation) string {
	var worse []string
	for _, figure := range []struct {
		what          string
		before, after int
	}{
		{"pending pods", now.Pending, recommended.Pending}, {"nodes", now.Nodes, recommended.Nodes},
		{"nodes apart", now.Apart, recommended.Apart},
	} {
		if figure.after > figure.before {
			worse = append(worse, fmt.Sprintf("%d %s instead of %d", figure.after, figure.what, figure.before))
		}
	}
	before, _ := time.ParseDuration(now.Wait)
	if after, err := time.ParseDuration(recommended.Wait); err == nil && after > before+simulate.DefaultScanInterval {
		worse = append(worse, fmt.Sprintf("a P99-WAIT of %s instead of %s", recommended.Wait, now.Wait))
	}
	return strings.Join(worse, ", ")
}

// strategies has the runs choose by the strategies of --expander, and says which of them cannot be played: grpc, of which nobody knows
// what answers, price, as the cloud alone knows what nodes cost, and priority without its ConfigMap.
func (c *checkup) strategies(t *trial) (note string) {
	o := &t.scenario.Spec.Options
	var known, others []string
	for _, name := range t.Now.Expanders(t.Minor) {
		if name == "priority" && o.Priorities == nil {
			o.Priorities = c.prioritiesOf(t.dumped)
		}
		_, err := expander.ParseNames(strings.Join(append(known, name), ","))
		if err != nil || name == "price" || name == "priority" && len(o.Priorities) == 0 {
			others = append(others, name)
		} else {
			known = append(known, name)
		}
	}
	o.Expander = strings.Join(known, ",")
	if len(others) > 0 {
		note = fmt.Sprintf("what --expander=%s decides is not played: the runs choose by %s", strings.Join(others, ","),
			cmp.Or(o.Expander, expander.Default))
	}
	return note
}

// prioritiesOf are the priorities that Cluster Autoscaler gives the groups by their names in the cloud; nil if it gives none.
func (c *checkup) prioritiesOf(dumped *simulate.Dumped) map[string][]string {
	if c.priorities == nil {
		return nil
	}
	priorities, err := expander.ParsePriorities([]byte(c.priorities.Data[expander.PrioritiesKey]))
	if err != nil {
		return nil
	}
	out := map[string][]string{}
	for _, g := range dumped.Scenario.Spec.NodeGroups {
		if match, found := priorities.Match(cmp.Or(dumped.Known[g.Name], g.Name)); found {
			key := strconv.FormatInt(match.Priority, 10)
			out[key] = append(out[key], "^"+regexp.QuoteMeta(g.Name)+"$")
		}
	}
	return out
}

// compareTrials compares the runs with the first of them.
func compareTrials(reports []*v1alpha1.ScenarioReport) *v1alpha1.ScenarioComparison {
	option := v1alpha1.ChangedOption{Name: "autoscaler"}
	var names []json.RawMessage
	for _, r := range reports {
		names = append(names, json.RawMessage(strconv.Quote(r.Name)))
	}
	option.Baseline, option.Changed, option.Further = names[0], names[1], names[2:]
	reports[0].Name = "doctor" // the title
	return simulate.Compare(reports[0], reports[1], []v1alpha1.ChangedOption{option}, slices.Clone(reports[2:])...)
}

// writeComparison writes the page that compares the runs. Without any the problem says why.
func writeComparison(to io.Writer, comparison *v1alpha1.ScenarioComparison, problem string) error {
	if comparison == nil {
		return &usageError{errors.New(problem), "a page compares runs of the node groups; -o table shows what is known without them"}
	}
	return htmlreport.Write(to, []htmlreport.Result{{Comparison: comparison}})
}
