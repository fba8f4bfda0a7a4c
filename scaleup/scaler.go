package scaleup

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Scaler runs rounds against a cloud. It keeps what has to outlive a round:
// which groups refused, what their nodes looked like, since when an instance
// is awaited. It is not safe for concurrent use; a round resizes groups
// concurrently by itself.
type Scaler struct {
	provider   cloudprovider.Provider
	checker    *predicates.Checker
	schedulers schedulers
	opts       Options
	backoff    *backoff.Backoff
	rounds     uint64
	everReady  map[string]bool // nodes that were ready once
	memory     *template.Memory
	askedCloud map[string]bool                // groups whose cloud was looked for in the cloud's own template
	members    map[string][]predicates.Node   // the nodes of each group in the latest round
	orders     map[string]*order              // by group, as long as their pods wait
	ordered    map[string]nodegroupset.Orders // of the nodes on their way, by group
	awaited    map[string]time.Time           // instances without a node and orders without an instance, since when
	shifts     *zonalshift.Shifts
	away       map[string]string              // groups whose zone was shifted away in the latest round, and why
	terms      map[string]*nodegroupset.Terms // of declared sets, if some have a start-up deadline
	trials     map[string]bool                // groups whose nodes came too late, until one becomes ready
	refused    map[string]bool                // groups that refused when they were last asked
	slow       map[string]bool                // groups whose last nodes came too late
}

// New returns a Scaler without memory. It refuses options that make no sense.
func New(provider cloudprovider.Provider, checker *predicates.Checker, opts Options) (*Scaler, error) {
	if provider == nil || checker == nil {
		return nil, errors.New("scaleup: a provider and a checker are needed")
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	memory, err := template.NewMemory()
	if err != nil {
		return nil, err
	}
	shifts, err := zonalshift.New(opts.ZonalShift)
	if err != nil {
		return nil, err
	}
	return &Scaler{
		provider: provider, checker: checker, schedulers: newSchedulers(checker), opts: opts,
		backoff:    backoff.New(opts.Backoff),
		everReady:  map[string]bool{},
		memory:     memory,
		askedCloud: map[string]bool{},
		orders:     map[string]*order{},
		ordered:    map[string]nodegroupset.Orders{},
		awaited:    map[string]time.Time{},
		shifts:     shifts,
		trials:     map[string]bool{},
		refused:    map[string]bool{},
		slow:       map[string]bool{},
	}, nil
}

// Round is one round from beginning to end.
type Round struct {
	World    *World
	Repairs  []Repair
	Decision Decision
	Attempts []Attempt
}

// Grew is the number of nodes the round ordered.
func (r Round) Grew() int {
	n := 0
	for _, a := range r.Attempts {
		n += a.Grew
	}
	return n
}

// Survey observes, and notes of each group what a round finds before it plans: whether it is left
// alone, and whether its zone is shifted away. It changes nothing in the cloud.
func (s *Scaler) Survey(ctx context.Context, now time.Time, cluster Cluster) (*World, error) {
	world, err := s.Observe(ctx, now, cluster)
	if err != nil {
		return nil, err
	}
	s.judge(world)
	return world, s.shift(world, cluster.Shifts)
}

// Round repairs, observes, plans and executes at the instant now. A group that
// fails is left as it was, with the failure in the result; an error means that
// nothing could be decided.
func (s *Scaler) Round(ctx context.Context, now time.Time, cluster Cluster) (Round, error) {
	world, err := s.Observe(ctx, now, cluster)
	if err != nil {
		return Round{}, err
	}
	s.judge(world)
	s.setDeadlines(world)
	repairs := s.repair(ctx, world, cluster)
	if err := s.shift(world, cluster.Shifts); err != nil {
		return Round{}, err
	}
	p, err := plan(world, s.checker, s.schedulers, s.opts.forRound(s.rounds))
	if err != nil {
		return Round{}, err
	}
	decision := p.decision
	s.rounds++
	attempts := s.execute(ctx, p, &decision)
	s.remember(world, &decision, attempts)
	return Round{World: world, Repairs: repairs, Attempts: attempts, Decision: decision}, nil
}

func (o Options) forRound(n uint64) Options {
	o.Expander, o.round = o.Expander.ForRound(n), n
	return o
}

func (o Options) maxNodeProvisionTime() time.Duration {
	return cmp.Or(o.MaxNodeProvisionTime, cloudprovider.DefaultMaxNodeProvisionTime)
}

func (o Options) validate() error {
	if _, err := nodegroupset.NewIndex(o.Similarity); err != nil {
		return err
	}
	return o.Limits.validate()
}
