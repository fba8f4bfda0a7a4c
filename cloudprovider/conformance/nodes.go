package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var nodeRules = []Rule{
	{"instance-ids-unique", Reads, "Every instance has an id of its own that is not empty, and an error of its own has a code.", instanceIDsUnique},
	{"instances-match-nodes", Reads, "The spec.providerID of a registered node is the id of an instance of its group.", instancesMatchNodes},
	{"node-group-of-fake-node", Reads, "NodeGroupForNode knows instances by fake nodes: name and provider id are the instance's id.", groupOfFakeNode},
	{"node-group-of-foreign-node", Reads, "NodeGroupForNode answers no group and no error for a node that is not the cloud's.", groupOfForeignNode},
	{"template-usable", Reads, "Templates have labels, cpu, memory, pods, and no more allocatable than capacity.", templateUsable},
	{"template-stable", Reads, "Templates are the same each time but for the node's name and hostname.", templateStable},
	{"options-complete", InProcess, "Options that are implemented carry over the defaults of what the group does not set.", optionsComplete},
}

func instanceIDsUnique(ctx context.Context, s *subject) error {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	groupOf := map[string]string{}
	for _, g := range groups {
		instances, err := s.Nodes(ctx, g.ID)
		if err != nil {
			return fmt.Errorf("Nodes(%s): %w", g.ID, err)
		}
		for _, in := range instances {
			if in.ID == "" {
				return fmt.Errorf("an instance of %q has no id", g.ID)
			}
			if other, taken := groupOf[in.ID]; taken {
				return fmt.Errorf("instance %q is listed in %q and in %q", in.ID, other, g.ID)
			}
			if in.Error != nil && in.Error.Code == "" {
				return fmt.Errorf("instance %q has an error without a code, which means none on the wire", in.ID)
			}
			groupOf[in.ID] = g.ID
		}
	}
	if len(groupOf) == 0 {
		return Skip("there is no instance")
	}
	return nil
}

func instancesMatchNodes(ctx context.Context, s *subject) error {
	nodes, err := s.registered(ctx)
	if err != nil {
		return err
	}
	checked := 0
	for _, node := range nodes {
		id, ok, err := s.NodeGroupForNode(ctx, node)
		if err != nil {
			return fmt.Errorf("NodeGroupForNode(%s): %w", node.Name, err)
		}
		if !ok {
			continue
		}
		instances, err := s.Nodes(ctx, id)
		if err != nil {
			return fmt.Errorf("Nodes(%s): %w", id, err)
		}
		if !slices.ContainsFunc(instances, func(in cloudprovider.Instance) bool { return in.ID == node.Spec.ProviderID }) {
			return fmt.Errorf("node %q was assigned to %q, which has no instance %q", node.Name, id, node.Spec.ProviderID)
		}
		checked++
	}
	if checked == 0 && len(nodes) > 0 {
		return fmt.Errorf("none of %d registered nodes belongs to a node group", len(nodes))
	}
	if checked == 0 {
		return Skip("no node has registered")
	}
	return nil
}

func groupOfFakeNode(ctx context.Context, s *subject) error {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, g := range groups {
		staying, err := s.existing(ctx, g.ID)
		if err != nil {
			return err
		}
		for _, in := range staying[:min(len(staying), 10)] { // each is a call
			found = true
			id, ok, err := s.NodeGroupForNode(ctx, fakeNode(in.ID))
			if err != nil || !ok || id != g.ID {
				return fmt.Errorf("fake node of instance %q of %q: answered %q, %v (error %v)", in.ID, g.ID, id, ok, err)
			}
		}
	}
	if !found {
		return Skip("there is no instance")
	}
	return nil
}

func groupOfForeignNode(ctx context.Context, s *subject) error {
	nameless := foreignNode() // as a node that the cloud controller has not processed yet
	nameless.Spec.ProviderID = ""
	for _, node := range []*v1.Node{foreignNode(), nameless} {
		id, ok, err := s.NodeGroupForNode(ctx, node)
		if err != nil || ok || id != "" {
			return fmt.Errorf("node %q with provider id %q: answered %q, %v (error %v)", node.Name, node.Spec.ProviderID, id, ok, err)
		}
	}
	return nil
}

// eachTemplate calls f with the templates of all groups that have one.
func (s *subject) eachTemplate(ctx context.Context, f func(id string, t cloudprovider.Template) error) error {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, g := range groups {
		template, err := s.Template(ctx, g.ID)
		if errors.Is(err, cloudprovider.ErrNotImplemented) {
			continue
		}
		if err != nil {
			return fmt.Errorf("Template(%s): %w", g.ID, err)
		}
		if template.Node == nil {
			return fmt.Errorf("the template of %q has no node", g.ID)
		}
		found = true
		if err := f(g.ID, template); err != nil {
			return err
		}
	}
	if !found {
		return Skip("templates are not implemented")
	}
	return nil
}

func templateUsable(ctx context.Context, s *subject) error {
	return s.eachTemplate(ctx, func(id string, t cloudprovider.Template) error {
		if len(namelessLabels(t.Node)) == 0 {
			return fmt.Errorf("the template of %q has no labels", id)
		}
		capacity, allocatable := t.Node.Status.Capacity, t.Node.Status.Allocatable
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods} {
			if quantity := allocatable[name]; quantity.Sign() <= 0 {
				return fmt.Errorf("the template of %q has no allocatable %s", id, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(allocatable)) {
			has, needs := capacity[name], allocatable[name]
			if needs.Cmp(has) > 0 {
				return fmt.Errorf("the template of %q has %s %s and %s of it allocatable", id, has.String(), name, needs.String())
			}
		}
		return nil
	})
}

// namelessLabels are the labels that do not depend on the node's name.
func namelessLabels(node *v1.Node) map[string]string {
	labels := maps.Clone(node.Labels)
	delete(labels, v1.LabelHostname)
	return labels
}

func templateStable(ctx context.Context, s *subject) error {
	return s.eachTemplate(ctx, func(id string, first cloudprovider.Template) error {
		again, err := s.Template(ctx, id)
		if err != nil || again.Node == nil {
			return fmt.Errorf("second Template(%s): node %v, error %v", id, again.Node, err)
		}
		for _, part := range []struct {
			name        string
			first, then any
		}{
			{"labels", namelessLabels(first.Node), namelessLabels(again.Node)},
			{"capacity", first.Node.Status.Capacity, again.Node.Status.Capacity},
			{"allocatable", first.Node.Status.Allocatable, again.Node.Status.Allocatable},
			{"taints", first.Node.Spec.Taints, again.Node.Spec.Taints},
		} {
			if !equality.Semantic.DeepEqual(part.first, part.then) {
				return fmt.Errorf("%s of the template of %q: first %v, then %v", part.name, id, part.first, part.then)
			}
		}
		return nil
	})
}

func optionsComplete(ctx context.Context, s *subject) error {
	defaults := cloudprovider.GroupOptions{
		ScaleDownUtilizationThreshold: 0.5, ScaleDownGPUUtilizationThreshold: 0.5,
		ScaleDownUnneededTime: 10 * time.Minute, ScaleDownUnreadyTime: 20 * time.Minute,
		MaxNodeProvisionTime: 15 * time.Minute, MaxNodeStartupTime: 15 * time.Minute,
	}
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	implemented := false
	for _, g := range groups {
		options, err := s.Options(ctx, g.ID, defaults)
		if errors.Is(err, cloudprovider.ErrNotImplemented) {
			continue
		}
		if err != nil {
			return fmt.Errorf("Options(%s): %w", g.ID, err)
		}
		implemented = true
		if options.ScaleDownUnneededTime == 0 || options.ScaleDownUnreadyTime == 0 ||
			options.MaxNodeProvisionTime == 0 || options.MaxNodeStartupTime == 0 {
			return fmt.Errorf("options of %q have durations of zero where the defaults have some: %+v", g.ID, options)
		}
	}
	if !implemented {
		return Skip("options are not implemented")
	}
	return nil
}
