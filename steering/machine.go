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

// Options of a machine. The zero value chooses by name and grants every increase in full, since
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

// Machine is the state. It must not be used from several goroutines at the same time.
type Machine struct {
	o      Options
	writer string              // names this process in the journal; empty without a journal
	index  *nodegroupset.Index // of what the autoscaler sent last
	// deferral is how long smaller members wait for larger ones to shrink at most
	deferral time.Duration
	now      time.Time
	out      Effects // not taken yet

	observed    []NodeState // what is known of nodes; not where it must be inferred
	known       bool
	view        *Cloud // what Cluster Autoscaler is shown; nil before the first reading
	loop        int    // counts refreshes
	groups      map[string]*groupState
	backoff     *backoff.Backoff
	since       map[string]time.Time // instances without a node
	readySince  map[string]time.Time // nodes, by provider id; nil before they were first looked at
	served      map[string]bool      // nodes that have been ready, by provider id
	refreshes   [2]time.Time         // the last but one, and the last
	at          *observation         // when last looked at
	pick        *pick                // the answer of the expander that waits for its increase
	stopped     bool                 // the expander's last answer was to grow no group
	unread      bool                 // the expander's last question could not be read
	skipped     int                  // increases in a row that got nothing for that reason
	stopSaved   bool                 // the journal says so too
	plan        *plan
	unconfirmed *answer         // to the last increase, until Cluster Autoscaler calls again
	grown       map[string]bool // groups increased in this loop since the last choice
	raised      map[string]bool // groups increased with success in this loop that got other than was asked
	balancing   balancing
	ignored     bool      // it did not follow the last pick
	unasked     bool      // it scales up without asking the expander
	before136   bool      // it is of a release that counts nodes on their way whether it has asked for them or not
	process     time.Time // when its present process was first noticed
	renewed     bool      // that was before the first reading
	journalErr  error
	unsaved     int // increases in a row that got nothing because of it
	// unsavedSince is when the first of them did
	unsavedSince time.Time
	levels       levels
	uneven       map[string]*uneven // sets, by first member
	sizes        map[string]int     // of groups when uneven sets were last looked for
	question     *question          // the last of this loop
	withheld     question           // what the last loop's question did not get
	declared     declared
	inferred     inferred
	zonal        zonal
	followed     time.Time // when the nodes on their way were last looked at for start-up deadlines
	warned       map[string]bool
	sets         map[string]string // group → first of its set, of the last options
	awaited      map[types.UID]*awaited
	closed       map[string]bool // sets left out because all members are backed off, by first member
}

// New returns a machine that knows nothing yet. The writer names this process in the journal; empty
// means that there is no journal, so that increases are granted in full.
func New(writer string, o Options) (*Machine, error) {
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
	return &Machine{
		declared: declared{given: policies, waiting: len(policies) > 0},
		o:        o,
		zonal:    zonal{shifts: shifts, labels: map[string]map[string]string{}},
		writer:   writer,
		index:    index,
		deferral: limit,
		groups:   map[string]*groupState{},
		backoff:  backoff.New(o.Backoff),
		grown:    map[string]bool{},
		raised:   map[string]bool{},
		warned:   map[string]bool{},
		sets:     map[string]string{},
		closed:   map[string]bool{},
		inferred: inferred{},
		awaited:  map[types.UID]*awaited{},
	}, nil
}

// Tick sets the time. It comes before every other event.
func (s *Machine) Tick(now time.Time) { s.now = now }

// Mode is what is done with increases.
type Mode string

const (
	Steering    Mode = "Steering"
	DryRun      Mode = "DryRun"
	PassThrough Mode = "PassThrough"
)

// Mode returns how increases are treated now, and why no more is done with them.
func (s *Machine) Mode() (mode Mode, why string) {
	switch {
	case s.o.DryRun:
		return DryRun, "--dry-run only reports what would be done"
	case s.o.NotBalanced:
		return PassThrough, "--balance-similar-node-groups=false"
	case s.unasked:
		return PassThrough, "Cluster Autoscaler scales up without asking this expander: start it with --expander=grpc"
	}
	return Steering, ""
}

// HidesFailures reports whether failures of members are kept from Cluster Autoscaler: any error it
// sees makes the healthy nodes of that group that are on their way invisible to it.
func (s *Machine) HidesFailures() bool {
	mode, _ := s.Mode()
	return mode == Steering
}

// CanShare reports whether increases may be granted in part, and why not.
func (s *Machine) CanShare() (ok bool, why string) {
	switch {
	case s.writer == "":
		return false, "there is no journal"
	case s.journalErr != nil:
		return false, "the journal cannot be used: " + s.journalErr.Error()
	}
	return true, ""
}
