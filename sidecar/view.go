package sidecar

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// view is the cloud as it was read last. It never changes; the sizes that do are in the books.
type view struct {
	at      time.Time
	took    time.Duration
	groups  []cloudprovider.NodeGroup // by id
	byID    map[string]*groupView
	groupOf map[string]string // of an instance, by its id
}

// groupView is one group in a view.
type groupView struct {
	cloudprovider.NodeGroup
	target    int
	revision  int // of the group's book when target was read
	instances []cloudprovider.Instance
	failed    []cloudprovider.Instance // could not be created; not among instances
	err       error                    // why target and instances are those of an earlier view

	template    cloudprovider.Template
	templateErr error
	zeroOrMax   bool
	price       cloudprovider.Price // of a node for an hour, if hasPrice
	hasPrice    bool
	detailsAt   time.Time // when template and zeroOrMax were read; zero if never
}

// existing is how many instances stand for the target size.
func (g *groupView) existing() int {
	n := len(g.failed)
	for i := range g.instances {
		if g.instances[i].State != cloudprovider.InstanceDeleting {
			n++
		}
	}
	return n
}

// sight is what is known of the nodes of the cluster at one moment.
type sight struct {
	now       time.Time
	nodes     map[string]NodeState // by provider id
	since     map[string]time.Time // when an instance was first seen without a node, by its id
	provision time.Duration        // after which an instance without a node is lost, and a node that is not ready is broken
	startup   time.Duration        // after which Cluster Autoscaler takes a node that is not ready for broken
}

// group is one of the view's groups; nil if it is not there.
func (v *view) group(id string) *groupView {
	if v == nil {
		return nil
	}
	return v.byID[id]
}

// counted are a group's nodes by what they are.
type counted struct {
	ready    int
	broken   int // ready once and not any more
	inFlight int // on their way
	expected int // those Cluster Autoscaler takes to be on their way, if it holds a request
	due      int // not ready, of the last order or without a node, and not written off yet
}

// ghosts are the nodes that Cluster Autoscaler takes to be on their way, if it holds a request, and that will not come.
func (n counted) ghosts() int { return n.expected - n.inFlight }

// count tells how many of the group's nodes are ready and how many are on their way. Cluster Autoscaler expects an order, an
// instance that has not registered within the provision time, a node that has not become ready within the startup time. Not
// on its way is what was ready before, is written off, or is not ready after the provision time; of that it does not know.
func (s *sight) count(g *groupView, b *book) counted {
	var n counted
	lost, useless := 0, b.off.missing
	for i := range g.instances {
		instance := &g.instances[i]
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
		case b.off.instances[instance.ID], registered && (node.Ready || node.Created.Before(b.ordered)):
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
	n.due += max(0, b.target-g.existing()-b.off.missing)
	return n
}

// watchUnregistered notes since when instances have had no node.
func watchUnregistered(v *view, nodes map[string]NodeState, before map[string]time.Time) map[string]time.Time {
	since := map[string]time.Time{}
	for _, g := range v.byID {
		for i := range g.instances {
			id := g.instances[i].ID
			if _, registered := nodes[id]; registered {
				continue
			}
			if first, known := before[id]; known {
				since[id] = first
			} else {
				since[id] = v.at
			}
		}
	}
	return since
}

func indexInstances(byID map[string]*groupView) map[string]string {
	out := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		for _, instances := range [][]cloudprovider.Instance{byID[id].instances, byID[id].failed} {
			for i := range instances {
				out[instances[i].ID] = id
			}
		}
	}
	return out
}

// lock is a mutex that can be waited for only as long as somebody is interested.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lock) release() { <-l }
