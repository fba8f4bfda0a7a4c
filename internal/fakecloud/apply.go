package fakecloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// workers is the number of nodes that are updated concurrently.
	workers = 16
	// callTimeout bounds one call of the API server.
	callTimeout = 15 * time.Second
	// A step that failed is tried again after firstRetry, then twice that, up to
	// lastRetry.
	firstRetry, lastRetry = time.Second, 30 * time.Second

	holder = "evenkeel-fake-cloud" // of leases
)

var (
	errForeign   = errors.New("a node of this name already exists, and is not from this cloud")
	errContested = errors.New("another program has made it ready, although it must not be and its lease is held; does kwok " +
		"run without leases?")
)

// round compares once, and makes the necessary changes.
func (k *Keeper) round(ctx context.Context, desired []*v1.Node) {
	steps := plan(view{owner: k.owner, desired: desired, actual: k.actual(), held: k.held(), inherited: k.inherited})
	now, uncompared := k.clock.Now(), sets.New[types.UID]()
	due := steps[:0]
	for _, s := range steps {
		if k.backoff.IsInBackOffSinceUpdate(s.name, now) {
			uncompared.Insert(s.remove)
			continue
		}
		due = append(due, s)
	}
	failures := k.applyAll(ctx, due)
	if ctx.Err() != nil {
		return
	}
	for i, s := range due {
		if failures[i] == nil {
			k.backoff.DeleteEntry(s.name)
			continue
		}
		k.backoff.Next(s.name, k.clock.Now())
		uncompared.Insert(s.remove)
	}
	k.backoff.GC()
	k.incomplete = len(uncompared) > 0
	k.inherited = k.inherited.Intersection(uncompared) // the removal of these is still to come
	report(klog.FromContext(ctx), due, failures)
}

// applyAll applies the steps, several concurrently, and returns the error of each.
func (k *Keeper) applyAll(ctx context.Context, steps []step) []error {
	failures := make([]error, len(steps))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, s := range steps {
		group.Go(func() error {
			failures[i] = k.apply(ctx, s)
			return nil // the failure of one node does not stop the others
		})
	}
	_ = group.Wait()
	return failures
}

func report(logger klog.Logger, steps []step, failures []error) {
	var created, deleted, ready, down, failed int
	var first error
	for i, s := range steps {
		switch {
		case failures[i] != nil:
			if failed++; first == nil {
				first = failures[i]
			}
		case s.create != nil:
			created++
		case s.remove != "":
			deleted++
		case s.ready != nil && s.ready.Status == v1.ConditionTrue:
			ready++
		case s.ready != nil:
			down++
		}
	}
	if created+deleted+ready+down > 0 {
		logger.Info("Updated Node objects", "created", created, "deleted", deleted, "madeReady", ready, "madeNotReady", down)
	}
	if failed > 0 {
		logger.Error(first, "Failed to update some Node objects; trying again", "nodes", failed)
	}
}

// apply does the parts of a step in their order, up to the first that fails.
func (k *Keeper) apply(ctx context.Context, s step) error {
	if s.foreign {
		return fmt.Errorf("node %s: %w", s.name, errForeign)
	}
	for _, part := range []struct {
		about  string
		needed bool
		do     func(context.Context, step) error
	}{
		{"taking the lease", s.hold, k.hold},
		{"creating", s.create != nil, k.create},
		{"deleting", s.remove != "", k.remove},
		{"writing the status", s.ready != nil, k.writeReady},
		{"giving up the lease", s.release != "", k.release},
	} {
		if !part.needed {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := part.do(limited, s)
		if cancel(); err != nil {
			return fmt.Errorf("node %s: %s: %w", s.name, part.about, err)
		}
	}
	if s.contested { // a failure, so that there is time between two attempts
		return fmt.Errorf("node %s: %w", s.name, errContested)
	}
	return nil
}

// create makes the Node object. One that is there already is news that has not
// arrived yet.
func (k *Keeper) create(ctx context.Context, s step) error {
	_, err := k.client.CoreV1().Nodes().Create(ctx, s.create, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// remove deletes the Node object that was seen, and no other of its name.
func (k *Keeper) remove(ctx context.Context, s step) error {
	return ignoreGone(k.client.CoreV1().Nodes().Delete(ctx, s.name, *metav1.NewPreconditionDeleteOptions(string(s.remove))))
}

func (k *Keeper) writeReady(ctx context.Context, s step) error {
	condition := *s.ready
	now := metav1.NewTime(k.clock.Now())
	condition.LastHeartbeatTime, condition.LastTransitionTime = now, now
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": v1.NodeRunning, "conditions": []v1.NodeCondition{condition},
	}})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, s.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return ignoreGone(err)
}

// hold takes the lease of a node from any holder. It is not renewed, but does not expire before the
// machine is ready. It belongs to no Node object: where it is first, the node comes later.
func (k *Keeper) hold(ctx context.Context, s step) error {
	leases := k.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	labels := map[string]string{OwnerAnnotation: k.owner}
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(holder),
		LeaseDurationSeconds: ptr.To[int32](math.MaxInt32),
		RenewTime:            ptr.To(metav1.NewMicroTime(k.clock.Now())),
	}
	_, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: labels}, Spec: spec},
		metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels, "ownerReferences": nil}, "spec": spec})
	if err != nil {
		return err
	}
	_, err = leases.Patch(ctx, s.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// release deletes the lease that was seen, and no other of its name.
func (k *Keeper) release(ctx context.Context, s step) error {
	leases := k.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	return ignoreGone(leases.Delete(ctx, s.name, *metav1.NewPreconditionDeleteOptions(string(s.release))))
}

// ignoreGone lets an object be gone, or be another one meanwhile: the news of
// that has not arrived yet.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
