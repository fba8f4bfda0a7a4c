package fakecloud

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// pause is the least time between two comparisons of cloud and API server.
	pause = 100 * time.Millisecond
	// probeInterval is the interval of the checks whether the API server responds.
	probeInterval = 10 * time.Second
	// farewell bounds the deletion of the nodes at the end.
	farewell = time.Minute
)

// Cloud is the source of nodes. *fake.Cloud implements it.
type Cloud interface {
	// RegisteredNodes returns the desired nodes at this time. Their names are unique.
	RegisteredNodes() []*v1.Node
	// NextEvent returns when they change next without a call; ok is false if they never do.
	NextEvent() (at time.Time, ok bool)
}

// KeeperOptions are the options of a Keeper. The zero value works.
type KeeperOptions struct {
	// DeleteOnExit deletes the nodes when the Keeper ends; otherwise they stay, and the next Keeper
	// with the same owner adopts them.
	DeleteOnExit bool
}

// Keeper keeps the Node objects of a cloud in an API server. It creates and deletes them with the
// cloud's nodes, and afterwards changes only their readiness: changes of labels, taints and sizes
// by others stay. A deleted Node object is created again, because its machine still exists.
type Keeper struct {
	client kubernetes.Interface
	cloud  Cloud
	owner  string
	o      KeeperOptions
	clock  clock.Clock
	wake   chan struct{}

	nodes, leases cache.Store
	inherited     sets.Set[types.UID]  // nodes of an earlier run that were not compared yet
	backoff       *flowcontrol.Backoff // of failed steps, by name of the node
	incomplete    bool                 // a step of the last round is still to be made

	mu      sync.Mutex
	problem error
}

var errUnread = errors.New("the nodes of the API server have not been read yet")

// NewKeeper returns a keeper that marks the nodes it makes with owner, which
// CheckNames must accept. Run starts it.
func NewKeeper(client kubernetes.Interface, cloud Cloud, owner string, o KeeperOptions) *Keeper {
	return &Keeper{
		client: client, cloud: cloud, owner: owner, o: o, clock: clock.RealClock{},
		wake: make(chan struct{}, 1), inherited: sets.New[types.UID](),
		backoff: flowcontrol.NewBackOff(firstRetry, lastRetry), problem: errUnread,
	}
}

// Changed notifies the keeper that the cloud has changed. It does not wait.
func (k *Keeper) Changed() {
	select {
	case k.wake <- struct{}{}:
	default: // it will look in any case
	}
}

// Problem returns why the API server cannot be used; nil if it can.
func (k *Keeper) Problem() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.problem
}

// Run keeps nodes until ctx is done; it must be called once. Errors are logged with the context's
// logger, and retried.
func (k *Keeper) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	synced := k.watch(ctx, &others)
	others.Go(func() { k.probe(ctx, synced) })
	if !cache.WaitFor(ctx, "", synced...) {
		return
	}
	for name, node := range k.actual() {
		if node.Annotations[OwnerAnnotation] == k.owner {
			klog.FromContext(ctx).V(2).Info("Found a node of an earlier run", "node", name)
			k.inherited.Insert(node.UID)
		}
	}
	for ctx.Err() == nil {
		at, ok := k.cloud.NextEvent() // before the nodes are read, so that none is missed
		k.round(ctx, k.cloud.RegisteredNodes())
		k.sleep(ctx, at, ok)
	}
	if k.o.DeleteOnExit {
		k.clear(context.WithoutCancel(ctx))
	}
}

// clear deletes all that this cloud has made. What is there it asks anew, since
// news of the last round may not have arrived.
func (k *Keeper) clear(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	logger := klog.FromContext(ctx)
	nodes, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		logger.Error(err, "Failed to delete the Node objects")
		return
	}
	leases, err := k.client.CoordinationV1().Leases(v1.NamespaceNodeLease).List(ctx, k.heldLeases())
	if err != nil {
		logger.Error(err, "Failed to delete the Node objects")
		return
	}
	v := view{owner: k.owner, actual: map[string]*v1.Node{}, held: map[string]types.UID{}}
	for i := range nodes.Items {
		v.actual[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for i := range leases.Items {
		v.held[leases.Items[i].Name] = leases.Items[i].UID
	}
	steps := plan(v)
	report(logger, steps, k.applyAll(ctx, steps))
}

func (k *Keeper) heldLeases() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: OwnerAnnotation + "=" + k.owner}
}

// sleep waits for the next reason to compare cloud and API server: something has changed, the next
// event, or time for what failed.
func (k *Keeper) sleep(ctx context.Context, event time.Time, ok bool) {
	k.rest(ctx, pause, nil)
	if again := k.clock.Now().Add(firstRetry); k.incomplete && (!ok || again.Before(event)) {
		event, ok = again, true
	}
	if !ok {
		select {
		case <-ctx.Done():
		case <-k.wake:
		}
		return
	}
	k.rest(ctx, event.Sub(k.clock.Now()), k.wake)
}

func (k *Keeper) rest(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	timer := k.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-woken:
	}
}

// watch starts to mirror the nodes, and the leases held by this cloud.
func (k *Keeper) watch(ctx context.Context, running *sync.WaitGroup) (synced []cache.DoneChecker) {
	nodes := coreinformers.NewNodeInformer(k.client, 0, nil)
	leases := coordinationinformers.NewFilteredLeaseInformer(k.client, v1.NamespaceNodeLease, 0, nil, func(o *metav1.ListOptions) {
		o.LabelSelector = k.heldLeases().LabelSelector
	})
	k.nodes, k.leases = nodes.GetStore(), leases.GetStore()
	for _, informer := range []cache.SharedIndexInformer{nodes, leases} {
		// These fail only for an informer that runs or has ended.
		_ = informer.SetTransform(withoutManagers)
		_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
			klog.FromContext(ctx).V(2).Info("Restarting the watch of the API server", "reason", err.Error())
		})
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { k.Changed() },
			UpdateFunc: k.updated,
			DeleteFunc: func(any) { k.Changed() },
		})
		if err == nil {
			synced = append(synced, registration.HasSyncedChecker())
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	return synced
}

// updated ignores heartbeats and all else that makes no difference.
func (k *Keeper) updated(before, after any) {
	was, isNode := before.(*v1.Node)
	is, _ := after.(*v1.Node)
	if !isNode || is == nil || readyOf(was).Status != readyOf(is).Status || was.UID != is.UID ||
		was.Annotations[OwnerAnnotation] != is.Annotations[OwnerAnnotation] {
		k.Changed()
	}
}

// withoutManagers forgets who manages which field, which is much and not needed.
func withoutManagers(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return object, nil
}

func (k *Keeper) actual() map[string]*v1.Node {
	nodes := map[string]*v1.Node{}
	for _, object := range k.nodes.List() {
		if n, ok := object.(*v1.Node); ok {
			nodes[n.Name] = n
		}
	}
	return nodes
}

func (k *Keeper) held() map[string]types.UID {
	held := map[string]types.UID{}
	for _, object := range k.leases.List() {
		if lease, ok := object.(*coordinationv1.Lease); ok {
			held[lease.Name] = lease.UID
		}
	}
	return held
}

// probe checks periodically whether the API server responds, and logs changes.
func (k *Keeper) probe(ctx context.Context, synced []cache.DoneChecker) {
	logger, failing := klog.FromContext(ctx), false
	for ctx.Err() == nil {
		err := k.ask(ctx)
		if err == nil && !cache.WaitFor(ctx, "", synced...) {
			return
		}
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && !failing:
			logger.Error(err, "The API server cannot be used; trying again")
		case err == nil && failing:
			logger.Info("The API server can be used again")
		}
		failing = err != nil
		k.mu.Lock()
		k.problem = err
		k.mu.Unlock()
		k.rest(ctx, probeInterval, nil)
	}
}

func (k *Keeper) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	if _, err := k.client.CoordinationV1().Leases(v1.NamespaceNodeLease).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("listing leases of nodes: %w", err)
	}
	return nil
}
