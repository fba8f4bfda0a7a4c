package fake

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Cloud is a cloud in memory. It implements cloudprovider.Provider and
// cloudprovider.Pricing and may be used by several goroutines.
type Cloud struct {
	clock   clock.Clock
	start   time.Time
	groups  []*group // sorted by id
	byID    map[string]*group
	quotas  []quota
	faults  []v1alpha1.CallFault
	prices  PodPrices
	turns   []time.Time // when stock-outs and outages begin and end; ascending
	windows []time.Time // when any fault begins or ends; ascending
	observe func(Call) func(Call)

	mu        sync.Mutex
	applied   time.Time            // everything up to this time has been applied
	nextTurn  int                  // first of turns that has not been applied
	instances map[string]*instance // by provider id and by node name
	leaving   []*instance
	hits      []int32 // matching calls so far, per call fault
	calls     []Call
}

var (
	_ cloudprovider.Provider = (*Cloud)(nil)
	_ cloudprovider.Pricing  = (*Cloud)(nil)
)

// New starts a cloud whose time begins at the clock's now. The configuration is copied. For an
// invalid one the error lists all its problems by field path.
//
// A slow call waits on a timer of the clock, so a virtual clock must be moved by another goroutine
// than the one that makes a slow call.
func New(config Config, clock clock.Clock) (*Cloud, error) {
	if errs := config.Validate(nil); len(errs) > 0 {
		return nil, fmt.Errorf("fake cloud: %w", errs.ToAggregate())
	}
	c := &Cloud{
		clock:     clock,
		start:     clock.Now(),
		byID:      map[string]*group{},
		prices:    config.PodPrices,
		instances: map[string]*instance{},
		hits:      make([]int32, len(config.Calls)),
	}
	c.applied = c.start
	for i := range config.Groups {
		g := newGroup(&config.Groups[i])
		c.groups = append(c.groups, g)
		c.byID[g.ID] = g
	}
	slices.SortFunc(c.groups, func(a, b *group) int { return strings.Compare(a.ID, b.ID) })
	c.scheduleFaults(&config)
	for i := range config.Groups {
		c.adopt(c.byID[config.Groups[i].ID], &config.Groups[i])
	}
	for _, g := range c.groups {
		c.populate(g)
	}
	c.apply(c.start)
	return c, nil
}

// adopt adds the nodes that exist from the start.
func (c *Cloud) adopt(g *group, config *Group) {
	for _, node := range config.Nodes {
		if !config.KeepNodes {
			node = node.DeepCopy()
		}
		in := &instance{
			group: g, place: g.placeOf(node), name: node.Name, id: config.providerIDOf(node),
			node: node, created: g.longAgo(c.start),
		}
		if s, starting := config.Started[node.Name]; starting {
			in.started, in.startedAt = s.Node.DeepCopy(), c.start.Add(s.After)
		}
		c.add(in)
	}
}

// populate creates the rest of the nodes the group starts with, ready for a long time.
func (c *Cloud) populate(g *group) {
	for g.target() < g.Size {
		p, _ := g.next(-1) // before all faults
		c.add(c.newInstance(g, p, g.longAgo(c.start)))
	}
}

// now returns the current time, after applying everything that has happened until then.
func (c *Cloud) now() time.Time {
	now := c.clock.Now()
	if now.Before(c.applied) {
		now = c.applied
	}
	c.apply(now)
	return now
}

// apply applies what has happened by itself until now, in order of time.
func (c *Cloud) apply(now time.Time) {
	for c.nextTurn < len(c.turns) && !c.turns[c.nextTurn].After(now) {
		at := c.turns[c.nextTurn]
		c.nextTurn++
		c.removeTerminated(at)
		for _, g := range c.groups {
			for _, p := range g.places {
				if p.vanishesAt(at.Sub(c.start)) {
					c.vanish(g, p, at)
				}
			}
			c.fulfil(g, at)
		}
	}
	c.removeTerminated(now)
	c.applied = now
}

// NextEvent returns the next instant after now at which something changes by itself: an instance or
// node moves on in its life, a fault begins or ends. ok is false if nothing will change without a
// call.
func (c *Cloud) NextEvent() (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	consider := func(t time.Time) {
		if t.After(now) && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	for _, t := range c.windows {
		consider(t)
	}
	for _, g := range c.groups {
		for _, in := range g.instances {
			for _, t := range in.milestones() {
				consider(t)
			}
		}
	}
	return at, ok
}

// RegisteredNodes returns the node objects of all groups as they look now, by group id and then by
// age: those of the configuration unchanged, the others made from the template, not ready
// (condition and taint) until ReadyDelay has passed. In an outage nodes are unreachable. The caller
// owns the copies.
func (c *Cloud) RegisteredNodes() []*v1.Node {
	nodes := c.SharedNodes()
	for i, node := range nodes {
		nodes[i] = node.DeepCopy()
	}
	return nodes
}

// SharedNodes is RegisteredNodes without copies, for frequent calls: the objects are the cloud's
// own and must not be changed. As long as the state of a node stays the same, it is the same
// object.
func (c *Cloud) SharedNodes() []*v1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	var nodes []*v1.Node
	for _, g := range c.groups {
		for _, in := range g.instances {
			if in.registered(now) {
				nodes = append(nodes, in.nodeObject(now, in.place.outageAt(now.Sub(c.start)) != nil))
			}
		}
	}
	return nodes
}
