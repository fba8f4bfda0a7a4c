package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"
	"github.com/evenkeel/evenkeel/sidecar"
)

// Defaults, and names that go with Cluster Autoscaler's own.
const (
	// DefaultNamespace is the default of Cluster Autoscaler's flag --namespace.
	DefaultNamespace = "kube-system"
	// DefaultConfigMap holds the journal.
	DefaultConfigMap = "evenkeel-sidecar"
	// DefaultLease is the default of Cluster Autoscaler's flag --leader-elect-resource-name.
	// Options do not default to it.
	DefaultLease = "cluster-autoscaler"
	// DefaultTimeout bounds one Load or Save, of two or three requests each. Cluster Autoscaler waits
	// 5 s for the call that a Save is part of; the caller's context has less where less is left.
	DefaultTimeout = 3 * time.Second

	userAgent = "evenkeel-sidecar"
)

// Options say where things lie. The zero value is for one autoscaler without leader election, in
// kube-system.
type Options struct {
	// Namespace of the ConfigMap and the lease: the value of Cluster Autoscaler's flag --namespace,
	// which decides alone where its lease lies. Empty means DefaultNamespace.
	Namespace string
	// ConfigMap holds the journal and is made if it is not there. Empty means DefaultConfigMap.
	ConfigMap string
	// Lease is the lock of Cluster Autoscaler's leader election; empty where that is off
	// (--leader-elect=false). The journal is then fenced against earlier processes only, and two
	// that run at a time get in each other's way.
	Lease string
	// Identity is the holder of the lease when our autoscaler leads. Empty means the host's name,
	// as it does there: that of the pod, or of the node with hostNetwork.
	Identity string
	// PodName and PodUID name the pod that events are about. Without a name they are about the
	// ConfigMap; without the UID kubectl describe does not show them. PodNamespace is the pod's;
	// empty means Namespace.
	PodName, PodUID, PodNamespace string
	// StartupTaints and StartupTaintPrefixes are the values of Cluster Autoscaler's flags --startup-taint and
	// --startup-taint-prefix.
	StartupTaints, StartupTaintPrefixes []string
	// GPULabel is the label of nodes that are not ready before they have GPUs; empty if there is
	// none.
	GPULabel string
	// Timeout bounds one Load or Save. 0 means DefaultTimeout.
	Timeout time.Duration
	// PodConditions count the conditions of pods that are written; nil means that none is.
	PodConditions *conditions.Metrics
	// Clock is the real one if nil.
	Clock     clock.Clock
	component string // that publishes events
	// Log receives a line when the watch breaks and when it works again. The zero value logs
	// nothing.
	Log logr.Logger
}

func (o *Options) setDefaults() error {
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.PodNamespace = cmp.Or(o.PodNamespace, o.Namespace)
	o.ConfigMap = cmp.Or(o.ConfigMap, DefaultConfigMap)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	if o.Identity == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("finding the host's name, which Cluster Autoscaler takes for its identity: %w", err)
		}
		o.Identity = name
	}
	return nil
}

// Cluster is what the sidecar needs of the cluster it runs in.
type Cluster struct {
	Journal  *Journal
	Nodes    *Nodes
	Recorder *Recorder
	Notices  *Notices // nil unless conditions of pods are wanted

	running sync.WaitGroup
}

var (
	_ sidecar.Journal  = (*Journal)(nil)
	_ sidecar.Nodes    = (*Nodes)(nil)
	_ sidecar.Recorder = (*Recorder)(nil)

	_ sidecar.PodNotices = (*Notices)(nil)
)

// New begins to watch the nodes and to publish events, until ctx ends. It does not wait for the API
// server: what is not known yet says so.
func New(ctx context.Context, config *rest.Config, o Options) (*Cluster, error) {
	client, err := newClient(config, userAgent)
	if err != nil {
		return nil, err
	}
	return start(ctx, client, o)
}

// newClient builds a client that calls itself agent, unless the configuration has a name already. Nothing waits for a budget
// of calls: there is one call of the journal at a time, watches slow down by themselves when they fail, and the recorder has
// its own limit.
func newClient(config *rest.Config, agent string) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	config.UserAgent = cmp.Or(config.UserAgent, agent)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client of the API server: %w", err)
	}
	return client, nil
}

func start(ctx context.Context, client kubernetes.Interface, o Options) (*Cluster, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	c := &Cluster{
		Journal:  newJournal(client, rand.Text(), &o),
		Nodes:    newNodes(client, &o),
		Recorder: newRecorder(ctx, client, &o),
	}
	c.running.Go(func() { c.Nodes.watch.RunWithContext(klog.NewContext(ctx, o.Log)) })
	if o.PodConditions != nil {
		c.Notices = newNotices(client, &o)
		c.running.Go(func() { c.Notices.run(ctx) })
	}
	return c, nil
}

// Wait returns when the context given to New has ended and nothing runs any more.
func (c *Cluster) Wait() { c.running.Wait() }
