package schedule

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/provisioning"
)

// Kinds are those that Watch needs. A cache that may not read one of them is never filled.
func Kinds() []client.Object {
	return []client.Object{
		&v1.Node{}, &v1.Pod{}, &v1.Namespace{}, &v1.PersistentVolumeClaim{}, &v1.PersistentVolume{}, &storagev1.StorageClass{},
		&storagev1.CSINode{}, &storagev1.CSIDriver{}, &storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{},
	}
}

// Watch feeds the Simulator from a cache, which must have the nodes and pods of all namespaces. It is
// called before the cache is started.
func (s *Simulator) Watch(ctx context.Context, c cache.Cache) error {
	for _, o := range Kinds() {
		informer, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching for the simulation: %w", err)
		}
		if _, err := informer.AddEventHandler(passes.Follow(func(before, now client.Object) {
			s.changed(cmp.Or(now, before), now == nil)
		})); err != nil {
			return fmt.Errorf("watching for the simulation: %w", err)
		}
	}
	return nil
}

// changed notes that an object is as given, or gone.
func (s *Simulator) changed(o client.Object, gone bool) {
	s.change(func(c *cluster) {
		switch o := o.(type) {
		case *v1.Node:
			if gone {
				c.removeNode(o.Name)
			} else {
				c.setNode(o)
			}
		case *v1.Pod:
			if gone {
				c.forget(nameOf(o))
			} else {
				c.setPod(o)
			}
		default: // the filters look it up
			put := c.live.Put
			if gone {
				put = c.live.Drop
			}
			if err := put(o); err != nil {
				s.o.Log.Error(err, "Cannot take over an object", "name", o.GetName())
			}
		}
	})
}

// Follow reads every so often what is known of the autoscaler, until ctx is done: its node groups, if
// there is a cloud, and its status. What cannot be read stays as it was, which its age ends.
func (s *Simulator) Follow(ctx context.Context, every time.Duration, cloud cloudprovider.Provider,
	status func(context.Context) (*provisioning.Status, error)) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if cloud != nil {
			if all, err := readGroups(ctx, cloud); err == nil {
				s.change(func(c *cluster) { c.setGroups(all) })
			} else if ctx.Err() == nil {
				s.o.Log.Error(err, "Cannot read the node groups for the simulation")
			}
		}
		if status != nil {
			if now, err := status(ctx); err == nil {
				s.change(func(c *cluster) { c.status, c.recount = now, true })
			} else if ctx.Err() == nil {
				s.o.Log.V(1).Info("Cannot read the status of Cluster Autoscaler", "problem", err.Error())
			}
		}
	}, every)
	return nil
}
