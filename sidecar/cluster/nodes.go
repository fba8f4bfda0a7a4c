package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/steering"
)

// Nodes knows the registered nodes from a watch.
type Nodes struct {
	rules  readiness
	clock  clock.PassiveClock
	log    logr.Logger
	store  cache.Store // of registered
	watch  cache.Controller
	listed func() bool // whether there was a first list

	mu     sync.RWMutex
	cause  error     // why the API server cannot be asked; nil if it can
	broken time.Time // since when it cannot
}

// registered is what is kept of a node: its state, with the metadata that the store and the watch look at. The
// node itself has 10 to 20 kB.
type registered struct {
	metav1.ObjectMeta
	state steering.NodeState
}

var errNotListed = errors.New("the nodes have not been listed yet")

func newNodes(client kubernetes.Interface, o *Options) *Nodes {
	n := &Nodes{rules: newReadiness(o), clock: o.Clock, log: o.Log}
	calls := source(client.CoreV1().Nodes(), "", n.asked)
	n.store, n.watch = cache.NewInformerWithOptions(cache.InformerOptions{
		Logger: &n.log, ListerWatcher: cache.ToListWatcherWithWatchListSemantics(calls, client), ObjectType: &v1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{}, Transform: n.kept,
	})
	n.listed = n.watch.HasSynced
	return n
}

// kept is what is kept of an object of the watch: of a node that, and what is not a node as it is.
func (n *Nodes) kept(object any) (any, error) {
	node, ok := object.(*v1.Node)
	if !ok {
		return object, nil
	}
	return &registered{metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion}, n.rules.state(node)}, nil
}

// patience is how long the nodes last seen count as known while the API server cannot be asked.
const patience = time.Minute

// List returns all registered nodes. They are not known, and ok is false, until they were
// listed once, and while the API server has refused or not answered every call of the watch for
// a minute. Until then the nodes last seen count: an API server that restarts is back
// sooner, and Cluster Autoscaler goes on with what it has seen as well.
func (n *Nodes) List() (nodes []steering.NodeState, ok bool) {
	if n.Problem() != nil {
		return nil, false
	}
	all := n.store.List()
	nodes = make([]steering.NodeState, 0, len(all))
	for _, one := range all {
		if node, is := one.(*registered); is {
			nodes = append(nodes, node.state)
		}
	}
	return nodes, true
}

// Problem says why the nodes are not known; nil if they are.
func (n *Nodes) Problem() error {
	listed := n.listed()
	n.mu.RLock()
	defer n.mu.RUnlock()
	switch {
	case n.cause != nil && (!listed || n.clock.Since(n.broken) >= patience):
		return fmt.Errorf("nodes are not known: %w", n.cause)
	case !listed:
		return errNotListed
	}
	return nil
}

// asked notes how a call of the watch began.
func (n *Nodes) asked(verb string, err error) {
	n.mu.Lock()
	was := n.cause
	n.cause = explained(err, verb, "nodes")
	if was == nil && err != nil {
		n.broken = n.clock.Now()
	}
	now := n.cause
	n.mu.Unlock()
	switch {
	case was == nil && now != nil:
		n.log.Error(now, "The watch of nodes is broken")
	case was != nil && now == nil:
		n.log.Info("The watch of nodes is mended")
	}
}

// readiness is Cluster Autoscaler's notion of a ready node.
type readiness struct {
	startupTaints   []string
	startupPrefixes []string
	gpuLabel        string
}

func newReadiness(o *Options) readiness {
	return readiness{
		startupTaints:   o.StartupTaints,
		startupPrefixes: slices.Concat(template.StartupTaintPrefixes, o.StartupTaintPrefixes),
		gpuLabel:        o.GPULabel,
	}
}

func (r readiness) state(n *v1.Node) steering.NodeState {
	return steering.NodeState{
		ProviderID: n.Spec.ProviderID,
		Name:       n.Name,
		Created:    n.CreationTimestamp.Time,
		Ready:      template.IsHealthy(n) && (n.Spec.Unschedulable || !r.starting(n)),
		Lost: slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
			return c.Type == v1.NodeReady && c.Status == v1.ConditionUnknown // which a kubelet never says of itself
		}),
	}
}

// starting reports whether something on the node is awaited still. Cluster Autoscaler asks this of
// nodes that are not cordoned only.
func (r readiness) starting(n *v1.Node) bool {
	for _, t := range n.Spec.Taints {
		if slices.Contains(r.startupTaints, t.Key) ||
			slices.ContainsFunc(r.startupPrefixes, func(p string) bool { return strings.HasPrefix(t.Key, p) }) {
			return true
		}
	}
	if _, labelled := n.Labels[r.gpuLabel]; !labelled || r.gpuLabel == "" {
		return false
	}
	_, gpus := template.GPUs(n.Status.Allocatable)
	return gpus == 0
}
