package controller

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Defaults of Options.
const (
	// DefaultLease is the name of the Lease that the leader holds.
	DefaultLease = "evenkeel-controller"
	// The leader holds the Lease for DefaultLeaseDuration after it last renewed it, and stops
	// leading if it could not renew it for DefaultRenewDeadline. The others try to acquire it every
	// DefaultRetryPeriod.
	DefaultLeaseDuration, DefaultRenewDeadline, DefaultRetryPeriod = 15 * time.Second, 10 * time.Second, 2 * time.Second
	// DefaultWorkers is how many objects a controller works on at the same time.
	DefaultWorkers = 8
	// DefaultStuckAfter is far beyond the timeout of a pass: such a pass ignores its context.
	DefaultStuckAfter = 5 * time.Minute
	// DefaultLookAgain is how soon a controller starts whose kind is installed later.
	DefaultLookAgain = time.Minute
	// DefaultGrace is less than the 30 s in which a pod must terminate.
	DefaultGrace = 20 * time.Second

	// passTimeout is when the context of a pass over one object ends.
	passTimeout = time.Minute

	userAgent = "evenkeel-controller"
)

// Options of a Manager. The zero value watches all namespaces and elects a leader, for which
// LeaseNamespace must be set.
type Options struct {
	// Scheme has the kinds that are read and written; nil means the kinds of Kubernetes.
	Scheme *runtime.Scheme
	// Namespaces are watched; empty means all of them.
	Namespaces []string
	// Trim has, by an object of the kind, what the cache keeps of the objects. Of other kinds it
	// keeps all but the managed fields.
	Trim map[client.Object]cache.TransformFunc
	// Confined has, by an object of the kind, the only namespace in which objects of the kind are
	// watched.
	Confined map[client.Object]string

	// NoLeaderElection is for a process that runs alone.
	NoLeaderElection bool
	// LeaseNamespace and Lease name the Lease that the leader holds. An empty Lease means
	// DefaultLease.
	LeaseNamespace, Lease string
	// Identity is the holder of the Lease while this Manager leads. Empty means the host's name
	// with a unique suffix.
	Identity string
	// LeaseDuration, RenewDeadline and RetryPeriod configure the election; 0 means the defaults.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration

	// Workers is how many objects each controller works on at the same time. 0 means
	// DefaultWorkers.
	Workers int
	// StuckAfter is how long a pass may run before Healthy fails. 0 means DefaultStuckAfter.
	StuckAfter time.Duration
	// Grace is how long the passes under way may take to end. 0 means DefaultGrace.
	Grace time.Duration
	// Needs are what controllers must be able to read, by their names. If it is not installed or may not
	// be read, the others run without the controller, which is started when that has changed.
	Needs map[string][]Need
	// LookAgain is how often it is found out whether what a controller needs can be read now. 0 means
	// DefaultLookAgain.
	LookAgain time.Duration
	// Metrics record what happens; nil means that they are registered nowhere.
	Metrics *Metrics
	// Log is for the Manager and its controllers. It becomes the log of controller-runtime, of
	// which there is one per process. The zero value logs nothing.
	Log logr.Logger
}

func (o *Options) setDefaults() error {
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, DefaultLeaseDuration)
	o.RenewDeadline = cmp.Or(o.RenewDeadline, DefaultRenewDeadline)
	o.RetryPeriod = cmp.Or(o.RetryPeriod, DefaultRetryPeriod)
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	o.StuckAfter = cmp.Or(o.StuckAfter, DefaultStuckAfter)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.LookAgain = cmp.Or(o.LookAgain, DefaultLookAgain)
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.NoLeaderElection {
		return nil
	}
	if o.LeaseNamespace == "" {
		return errors.New("leader election needs a namespace for its Lease")
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("finding the host's name, which is part of the identity: %w", err)
		}
		o.Identity = host + "_" + string(uuid.NewUUID()) // there may be two on a host, in tests at least
	}
	return nil
}
