package conformance

import (
	"cmp"
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var generalRules = []Rule{
	{"unknown-group", InProcess, "Every method that takes a group's id answers ErrNotFound for an unknown one.", on(unknownGroup)},
	{"answers-are-copies", InProcess, "What the provider returns belongs to the caller: changing it changes nothing.", on(answersAreCopies)},
	{"arguments-untouched", InProcess, "Nodes passed to the provider are not changed.", on(argumentsUntouched)},
	{"context-honoured", InProcess, "A call whose context is done fails with the context's error and changes nothing.", on(contextHonoured)},
	{"concurrent-increases", Changes, "Increases from several goroutines all count.", on(concurrentIncreases)},
}

func unknownGroup(ctx context.Context, s *subject) {
	const id = "conformance-no-such-group"
	_, target := s.TargetSize(ctx, id)
	_, nodes := s.Nodes(ctx, id)
	_, template := s.Template(ctx, id)
	_, options := s.Options(ctx, id, cloudprovider.GroupOptions{})
	for _, call := range []struct {
		name     string
		err      error
		optional bool
	}{
		{"TargetSize", target, false},
		{"IncreaseSize", s.IncreaseSize(ctx, id, 1), false},
		{"DecreaseTargetSize", s.DecreaseTargetSize(ctx, id, -1), false},
		{"DeleteNodes", s.DeleteNodes(ctx, id, []*v1.Node{foreignNode()}), false},
		{"Nodes", nodes, false},
		{"Template", template, true},
		{"Options", options, true},
	} {
		right := errors.Is(call.err, cloudprovider.ErrNotFound) || call.optional && errors.Is(call.err, cloudprovider.ErrNotImplemented)
		if !right {
			s.Failf("%s of an unknown group answered %v, which is not ErrNotFound", call.name, call.err)
		}
	}
}

func answersAreCopies(ctx context.Context, s *subject) {
	g := s.grownWithInstances(ctx, 1)
	defer s.putBack(ctx, g.start)
	groups := s.groups(ctx)
	if s.Ended() {
		return
	}
	first := groups[0]
	groups[0] = cloudprovider.NodeGroup{ID: "changed by the caller"}
	if again := s.groups(ctx); len(again) == 0 || again[0] != first {
		s.Failf("a changed list of groups shows in the next one: %v", again)
	}
	instances := s.instances(ctx, g.ID)
	for i := range instances {
		instances[i].ID = "changed by the caller"
	}
	if missing := missingFrom(s.existing(ctx, g.ID), g.All); missing != "" {
		s.Failf("a changed list of instances shows in the next one: %q is missing", missing)
	}
	s.eachTemplate(ctx, func(id string, t cloudprovider.Template) {
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
		again := s.secondTemplate(ctx, id)
		_, leaked := again.Node.Labels["conformance/changed"]
		if leaked || len(again.Node.Status.Capacity) != len(before.Node.Status.Capacity) ||
			len(again.Node.Status.Allocatable) != len(before.Node.Status.Allocatable) ||
			!equality.Semantic.DeepEqual(again.Pods, before.Pods) {
			s.Failf("a changed template of %q shows in the next one", id)
		}
	})
}

func argumentsUntouched(ctx context.Context, s *subject) {
	g := s.grownWithInstances(ctx, 1)
	defer s.putBack(ctx, g.start)
	if s.Ended() {
		return
	}
	node := fakeNode(g.New[0].ID)
	before := node.DeepCopy()
	nodes := []*v1.Node{node}
	s.groupOf(ctx, node)
	s.do("DeleteNodes", func() error { return s.DeleteNodes(ctx, g.ID, nodes) })
	if nodes[0] != node || !equality.Semantic.DeepEqual(node, before) {
		s.Failf("the node %q passed in was changed", before.Name)
	}
}

func contextHonoured(ctx context.Context, s *subject) {
	g := s.groupWithRoom(ctx, 1)
	if s.Ended() {
		return
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	refusal := s.IncreaseSize(done, g.ID, 1)
	if s.targetStays(ctx, g.ID, g.Size, "IncreaseSize with a context that is done", refusal); s.Ended() {
		s.putBack(ctx, g)
	}
	if !errors.Is(refusal, context.Canceled) {
		s.Failf("IncreaseSize with a canceled context answered %q, which is not the context's error", refusal)
	}
}

func concurrentIncreases(ctx context.Context, s *subject) {
	const most, least = 4, 2
	room := most
	for ; room > least; room-- {
		if s.aside().groupWithRoom(ctx, room).ID != "" {
			break
		}
	}
	g := s.groupWithRoom(ctx, room)
	if s.Ended() {
		return
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
		s.Failf("%d increases of %q by one at the same time: %w", room, g.ID, err)
	}
	if target := s.target(ctx, g.ID); target != g.Size+room {
		s.Failf("%d increases of %q by one at the same time took the target size from %d to %d", room, g.ID, g.Size, target)
	}
}
