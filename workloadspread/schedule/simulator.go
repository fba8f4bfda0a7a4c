package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// Defaults of Options, and how long room is held.
const (
	// DefaultTimeout is how long a question may take.
	DefaultTimeout = 5 * time.Millisecond
	// HoldAdmitted is how long room is held for a pod that was admitted and is not seen.
	HoldAdmitted = 10 * time.Second
	// HoldPending is how long room on a ready node is held for a pod that the scheduler does not
	// bind to it. The scheduler tries a pod again after 10 seconds at most when something has changed.
	HoldPending = time.Minute
)

// Autoscaler says whether there is one.
type Autoscaler string

// Whether there is an autoscaler.
const (
	// AutoscalerAuto takes what is found: node groups, a status of Cluster Autoscaler that is not older
	// than some minutes, or nodes of Karpenter. Default.
	AutoscalerAuto Autoscaler = "Auto"
	// AutoscalerAlways assumes one that can bring any node, unless node groups are known, AutoscalerNever none.
	AutoscalerAlways, AutoscalerNever Autoscaler = "Always", "Never"
)

// Options of a Simulator. The zero value asks about every node, and takes an autoscaler to be there if
// one is found.
type Options struct {
	// Timeout is how long a question may take; 0 means DefaultTimeout.
	Timeout time.Duration
	// Unlimited selects nodes, such as those of a virtual kubelet, that have room for any pod that may
	// run there; nil selects none.
	Unlimited labels.Selector
	// Autoscaler says whether there is one; empty means AutoscalerAuto.
	Autoscaler Autoscaler
	// StartupTaints are taints, besides those that are known, that a node carries only while it starts.
	StartupTaints []string
	// ProvisionTime is how long a node that was ordered, or is not ready since it came, counts as one on
	// its way; 0 means cloudprovider.DefaultMaxNodeProvisionTime.
	ProvisionTime time.Duration
	// Clock is for tests; nil means the clock of the machine.
	Clock clock.Clock
	// Metrics record the answers; nil means that they are registered nowhere.
	Metrics *Metrics
	// Log is for what cannot be answered. The zero value logs nothing.
	Log logr.Logger
}

// Simulator says whether pods would find a node. It is safe for concurrent use: questions are answered
// one after the other, and one whose turn does not come in time is answered with RoomUnknown.
type Simulator struct {
	o    Options
	turn chan struct{} // holds who works on the cluster
	c    *cluster
	wake chan struct{} // holds that it has changed
}

// New returns a Simulator of an empty cluster.
func New(ctx context.Context, o Options) (*Simulator, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.ProvisionTime = cmp.Or(o.ProvisionTime, cloudprovider.DefaultMaxNodeProvisionTime)
	o.Autoscaler = cmp.Or(o.Autoscaler, AutoscalerAuto)
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	if o.Unlimited == nil {
		o.Unlimited = labels.Nothing()
	}
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
	checker, err := predicates.New(ctx, predicates.Options{})
	if err != nil {
		return nil, err
	}
	s := &Simulator{o: o, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	s.c = newCluster(&s.o, checker.Live())
	return s, nil
}

// Room says for each pod whether it would find a node. The pods are the same one with the rules of one
// subset after another; room is held for the first that a node takes, until Decided says which it is.
func (s *Simulator) Room(ctx context.Context, pods []*v1.Pod) []workloadspread.Room {
	begin := s.o.Clock.Now()
	rooms, fallback := s.room(ctx, pods)
	s.o.Metrics.answered(s.o.Clock.Since(begin), rooms, fallback)
	return rooms
}

func (s *Simulator) room(ctx context.Context, pods []*v1.Pod) ([]workloadspread.Room, string) {
	rooms := make([]workloadspread.Room, len(pods))
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return rooms, "busy"
	}
	stop := func() bool { return ctx.Err() != nil }
	if len(pods) > 0 {
		s.c.forget(askedOf(pods[0])) // it was asked about before: those that were admitted since come first
	}
	if err := s.c.update(stop); err != nil {
		return rooms, s.reason(err)
	}
	nodes := make([]string, len(pods))
	for i, p := range pods {
		var err error
		if rooms[i], nodes[i], err = s.c.room(p, stop); err != nil {
			return rooms, s.reason(fmt.Errorf("pod %s/%s%s: %w", p.Namespace, p.GenerateName, p.Name, err))
		}
	}
	if i := slices.Index(rooms, workloadspread.RoomOnNode); i >= 0 {
		s.c.claim(pods[i], nodes[i])
	}
	return rooms, ""
}

// Decided says that a pod that Room was asked about is created, with these rules, so that room is held
// for it, or is not created.
func (s *Simulator) Decided(p *v1.Pod, created bool) {
	s.change(func(c *cluster) {
		if c.forget(askedOf(p)); created {
			c.claim(p, "")
		}
	})
}

// change changes the cluster when it is its turn.
func (s *Simulator) change(how func(*cluster)) {
	defer func() {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}()
	s.turn <- struct{}{}
	defer func() { <-s.turn }() // also after a panic, which a server survives
	how(s.c)
}

// reason is why there is no answer.
func (s *Simulator) reason(err error) string {
	if errors.Is(err, predicates.ErrInterrupted) {
		return "timeout"
	}
	s.o.Log.Error(err, "Cannot say whether pods would find a node")
	return "error"
}

const (
	// slice is how long Run works before it lets questions come.
	slice = 2 * time.Millisecond
	// gather is how long it waits for further changes before it takes them over.
	gather = 10 * time.Millisecond
)

// Run takes over what changes as it comes, so that questions do not have to, until ctx is done.
func (s *Simulator) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.wake:
			s.o.Clock.Sleep(gather)
		case <-s.o.Clock.After(time.Second): // room is held no longer than it should
		}
		for more := true; more && ctx.Err() == nil; {
			s.turn <- struct{}{}
			end := s.o.Clock.Now().Add(slice)
			err := s.c.update(func() bool { return s.o.Clock.Now().After(end) })
			<-s.turn
			more = err != nil && s.reason(err) == "timeout"
		}
	}
	return nil
}
