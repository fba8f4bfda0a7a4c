package steering

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Options of a state. The zero value chooses by name and grants every increase in full, since
// there is no journal.
type Options struct {
	// Chain chooses between sets of node groups.
	Chain expander.Chain
	// Similarity says which groups form sets. Declare replaces its policies.
	Similarity nodegroupset.Options
	// Backoff is how long a member that refused is left alone.
	Backoff backoff.Options
	// MaxNodeProvisionTime is the value of the flag given to Cluster Autoscaler; 0 means its
	// default. What the cloud has not begun to fulfil by then is taken back.
	MaxNodeProvisionTime time.Duration
	// MaxNodeStartupTime is the value of the flag given to Cluster Autoscaler; 0 means its default.
	// For so long after its registration it expects a node to become ready.
	MaxNodeStartupTime time.Duration
	// NotBalanced turns the split off (--balance-similar-node-groups=false): options are chosen and
	// increases forwarded only.
	NotBalanced bool
	// ExpanderOnly chooses options and nothing else: the cloud is not read and increases are not seen. Sizes come as the
	// event Sizes, and each answer counts as ordered until they show it.
	ExpanderOnly bool
	// LevelScaleDown raises the minimums that Cluster Autoscaler is given, so that it takes nodes
	// from the largest members of a set.
	LevelScaleDown bool
	// MaxBalanceDeferral is how long smaller members wait for larger ones to shrink: see
	// deferral.Limit. With 0 no member waits, as without LevelScaleDown.
	MaxBalanceDeferral *time.Duration
	// ZonalShift says how fast a zone that was shifted away comes back, and what is detected.
	ZonalShift zonalshift.Options
	// NoticePods has notices given about the pods that Cluster Autoscaler asks nodes for.
	NoticePods bool
	// DryRun only reports what would be done.
	DryRun bool
}

func (o *Options) setDefaults() {
	o.MaxNodeProvisionTime = cmp.Or(o.MaxNodeProvisionTime, cloudprovider.DefaultMaxNodeProvisionTime)
	o.MaxNodeStartupTime = cmp.Or(o.MaxNodeStartupTime, cloudprovider.DefaultMaxNodeStartupTime)
}

// State is what is known, and what was decided: a value that only Step changes. It must not be used from
// several goroutines at the same time.
type State struct {
	o      Options
	now    time.Time // of the last event
	out    Effects   // of the event that is being applied
	view   *Cloud    // what Cluster Autoscaler is shown; nil before the first reading
	groups map[string]*groupState

	nodes    nodes
	caller   caller
	sets     sets
	plan     planned
	failures failures
	levels   levels
	zones    zonal
	pods     published
	saved    saved
}

// New returns a state that knows nothing yet. The writer names this process in the journal; empty
// means that there is no journal, so that increases are granted in full.
func New(writer string, o Options) (*State, error) {
	o.setDefaults()
	policies := o.Similarity.Policies
	o.Similarity.Policies = nil // until the groups are known
	index, err := nodegroupset.NewIndex(o.Similarity)
	if err != nil {
		return nil, fmt.Errorf("similarity of node groups: %w", err)
	}
	limit, err := deferral.Limit(o.MaxBalanceDeferral)
	if err != nil {
		return nil, fmt.Errorf("max balance deferral %s: %w", *o.MaxBalanceDeferral, err)
	}
	shifts, err := zonalshift.New(o.ZonalShift)
	if err != nil {
		return nil, fmt.Errorf("zonal shift: %w", err)
	}
	return &State{
		o:        o,
		groups:   map[string]*groupState{},
		nodes:    nodes{inferred: inferred{}},
		caller:   caller{grown: map[string]bool{}, raised: map[string]bool{}},
		sets:     sets{index: index, first: map[string]string{}, declared: declared{given: policies, waiting: len(policies) > 0}},
		failures: failures{backoff: backoff.New(o.Backoff), closed: map[string]bool{}},
		levels:   levels{limit: limit},
		zones:    zonal{shifts: shifts, labels: map[string]map[string]string{}},
		pods:     published{awaited: map[types.UID]*awaited{}, warned: map[string]bool{}},
		saved:    saved{writer: writer},
	}, nil
}

// Started is the beginning of a process of the sidecar, whose state knows nothing but its Writer, as by New. It changes nothing: it
// begins what is recorded.
type Started struct{ Writer string }

func (Started) apply(*State) Answer { return Answer{} }

// Mode is what is done with increases.
type Mode string

const (
	Steering    Mode = "Steering"
	Choosing    Mode = "Choosing" // an expander alone has no increases
	DryRun      Mode = "DryRun"
	PassThrough Mode = "PassThrough"
)

// Mode returns how increases are treated now, and why no more is done with them.
func (s *State) Mode() (mode Mode, why string) {
	switch {
	case s.o.DryRun:
		return DryRun, "--dry-run only reports what would be done"
	case s.o.ExpanderOnly:
		return Choosing, ""
	case s.o.NotBalanced:
		return PassThrough, "--balance-similar-node-groups=false"
	case s.caller.unasked:
		return PassThrough, "Cluster Autoscaler scales up without asking this expander: start it with --expander=grpc"
	}
	return Steering, ""
}

// HidesFailures reports whether failures of members are kept from Cluster Autoscaler: any error it
// sees makes the healthy nodes of that group that are on their way invisible to it.
func (s *State) HidesFailures() bool {
	mode, _ := s.Mode()
	return mode == Steering
}
