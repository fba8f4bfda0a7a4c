package fake

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// group is the state of a node group. Its target size is not stored: it is the number of waiting
// orders plus the instances that are not being deleted.
type group struct {
	Group           // Nodes left out
	scheme string   // of the providerIDs of its nodes
	places []*place // at least one
	stocks []stock  // those that affect it, in the order of the configuration

	instances []*instance // by age
	waiting   []time.Time // when the waiting orders were made, the oldest first
	lastName  int
}

func newGroup(config *Group) *group {
	g := &group{Group: *config, scheme: config.schemeOf()}
	g.Zones, g.Distribution = slices.Clone(config.Zones), cmp.Or(config.Distribution, Balanced)
	g.Template = preparedTemplate(config.ID, config.Template)
	g.Nodes = nil
	g.makePlaces()
	if config.Options != nil {
		options := *config.Options
		g.Options = &options
	}
	return g
}

func (g *group) target() int {
	size := len(g.waiting)
	for _, p := range g.places {
		size += p.staying
	}
	return size
}

// longAgo is when a node must have been created to be ready and listed at t.
func (g *group) longAgo(t time.Time) time.Time {
	return t.Add(-max(g.BootTime+g.RegistrationDelay+g.ReadyDelay, g.ListDelay))
}

// instance is a machine from its creation until it is gone.
type instance struct {
	group     *group
	place     *place
	name, id  string
	node      *v1.Node // as configured; nil when made from the template
	started   *v1.Node // what it becomes; nil: it stays as it is
	startedAt time.Time
	ordered   time.Time // zero: it was there at the start
	created   time.Time
	failure   *failure  // nil: it is going to run
	stuck     string    // NeverRegisters and NeverReady: the state in which it stays; otherwise empty
	leftAt    time.Time // when its deletion was requested; zero: it was not

	shown   *v1.Node // its last node object; never changed
	shownAs nodeState
}

// failure describes why and when the creation of an instance fails.
type failure struct {
	at    time.Time
	cause cloudprovider.InstanceError
}

func (in *instance) runsAt() time.Time      { return in.created.Add(in.group.BootTime) }
func (in *instance) registersAt() time.Time { return in.runsAt().Add(in.group.RegistrationDelay) }
func (in *instance) readyAt() time.Time     { return in.registersAt().Add(in.group.ReadyDelay) }
func (in *instance) goneAt() time.Time      { return in.leftAt.Add(in.group.TerminationTime) }
func (in *instance) listedAt() time.Time    { return in.created.Add(in.group.ListDelay) }
func (in *instance) leaves() bool           { return !in.leftAt.IsZero() }

// useless reports whether the instance never becomes a ready node.
func (in *instance) useless() bool { return in.failure != nil || in.stuck != "" }

// milestones are the instants at which the instance changes by itself.
func (in *instance) milestones() []time.Time {
	switch {
	case in.leaves():
		return []time.Time{in.goneAt()}
	case in.failure != nil:
		return []time.Time{in.failure.at}
	}
	life := []time.Time{in.listedAt(), in.runsAt(), in.registersAt(), in.readyAt()}
	if in.started != nil {
		life = append(life, in.startedAt)
	}
	if in.stuck == NeverRegisters {
		return life[:2]
	}
	if in.stuck == NeverReady {
		return life[:3]
	}
	return life
}

// registered reports whether there is a node object. An instance that has not registered when it is
// deleted never registers.
func (in *instance) registered(now time.Time) bool {
	if in.leaves() && in.leftAt.Before(now) {
		now = in.leftAt
	}
	return in.failure == nil && in.stuck != NeverRegisters && !in.registersAt().After(now)
}

// describe returns the instance as defined by the contract.
func (in *instance) describe(now time.Time) cloudprovider.Instance {
	out := cloudprovider.Instance{ID: in.id, State: cloudprovider.InstanceRunning}
	switch {
	case in.leaves():
		out.State = cloudprovider.InstanceDeleting
	case in.failure != nil || in.runsAt().After(now):
		out.State = cloudprovider.InstanceCreating
	}
	if in.failure != nil && !in.failure.at.After(now) {
		cause := in.failure.cause
		out.Error = &cause
	}
	return out
}

// newInstance makes the group's next instance. Names are "<group>-0001" and so on, without those of
// existing nodes.
func (c *Cloud) newInstance(g *group, p *place, created time.Time) *instance {
	for {
		g.lastName++
		name := fmt.Sprintf("%s-%04d", g.ID, g.lastName)
		id := providerID(g.scheme, g.ID, name)
		if c.instances[name] == nil && c.instances[id] == nil {
			return &instance{group: g, place: p, name: name, id: id, created: created}
		}
	}
}

func (c *Cloud) add(in *instance) {
	in.group.instances = append(in.group.instances, in)
	c.instances[in.id], c.instances[in.name] = in, in
	in.place.count(in, 1)
}

func (p *place) count(in *instance, n int) {
	p.staying += n
	if !in.useless() {
		p.healthy += n
	}
}

func (c *Cloud) find(node *v1.Node) *instance {
	if node.Spec.ProviderID == "" {
		return c.instances[node.Name]
	}
	if in := c.instances[node.Spec.ProviderID]; in != nil && in.id == node.Spec.ProviderID {
		return in
	}
	return nil
}

// fulfil creates instances for waiting orders as far as zone and stock allow.
func (c *Cloud) fulfil(g *group, at time.Time) {
	for len(g.waiting) > 0 {
		p, short := g.next(at.Sub(c.start))
		if p == nil {
			return
		}
		in := c.newInstance(g, p, at)
		switch {
		case short == nil:
		case short.Mode == v1alpha1.StockOutFail:
			in.failure = &failure{at: at.Add(durationOf(short.FailAfter)), cause: outOfStock(p.zone)}
		default:
			in.stuck = short.Mode
		}
		in.ordered, g.waiting = g.waiting[0], g.waiting[1:]
		c.add(in)
	}
}

// remove starts the deletion of an instance that is not being deleted yet.
func (c *Cloud) remove(in *instance, now time.Time) {
	in.leftAt = now
	in.place.count(in, -1)
	c.leaving = append(c.leaving, in)
}

// removeTerminated removes the instances whose termination is over.
func (c *Cloud) removeTerminated(now time.Time) {
	if len(c.leaving) == 0 {
		return
	}
	gone := map[*group]bool{}
	c.leaving = slices.DeleteFunc(c.leaving, func(in *instance) bool {
		if in.goneAt().After(now) {
			return false
		}
		gone[in.group] = true
		c.forget(in)
		return true
	})
	for g := range gone { // groups are independent: their order does not matter
		g.instances = slices.DeleteFunc(g.instances, func(in *instance) bool {
			return in.leaves() && !in.goneAt().After(now)
		})
	}
}

// vanish removes the instances of a place and keeps the group's target size, so that new ones are
// created.
func (c *Cloud) vanish(g *group, p *place, now time.Time) {
	g.waiting = append(g.waiting, slices.Repeat([]time.Time{now}, p.staying)...)
	here := func(in *instance) bool { return in.place == p }
	for _, in := range g.instances {
		if here(in) {
			c.forget(in)
		}
	}
	c.leaving = slices.DeleteFunc(c.leaving, here)
	g.instances = slices.DeleteFunc(g.instances, here)
	p.staying, p.healthy = 0, 0
}

func (c *Cloud) forget(in *instance) {
	delete(c.instances, in.id)
	delete(c.instances, in.name)
}
