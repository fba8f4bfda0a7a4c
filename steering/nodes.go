package steering

import (
	"cmp"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// NodeState is what is known of a registered node.
type NodeState struct {
	ProviderID string
	Name       string
	Created    time.Time
	// Ready is what Cluster Autoscaler counts as ready: condition Ready is true, and no taint or
	// condition says that the node is not usable yet.
	Ready bool
	// Lost is that the node was in service and is not any more: its kubelet has ended or cannot be
	// reached. It is not on its way to become ready.
	Lost bool
}

// Observe records which nodes are registered; known is false if that must be inferred from the
// calls of Cluster Autoscaler. It comes before every event that depends on nodes: a question, a
// reading, a decrease.
func (s *Machine) Observe(nodes []NodeState, known bool) { s.observed, s.known = nodes, known }

// observation is what is known of the cluster's nodes at one moment.
type observation struct {
	now       time.Time
	nodes     map[string]NodeState // by provider id
	since     map[string]time.Time // when an instance was first seen without a node, by its id
	served    map[string]bool      // instances whose nodes have been ready
	provision time.Duration        // after which an instance without a node is lost, and a node that is not ready is broken
	startup   time.Duration        // after which Cluster Autoscaler takes a node that is not ready for broken
}

// counted are the numbers of a group's nodes by their state.
type counted struct {
	ready    int
	broken   int // ready once and not any more
	inFlight int // on their way
	expected int // those Cluster Autoscaler takes to be on their way, if it holds a request
	due      int // never ready, of the last order or without a node, and not written off yet
}

// overcounted returns how many nodes will not come although Cluster Autoscaler expects them, if it
// holds a request.
func (n counted) overcounted() int { return n.expected - n.inFlight }

// count returns how many of the group's nodes are ready and how many are on their way. Cluster
// Autoscaler expects ordered nodes, instances that are within the provision time, and nodes that
// are within the startup time. Nodes that were ready before, are written off, or are not ready
// after the provision time are not on their way, nor are those ordered before the nodes in service
// failed; Cluster Autoscaler does not know that.
func (s *observation) count(g *Group, b *groupState) counted {
	var n counted
	lost, useless := 0, b.off.missing
	for i := range g.Instances {
		instance := &g.Instances[i]
		if instance.State == cloudprovider.InstanceDeleting {
			continue
		}
		node, registered := s.nodes[instance.ID]
		since, known := s.since[instance.ID]
		limit := s.provision
		if registered {
			since, known, limit = node.Created, !node.Created.IsZero(), s.startup
		}
		if registered && node.Lost {
			n.broken++
		}
		switch {
		case b.off.instances[instance.ID], registered && (node.Ready || s.served[instance.ID] || node.Created.Before(b.Ordered)):
		default:
			n.due++
		}
		switch {
		case registered && node.Ready:
			n.ready++
		case known && s.now.Sub(since) >= limit:
			lost++
		case known && s.now.Sub(since) >= s.provision, registered && node.Lost, b.off.instances[instance.ID]:
			useless++
		}
	}
	n.expected = max(0, b.target-n.ready-lost)
	n.inFlight = max(0, n.expected-useless)
	if n.down() && !b.down.IsZero() && !b.Ordered.After(b.down) {
		n.inFlight = 0
	}
	n.due += max(0, b.target-g.existing()-b.off.missing)
	return n
}

// watchUnregistered notes since when instances have had no node.
func watchUnregistered(v *Cloud, nodes map[string]NodeState, before map[string]time.Time) map[string]time.Time {
	since := map[string]time.Time{}
	for _, g := range v.Groups {
		for i := range g.Instances {
			id := g.Instances[i].ID
			if _, registered := nodes[id]; !registered {
				since[id] = cmp.Or(before[id], v.At)
			}
		}
	}
	return since
}

// look makes a new observation. There is one per loop, and one per question.
func (s *Machine) look() *observation {
	now := s.now
	nodes := s.nodes(now)
	s.at = &observation{now: now, nodes: nodes, since: s.since, served: s.served, provision: s.o.MaxNodeProvisionTime, startup: s.o.MaxNodeStartupTime}
	return s.at
}

// lag is how long a node must have been ready to count as ready: Cluster Autoscaler lists nodes
// before it refreshes, from its own watch. Too few ready nodes cost a loop, too many cost a node.
const lag = 2 * time.Second

// nodes returns the registered nodes by provider id. A node is ready only if it was ready at the
// refresh before the last one.
func (s *Machine) nodes(now time.Time) map[string]NodeState {
	if !s.known {
		return s.inferred.nodes(now)
	}
	list := s.observed
	first := s.readySince == nil
	since := make(map[string]time.Time, len(list))
	served := make(map[string]bool, len(list))
	out := make(map[string]NodeState, len(list))
	for _, n := range list {
		if n.Ready || s.served[n.ProviderID] {
			served[n.ProviderID] = true
		}
		n.Lost = !n.Ready && (n.Lost || served[n.ProviderID])
		if n.Ready {
			at, known := s.readySince[n.ProviderID]
			switch {
			case known:
			case first && now.Sub(n.Created) >= s.o.MaxNodeProvisionTime: // of old
			default:
				at = now
			}
			since[n.ProviderID] = at
			n.Ready = now.Sub(at) >= lag && !at.After(s.refreshes[0])
		}
		out[n.ProviderID] = n
	}
	s.readySince, s.served = since, served
	return out
}
