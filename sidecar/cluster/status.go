package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// expanderRBAC are the manifests with the rights of an expander alone.
const expanderRBAC = "configs/expander/rbac"

// expanderAgent is the name of an expander alone.
const expanderAgent = "evenkeel-expander"

// Beside is what an expander alone needs of the cluster that it runs in.
type Beside struct {
	Recorder *Recorder
	Nodes    sidecar.ExpanderNodes // nil unless nodes are counted

	client  kubernetes.Interface
	o       Options
	running sync.WaitGroup
}

// NewBeside begins to publish events and, if countNodes is true, to watch the nodes, until ctx ends. Of the options,
// ConfigMap names the status of Cluster Autoscaler; empty means its default.
func NewBeside(ctx context.Context, config *rest.Config, o Options, countNodes bool) (*Beside, error) {
	o.ConfigMap = cmp.Or(o.ConfigMap, autoscalerstatus.ConfigMap)
	client, err := newClient(config, expanderAgent)
	if err != nil {
		return nil, err
	}
	return startBeside(ctx, client, o, countNodes)
}

func startBeside(ctx context.Context, client kubernetes.Interface, o Options, countNodes bool) (*Beside, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	o.component = expanderAgent
	b := &Beside{Recorder: newRecorder(ctx, client, &o), client: client, o: o}
	if countNodes {
		b.watchNodes(klog.NewContext(ctx, o.Log))
	}
	return b, nil
}

// watchNodes keeps what is needed to count nodes by their labels.
func (b *Beside) watchNodes(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(b.client, 0, informers.WithTransform(func(object any) (any, error) {
		node, ok := object.(*v1.Node)
		if !ok {
			return object, nil
		}
		meta := metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels}
		return &v1.Node{ObjectMeta: meta, Status: v1.NodeStatus{Conditions: node.Status.Conditions}}, nil
	}))
	nodes := factory.Core().V1().Nodes()
	listed := nodes.Informer().HasSynced
	b.Nodes = func() ([]*v1.Node, error) {
		if !listed() {
			return nil, errNotListed
		}
		return nodes.Lister().List(labels.Everything())
	}
	factory.StartWithContext(ctx)
	b.running.Go(func() { <-ctx.Done(); factory.Shutdown() })
}

// errInitializing is what there is of a Cluster Autoscaler that has just begun.
var errInitializing = errors.New("it has no node groups yet, since Cluster Autoscaler is starting")

// WatchStatus reports the status of Cluster Autoscaler, whenever it is written, or why it cannot be read, until ctx ends.
func (b *Beside) WatchStatus(ctx context.Context, report func(steering.Sizes, error)) {
	name := fmt.Sprintf("ConfigMap %s/%s", b.o.Namespace, b.o.ConfigMap)
	fail := func(err error) { report(steering.Sizes{}, fmt.Errorf("%s: %w", name, err)) }
	seen := func(object any) {
		sizes, err := sizesIn(object)
		if err != nil {
			fail(err)
			return
		}
		report(sizes, nil)
	}
	gone := func() {
		fail(errors.New("does not exist: Cluster Autoscaler does not run, or writes it elsewhere (--write-status-configmap, " +
			"--namespace, --status-config-map-name)"))
	}
	source := source(b.client.CoreV1().ConfigMaps(b.o.Namespace), fields.OneTermEqualSelector(metav1.ObjectNameField, b.o.ConfigMap).String(),
		func(verb string, err error) {
			if err != nil {
				report(steering.Sizes{}, explain(err, verb, name, expanderRBAC))
			}
		})
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(source, b.client), ObjectType: &v1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: seen, UpdateFunc: func(_, now any) { seen(now) }, DeleteFunc: func(any) { gone() }},
	})
	b.running.Go(func() { controller.RunWithContext(klog.NewContext(ctx, b.o.Log)) })
	b.running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) && len(store.List()) == 0 {
			gone()
		}
	})
}

// sizesIn reads the sizes in the ConfigMap of the status.
func sizesIn(object any) (steering.Sizes, error) {
	config, ok := object.(*v1.ConfigMap)
	if !ok {
		return steering.Sizes{}, fmt.Errorf("is a %T", object)
	}
	text, has := config.Data[autoscalerstatus.Key]
	if !has {
		return steering.Sizes{}, fmt.Errorf("has no key %q", autoscalerstatus.Key)
	}
	status, err := autoscalerstatus.Parse(text)
	switch {
	case err != nil:
		return steering.Sizes{}, err
	case status.Time.IsZero():
		return steering.Sizes{}, errors.New("it has no time, so nobody knows which answers are in it already")
	case len(status.Groups) == 0:
		return steering.Sizes{}, errInitializing
	}
	return SizesOf(status), nil
}

// SizesOf are the sizes of the groups in a status.
func SizesOf(status *autoscalerstatus.Status) steering.Sizes {
	out := steering.Sizes{Began: status.Time, Groups: make([]steering.GroupSize, len(status.Groups))}
	for i := range status.Groups {
		g := &status.Groups[i]
		out.Groups[i] = steering.GroupSize{
			Name: g.Name, Target: g.Target, MinSize: g.MinSize, MaxSize: g.MaxSize, Ready: g.Ready, Unready: g.Unready, Lost: g.LongUnregistered,
		}
		if g.Backoff != nil {
			out.Groups[i].Refused = g.Backoff.Code == autoscalerstatus.CloudProviderError
			out.Groups[i].BackedOff = cmp.Or(g.Backoff.Message, g.Backoff.Code, "a scale-up has failed")
		}
	}
	return out
}

// Wait returns when the context given has ended and nothing runs any more.
func (b *Beside) Wait() { b.running.Wait() }
