package admission

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/owners"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

// The paths of the webhooks.
const (
	// PathMutatePods is for the creation of pods.
	PathMutatePods = "/mutate-pods"
	// PathValidateSpreads is for the creation and update of WorkloadSpreads.
	PathValidateSpreads = "/validate-workloadspreads"
)

// Simulator says whether there is room for pods.
type Simulator interface {
	// Room has an answer for each pod, which is the same pod with the rules of one subset after
	// another. It returns before its context ends.
	Room(ctx context.Context, pods []*v1.Pod) []workloadspread.Room
	// Decided says that a pod that Room was asked about is created, with these rules, or is not created.
	Decided(pod *v1.Pod, created bool)
}

// Options of a Server.
type Options struct {
	// Simulator is asked about the pods of adaptive WorkloadSpreads; nil means that nothing is
	// simulated.
	Simulator Simulator
	// Namespace is that of the program itself. Its pods are left alone.
	Namespace string
	// Cover is called with the namespace of each new WorkloadSpread, and has the API server send its pods
	// before it returns; nil means that it does so already. If it fails, the WorkloadSpread is not created.
	Cover func(ctx context.Context, namespace string) error
	// Events records events about WorkloadSpreads; nil means none.
	Events events.EventRecorder
	// Metrics record what is answered; nil means that they are registered nowhere.
	Metrics *Metrics
	// Log is for refusals and failures. The zero value logs nothing.
	Log logr.Logger
}

// Server answers webhooks. It is safe for concurrent use.
type Server struct {
	reader workloads.Reader
	live   client.Client
	store  *store.Store
	o      Options
	clock  clock.PassiveClock
}

// New returns a Server that reads WorkloadSpreads from a cache, on which Watch was called, and all else
// from the API server, with a client that does not cache. Counts are kept in the store.
func New(cached client.Reader, live client.Client, s *store.Store, o Options) *Server {
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
	return &Server{reader: workloads.Reader{Spreads: cached, Pods: live, Owners: owners.New(live, nil)}, live: live, store: s, o: o,
		clock: clock.RealClock{}}
}

// Handlers are the handlers of the webhooks by their paths.
func (s *Server) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		PathMutatePods:      s.handler(PathMutatePods, s.createPod),
		PathValidateSpreads: s.handler(PathValidateSpreads, s.validateSpread),
	}
}

// Watch has the Server forget WorkloadSpreads that are deleted from a cache.
func (s *Server) Watch(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &v1alpha1.WorkloadSpread{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching WorkloadSpreads: %w", err)
	}
	_, err = informer.AddEventHandler(passes.Follow(func(before, now *v1alpha1.WorkloadSpread) {
		if now == nil {
			s.forget(client.ObjectKeyFromObject(before))
		}
	}))
	return err
}

func (s *Server) forget(key types.NamespacedName) {
	s.store.Forget(key)
	s.o.Metrics.set.ForgetObject(key)
}

// say records an event about new pods.
func (s *Server) say(o *v1alpha1.WorkloadSpread, reason, note string) {
	if s.o.Events != nil {
		passes.Recorder{EventRecorder: s.o.Events, Action: "AdmitPod"}.Record(o, nil, v1.EventTypeWarning, reason, note)
	}
}
