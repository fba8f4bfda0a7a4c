package controlplane

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tick is how often an object is read while it is waited for.
const tick = 200 * time.Millisecond

// AddNodes registers nodes and waits until kwok has made them ready and the
// controllers have taken the taint of new nodes off them. Labels, taints,
// capacity and allocatable are as given; without an allocatable a node has room
// for anything. The given objects are brought up to date.
func (c *ControlPlane) AddNodes(ctx context.Context, nodes ...*v1.Node) error {
	for _, n := range nodes {
		if err := c.Client.Create(ctx, n); err != nil {
			return fmt.Errorf("adding node %s: %w", n.Name, err)
		}
	}
	for _, n := range nodes {
		if err := c.Until(ctx, n, func() bool { return serves(n) }); err != nil {
			return err
		}
	}
	return nil
}

// serves reports whether a node is ready and not tainted as being new.
func serves(n *v1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == v1.TaintNodeNotReady {
			return false
		}
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition.Status == v1.ConditionTrue
		}
	}
	return false
}

// Until reads the object again and again until it is as wanted. It gives up at
// the first error, and when the context ends.
func (c *ControlPlane) Until(ctx context.Context, o client.Object, wanted func() bool) error {
	key := client.ObjectKeyFromObject(o)
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		if err := c.Client.Get(ctx, key, o); err != nil {
			return false, err
		}
		return wanted(), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %T %s: %w", o, key, err)
	}
	return nil
}
