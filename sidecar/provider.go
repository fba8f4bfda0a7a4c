package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/steering"
)

var (
	_ cloudprovider.Provider = (*Sidecar)(nil)
	_ cloudprovider.Pricing  = (*Sidecar)(nil)
	_ cloudprovider.GPUs     = (*Sidecar)(nil)
)

// memory keeps answers of the cloud that are not part of a view.
type memory struct {
	groupOf  map[string]answered // by provider id or name of nodes that belong to no instance of a view
	options  map[optionsOf]cloudprovider.GroupOptions
	gpuLabel *string
}

// optionsOf is what the options of a group are asked for.
type optionsOf struct {
	group    string
	defaults cloudprovider.GroupOptions
}

// answered is the group of a node, as the cloud said.
type answered struct {
	group string
	ok    bool
	at    time.Time
}

// joinedSince returns the nodes that Cluster Autoscaler has asked about since a reading, and that are
// instances of groups, though that reading had none of them: by group.
func (m *memory) joinedSince(last *view) map[string][]cloudprovider.Instance {
	out := map[string][]cloudprovider.Instance{}
	for id, known := range m.groupOf {
		if known.ok && !known.at.Before(last.At) && last.groupOf[id] == "" {
			out[known.group] = append(out[known.group], cloudprovider.Instance{ID: id, State: cloudprovider.InstanceRunning})
		}
	}
	for _, joined := range out {
		slices.SortFunc(joined, func(a, b cloudprovider.Instance) int { return cmp.Compare(a.ID, b.ID) })
	}
	return out
}

// memoryFor is how long the cloud is not asked again about a node that belongs to no group.
const memoryFor = 10 * time.Minute

// NodeGroups implements cloudprovider.Provider, from memory. Only its answer has the raised
// minimums of groups.
func (s *Sidecar) NodeGroups(ctx context.Context) ([]cloudprovider.NodeGroup, error) {
	v, err := s.ensure(ctx)
	if err != nil {
		return nil, err
	}
	groups := slices.Clone(v.groups)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range groups {
		groups[i].MinSize, groups[i].MaxSize = s.state.Bounds(v.Groups[groups[i].ID])
	}
	return groups, nil
}

// NodeGroupForNode implements cloudprovider.Provider. The cloud is asked only about nodes that are
// no instance of a group.
func (s *Sidecar) NodeGroupForNode(ctx context.Context, node *v1.Node) (string, bool, error) {
	v, err := s.ensure(ctx)
	if err != nil {
		return "", false, err
	}
	now := s.o.Clock.Now()
	key := cmp.Or(node.Spec.ProviderID, node.Name)
	s.mu.Lock()
	if !cloudprovider.IsFakeNode(node) {
		s.apply(steering.Saw{ProviderID: node.Spec.ProviderID})
	}
	known, asked := s.memory.groupOf[key]
	s.mu.Unlock()
	if group, ok := steering.PlaceholderOf(key); ok {
		return group, v.Groups[group] != nil, nil
	}
	if group, ok := v.groupOf[key]; ok {
		return group, true, nil
	}
	if asked && now.Sub(known.at) < memoryFor {
		return known.group, known.ok, nil
	}
	group, ok, err := s.backend.NodeGroupForNode(ctx, node)
	if err != nil {
		return "", false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.memory.groupOf) >= 1<<16 { // of nodes that come and go; asking again is all it costs
		clear(s.memory.groupOf)
	}
	s.memory.groupOf[key] = answered{group, ok, now}
	return group, ok, nil
}

// TargetSize implements cloudprovider.Provider, from memory.
func (s *Sidecar) TargetSize(ctx context.Context, id string) (int, error) {
	s.called(ctx, steering.OtherCall, "")
	g, err := s.group(ctx, id)
	if err != nil {
		return 0, err
	}
	return ask(&s.machine, func(state *steering.State) int { return state.Shown(g.ID) }), nil
}

// Nodes implements cloudprovider.Provider, from memory. Placeholders stand for instances that the
// cloud does not list yet.
func (s *Sidecar) Nodes(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
	g, err := s.group(ctx, id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Clock.Now()
	s.listings.noteAsked(id, now)
	return slices.Concat(g.Instances, s.state.Placeholders(g, now)), nil
}

// Template implements cloudprovider.Provider, from memory.
func (s *Sidecar) Template(ctx context.Context, id string) (cloudprovider.Template, error) {
	s.called(ctx, steering.TemplateCall, id)
	g, err := s.group(ctx, id)
	if err != nil {
		return cloudprovider.Template{}, err
	}
	if g.TemplateErr != nil {
		return cloudprovider.Template{}, g.TemplateErr
	}
	return g.Template.DeepCopy(), nil
}

// Options implements cloudprovider.Provider. Only groups that are resized to their maximum or to
// zero have any: whatever the answer, Cluster Autoscaler takes the startup time of nodes for zero
// as soon as there is one.
func (s *Sidecar) Options(ctx context.Context, id string, defaults cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) {
	s.called(ctx, steering.OptionsCall, id)
	g, err := s.group(ctx, id)
	if err != nil {
		return cloudprovider.GroupOptions{}, err
	}
	if !g.ZeroOrMax {
		return cloudprovider.GroupOptions{}, cloudprovider.ErrNotImplemented
	}
	s.mu.Lock()
	options, known := s.memory.options[optionsOf{id, defaults}]
	s.mu.Unlock()
	if known {
		return options, nil
	}
	options, err = s.backend.Options(ctx, id, defaults)
	if err != nil {
		return cloudprovider.GroupOptions{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.options[optionsOf{id, defaults}] = options
	return options, nil
}

// Cleanup implements cloudprovider.Provider: the cloud is not released when Cluster Autoscaler
// ends.
func (s *Sidecar) Cleanup(context.Context) error { return nil }

// GPULabel implements cloudprovider.GPUs. Cluster Autoscaler asks for it once in the life of a
// process, so a question on a new connection is a new process, which knows nothing of what the one
// before has ordered. Releases before 1.35 may ask for it between the expander and the increase.
func (s *Sidecar) GPULabel(ctx context.Context) (string, error) {
	s.noticeProcess(ctx)
	s.mu.Lock()
	known := s.memory.gpuLabel
	s.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	label := ""
	if gpus, ok := s.backend.(cloudprovider.GPUs); ok {
		var err error
		if label, err = gpus.GPULabel(ctx); err != nil && !errors.Is(err, cloudprovider.ErrNotImplemented) {
			return "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.gpuLabel = &label
	return label, nil
}

// GPUTypes implements cloudprovider.GPUs.
func (s *Sidecar) GPUTypes(ctx context.Context) ([]string, error) {
	gpus, ok := s.backend.(cloudprovider.GPUs)
	if !ok {
		return nil, nil
	}
	types, err := gpus.GPUTypes(ctx)
	if errors.Is(err, cloudprovider.ErrNotImplemented) {
		return nil, nil
	}
	return types, err
}

// NodePrice implements cloudprovider.Pricing.
func (s *Sidecar) NodePrice(ctx context.Context, node *v1.Node, start, end time.Time) (cloudprovider.Price, error) {
	if pricing, ok := s.backend.(cloudprovider.Pricing); ok {
		return pricing.NodePrice(ctx, node, start, end)
	}
	return 0, cloudprovider.ErrNotImplemented
}

// PodPrice implements cloudprovider.Pricing.
func (s *Sidecar) PodPrice(ctx context.Context, pod *v1.Pod, start, end time.Time) (cloudprovider.Price, error) {
	if pricing, ok := s.backend.(cloudprovider.Pricing); ok {
		return pricing.PodPrice(ctx, pod, start, end)
	}
	return 0, cloudprovider.ErrNotImplemented
}

// group finds a group in what Cluster Autoscaler is shown.
func (s *Sidecar) group(ctx context.Context, id string) (*steering.Group, error) {
	v, err := s.ensure(ctx)
	if err != nil {
		return nil, err
	}
	g := v.Groups[id]
	if g == nil {
		return nil, fmt.Errorf("node group %q: %w", id, cloudprovider.ErrNotFound)
	}
	return g, nil
}

// called reports a call of Cluster Autoscaler's loop to the state.
func (s *Sidecar) called(ctx context.Context, call steering.Call, group string) {
	s.step(steering.Called{Connection: s.o.Connection(ctx), Call: call, Group: group})
}

// noticeProcess distinguishes a new process of Cluster Autoscaler from one that has connected again.
func (s *Sidecar) noticeProcess(ctx context.Context) {
	connection := s.o.Connection(ctx)
	s.mu.Lock()
	known := s.gpuAsked != nil && *s.gpuAsked == connection
	s.mu.Unlock()
	if known {
		return
	}
	s.loadJournal(ctx) // first, so that it does not bring back what is forgotten here
	s.mu.Lock()
	s.gpuAsked = &connection
	s.apply(steering.NewProcess{Asked: s.askedSince && s.refreshedOn == connection})
	s.mu.Unlock()
	_ = s.saveJournal(ctx) // a failure is known from now on
}

// answerTimer fires when a call must be answered so that Cluster Autoscaler still receives the
// answer. Without a deadline it never fires.
func (s *Sidecar) answerTimer(ctx context.Context) (out <-chan time.Time, stop func()) {
	left, ok := left(ctx)
	if !ok {
		return nil, func() {}
	}
	timer := s.o.Clock.NewTimer(left * 4 / 5)
	return timer.C(), func() { timer.Stop() }
}

// left is the time until the deadline of a call, if it has one.
func left(ctx context.Context) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	return time.Until(deadline), ok //nolint:forbidigo // deadlines of contexts are in real time
}
