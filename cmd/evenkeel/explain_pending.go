package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/internal/pending"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/zonemarks"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// pendingFlags are the flags of explain that are about pending pods.
type pendingFlags struct {
	at        time.Duration
	scheduler schedulerConfig
	shifts    string            // file
	marks     []zonalshift.Mark // of that file
}

func (o *pendingFlags) addTo(flags *pflag.FlagSet) {
	flags.DurationVar(&o.at, "at", 0,
		"with -f: time of the run to explain the pending pods at, before the round of that time; by default its first round")
	o.scheduler.addTo(flags, "with --nodes or --snapshot: ")
	flags.StringVar(&o.shifts, "zonal-shift-file", "",
		"with --nodes or --snapshot: file of the zones that are shifted away, as evenkeel zone writes it")
}

func (o *pendingFlags) check(flags *pflag.FlagSet, scenario bool) error {
	own := strings.Join(changed(flags, schedulerConfigFlag, "zonal-shift-file"), ", ")
	return cmp.Or(
		misuse(!scenario && flags.Changed("at"), "a list and a snapshot are of one time", "--at goes with -f only"),
		misuse(o.at < 0, "it counts from the begin of the run", "invalid --at %s: must not be below 0", o.at),
		misuse(scenario && own != "", "a scenario has its own schedulerConfig and zonalShifts", "%s cannot be combined with -f", own),
	)
}

// read reads the files that flags name.
func (o *pendingFlags) read(open document.Open) error {
	if err := o.scheduler.read(open); err != nil || o.shifts == "" {
		return err
	}
	text, err := open.Text(o.shifts, zonemarks.MaxSize)
	if isInput(err) {
		return &usageError{err, "name a file that evenkeel zone has written"}
	}
	if err == nil {
		_, o.marks, err = zonemarks.Parse(o.shifts, text)
	}
	return err
}

// explain explains the pending pods of a fleet, or of a moment of a scenario.
func (o *pendingFlags) explain(ctx context.Context, fleet *explain.Fleet, moment *simulate.Moment, status *explain.Status) (err error) {
	switch {
	case moment != nil:
		status.Pending, err = pending.Spreads(moment.Checker, pending.OfRound(moment.Nodes, moment.Pending, moment.Groups))
		return err
	case fleet.Cluster == nil:
		return nil
	}
	checker, err := predicates.New(ctx, predicates.Options{Objects: fleet.Cluster.Objects, Configuration: o.scheduler.object})
	if err != nil {
		return err
	}
	cluster, err := pending.OfFleet(fleet, status.Sets, o.marks, time.Now())
	if err != nil {
		return err
	}
	status.Notes = append(status.Notes, cluster.Notes...)
	status.Pending, err = pending.Spreads(checker, cluster)
	return err
}
