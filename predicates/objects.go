package predicates

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
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
		c.look(keys)
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

// uncounted hides CSINodes from NodeVolumeLimits: equal pods share one claim here, which the plugin
// would count once. The limits are kept by attachRoom.
type uncounted struct{}

var _ fwk.CSIManager = uncounted{}

func (uncounted) CSINodes() fwk.CSINodeLister         { return uncounted{} }
func (uncounted) List() ([]*storagev1.CSINode, error) { return nil, nil }
func (uncounted) Get(name string) (*storagev1.CSINode, error) {
	return nil, notFound(storagev1.GroupName, "csinodes", name)
}

// noDevices is the manager of dynamic resources of a cluster that has none: a
// nil manager would make the plugin panic.
type noDevices struct{}

var _ fwk.SharedDRAManager = noDevices{}

func (noDevices) ResourceClaims() fwk.ResourceClaimTracker     { return noClaims{} }
func (noDevices) ResourceSlices() fwk.ResourceSliceLister      { return noSlices{} }
func (noDevices) DeviceClasses() fwk.DeviceClassLister         { return noClasses{} }
func (noDevices) DeviceClassResolver() fwk.DeviceClassResolver { return noClasses{} }
func (noDevices) PodGroups() fwk.PodGroupLister                { return noPodGroups{} }

func notFound(group, resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: resource}, name)
}

type noClaims struct{}

func (noClaims) List() ([]*resourceapi.ResourceClaim, error) { return nil, nil }
func (noClaims) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	return nil, notFound(resourceapi.GroupName, "resourceclaims", name)
}
func (noClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return sets.New[structured.DeviceID](), nil
}
func (noClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	return &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}, nil
}
func (noClaims) SignalClaimPendingAllocation(types.UID, *resourceapi.ResourceClaim) error { return nil }
func (noClaims) GetPendingAllocation(types.UID) *resourceapi.AllocationResult             { return nil }
func (noClaims) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool                   { return false }
func (noClaims) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error                 { return nil }
func (noClaims) AssumedClaimRestore(_, _ string)                                          {}

type noSlices struct{}

func (noSlices) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) { return nil, nil }

type noClasses struct{}

func (noClasses) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }
func (noClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	return nil, notFound(resourceapi.GroupName, "deviceclasses", name)
}
func (noClasses) GetDeviceClass(v1.ResourceName) *resourceapi.DeviceClass { return nil }

type noPodGroups struct{}

func (noPodGroups) Get(_, name string) (*schedulingapi.PodGroup, error) {
	return nil, notFound(schedulingapi.GroupName, "podgroups", name)
}
