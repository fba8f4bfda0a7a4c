package cluster

import (
	"context"
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
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/steering"
)

// Nodes knows the registered nodes from a watch. Of each it keeps its state only, below 400 bytes.
type Nodes struct {
	states collection[*v1.Node, steering.NodeState]
	clock  clock.Clock
	log    logr.Logger

	mu     sync.RWMutex
	cause  error     // why the API server cannot be asked; nil if it can
	broken time.Time // since when it cannot
}

var errNotListed = errors.New("the nodes have not been listed yet")

func newNodes(o *Options) *Nodes {
	rules := newReadiness(o)
	return &Nodes{states: collection[*v1.Node, steering.NodeState]{stripped: rules.stripped, kept: rules.state}, clock: o.Clock, log: o.Log}
}

// patience is how long the nodes last seen count as known while the API server cannot be asked.
const patience = time.Minute

// List returns all registered nodes by name. They are not known, and ok is false, until they were
// listed once, and while the API server has refused or not answered every call of the watch for
// a minute. Until then the nodes last seen count: an API server that restarts is back
// sooner, and Cluster Autoscaler goes on with what it has seen as well.
func (n *Nodes) List() (nodes []steering.NodeState, ok bool) {
	if n.Problem() != nil {
		return nil, false
	}
	return n.states.list(), true
}

// Problem says why the nodes are not known; nil if they are.
func (n *Nodes) Problem() error {
	listed := n.states.listed()
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

// run watches until ctx ends.
func (n *Nodes) run(ctx context.Context, client kubernetes.Interface) {
	runReflector(klog.NewContext(ctx, n.log), client, source(client.CoreV1().Nodes(), "", n.asked), &n.states, cache.ReflectorOptions{
		Name: "nodes", Logger: &n.log, Clock: n.clock,
	})
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

// stripped keeps of a node what state looks at, and what the watch needs.
func (r readiness) stripped(n *v1.Node) *v1.Node {
	out := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, CreationTimestamp: n.CreationTimestamp,
	}}
	out.Spec.ProviderID = n.Spec.ProviderID
	out.Spec.Unschedulable = n.Spec.Unschedulable
	out.Spec.Taints = n.Spec.Taints
	out.Status.Conditions = n.Status.Conditions
	if value, labelled := n.Labels[r.gpuLabel]; labelled && r.gpuLabel != "" {
		out.Labels = map[string]string{r.gpuLabel: value}
		out.Status.Allocatable = n.Status.Allocatable
	}
	return out
}
