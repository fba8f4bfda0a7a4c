package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Counters count since the start of the world.
type Counters struct {
	Loops     int // of Cluster Autoscaler
	Increases int // loops that scaled up: one plan each
	Asked     int // BestOptions
}

// State is the current state of the simulated cluster.
type State struct {
	Counters
	Time     time.Time
	Process  int
	Groups   []GroupState // in the order of the cloud
	Pending  int          // pods
	Requests string       // Cluster Autoscaler's scale-up requests, such as "a+3 b+2"
}

// GroupState is one node group.
type GroupState struct {
	ID      string
	Size    int // target size
	Ordered int // how much the target size is above that at the start
	Ready   int // registered and ready nodes
	Backoff bool
}

// Sizes are the target sizes in the order of the cloud.
func (s State) Sizes() []int {
	out := make([]int, len(s.Groups))
	for i, g := range s.Groups {
		out[i] = g.Size
	}
	return out
}

// Ordered returns how many more nodes exist or are ordered than at the start.
func (s State) Ordered() int {
	n := 0
	for _, g := range s.Groups {
		n += g.Ordered
	}
	return n
}

// State returns the current state. It reads the target sizes from the Cloud.
func (a *Autoscaler) State() (State, error) {
	out := State{Counters: a.counters, Time: a.clock.Now(), Process: a.process, Requests: a.registry.describe(), Pending: len(a.world.Pending())}
	groups, err := a.config.Cloud.NodeGroups(context.Background())
	if err != nil {
		return out, fmt.Errorf("state: %w", err)
	}
	targets, _, err := a.targets()
	if err != nil {
		return out, err
	}
	readyByGroup := map[string]int{}
	for _, node := range a.config.Cloud.SharedNodes() {
		if id, ok, err := a.config.Cloud.NodeGroupForNode(context.Background(), node); err != nil {
			return out, fmt.Errorf("state: %w", err)
		} else if ok && ready(node) {
			readyByGroup[id]++
		}
	}
	for _, g := range groups {
		_, _, backoff := a.registry.backoffs.Active(g.ID, out.Time)
		out.Groups = append(out.Groups, GroupState{
			ID: g.ID, Size: targets[g.ID], Ordered: targets[g.ID] - a.atStart[g.ID],
			Ready: readyByGroup[g.ID], Backoff: backoff,
		})
	}
	return out, nil
}

// Pending are the pods that have no node, in the order in which they first appeared.
func (a *Autoscaler) Pending() []*v1.Pod { return a.world.Pending() }

// Events are the latest 10,000 events and up to as many more.
func (a *Autoscaler) Events() []Event { return slices.Clone(a.events) }

// Pods are the pods as an API server shows them, which nobody changes.
func (a *Autoscaler) Pods() []*v1.Pod {
	out := make([]*v1.Pod, len(a.own.pods))
	for i, p := range a.own.pods {
		if p.node == "" {
			out[i] = p.object
			continue
		}
		bound := *p.object
		bound.Spec.NodeName = p.node
		out[i] = &bound
	}
	return out
}

// targets are the target sizes as they are; full reports whether no group has room.
func (a *Autoscaler) targets() (targets map[string]int, full bool, err error) {
	ctx := context.Background()
	groups, err := a.config.Cloud.NodeGroups(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("cloud: %w", err)
	}
	targets, full = make(map[string]int, len(groups)), true
	for _, g := range groups {
		if targets[g.ID], err = a.config.Cloud.TargetSize(ctx, g.ID); err != nil {
			return nil, false, fmt.Errorf("cloud: %w", err)
		}
		full = full && targets[g.ID] >= g.MaxSize
	}
	return targets, full, nil
}
