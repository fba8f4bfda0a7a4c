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
}

// count tells how many of the group's nodes are ready and how many are on their way, as Cluster Autoscaler counts:
// an order, an instance that has not registered, a young node that is not ready yet. What stays so for longer than the
// provision time is neither.
func (s *sight) count(g *groupView, target int) (ready, inFlight int) {
	lost := 0
	for i := range g.instances {
		instance := &g.instances[i]
		if instance.State == cloudprovider.InstanceDeleting {
			continue
		}
		node, registered := s.nodes[instance.ID]
		switch {
		case registered && node.Ready:
			ready++
		case registered:
			if !node.Created.IsZero() && s.now.Sub(node.Created) >= s.provision {
				lost++
			}
		default:
			if since, known := s.since[instance.ID]; known && s.now.Sub(since) >= s.provision {
				lost++
			}
		}
	}
	return ready, max(0, target-ready-lost)
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
