package sidecar

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Sidecar answers Cluster Autoscaler as its expander (BestOptions) and as its cloud (cloudprovider.Provider). It may be
// used from several goroutines.
type Sidecar struct {
	backend Backend
	o       Options
	index   *nodegroupset.Index // of what the autoscaler sent last
	writer  string              // names this process in the journal

	// turn orders what must not happen at the same time: choosing and granting. It is held during calls to the cloud,
	// mu never is.
	turn     lock
	fetching singleflight.Group
	orders   sync.WaitGroup // increases that are on their way

	mu          sync.Mutex
	view        *view // what Cluster Autoscaler is shown; nil before the first reading
	fetched     *view // read and not shown yet
	fetchErr    error
	loop        int // counts refreshes
	books       map[string]*book
	backoff     *backoff.Backoff
	since       map[string]time.Time // instances without a node
	readySince  map[string]time.Time // nodes, by provider id; nil before they were first looked at
	served      map[string]bool      // nodes that have been ready, by provider id
	refreshes   [2]time.Time         // the last but one, and the last
	at          *sight               // when last looked at
	pick        *pick                // the answer of the expander that waits for its increase
	plan        *plan
	provided    provided
	unheard     *answer         // to the last increase, until Cluster Autoscaler calls again
	grown       map[string]bool // groups increased in this loop since the last choice
	balancing   bool            // Cluster Autoscaler balances by itself
	ignored     bool            // it did not follow the last pick
	unasked     bool            // it scales up without asking the expander
	process     time.Time       // when its present process was first noticed
	gpuAsked    string          // connection on which the GPU label was asked for
	journalOf   string          // connection for which the journal was read
	journalErr  error
	journalRead bool
	memory      memory
	levels      levels
	inferred    inferred
	history     history
	sets        map[string]string // group → first of its set, of the last options
	shut        map[string]bool   // sets left out because all members are backed off, by first member
}

// New returns a sidecar in front of a cloud. It calls nobody yet.
func New(backend Backend, o Options) (*Sidecar, error) {
	o.setDefaults()
	index, err := nodegroupset.NewIndex(o.Similarity)
	if err != nil {
		return nil, fmt.Errorf("similarity of node groups: %w", err)
	}
	return &Sidecar{
		backend: backend,
		o:       o,
		index:   index,
		writer:  rand.Text(),
		turn:    newLock(),
		books:   map[string]*book{},
		backoff: backoff.New(o.Backoff),
		grown:   map[string]bool{},
		sets:    map[string]string{},
		shut:    map[string]bool{},
	}, nil
}

// Wait returns when all increases that are on their way have ended, or ctx is done.
func (s *Sidecar) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { s.orders.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mode tells what the sidecar does with increases, and why not more.
type mode string

const (
	steering    mode = "Steering"
	dryRun      mode = "DryRun"
	passThrough mode = "PassThrough"
)

// mode is how increases are treated now.
func (s *Sidecar) mode() (mode, string) {
	switch {
	case s.o.DryRun:
		return dryRun, "--dry-run only tells what would be done"
	case s.o.NotBalanced:
		return passThrough, "--balance-similar-node-groups=false"
	case s.balancing:
		return passThrough, "Cluster Autoscaler balances by itself: start it with --balance-similar-node-groups=false"
	case s.unasked:
		return passThrough, "Cluster Autoscaler scales up without asking this expander: start it with --expander=grpc"
	}
	return steering, ""
}

// canShare tells whether increases may be granted in part, and why not.
func (s *Sidecar) canShare() (bool, string) {
	switch {
	case s.o.Journal == nil:
		return false, "there is no journal"
	case s.journalErr != nil:
		return false, "the journal can not be used: " + s.journalErr.Error()
	}
	return true, ""
}

// look looks at the cluster's nodes anew. They are looked at once per loop, and again for each choice.
func (s *Sidecar) look() *sight {
	now := s.o.Clock.Now()
	s.at = &sight{now: now, nodes: s.nodes(now), since: s.since, provision: s.o.MaxNodeProvisionTime, startup: s.o.MaxNodeStartupTime}
	return s.at
}

// lag is how long a node must have been ready to count as such: Cluster Autoscaler lists nodes before it refreshes, from a
// watch of its own. Too few ready nodes cost a loop, too many a node.
const lag = 2 * time.Second

// nodes are the registered nodes by provider id, each ready only if it was at the refresh before the last one.
func (s *Sidecar) nodes(now time.Time) map[string]NodeState {
	list, ok := []NodeState(nil), false
	if s.o.Nodes != nil {
		list, ok = s.o.Nodes.List()
	}
	if !ok {
		return s.inferred.nodes(now)
	}
	first := s.readySince == nil
	since := make(map[string]time.Time, len(list))
	served := make(map[string]bool, len(list))
	out := make(map[string]NodeState, len(list))
	for _, n := range list {
		if n.Ready || s.served[n.ProviderID] {
			served[n.ProviderID] = true
		}
		n.Lost = !n.Ready && (n.Lost || served[n.ProviderID])
		if n.Ready {
			at, known := s.readySince[n.ProviderID]
			switch {
			case known:
			case first && now.Sub(n.Created) >= s.o.MaxNodeProvisionTime: // of old
			default:
				at = now
			}
			since[n.ProviderID] = at
			n.Ready = now.Sub(at) >= lag && !at.After(s.refreshes[0])
		}
		out[n.ProviderID] = n
	}
	s.readySince, s.served = since, served
	return out
}
