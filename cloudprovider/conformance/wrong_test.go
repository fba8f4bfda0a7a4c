package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
)

// wrong is a provider that breaks the contract: where a function is set, it
// answers instead of the provider inside.
type wrong struct {
	cloudprovider.Provider
	nodeGroups   func(context.Context) ([]cloudprovider.NodeGroup, error)
	groupForNode func(context.Context, *v1.Node) (string, bool, error)
	targetSize   func(context.Context, string) (int, error)
	increase     func(context.Context, string, int) error
	decrease     func(context.Context, string, int) error
	deleteNodes  func(context.Context, string, []*v1.Node) error
	nodes        func(context.Context, string) ([]cloudprovider.Instance, error)
	template     func(context.Context, string) (cloudprovider.Template, error)
	options      func(context.Context, string, cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error)
	refresh      func(context.Context) error
}

func (w wrong) NodeGroups(ctx context.Context) ([]cloudprovider.NodeGroup, error) {
	if w.nodeGroups != nil {
		return w.nodeGroups(ctx)
	}
	return w.Provider.NodeGroups(ctx)
}

func (w wrong) NodeGroupForNode(ctx context.Context, node *v1.Node) (string, bool, error) {
	if w.groupForNode != nil {
		return w.groupForNode(ctx, node)
	}
	return w.Provider.NodeGroupForNode(ctx, node)
}

func (w wrong) TargetSize(ctx context.Context, id string) (int, error) {
	if w.targetSize != nil {
		return w.targetSize(ctx, id)
	}
	return w.Provider.TargetSize(ctx, id)
}

func (w wrong) IncreaseSize(ctx context.Context, id string, delta int) error {
	if w.increase != nil {
		return w.increase(ctx, id, delta)
	}
	return w.Provider.IncreaseSize(ctx, id, delta)
}

func (w wrong) DecreaseTargetSize(ctx context.Context, id string, delta int) error {
	if w.decrease != nil {
		return w.decrease(ctx, id, delta)
	}
	return w.Provider.DecreaseTargetSize(ctx, id, delta)
}

func (w wrong) DeleteNodes(ctx context.Context, id string, nodes []*v1.Node) error {
	if w.deleteNodes != nil {
		return w.deleteNodes(ctx, id, nodes)
	}
	return w.Provider.DeleteNodes(ctx, id, nodes)
}

func (w wrong) Nodes(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
	if w.nodes != nil {
		return w.nodes(ctx, id)
	}
	return w.Provider.Nodes(ctx, id)
}

func (w wrong) Template(ctx context.Context, id string) (cloudprovider.Template, error) {
	if w.template != nil {
		return w.template(ctx, id)
	}
	return w.Provider.Template(ctx, id)
}

func (w wrong) Options(ctx context.Context, id string, defaults cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) {
	if w.options != nil {
		return w.options(ctx, id, defaults)
	}
	return w.Provider.Options(ctx, id, defaults)
}

func (w wrong) Refresh(ctx context.Context) error {
	if w.refresh != nil {
		return w.refresh(ctx)
	}
	return w.Provider.Refresh(ctx)
}

// listing answers NodeGroups with what change makes of the true list.
func listing(change func(call int, groups []cloudprovider.NodeGroup) []cloudprovider.NodeGroup) variant {
	return func(p cloudprovider.Provider) cloudprovider.Provider {
		calls := 0
		return wrong{Provider: p, nodeGroups: func(ctx context.Context) ([]cloudprovider.NodeGroup, error) {
			groups, err := p.NodeGroups(ctx)
			calls++
			return change(calls, groups), err
		}}
	}
}

type variant func(cloudprovider.Provider) cloudprovider.Provider

// ignore answers nil instead of what failed.
func ignore(error) error { return nil }

var variants = []struct {
	rule, name string
	make       variant
}{
	{"groups-listed", "none", listing(func(int, []cloudprovider.NodeGroup) []cloudprovider.NodeGroup { return nil })},
	{"listing-sorted", "reversed", listing(func(_ int, groups []cloudprovider.NodeGroup) []cloudprovider.NodeGroup {
		groups[0], groups[1] = groups[1], groups[0]
		return groups
	})},
	{"listing-stable", "changes without a refresh", listing(func(call int, groups []cloudprovider.NodeGroup) []cloudprovider.NodeGroup {
		groups[0].MaxSize += call
		return groups
	})},
	{"ids-unique", "twice the same", listing(func(_ int, groups []cloudprovider.NodeGroup) []cloudprovider.NodeGroup {
		return append(groups, groups[len(groups)-1])
	})},
	{"ids-unique", "empty", listing(func(_ int, groups []cloudprovider.NodeGroup) []cloudprovider.NodeGroup {
		return append([]cloudprovider.NodeGroup{{}}, groups...)
	})},
	{"bounds-ordered", "max below min", listing(func(_ int, groups []cloudprovider.NodeGroup) []cloudprovider.NodeGroup {
		groups[0].MinSize = groups[0].MaxSize + 1
		return groups
	})},
	{"target-readable", "negative", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, targetSize: func(context.Context, string) (int, error) { return -1, nil }}
	}},
	{"refresh-idempotent", "every refresh orders a node", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, refresh: func(ctx context.Context) error { return p.IncreaseSize(ctx, "a", 1) }}
	}},
	{"increase-readable-at-once", "target size follows later", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, increase: func(context.Context, string, int) error { return nil }}
	}},
	{"increase-within-max", "granted in part", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, increase: func(ctx context.Context, id string, delta int) error {
			for range delta {
				if err := p.IncreaseSize(ctx, id, 1); err != nil {
					return err
				}
			}
			return nil
		}}
	}},
	{"increase-within-max", "silently ignored", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, increase: func(ctx context.Context, id string, delta int) error {
			return ignore(p.IncreaseSize(ctx, id, delta))
		}}
	}},
	{"increase-positive", "nothing to do is fine", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, increase: func(ctx context.Context, id string, delta int) error {
			if delta == 0 {
				return nil
			}
			return p.IncreaseSize(ctx, id, delta)
		}}
	}},
	{"increase-stays", "target size is the number of instances", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, increase: func(ctx context.Context, id string, delta int) error {
			if err := p.IncreaseSize(ctx, id, delta); err != nil {
				return err
			}
			instances, err := p.Nodes(ctx, id)
			if err != nil {
				return err
			}
			return p.DeleteNodes(ctx, id, []*v1.Node{cloudprovider.FakeNode(instances[0].ID, "")})
		}}
	}},
	{"decrease-negative", "by amount", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, decrease: func(ctx context.Context, id string, delta int) error {
			return ignore(p.DecreaseTargetSize(ctx, id, -delta))
		}}
	}},
	{"decrease-lowers-target", "subtracts the negative delta", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, decrease: func(ctx context.Context, id string, delta int) error {
			return p.IncreaseSize(ctx, id, -delta)
		}}
	}},
	{"decrease-keeps-instances", "deletes nodes", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, decrease: func(ctx context.Context, id string, delta int) error {
			instances, err := p.Nodes(ctx, id)
			if err != nil {
				return err
			}
			return p.DeleteNodes(ctx, id, []*v1.Node{cloudprovider.FakeNode(instances[0].ID, "")})
		}}
	}},
	{"delete-lowers-target", "and orders a new one", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, deleteNodes: func(ctx context.Context, id string, nodes []*v1.Node) error {
			return errors.Join(p.DeleteNodes(ctx, id, nodes), p.IncreaseSize(ctx, id, len(nodes)))
		}}
	}},
	{"delete-lowers-target", "forgets the instance", func(p cloudprovider.Provider) cloudprovider.Provider {
		lowered := 0
		return wrong{
			Provider:    p,
			deleteNodes: func(context.Context, string, []*v1.Node) error { lowered++; return nil },
			targetSize: func(ctx context.Context, id string) (int, error) {
				size, err := p.TargetSize(ctx, id)
				return size - lowered, err
			},
		}
	}},
	{"delete-only-named", "the oldest go instead", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, deleteNodes: func(ctx context.Context, id string, nodes []*v1.Node) error {
			instances, err := p.Nodes(ctx, id)
			if err != nil {
				return err
			}
			return p.DeleteNodes(ctx, id, []*v1.Node{cloudprovider.FakeNode(instances[0].ID, "")})
		}}
	}},
	{"delete-own-only", "passes over strangers", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, deleteNodes: func(ctx context.Context, id string, nodes []*v1.Node) error {
			var own []*v1.Node
			for _, node := range nodes {
				if group, _, _ := p.NodeGroupForNode(ctx, node); group == id {
					own = append(own, node)
				}
			}
			return p.DeleteNodes(ctx, id, own)
		}}
	}},
	{"delete-own-only", "stops at the first stranger", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, deleteNodes: func(ctx context.Context, id string, nodes []*v1.Node) error {
			for _, node := range nodes {
				if err := p.DeleteNodes(ctx, id, []*v1.Node{node}); err != nil {
					return err
				}
			}
			return nil
		}}
	}},
	{"delete-own-only-error", "another error", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, deleteNodes: func(ctx context.Context, id string, nodes []*v1.Node) error {
			if p.DeleteNodes(ctx, id, nodes) != nil {
				return errors.New("no")
			}
			return nil
		}}
	}},
	{"instance-ids-unique", "numbered per group", instances(func(i int, in *cloudprovider.Instance) { in.ID = fmt.Sprint(i) })},
	{"instance-ids-unique", "error without code", instances(func(_ int, in *cloudprovider.Instance) {
		in.Error = &cloudprovider.InstanceError{Message: "oops"}
	})},
	{"instances-match-nodes", "ids by name", instances(func(_ int, in *cloudprovider.Instance) { in.ID = "i-" + in.ID })},
	{"node-group-of-fake-node", "by labels", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, groupForNode: func(ctx context.Context, node *v1.Node) (string, bool, error) {
			if cloudprovider.IsFakeNode(node) {
				return "", false, nil
			}
			return p.NodeGroupForNode(ctx, node)
		}}
	}},
	{"node-group-of-foreign-node", "an error", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, groupForNode: func(ctx context.Context, node *v1.Node) (string, bool, error) {
			id, ok, err := p.NodeGroupForNode(ctx, node)
			if !ok {
				err = cloudprovider.ErrNotFound
			}
			return id, ok, err
		}}
	}},
	{"template-usable", "no labels", templates(func(_ int, t *cloudprovider.Template) { t.Node.Labels = nil })},
	{"template-usable", "no node", templates(func(_ int, t *cloudprovider.Template) { t.Node = nil })},
	{"template-usable", "no pods", templates(func(_ int, t *cloudprovider.Template) { delete(t.Node.Status.Allocatable, v1.ResourcePods) })},
	{"template-usable", "more than there is", templates(func(_ int, t *cloudprovider.Template) {
		t.Node.Status.Allocatable[v1.ResourceCPU] = t.Node.Status.Allocatable[v1.ResourceMemory]
	})},
	{"template-stable", "a label from the name", templates(func(call int, t *cloudprovider.Template) {
		t.Node.Labels["name"] = fmt.Sprint("template-", call)
	})},
	{"options-complete", "unset is zero", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, options: func(ctx context.Context, id string, _ cloudprovider.GroupOptions) (cloudprovider.GroupOptions,
			error) {
			return p.Options(ctx, id, cloudprovider.GroupOptions{})
		}}
	}},
	{"unknown-group", "zero for all others", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, targetSize: func(ctx context.Context, id string) (int, error) {
			size, err := p.TargetSize(ctx, id)
			return size, ignore(err)
		}}
	}},
	{"answers-are-copies", "its own list", listOnce()},
	{"answers-are-copies", "its own instances", instancesOnce()},
	{"answers-are-copies", "its own template", templateOnce()},
	{"arguments-untouched", "marks the node", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, deleteNodes: func(ctx context.Context, id string, nodes []*v1.Node) error {
			nodes[0].Spec.Unschedulable = true
			return p.DeleteNodes(ctx, id, nodes)
		}}
	}},
	{"context-honoured", "goes its own way", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, increase: func(ctx context.Context, id string, delta int) error {
			return p.IncreaseSize(context.WithoutCancel(ctx), id, delta)
		}}
	}},
	{"context-honoured", "an error of its own", func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, increase: func(ctx context.Context, id string, delta int) error {
			if ctx.Err() != nil {
				return errors.New("timed out")
			}
			return p.IncreaseSize(ctx, id, delta)
		}}
	}},
	{"concurrent-increases", "one at a time", busy},
	{"concurrent-increases", "last one wins", lastWins},
}

// instances answers Nodes with what change makes of each instance.
func instances(change func(i int, in *cloudprovider.Instance)) variant {
	return func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{Provider: p, nodes: func(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
			list, err := p.Nodes(ctx, id)
			for i := range list {
				change(i, &list[i])
			}
			return list, err
		}}
	}
}

// templates answers Template with what change makes of it.
func templates(change func(call int, t *cloudprovider.Template)) variant {
	return func(p cloudprovider.Provider) cloudprovider.Provider {
		calls := 0
		return wrong{Provider: p, template: func(ctx context.Context, id string) (cloudprovider.Template, error) {
			t, err := p.Template(ctx, id)
			calls++
			if err == nil {
				change(calls, &t)
			}
			return t, err
		}}
	}
}

func listOnce() variant {
	return func(p cloudprovider.Provider) cloudprovider.Provider {
		groups, err := p.NodeGroups(context.Background())
		return wrong{Provider: p, nodeGroups: func(context.Context) ([]cloudprovider.NodeGroup, error) { return groups, err }}
	}
}

func instancesOnce() variant {
	return func(p cloudprovider.Provider) cloudprovider.Provider {
		kept := map[string][]cloudprovider.Instance{}
		return wrong{Provider: p, nodes: func(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
			list, err := p.Nodes(ctx, id)
			if len(kept[id]) < len(list) {
				kept[id] = list
			}
			return kept[id], err
		}}
	}
}

func templateOnce() variant {
	return func(p cloudprovider.Provider) cloudprovider.Provider {
		kept := map[string]cloudprovider.Template{}
		return wrong{Provider: p, template: func(ctx context.Context, id string) (cloudprovider.Template, error) {
			if t, ok := kept[id]; ok {
				return t, nil
			}
			t, err := p.Template(ctx, id)
			kept[id] = t
			return t, err
		}}
	}
}

// busy takes a thousand nodes at a time but only two calls in its life.
func busy(p cloudprovider.Provider) cloudprovider.Provider {
	var mu sync.Mutex
	calls := 0
	return wrong{Provider: p, increase: func(ctx context.Context, id string, delta int) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls > 2 {
			return cloudprovider.ErrUnavailable
		}
		return p.IncreaseSize(ctx, id, delta)
	}}
}

// lastWins loses every second increase.
func lastWins(p cloudprovider.Provider) cloudprovider.Provider {
	var mu sync.Mutex
	calls := 0
	return wrong{Provider: p, increase: func(ctx context.Context, id string, delta int) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%2 == 0 {
			return nil
		}
		return p.IncreaseSize(ctx, id, delta)
	}}
}

func TestEveryRuleCanFail(t *testing.T) {
	tried := map[string]bool{}
	byName := map[string]conformance.Rule{}
	for _, rule := range conformance.Rules() {
		if byName[rule.Name].Name != "" || rule.About == "" {
			t.Errorf("rule %q has no unique name or no explanation", rule.Name)
		}
		byName[rule.Name] = rule
	}
	for _, v := range variants {
		t.Run(v.rule+"/"+v.name, func(t *testing.T) {
			h, err := open(v.make)
			if err != nil {
				t.Fatal(err)
			}
			rule, ok := byName[v.rule]
			if !ok {
				t.Fatal("there is no such rule")
			}
			tried[v.rule] = true
			result := rule.Check(t.Context(), h)
			if result.Outcome != conformance.Failed {
				t.Errorf("a provider that breaks the rule: %s %s", result.Outcome, result.Reason)
			}
			t.Log(result.Reason)
		})
	}
	for _, rule := range conformance.Rules() {
		if !tried[rule.Name] {
			t.Errorf("no variant breaks %s", rule.Name)
		}
	}
}
