package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var generalRules = []Rule{
	{"unknown-group", InProcess, "Every method that takes a group's id answers ErrNotFound for an unknown one.", unknownGroup},
	{"answers-are-copies", InProcess, "What the provider returns belongs to the caller: changing it changes nothing.", answersAreCopies},
	{"arguments-untouched", InProcess, "Nodes passed to the provider are not changed.", argumentsUntouched},
	{"context-honoured", InProcess, "A call whose context is done fails with the context's error and changes nothing.", contextHonoured},
	{"concurrent-increases", Changes, "Increases from several goroutines all count.", concurrentIncreases},
}

func unknownGroup(ctx context.Context, s *subject) error {
	const id = "conformance-no-such-group"
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"TargetSize", func() error { _, err := s.TargetSize(ctx, id); return err }},
		{"IncreaseSize", func() error { return s.IncreaseSize(ctx, id, 1) }},
		{"DecreaseTargetSize", func() error { return s.DecreaseTargetSize(ctx, id, -1) }},
		{"DeleteNodes", func() error { return s.DeleteNodes(ctx, id, []*v1.Node{foreignNode()}) }},
		{"Nodes", func() error { _, err := s.Nodes(ctx, id); return err }},
		{"Template", func() error { _, err := s.Template(ctx, id); return err }},
		{"Options", func() error { _, err := s.Options(ctx, id, cloudprovider.GroupOptions{}); return err }},
	} {
		err := call.do()
		optional := call.name == "Template" || call.name == "Options"
		if optional && errors.Is(err, cloudprovider.ErrNotImplemented) {
			continue
		}
		if !errors.Is(err, cloudprovider.ErrNotFound) {
			return fmt.Errorf("%s of an unknown group answered %v, which is not ErrNotFound", call.name, err)
		}
	}
	return nil
}

func answersAreCopies(ctx context.Context, s *subject) error {
	g, err := s.grownWithInstances(ctx, 1)
	defer s.putBack(ctx, g.start)
	if err != nil {
		return err
	}
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	first := groups[0]
	groups[0] = cloudprovider.NodeGroup{ID: "changed by the caller"}
	if again, err := s.NodeGroups(ctx); err != nil || len(again) == 0 || again[0] != first {
		return fmt.Errorf("a changed list of groups shows in the next one: %v (error %v)", again, err)
	}
	instances, err := s.Nodes(ctx, g.ID)
	if err != nil {
		return err
	}
	for i := range instances {
		instances[i].ID = "changed by the caller"
	}
	again, err := s.existing(ctx, g.ID)
	if err != nil {
		return err
	}
	if missing := missingFrom(again, g.All); missing != "" {
		return fmt.Errorf("a changed list of instances shows in the next one: %q is missing", missing)
	}
	return s.templatesAreCopies(ctx)
}

func (s *subject) templatesAreCopies(ctx context.Context) error {
	err := s.eachTemplate(ctx, func(id string, t cloudprovider.Template) error {
		before := t.DeepCopy()
		if t.Node.Labels == nil {
			t.Node.Labels = map[string]string{}
		}
		t.Node.Labels["conformance/changed"] = "by-the-caller"
		delete(t.Node.Status.Capacity, v1.ResourceCPU)
		delete(t.Node.Status.Allocatable, v1.ResourceCPU)
		for _, pod := range t.Pods {
			pod.Name = "changed-by-the-caller"
		}
		again, err := s.Template(ctx, id)
		if err != nil || again.Node == nil {
			return fmt.Errorf("second Template(%s): node %v, error %v", id, again.Node, err)
		}
		_, leaked := again.Node.Labels["conformance/changed"]
		if leaked || len(again.Node.Status.Capacity) != len(before.Node.Status.Capacity) ||
			len(again.Node.Status.Allocatable) != len(before.Node.Status.Allocatable) ||
			!equality.Semantic.DeepEqual(again.Pods, before.Pods) {
			return fmt.Errorf("a changed template of %q shows in the next one", id)
		}
		return nil
	})
	if skipped(err) {
		return nil // the other answers have been checked
	}
	return err
}

func argumentsUntouched(ctx context.Context, s *subject) error {
	g, err := s.grownWithInstances(ctx, 1)
	defer s.putBack(ctx, g.start)
	if err != nil {
		return err
	}
	node := fakeNode(g.New[0].ID)
	before := node.DeepCopy()
	nodes := []*v1.Node{node}
	if _, _, err := s.NodeGroupForNode(ctx, node); err != nil {
		return fmt.Errorf("NodeGroupForNode: %w", err)
	}
	if err := s.DeleteNodes(ctx, g.ID, nodes); err != nil {
		return fmt.Errorf("DeleteNodes: %w", err)
	}
	if nodes[0] != node || !equality.Semantic.DeepEqual(node, before) {
		return fmt.Errorf("the node %q passed in was changed", before.Name)
	}
	return nil
}

func contextHonoured(ctx context.Context, s *subject) error {
	g, err := s.groupWithRoom(ctx, 1)
	if err != nil {
		return err
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	refusal := s.IncreaseSize(done, g.ID, 1)
	if err := s.targetStays(ctx, g.ID, g.Size, "IncreaseSize with a context that is done", refusal); err != nil {
		s.putBack(ctx, g)
		return err
	}
	if !errors.Is(refusal, context.Canceled) {
		return fmt.Errorf("IncreaseSize with a canceled context answered %q, which is not the context's error", refusal)
	}
	return nil
}

func concurrentIncreases(ctx context.Context, s *subject) error {
	const most = 4
	var g start
	var err error
	room := most
	for ; room >= 2; room-- {
		if g, err = s.groupWithRoom(ctx, room); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	defer s.putBack(ctx, g)
	failures := make([]error, 2*room)
	var wg sync.WaitGroup
	for i := range room {
		wg.Go(func() { failures[i] = s.IncreaseSize(ctx, g.ID, 1) })
		wg.Go(func() { _, failures[room+i] = s.Nodes(ctx, g.ID) })
	}
	wg.Wait()
	if err := cmp.Or(failures...); err != nil {
		return fmt.Errorf("%d increases of %q by one at the same time: %w", room, g.ID, err)
	}
	target, err := s.TargetSize(ctx, g.ID)
	if err != nil {
		return err
	}
	if target != g.Size+room {
		return fmt.Errorf("%d increases of %q by one at the same time took the target size from %d to %d", room, g.ID, g.Size, target)
	}
	return nil
}
