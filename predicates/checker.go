package predicates

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Node is a node, real or template, and the pods on it. Finished pods
// (Succeeded, Failed) are ignored.
type Node struct {
	Node *v1.Node
	Pods []*v1.Pod
}

// Same reports whether it is the same node object with the same list of pods, neither of which may have been changed.
func (n Node) Same(other Node) bool {
	return n.Node == other.Node && len(n.Pods) == len(other.Pods) && (len(n.Pods) == 0 || &n.Pods[0] == &other.Pods[0])
}

// Options configure a Checker. The zero value is the default scheduler profile
// in a cluster without volumes, services and namespace labels.
type Options struct {
	// Configuration is a KubeSchedulerConfiguration (YAML or JSON) with exactly
	// one profile. Empty means the default profile.
	Configuration []byte
	// Objects are the cluster objects the plugins look up: PersistentVolumeClaims,
	// PersistentVolumes, StorageClasses, CSINodes, CSIDrivers,
	// CSIStorageCapacities, VolumeAttachments, Namespaces, and, for default
	// spread constraints, Services, ReplicationControllers, ReplicaSets and
	// StatefulSets.
	Objects []runtime.Object
	// Done ends questions that are under way, once it is closed, and all later
	// ones, with ErrInterrupted; nil never does.
	Done <-chan struct{}
	// Progress, where not nil, is called now and then while a question about many
	// pods is answered. It must be quick, and must not ask the Checker.
	Progress func(Step)
}

// Checker runs the scheduler's Filter plugins. It is safe for concurrent use;
// calls run one after the other.
//
// It keeps what it has found out about nodes and pods, and looks again only at what is new. So
// objects that were given to it must never be changed: a changed object is given as a copy.
// ErrChangedObject is returned for an object whose UID, resourceVersion or, for a pod, node name
// has changed, or for a node whether it is schedulable and its number of taints; it is found out
// when the object is looked at, which pods of a node in an unchanged list are not. Of objects that
// are no longer given a bounded number is remembered.
type Checker struct {
	mu       sync.Mutex
	done     <-chan struct{}
	progress func(Step)
	quiet    context.Context // carries the logger that says nothing
	fw       framework.Framework
	filters  []fwk.FilterPlugin // in the order of the profile
	seen     *snapshot
	rules    profileRules
	objects  informers.SharedInformerFactory
	storage  *storage
	standard bool // the default profile
	// preemption is the plugin that preempts; nil: the profile has none.
	preemption *defaultpreemption.DefaultPreemption
	hidden     []replaced       // by the trial under way
	shared     *index           // of the Clusters that are made; nil: to be made anew
	nodeKeys   sets.Set[string] // node label keys that the profile and objects look at

	// These tell how often all PreFilter plugins ran for a pod, and all Filter plugins for a pod and a
	// node.
	preFilterRuns, filterRuns int64
}

// The scheduler's metrics are package variables that are nil until set.
var initMetrics sync.Once

// New builds a Checker. It starts nothing that outlives the call.
func New(ctx context.Context, o Options) (*Checker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	initMetrics.Do(metrics.InitMetrics)
	profile, err := readProfile(o.Configuration)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(nil, 0)
	c := &Checker{
		objects:  factory,
		storage:  newStorage(factory),
		quiet:    klog.NewContext(context.WithoutCancel(ctx), logr.Discard()),
		seen:     &snapshot{},
		done:     o.Done,
		progress: o.Progress,
		nodeKeys: sets.New[string](),
		standard: len(o.Configuration) == 0,
	}
	if c.rules, err = rulesOf(profile); err != nil {
		return nil, err
	}
	c.addNodeKeys(c.rules.nodeKeys)
	if err := c.put(o.Objects); err != nil {
		return nil, err
	}
	noDevices, err := devices(c.quiet, factory)
	if err != nil {
		return nil, err
	}
	registry, built := capturing(plugins.NewInTreeRegistry())
	// The framework starts a goroutine for its metrics that ends with the
	// context. Plugins take only the logger from it, so it may have ended before.
	ended, cancel := context.WithCancel(c.quiet)
	cancel()
	c.fw, err = frameworkruntime.NewFramework(ended, registry, profile,
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(c.seen),
		frameworkruntime.WithSharedDRAManager(noDevices),
		frameworkruntime.WithSharedCSIManager(uncounted()),
		frameworkruntime.WithPodNominator(nobody{}),
		frameworkruntime.WithLogger(logr.Discard()),
	)
	if err != nil {
		return nil, fmt.Errorf("building the scheduler framework: %w", err)
	}
	frameworkruntime.WaitForShutdown(c.fw)
	for _, p := range c.fw.ListPlugins().Filter.Enabled {
		if f, ok := built[p.Name].(fwk.FilterPlugin); ok {
			c.filters = append(c.filters, f)
		}
	}
	c.preemption, _ = built[names.DefaultPreemption].(*defaultpreemption.DefaultPreemption)
	r := &c.rules
	r.resources, r.ports, r.attach = c.hasFilter(names.NodeResourcesFit), c.hasFilter(names.NodePorts), c.hasFilter(names.NodeVolumeLimits)
	r.spreads, r.affine = c.hasFilter(names.PodTopologySpread), c.hasFilter(names.InterPodAffinity)
	return c, nil
}

// CheckConfiguration returns the error that New returns for a scheduler configuration; nil if there
// is none.
func CheckConfiguration(configuration []byte) error {
	if len(bytes.TrimSpace(configuration)) == 0 {
		return fmt.Errorf("%w: it is empty", ErrConfiguration)
	}
	_, err := New(context.Background(), Options{Configuration: configuration})
	return err
}

// interrupted returns ErrInterrupted once nobody waits for answers any more.
func (c *Checker) interrupted() error {
	select {
	case <-c.done:
		return ErrInterrupted
	default:
		return nil
	}
}

func (c *Checker) hasFilter(name string) bool {
	return slices.ContainsFunc(c.filters, func(f fwk.FilterPlugin) bool { return f.Name() == name })
}

// addNodeKeys records node label keys that the profile and objects look at.
func (c *Checker) addNodeKeys(keys []string) {
	c.storage.watchTopology(keys)
	c.nodeKeys.Insert(keys...)
}

// readProfile returns the one profile of a configuration, or the default one.
func readProfile(configuration []byte) (*config.KubeSchedulerProfile, error) {
	if len(configuration) == 0 {
		def, err := latest.Default()
		if err != nil {
			return nil, fmt.Errorf("default scheduler configuration: %w", err)
		}
		return &def.Profiles[0], nil
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(configuration, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%w: it is a %T", ErrConfiguration, obj)
	}
	if len(cfg.Profiles) != 1 {
		return nil, fmt.Errorf("%w: %d profiles, want one", ErrConfiguration, len(cfg.Profiles))
	}
	return &cfg.Profiles[0], nil
}

// capturing wraps a registry so that the plugins it builds can be run one by
// one, which the framework itself does not offer.
func capturing(r frameworkruntime.Registry) (frameworkruntime.Registry, map[string]fwk.Plugin) {
	built := make(map[string]fwk.Plugin, len(r))
	wrapped := make(frameworkruntime.Registry, len(r))
	for name, factory := range r {
		wrapped[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			p, err := factory(ctx, args, h)
			built[name] = p
			return p, err
		}
	}
	return wrapped, built
}
