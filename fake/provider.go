package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// NodeGroups implements cloudprovider.Provider.
func (c *Cloud) NodeGroups(ctx context.Context) ([]cloudprovider.NodeGroup, error) {
	return ask(ctx, c, Call{Method: MethodNodeGroups}, func(*group, time.Time) ([]cloudprovider.NodeGroup, error) {
		groups := make([]cloudprovider.NodeGroup, 0, len(c.groups))
		for _, g := range c.groups {
			groups = append(groups, cloudprovider.NodeGroup{
				ID: g.ID, MinSize: g.MinSize, MaxSize: g.MaxSize,
				Debug: fmt.Sprintf("%s (%d:%d)", g.ID, g.MinSize, g.MaxSize),
			})
		}
		return groups, nil
	})
}

// NodeGroupForNode implements cloudprovider.Provider. A node without provider id
// is recognised by its name.
func (c *Cloud) NodeGroupForNode(ctx context.Context, node *v1.Node) (id string, ok bool, err error) {
	id, err = ask(ctx, c, Call{Method: MethodNodeGroupForNode, Nodes: []string{node.Name}}, func(*group, time.Time) (string, error) {
		if in := c.find(node); in != nil {
			return in.group.ID, nil
		}
		return "", nil
	})
	return id, id != "", err
}

// TargetSize implements cloudprovider.Provider.
func (c *Cloud) TargetSize(ctx context.Context, id string) (int, error) {
	return ask(ctx, c, Call{Method: MethodTargetSize, Group: id}, func(g *group, _ time.Time) (int, error) { return g.target(), nil })
}

// IncreaseSize implements cloudprovider.Provider: it orders all nodes or none.
func (c *Cloud) IncreaseSize(ctx context.Context, id string, delta int) error {
	return c.do(ctx, Call{Method: MethodIncreaseSize, Group: id, Delta: delta}, func(g *group, now time.Time) error {
		if err := c.mayIncrease(g, delta, now); err != nil {
			return err
		}
		g.waiting = append(g.waiting, slices.Repeat([]time.Time{now}, delta)...)
		c.fulfil(g, now)
		return nil
	})
}

func (c *Cloud) mayIncrease(g *group, delta int, now time.Time) error {
	if delta <= 0 {
		return fmt.Errorf("node group %q: %w: increase by %d", g.ID, cloudprovider.ErrInvalidDelta, delta)
	}
	if target := g.target(); delta > g.MaxSize-target {
		return fmt.Errorf("node group %q: %w: %d more than %d, maximum %d", g.ID, cloudprovider.ErrAboveMax, delta, target, g.MaxSize)
	}
	total := 0
	for _, other := range c.groups {
		total += len(other.waiting) + len(other.instances)
	}
	if delta > MaxNodes-total {
		return fmt.Errorf("node group %q: %w: this cloud holds at most %d nodes", g.ID, cloudprovider.ErrOutOfResources, MaxNodes)
	}
	for i := range c.quotas {
		if err := c.quotas[i].allows(g, delta); err != nil {
			return err
		}
	}
	return g.refuses(delta, now.Sub(c.start))
}

// DecreaseTargetSize implements cloudprovider.Provider: it refuses a decrease by more than the
// number of waiting orders.
func (c *Cloud) DecreaseTargetSize(ctx context.Context, id string, delta int) error {
	return c.do(ctx, Call{Method: MethodDecreaseTargetSize, Group: id, Delta: delta}, func(g *group, _ time.Time) error {
		if delta >= 0 || delta < -len(g.waiting) {
			return fmt.Errorf("node group %q: %w: decrease by %d, unfulfilled %d", g.ID, cloudprovider.ErrInvalidDelta, delta, len(g.waiting))
		}
		g.waiting = g.waiting[:len(g.waiting)+delta]
		return nil
	})
}

// DeleteNodes implements cloudprovider.Provider: all nodes or none. It never goes below the group's
// minimum, except that instances that could not be created can always be deleted.
func (c *Cloud) DeleteNodes(ctx context.Context, id string, nodes []*v1.Node) error {
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return c.do(ctx, Call{Method: MethodDeleteNodes, Group: id, Nodes: names}, func(g *group, now time.Time) error {
		doomed, err := c.toDelete(g, nodes)
		if err != nil {
			return err
		}
		for _, in := range doomed {
			c.remove(in, now)
		}
		c.removeTerminated(now)
		c.fulfil(g, now) // deleted machines return to the stock
		return nil
	})
}

// toDelete returns the instances of the nodes, each once, without those that are already being
// deleted.
func (c *Cloud) toDelete(g *group, nodes []*v1.Node) ([]*instance, error) {
	var doomed []*instance
	running := 0
	seen := map[*instance]bool{}
	for _, node := range nodes {
		in := c.find(node)
		if in == nil || in.group != g {
			return nil, fmt.Errorf("node group %q: node %q: %w", g.ID, node.Name, cloudprovider.ErrNotInGroup)
		}
		if seen[in] || in.leaves() {
			continue
		}
		seen[in] = true
		doomed = append(doomed, in)
		if in.failure == nil {
			running++
		}
	}
	if target := g.target(); running > 0 && target-len(doomed) < g.MinSize {
		return nil, fmt.Errorf("node group %q: %w: %d less than %d, minimum %d", g.ID, cloudprovider.ErrBelowMin, len(doomed), target, g.MinSize)
	}
	return doomed, nil
}

// Nodes implements cloudprovider.Provider. Instances are sorted by age; waiting orders have none.
func (c *Cloud) Nodes(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
	return ask(ctx, c, Call{Method: MethodNodes, Group: id}, func(g *group, now time.Time) ([]cloudprovider.Instance, error) {
		instances := make([]cloudprovider.Instance, 0, len(g.instances))
		for _, in := range g.instances {
			if !in.listedAt().After(now) {
				instances = append(instances, in.describe(now))
			}
		}
		return instances, nil
	})
}

// Template implements cloudprovider.Provider.
func (c *Cloud) Template(ctx context.Context, id string) (cloudprovider.Template, error) {
	return ask(ctx, c, Call{Method: MethodTemplate, Group: id}, func(g *group, _ time.Time) (cloudprovider.Template, error) {
		return g.Template.DeepCopy(), nil
	})
}

// Options implements cloudprovider.Provider.
func (c *Cloud) Options(ctx context.Context, id string, defaults cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) {
	return ask(ctx, c, Call{Method: MethodOptions, Group: id}, func(g *group, _ time.Time) (cloudprovider.GroupOptions, error) {
		if g.Options == nil {
			return cloudprovider.GroupOptions{}, cloudprovider.ErrNotImplemented
		}
		return withDefaults(*g.Options, defaults), nil
	})
}

func withDefaults(o, defaults cloudprovider.GroupOptions) cloudprovider.GroupOptions {
	o.ScaleDownUtilizationThreshold = cmp.Or(o.ScaleDownUtilizationThreshold, defaults.ScaleDownUtilizationThreshold)
	o.ScaleDownGPUUtilizationThreshold = cmp.Or(o.ScaleDownGPUUtilizationThreshold, defaults.ScaleDownGPUUtilizationThreshold)
	o.ScaleDownUnneededTime = cmp.Or(o.ScaleDownUnneededTime, defaults.ScaleDownUnneededTime)
	o.ScaleDownUnreadyTime = cmp.Or(o.ScaleDownUnreadyTime, defaults.ScaleDownUnreadyTime)
	o.MaxNodeProvisionTime = cmp.Or(o.MaxNodeProvisionTime, defaults.MaxNodeProvisionTime)
	o.MaxNodeStartupTime = cmp.Or(o.MaxNodeStartupTime, defaults.MaxNodeStartupTime)
	return o
}

// Refresh implements cloudprovider.Provider. There is nothing to fetch: the
// cloud's bounds never change.
func (c *Cloud) Refresh(ctx context.Context) error {
	return c.do(ctx, Call{Method: MethodRefresh}, func(*group, time.Time) error { return nil })
}

// Cleanup implements cloudprovider.Provider. There is nothing to release.
func (c *Cloud) Cleanup(ctx context.Context) error {
	return c.do(ctx, Call{Method: MethodCleanup}, func(*group, time.Time) error { return nil })
}

// ask is do for a call with an answer, which is lost if the call fails after its effect.
func ask[T any](ctx context.Context, c *Cloud, call Call, effect func(*group, time.Time) (T, error)) (T, error) {
	var answer, nothing T
	err := c.do(ctx, call, func(g *group, now time.Time) (err error) {
		answer, err = effect(g, now)
		return err
	})
	if err != nil {
		return nothing, err
	}
	return answer, nil
}
