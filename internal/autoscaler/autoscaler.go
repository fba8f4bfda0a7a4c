package autoscaler

import (
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
)

// Autoscaler is a process of Cluster Autoscaler. It must be used by one goroutine only.
type Autoscaler struct {
	config   Config
	options  Options
	clock    clock.PassiveClock
	random   *rand.Rand
	world    World
	deadline deadline // of calls
	records  records

	remote            *remote
	processors        processors
	registry          *registry
	templates         map[string]*nodeTemplate // by group
	seen              map[string]*nodeTemplate // templates made from real nodes earlier, by group
	made              map[string]*nodeTemplate // the last one made of each group
	choices           choices
	kinds             map[*v1.Pod]int // of pods seen lately
	numbers           map[string]int  // of kinds, from 1 on
	unneeded          map[string]time.Time
	known             removal.Memory
	draining          map[string]bool // nodes on their way out, and whether they had pods to move
	drains            []drain         // of those whose pods are not all evicted yet
	downNext          time.Time       // when scale-down may decide otherwise
	requestMode       bool            // whether the next mixed scale-up is for a ProvisioningRequest
	began             time.Time       // the last loop
	lastScaleUp       time.Time
	scaleUpErr        error // of the last loop, unless that ended it
	lastDownFailure   time.Time
	scaleDownDisabled bool // for this loop
}

// New starts a process: a separate task reads the instances of all groups. No loop runs yet.
func New(config Config) (*Autoscaler, error) {
	if _, err := nodegroupset.NewStockIndex(config.Options.Cloud, config.Options.Similarity); err != nil {
		return nil, fmt.Errorf("autoscaler: %w", err)
	}
	a := &Autoscaler{
		config: config, options: config.Options.withDefaults(), clock: config.Clock, world: config.World,
		random:     rand.New(rand.NewPCG(config.Seed, 0)), // a repeatable choice is wanted
		records:    records{on: !config.Unreported},
		processors: &stock{},
		seen:       map[string]*nodeTemplate{}, made: map[string]*nodeTemplate{},
		known: removal.Memory{}, unneeded: map[string]time.Time{}, draining: map[string]bool{}, kinds: map[*v1.Pod]int{},
		numbers: map[string]int{},
	}
	a.remote = &remote{Connection: config.Connection, caller: a, forNode: map[nodeKey]string{}}
	if a.options.Linked != nil {
		var err error
		if a.processors, err = newLinked(a, a.options.Linked); err != nil {
			return nil, err
		}
	}
	a.registry = newRegistry(a, a.remote)
	a.registry.refreshInstances(a.clock.Now())
	for _, id := range slices.Sorted(maps.Keys(config.Ordered)) {
		a.registry.register(id, config.Ordered[id], a.clock.Now())
	}
	a.deadline.end()
	return a, nil
}

// Loop runs one loop. An error is one of the simulation; failures of Cluster Autoscaler are in the
// Report.
func (a *Autoscaler) Loop() (Report, error) {
	now := a.clock.Now()
	a.began = now
	if !a.registry.refreshed.Add(instancesRefresh).After(now) {
		a.registry.refreshInstances(now)
	}
	a.records.begun()
	err := a.loop(now)
	a.deadline.end()
	if err == nil && a.records.on && a.remote.unlisted != nil {
		err = fmt.Errorf("list node groups: %w", a.remote.unlisted)
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

// shuffle randomizes an order that comes from a Go map in Cluster Autoscaler.
func (a *Autoscaler) shuffle(n int, swap func(i, j int)) { a.random.Shuffle(n, swap) }
