package reconcile

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/owners"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/internal/provisioning/live"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

// Name is the name of the controller in flags, logs and metrics.
const Name = "workloadspread"

// Autoscaler says what the cluster autoscaler does about pods.
type Autoscaler interface {
	// ScaleUps has no entry for a pod of which nothing is known. Its entries count also if there is an
	// error.
	ScaleUps(ctx context.Context, pods []*v1.Pod) (map[types.UID]workloadspread.ScaleUp, error)
}

// Options of a Controller. The zero value works.
type Options struct {
	// Metrics record what happens; nil means that they are registered nowhere.
	Metrics *Metrics
	// PerNamespace watches workloads namespace by namespace, for a manager that may not watch all
	// namespaces at once.
	PerNamespace bool
}

// Controller reconciles every WorkloadSpread of a manager, whose scheme has to know v1alpha1 and the
// core kinds.
type Controller struct {
	store   func(manager.Manager) (*store.Store, error)
	options Options
}

// New returns a Controller. It does nothing until it is set up and its manager runs. What stores the status is
// made when it is set up; admission in the same process must use the same one.
func New(status func(manager.Manager) (*store.Store, error), o Options) *Controller {
	return &Controller{status, o}
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// SetupWithManager registers the controller and what it watches.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	o := c.options
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
	if err := passes.Inform(mgr, &v1alpha1.WorkloadSpread{}, &v1.Node{}); err != nil {
		return err
	}
	on := &triggers{reader: &workloads.Reader{Spreads: mgr.GetClient(), Pods: mgr.GetClient(), Owners: owners.New(mgr.GetAPIReader(), nil)},
		clock: clock.RealClock{}}
	watcher, err := scale.NewWatcher(mgr.GetConfig(), scale.WatcherOptions{
		Changed: on.workload, PerNamespace: o.PerNamespace, Log: mgr.GetLogger(),
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(watcher); err != nil {
		return fmt.Errorf("adding the watcher of workloads: %w", err)
	}
	stored, err := c.store(mgr)
	if err != nil {
		return err
	}
	r := &reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), store: stored, autoscaler: live.New(mgr.GetAPIReader(), clock.RealClock{}),
		mapper: mgr.GetRESTMapper(), watcher: watcher, reader: on.reader,
		events: passes.Recorder{EventRecorder: mgr.GetEventRecorder("evenkeel-" + Name), Action: action}, metrics: o.Metrics,
		clock: clock.RealClock{},
	}
	return builder.ControllerManagedBy(mgr).Named(Name).
		Watches(&v1alpha1.WorkloadSpread{}, on.spreads()).
		Watches(&v1.Pod{}, on.changes()).
		WatchesRawSource(on.Source()).
		WithOptions(passes.Retrying()).
		Complete(r)
}
