package scaledown

import (
	"context"
	"errors"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

// Scaler runs rounds against a cloud. It keeps what has to outlive a round: since
// when nodes have not been needed, and since when they are held back, which are
// on their way out, and when the cluster last grew. It is not safe for concurrent
// use.
type Scaler struct {
	provider cloudprovider.Provider
	checker  *predicates.Checker
	opts     Options
	grewAt   time.Time
	unneeded map[string]time.Time // since when, of nodes that nobody needs
	deferred *deferral.Waits
	leaving  map[string]bool      // nodes on their way out, and whether they had pods to move
	retryAt  map[string]time.Time // groups in which a deletion failed
	known    memory
}

// New returns a Scaler without memory. It refuses options that make no sense.
func New(provider cloudprovider.Provider, checker *predicates.Checker, opts Options) (*Scaler, error) {
	if provider == nil || checker == nil {
		return nil, errors.New("scaledown: a provider and a checker are needed")
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &Scaler{
		provider: provider, checker: checker, opts: opts,
		unneeded: map[string]time.Time{}, deferred: deferral.New(opts.patience()), leaving: map[string]bool{}, retryAt: map[string]time.Time{},
		known: memory{},
	}, nil
}

// Round is one round from beginning to end.
type Round struct {
	World    *World
	Decision Decision
	Attempts []Attempt
}

// Gone are the names of the nodes that are on their way out now, in the order in
// which they were deleted.
func (r Round) Gone() []string {
	var names []string
	for _, a := range r.Attempts {
		if a.left() {
			names = append(names, a.Nodes...)
		}
	}
	return names
}

// Round observes, plans and executes, following a round of scale-up that has
// looked at the same cluster. The caller closes the nodes that are Gone to new
// pods and moves theirs. A group that fails is left as it was, with the failure
// in the result; an error means that nothing could be decided.
func (s *Scaler) Round(ctx context.Context, up *scaleup.Round) (Round, error) {
	world := s.observe(ctx, up)
	s.known.keep(world.Nodes)
	decision, err := plan(world, s.checker, s.opts, s.known)
	if err != nil {
		return Round{}, err
	}
	s.remember(&decision, world.Now)
	return Round{World: world, Attempts: s.execute(ctx, world, &decision), Decision: decision}, nil
}

// observe takes the world over from scale-up and adds the groups' settings and
// what is remembered.
func (s *Scaler) observe(ctx context.Context, up *scaleup.Round) *World {
	if up.Grew() > 0 {
		s.grewAt = up.World.Now
	}
	w := &World{Now: up.World.Now, Pending: up.World.Pending, Grew: up.Grew() > 0}
	if !s.grewAt.IsZero() {
		w.CoolingUntil = s.grewAt.Add(given(s.opts.DelayAfterAdd, DefaultDelayAfterAdd))
	}
	for i := range up.World.Groups {
		g := Group{Group: up.World.Groups[i], RetryAt: s.retryAt[up.World.Groups[i].ID]}
		settings, err := cloudprovider.OptionsOrDefaults(ctx, s.provider, g.ID, s.opts.settings())
		if err != nil && g.Err == nil {
			g.Err = err
		}
		g.Settings = settings
		w.Groups = append(w.Groups, g)
	}
	here := make(map[string]bool, len(up.World.Nodes))
	for i, n := range up.World.Nodes {
		name := n.Node.Name
		here[name] = true
		draining, leaving := s.leaving[name]
		w.Nodes = append(w.Nodes, Node{
			Node: n, Group: up.World.GroupOf[i],
			Leaving: leaving || template.IsLeaving(n.Node), Draining: draining,
			UnneededSince: s.unneeded[name], DeferredSince: s.deferred.Since(name),
		})
	}
	for name := range s.leaving {
		if !here[name] {
			delete(s.leaving, name)
		}
	}
	return w
}

// remember keeps since when nodes wait, and forgets those that are needed. A node whose group is at
// its minimum for a while is not: it goes on waiting for balance where it stopped.
func (s *Scaler) remember(d *Decision, now time.Time) {
	clear(s.unneeded)
	var offered []string
	for _, o := range d.Nodes {
		switch {
		case o.Outcome == NodeFixed:
		case !o.Outcome.Unneeded():
			s.deferred.Forget(o.Node)
		default:
			s.unneeded[o.Node] = o.UnneededSince
			offered = append(offered, o.Node)
			if !o.DeferredSince.IsZero() {
				s.deferred.Defer(o.Node, o.DeferredSince, now)
			}
		}
	}
	s.deferred.Offer(offered, now)
}
