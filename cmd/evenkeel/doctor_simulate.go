package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/doctor"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/simulate/htmlreport"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// trial plays the cluster's own pods, all of them pending, on its node groups without nodes, in each mode.
type trial struct {
	scenario v1alpha1.Scenario
	dumped   *simulate.Dumped
}

// podsOfCluster is the name of the file with the pods, which is made as it is read.
const podsOfCluster = "pods of the cluster"

// newTrial makes a trial of the scenario of the cluster.
func newTrial(dumped *simulate.Dumped) (*trial, error) {
	t := &trial{scenario: *dumped.Scenario, dumped: dumped}
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
func (t *trial) setup(mode simulate.Mode, minor int, flags *doctor.Flags) (*simulate.Setup, error) {
	scenario := t.scenario
	spec := &scenario.Spec
	spec.Autoscaler.Mode = string(mode)
	if mode != simulate.Linked && (minor == 34 || minor == 35) {
		spec.Autoscaler.Version = "1." + strconv.Itoa(minor)
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
		similar := nodegroupset.Options{IgnoreLabels: o.BalancingIgnoreLabels}
		o.BalancingIgnoreLabels = nodegroupset.ParseGroupLabel(t.dumped.Scenario.Spec.GroupLabel).Ignoring(similar).IgnoreLabels
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
	t, err := newTrial(dumped)
	if err != nil {
		return nil, err
	}
	var now, then doctor.Flags
	minor := 0
	by := c.observation.Autoscaler()
	if by != nil {
		now, minor = by.Flags, by.Minor
	}
	then = now
	if r := d.Status.Recommendation; r.Way == doctor.WayAutoscaler {
		then = now.With(r.Flags, r.Without)
		if by == nil { // the cloud has a setting of its own for it
			then = now.With([]string{"--balance-similar-node-groups=true"}, nil)
		}
	}
	expander := now.With([]string{fmt.Sprintf("--max-nodes-per-scaleup=%d", d.Status.PerScaleUp)}, nil)
	type run struct {
		name  string
		mode  simulate.Mode
		flags *doctor.Flags
	}
	runs := []run{{"stock", simulate.Stock, &now}}
	if d.Status.Recommendation.Way == doctor.WayAutoscaler {
		runs = append(runs, run{"stock, as recommended", simulate.Stock, &then})
	}
	for _, mode := range simulate.Modes() {
		switch mode {
		case simulate.Stock:
		case simulate.Expander:
			runs = append(runs, run{string(mode), mode, &expander})
		default:
			runs = append(runs, run{string(mode), mode, &then})
		}
	}
	var setups []*simulate.Setup
	for _, one := range runs {
		setup, err := t.setup(one.mode, minor, one.flags)
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
	return compareTrials(reports), nil
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
