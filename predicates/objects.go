package predicates

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// Put adds objects that the plugins look up, or replaces those of the same name. A Cluster made
// before may still answer by what was known then.
func (c *Checker) Put(objects ...runtime.Object) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.put(objects)
}

// put fills the stores of the informers, which are never started: the plugins only read the stores,
// so there is neither a client nor a goroutine behind them.
func (c *Checker) put(objects []runtime.Object) error {
	if len(objects) > 0 {
		c.shared = nil
	}
	for i, o := range objects {
		informer := informerFor(c.objects, o)
		if informer == nil {
			return fmt.Errorf("object %d, a %T: %w", i, o, ErrUnknownObject)
		}
		o = asRead(o)
		if err := informer.GetIndexer().Update(o); err != nil {
			return fmt.Errorf("object %d, a %T: %w", i, o, err)
		}
		c.storage.note(o)
		keys := withoutHost(c.rules.object(o))
		c.storage.nodeKeys.Insert(keys...)
		c.addNodeKeys(keys)
	}
	return nil
}

// drop takes objects out of the stores.
func (c *Checker) drop(objects []runtime.Object) error {
	c.shared = nil
	for i, o := range objects {
		informer := informerFor(c.objects, o)
		if informer == nil {
			return fmt.Errorf("object %d, a %T: %w", i, o, ErrUnknownObject)
		}
		if err := informer.GetIndexer().Delete(o); err != nil {
			return fmt.Errorf("object %d, a %T: %w", i, o, err)
		}
		if a, attached := o.(*storagev1.VolumeAttachment); attached {
			c.storage.detached(a)
		}
	}
	return nil
}

// asRead returns an object as the API server and this package have it: with defaults, and of
// drivers without the wish that pods wait for them, as fresh nodes have no driver yet.
func asRead(o runtime.Object) runtime.Object {
	switch o := o.(type) {
	case *storagev1.StorageClass:
		if o.VolumeBindingMode == nil {
			c := *o
			immediate := storagev1.VolumeBindingImmediate
			c.VolumeBindingMode = &immediate
			return &c
		}
	case *v1.PersistentVolume:
		// A volume that is taken is looked for by name only. Those of a class are all gone through
		// for every claim and node.
		if o.Status.Phase == v1.VolumeBound && o.Spec.ClaimRef != nil && o.Spec.StorageClassName != "" {
			c := *o
			c.Spec.StorageClassName = ""
			return &c
		}
	case *storagev1.CSIDriver:
		if o.Spec.PreventPodSchedulingIfMissing != nil {
			c := *o
			c.Spec.PreventPodSchedulingIfMissing = nil
			return &c
		}
	}
	return o
}

func informerFor(f informers.SharedInformerFactory, o runtime.Object) cache.SharedIndexInformer {
	switch o.(type) {
	case *v1.PersistentVolumeClaim:
		return f.Core().V1().PersistentVolumeClaims().Informer()
	case *v1.PersistentVolume:
		return f.Core().V1().PersistentVolumes().Informer()
	case *v1.Namespace:
		return f.Core().V1().Namespaces().Informer()
	case *v1.Service:
		return f.Core().V1().Services().Informer()
	case *v1.ReplicationController:
		return f.Core().V1().ReplicationControllers().Informer()
	case *appsv1.ReplicaSet:
		return f.Apps().V1().ReplicaSets().Informer()
	case *appsv1.StatefulSet:
		return f.Apps().V1().StatefulSets().Informer()
	case *storagev1.StorageClass:
		return f.Storage().V1().StorageClasses().Informer()
	case *storagev1.CSINode:
		return f.Storage().V1().CSINodes().Informer()
	case *storagev1.CSIDriver:
		return f.Storage().V1().CSIDrivers().Informer()
	case *storagev1.CSIStorageCapacity:
		return f.Storage().V1().CSIStorageCapacities().Informer()
	case *storagev1.VolumeAttachment:
		return f.Storage().V1().VolumeAttachments().Informer()
	}
	return nil
}

// devices is the manager of dynamic resources of a cluster that has none: a nil manager would make the
// plugin panic. The informers behind it are never started.
func devices(ctx context.Context, f informers.SharedInformerFactory) (fwk.SharedDRAManager, error) {
	r := f.Resource().V1()
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: r.ResourceSlices()}) // nothing runs without taint rules
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(logr.Discard(), r.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	return dynamicresources.NewDRAManager(ctx, claims, slices, f), nil
}

// uncounted hides CSINodes from NodeVolumeLimits: equal pods share one claim here, which the plugin
// would count once. The limits are kept by attachRoom.
func uncounted() fwk.CSIManager {
	return nodevolumelimits.NewCSIManager(storagelisters.NewCSINodeLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)))
}
