package steering

import (
	"cmp"
	"maps"
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

// Observe says which nodes are registered; Known is false if that must be inferred from the calls of
// Cluster Autoscaler. It comes before every event that depends on nodes: a question, a reading, a
// decrease.
type Observe struct {
	Nodes []NodeState
	Known bool
}

func (e Observe) apply(s *State) Answer {
	s.nodes.observed, s.nodes.known = e.Nodes, e.Known
	return Answer{}
}

// nodes is what is known of the nodes of the cluster.
type nodes struct {
	observed   []NodeState
	known      bool // else it must be inferred
	inferred   inferred
	since      map[string]time.Time // instances without a node
	readySince map[string]time.Time // nodes, by provider id; nil before they were first looked at
	served     map[string]bool      // nodes that have been ready, by provider id
	refreshes  [2]time.Time         // the last but one, and the last
	at         *observation         // when last looked at
}

// refreshed notes when a loop of Cluster Autoscaler has begun.
func (n *nodes) refreshed(began time.Time) { n.refreshes = [2]time.Time{n.refreshes[1], began} }

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
	if g.Reported != nil {
		return g.Reported.count(b.target)
	}
	return s.countInstances(g, b)
}

// countInstances counts the instances of a group that was read from its cloud.
func (s *observation) countInstances(g *Group, b *groupState) counted {
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
		case b.off.instances[instance.ID], registered && (node.Ready || s.served[instance.ID] || node.Created.Before(b.ordered)):
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
	if n.down() && !b.down.IsZero() && !b.ordered.After(b.down) {
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

// Ready returns the instances that have a ready node, by id, as of the last Observe.
func (s *State) Ready(now time.Time) map[string]bool {
	at, since := s.nodes.observation(now, &s.o)
	out := make(map[string]bool, len(at.nodes))
	for id, node := range at.nodes {
		_, ready := since[id]
		out[id] = ready || node.Ready
	}
	return out
}

// observe makes a new observation. There is one per loop, and one per question.
func (s *State) observe() *observation {
	at, readySince := s.nodes.observation(s.now, &s.o)
	s.nodes.at, s.nodes.readySince, s.nodes.served = at, readySince, at.served
	return at
}

// lag is how long a node must have been ready to count as ready: Cluster Autoscaler lists nodes
// before it refreshes, from its own watch. Too few ready nodes cost a loop, too many cost a node.
const lag = 2 * time.Second

// observation returns what is known now, and since when nodes have been ready. A node is ready only if it
// was ready at the refresh before the last one.
func (n *nodes) observation(now time.Time, o *Options) (at *observation, readySince map[string]time.Time) {
	at = &observation{now: now, since: n.since, served: n.served, provision: o.MaxNodeProvisionTime, startup: o.MaxNodeStartupTime}
	if !n.known {
		at.nodes = n.inferred.nodes(now)
		return at, n.readySince
	}
	first := n.readySince == nil
	readySince = make(map[string]time.Time, len(n.observed))
	at.served = make(map[string]bool, len(n.observed))
	at.nodes = make(map[string]NodeState, len(n.observed))
	for _, node := range n.observed {
		if node.Ready || n.served[node.ProviderID] {
			at.served[node.ProviderID] = true
		}
		node.Lost = !node.Ready && (node.Lost || at.served[node.ProviderID])
		if node.Ready {
			since, known := n.readySince[node.ProviderID]
			switch {
			case known:
			case first && now.Sub(node.Created) >= o.MaxNodeProvisionTime: // of old
			default:
				since = now
			}
			readySince[node.ProviderID] = since
			node.Ready = now.Sub(since) >= lag && !since.After(n.refreshes[0])
		}
		at.nodes[node.ProviderID] = node
	}
	return at, readySince
}

// InferredReadyAfter is how long after its registration a node counts as ready where readiness is
// inferred.
const InferredReadyAfter = time.Minute

// inferred learns which nodes are registered from the questions of Cluster Autoscaler, which asks
// for the group of every registered node once per loop. It does not ask about readiness, so a node
// counts as ready a while after it was first seen.
type inferred map[string]askedAbout // by provider id

// askedAbout is when a node was asked about first and last.
type askedAbout struct{ first, last time.Time }

// Saw is Cluster Autoscaler asking for the group of a node, by its provider id.
type Saw struct{ ProviderID string }

func (e Saw) apply(s *State) Answer {
	if id := e.ProviderID; id != "" {
		s.nodes.inferred[id] = askedAbout{cmp.Or(s.nodes.inferred[id].first, s.now), s.now}
	}
	return Answer{}
}

// forget drops nodes that have not been asked about for a while.
func (i inferred) forget(before time.Time) {
	maps.DeleteFunc(i, func(_ string, node askedAbout) bool { return node.last.Before(before) })
}

func (i inferred) nodes(now time.Time) map[string]NodeState {
	out := make(map[string]NodeState, len(i))
	for id, node := range i {
		out[id] = NodeState{ProviderID: id, Created: node.first, Ready: now.Sub(node.first) >= InferredReadyAfter}
	}
	return out
}
