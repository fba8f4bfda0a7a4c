package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// Autoscaler is a simulated cluster with Cluster Autoscaler. It must be used by one goroutine only.
type Autoscaler struct {
	config  Config
	options Options
	clock   clock.Clock
	random  *rand.Rand
	start   time.Time

	world        World
	own          *batches // World, unless Config has one
	deadline     deadline // of calls
	podsAppeared bool     // since the last loop began
	atStart      map[string]int

	events   []Event
	records  records
	counters Counters

	// The following fields are the state of one process of Cluster Autoscaler.
	process           int
	crashed           bool // or not started yet
	initialized       bool
	remote            *remote
	processors        processors
	registry          *registry
	templates         map[string]*nodeTemplate // by group
	seen              map[string]*nodeTemplate // templates made from real nodes earlier, by group
	made              map[string]*nodeTemplate // the last one made of each group
	withoutGPUs       map[*v1.Node]*v1.Node    // copies, not ready, of nodes that should have some
	choices           choices
	kinds             map[*v1.Pod]int // of pods seen lately
	numbers           map[string]int  // of kinds, from 1 on
	unneeded          map[string]time.Time
	known             removal.Memory
	draining          map[string]bool // nodes on their way out, and whether they had pods to move
	drains            []drain         // of those whose pods are not all evicted yet
	downNext          time.Time       // when scale-down may decide otherwise
	requestMode       bool            // whether the next mixed scale-up is for a ProvisioningRequest
	lastScaleUp       time.Time
	lastScaleDown     time.Time
	lastDownFailure   time.Time
	lastRequest       time.Time // when a ProvisioningRequest was last handled
	scaleDownDisabled bool      // for this loop
}

// New makes a simulated cluster and starts a process of Cluster Autoscaler in it. No loop runs yet.
func New(config Config) (*Autoscaler, error) {
	if config.Clock == nil || config.Cloud == nil || config.Connect == nil {
		return nil, errors.New("autoscaler: Config needs Clock, Cloud and Connect")
	}
	if _, err := nodegroupset.NewStockIndex(config.Options.Cloud, config.Options.Similarity); err != nil {
		return nil, fmt.Errorf("autoscaler: %w", err)
	}
	a := &Autoscaler{
		config: config, options: config.Options.withDefaults(), clock: config.Clock,
		random: rand.New(rand.NewPCG(config.Seed, 0)), start: config.Clock.Now(), //nolint:gosec // G404: a repeatable choice is wanted
	}
	if a.options.Checker == nil {
		var err error
		if a.options.Checker, err = predicates.New(context.Background(), predicates.Options{}); err != nil {
			return nil, fmt.Errorf("autoscaler: %w", err)
		}
	}
	if a.world = config.World; a.world == nil {
		a.own = &batches{cloud: config.Cloud, coming: slices.Clone(config.Batches), deleting: map[string]bool{}, scheduler: a.options.Checker.Scheduler(), tried: a.tried}
		slices.SortStableFunc(a.own.coming, func(x, y Batch) int { return int(x.At - y.At) })
		a.world = a.own
	}
	a.records.on = a.own == nil
	if a.own != nil {
		var err error
		if a.atStart, _, err = a.targets(); err != nil {
			return nil, err
		}
	}
	return a, a.begin()
}

// Restart ends the process of Cluster Autoscaler, with all its state, and starts another.
func (a *Autoscaler) Restart() error { return a.begin() }

// begin starts a process: it connects, and a separate task reads the instances of all groups.
func (a *Autoscaler) begin() error {
	a.process++
	connection, err := a.config.Connect(a.process)
	if err != nil {
		return fmt.Errorf("autoscaler: connect: %w", err)
	}
	a.crashed, a.initialized, a.requestMode, a.scaleDownDisabled = false, false, false, false
	a.lastScaleUp, a.lastScaleDown, a.lastRequest = time.Time{}, time.Time{}, time.Time{}
	a.remote = &remote{Connection: connection, process: a.process, caller: a, forNode: map[nodeKey]string{}}
	a.processors = &stock{}
	if a.options.Linked != nil {
		if a.processors, err = newLinked(a, a.options.Linked); err != nil {
			return err
		}
	}
	a.registry = newRegistry(a, a.remote)
	a.templates, a.seen, a.made = map[string]*nodeTemplate{}, map[string]*nodeTemplate{}, map[string]*nodeTemplate{}
	a.unneeded, a.kinds, a.numbers = map[string]time.Time{}, map[*v1.Pod]int{}, map[string]int{}
	a.known, a.draining, a.drains, a.lastDownFailure = removal.Memory{}, map[string]bool{}, nil, time.Time{}
	a.note(Started, "", a.process, "")
	a.registry.refreshInstances(a.clock.Now())
	if a.process == 1 {
		for _, id := range slices.Sorted(maps.Keys(a.config.Ordered)) {
			a.registry.register(id, a.config.Ordered[id], a.clock.Now())
		}
	}
	a.deadline.end()
	return nil
}

// Run runs loops until the given time since the start.
func (a *Autoscaler) Run(until time.Duration) error {
	for a.clock.Now().Before(a.start.Add(until)) {
		if err := a.Step(); err != nil {
			return err
		}
	}
	return nil
}

// Settle runs loops until nothing more can happen, or until the given time: no future pods, none
// pending unless all groups are full, no scale-up in progress, all ordered nodes ready. It reports
// whether the cluster has settled.
func (a *Autoscaler) Settle(until time.Duration) (bool, error) {
	for a.clock.Now().Before(a.start.Add(until)) {
		if err := a.Step(); err != nil {
			return false, err
		}
		if rest, err := a.atRest(); rest || err != nil {
			return rest, err
		}
	}
	return false, nil
}

func (a *Autoscaler) atRest() (bool, error) {
	w := a.own
	if a.crashed || len(w.coming)+len(w.claims) > 0 || len(a.registry.requests) > 0 || len(a.registry.unregistered) > 0 ||
		slices.ContainsFunc(w.nodes, func(node *v1.Node) bool { return !ready(node) }) {
		return false, nil
	}
	targets, full, err := a.targets()
	if err != nil || len(w.pending()) > 0 && !full {
		return false, err
	}
	sum := 0
	for _, size := range targets {
		sum += size
	}
	return sum == len(w.nodes), nil
}

// Step lets the world of Config.Batches move on, runs one loop and the wait after it. An error is one
// of the simulation; failures of Cluster Autoscaler are Events.
func (a *Autoscaler) Step() error {
	if a.crashed {
		if err := a.begin(); err != nil {
			return err
		}
	}
	now := a.clock.Now()
	a.arrive(now)
	if err := a.schedule(now); err != nil {
		return err
	}
	a.podsAppeared = false
	if _, err := a.Loop(); err != nil {
		return err
	}
	a.wait(now)
	return nil
}

// Loop runs one loop. An error is one of the simulation; failures of Cluster Autoscaler are Events,
// and in the Report.
func (a *Autoscaler) Loop() (Report, error) {
	if a.crashed {
		if err := a.begin(); err != nil {
			return Report{}, err
		}
	}
	now := a.clock.Now()
	if !a.registry.refreshed.Add(instancesRefresh).After(now) {
		a.registry.refreshInstances(now)
	}
	a.counters.Loops++
	a.records.begun()
	err := a.loop(now)
	a.deadline.end()
	switch {
	case a.crashed:
		err = errCrashed
	case err == nil && a.records.on && a.remote.unlisted != nil:
		err = fmt.Errorf("list node groups: %w", a.remote.unlisted)
	}
	if err != nil {
		a.note(LoopEnded, "", 0, err.Error())
	}
	if errors.As(err, new(worldError)) {
		return Report{}, err
	}
	return a.records.report(err), nil
}

// worldError is an error of the simulation, not of Cluster Autoscaler: the Checker cannot evaluate a
// pod.
type worldError struct{ error }

func (e worldError) Unwrap() error { return e.error }

// wait lets the time pass until the next loop: none after a loop that scaled, else the scan
// interval, cut short by pods that appear.
func (a *Autoscaler) wait(began time.Time) {
	a.clock.Sleep(a.options.LoopTime)
	if !a.lastScaleUp.Before(began) || !a.lastScaleDown.Before(began) || !a.lastRequest.Before(began) || a.podsAppeared {
		return
	}
	now := a.clock.Now()
	pause := a.options.ScanInterval
	for _, batch := range a.own.coming {
		if until := a.start.Add(batch.At).Sub(now); batch.Request == "" && until < pause {
			pause = max(until, 0)
		}
	}
	if pause > 0 {
		a.clock.Sleep(pause)
	}
}

// shuffle randomizes an order that comes from a Go map in Cluster Autoscaler.
func (a *Autoscaler) shuffle(n int, swap func(i, j int)) { a.random.Shuffle(n, swap) }
