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
	{"instance-ids-unique", Reads, "Every instance has an id of its own that is not empty, and an error of its own has a code.",
		on(instanceIDsUnique)},
	{"instances-match-nodes", Reads, "The spec.providerID of a registered node is the id of an instance of its group.",
		on(instancesMatchNodes)},
	{"node-group-of-fake-node", Reads, "NodeGroupForNode knows instances by fake nodes: name and provider id are the instance's id.",
		on(groupOfFakeNode)},
	{"node-group-of-foreign-node", Reads, "NodeGroupForNode answers no group and no error for a node that is not the cloud's.",
		on(groupOfForeignNode)},
	{"template-usable", Reads, "Templates have labels, cpu, memory, pods, and no more allocatable than capacity.", on(templateUsable)},
	{"template-stable", Reads, "Templates are the same each time but for the node's name and hostname.", on(templateStable)},
	{"options-complete", InProcess, "Options that are implemented carry over the defaults of what the group does not set.",
		on(optionsComplete)},
}

func instanceIDsUnique(ctx context.Context, s *subject) {
	groupOf := map[string]string{}
	for _, g := range s.groups(ctx) {
		for _, in := range s.instances(ctx, g.ID) {
			if in.ID == "" {
				s.Failf("an instance of %q has no id", g.ID)
			}
			if other, taken := groupOf[in.ID]; taken {
				s.Failf("instance %q is listed in %q and in %q", in.ID, other, g.ID)
			}
			if in.Error != nil && in.Error.Code == "" {
				s.Failf("instance %q has an error without a code, which means none on the wire", in.ID)
			}
			groupOf[in.ID] = g.ID
		}
	}
	if len(groupOf) == 0 {
		s.Add(Skip("there is no instance"))
	}
}

// groupOf returns the group of a node; empty for none.
func (s *subject) groupOf(ctx context.Context, node *v1.Node) string {
	return Ask(&s.Findings, fmt.Sprintf("NodeGroupForNode(%s)", node.Name), func() (string, error) {
		id, ok, err := s.NodeGroupForNode(ctx, node)
		if !ok {
			id = ""
		}
		return id, err
	})
}

func instancesMatchNodes(ctx context.Context, s *subject) {
	nodes := s.registered(ctx)
	checked := 0
	for _, node := range nodes {
		id := s.groupOf(ctx, node)
		if id == "" {
			continue
		}
		if !slices.ContainsFunc(s.instances(ctx, id), func(in cloudprovider.Instance) bool { return in.ID == node.Spec.ProviderID }) {
			s.Failf("node %q was assigned to %q, which has no instance %q", node.Name, id, node.Spec.ProviderID)
		}
		checked++
	}
	if checked == 0 && len(nodes) > 0 {
		s.Failf("none of %d registered nodes belongs to a node group", len(nodes))
	}
	if checked == 0 {
		s.Add(Skip("no node has registered"))
	}
}

func groupOfFakeNode(ctx context.Context, s *subject) {
	found := false
	for _, g := range s.groups(ctx) {
		staying := s.existing(ctx, g.ID)
		for _, in := range staying[:min(len(staying), 10)] { // each is a call
			found = true
			if id := s.groupOf(ctx, fakeNode(in.ID)); id != g.ID {
				s.Failf("fake node of instance %q of %q: answered %q", in.ID, g.ID, id)
			}
		}
	}
	if !found {
		s.Add(Skip("there is no instance"))
	}
}

func groupOfForeignNode(ctx context.Context, s *subject) {
	nameless := foreignNode() // as a node that the cloud controller has not processed yet
	nameless.Spec.ProviderID = ""
	for _, node := range []*v1.Node{foreignNode(), nameless} {
		id, ok, err := s.NodeGroupForNode(ctx, node)
		if err != nil || ok || id != "" {
			s.Failf("node %q with provider id %q: answered %q, %v (error %v)", node.Name, node.Spec.ProviderID, id, ok, err)
		}
	}
}

// eachTemplate calls f with the templates of all groups that have one, and reports whether there are
// any.
func (s *subject) eachTemplate(ctx context.Context, f func(id string, t cloudprovider.Template)) (found bool) {
	for _, g := range s.groups(ctx) {
		template, err := s.Template(ctx, g.ID)
		if errors.Is(err, cloudprovider.ErrNotImplemented) {
			continue
		}
		if err != nil {
			s.Failf("Template(%s): %w", g.ID, err)
		} else if template.Node == nil {
			s.Failf("the template of %q has no node", g.ID)
		}
		if s.Ended() {
			break
		}
		found = true
		f(g.ID, template)
	}
	return found
}

// checkTemplates is eachTemplate for rules about nothing else: without any they are skipped.
func (s *subject) checkTemplates(ctx context.Context, f func(id string, t cloudprovider.Template)) {
	if !s.eachTemplate(ctx, f) {
		s.Add(Skip("templates are not implemented"))
	}
}

// secondTemplate asks once more for a template. Its node is never nil.
func (s *subject) secondTemplate(ctx context.Context, id string) cloudprovider.Template {
	again, err := s.Template(ctx, id)
	if err != nil || again.Node == nil {
		s.Failf("second Template(%s): node %v, error %v", id, again.Node, err)
		again.Node = &v1.Node{}
	}
	return again
}

func templateUsable(ctx context.Context, s *subject) {
	s.checkTemplates(ctx, func(id string, t cloudprovider.Template) {
		if len(namelessLabels(t.Node)) == 0 {
			s.Failf("the template of %q has no labels", id)
		}
		capacity, allocatable := t.Node.Status.Capacity, t.Node.Status.Allocatable
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods} {
			if quantity := allocatable[name]; quantity.Sign() <= 0 {
				s.Failf("the template of %q has no allocatable %s", id, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(allocatable)) {
			has, needs := capacity[name], allocatable[name]
			if needs.Cmp(has) > 0 {
				s.Failf("the template of %q has %s %s and %s of it allocatable", id, has.String(), name, needs.String())
			}
		}
	})
}

// namelessLabels are the labels that do not depend on the node's name.
func namelessLabels(node *v1.Node) map[string]string {
	labels := maps.Clone(node.Labels)
	delete(labels, v1.LabelHostname)
	return labels
}

func templateStable(ctx context.Context, s *subject) {
	s.checkTemplates(ctx, func(id string, first cloudprovider.Template) {
		again := s.secondTemplate(ctx, id)
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
				s.Failf("%s of the template of %q: first %v, then %v", part.name, id, part.first, part.then)
			}
		}
	})
}

func optionsComplete(ctx context.Context, s *subject) {
	defaults := cloudprovider.GroupOptions{
		ScaleDownUtilizationThreshold: 0.5, ScaleDownGPUUtilizationThreshold: 0.5,
		ScaleDownUnneededTime: 10 * time.Minute, ScaleDownUnreadyTime: 20 * time.Minute,
		MaxNodeProvisionTime: 15 * time.Minute, MaxNodeStartupTime: 15 * time.Minute,
	}
	implemented := false
	for _, g := range s.groups(ctx) {
		options, err := s.Options(ctx, g.ID, defaults)
		if errors.Is(err, cloudprovider.ErrNotImplemented) {
			continue
		}
		if err != nil {
			s.Failf("Options(%s): %w", g.ID, err)
		}
		implemented = true
		if options.ScaleDownUnneededTime == 0 || options.ScaleDownUnreadyTime == 0 ||
			options.MaxNodeProvisionTime == 0 || options.MaxNodeStartupTime == 0 {
			s.Failf("options of %q have durations of zero where the defaults have some: %+v", g.ID, options)
		}
	}
	if !implemented {
		s.Add(Skip("options are not implemented"))
	}
}
