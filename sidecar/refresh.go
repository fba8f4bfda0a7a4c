package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/steering"
)

const (
	// detailsFor is how long templates and options of groups are not read again. Cluster Autoscaler
	// prefers real nodes to templates, so a template that changes is no hurry.
	detailsFor = time.Minute
	// useful is how old a reading may be that took longer than Cluster Autoscaler waited for it.
	useful = 30 * time.Second
)

// Refresh implements cloudprovider.Provider: it reads the whole cloud once per loop. An error skips
// the loop, which is the one failure that costs Cluster Autoscaler nothing it knows.
func (s *Sidecar) Refresh(ctx context.Context) error {
	began := s.o.Clock.Now()
	s.mu.Lock()
	s.refreshedOn, s.askedSince = s.o.Connection(ctx), false
	s.apply(steering.Released{Before136: s.o.Before136(ctx)})
	s.apply(steering.Called{Connection: s.refreshedOn, Call: steering.RefreshCall})
	s.mu.Unlock()
	s.loadJournal(ctx)
	s.readConfiguration()
	err := s.read(ctx, began)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cloudRead(err)
	if err != nil {
		s.apply(steering.LoopSkipped{Began: began})
		s.o.Metrics.refreshFailures.Inc()
		return fmt.Errorf("%w: %w", cloudprovider.ErrUnavailable, err)
	}
	s.applyNodes()
	s.apply(steering.LoopBegins{Began: began, Reading: s.takeFetched()})
	clear(s.memory.options)
	s.o.Metrics.refresh.Observe(s.o.Clock.Since(began).Seconds())
	if gauges, ok := s.state.Gauges(); ok {
		s.o.Metrics.state(gauges)
	}
	return nil
}

// takeFetched makes what was read, if anything was, what Cluster Autoscaler is shown. The caller
// holds mu.
func (s *Sidecar) takeFetched() *steering.Cloud {
	if s.fetched == nil {
		return nil
	}
	s.view, s.fetched = s.fetched, nil
	return &s.view.Cloud
}

// ensure makes sure that there is something to show: Cluster Autoscaler asks for groups and nodes
// before its first Refresh, and a replica that does not lead may wait for days before it does.
func (s *Sidecar) ensure(ctx context.Context) (*view, error) {
	s.mu.Lock()
	v, stale := s.view, s.state.Loop() == 0 && s.view != nil && s.o.Clock.Since(s.view.At) >= useful
	s.mu.Unlock()
	if v != nil && !stale {
		return v, nil
	}
	s.loadJournal(ctx)
	if err := s.read(ctx, s.o.Clock.Now()); err != nil {
		return nil, fmt.Errorf("%w: %w", cloudprovider.ErrUnavailable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if read := s.takeFetched(); read != nil {
		s.applyNodes()
		s.apply(steering.Show{Reading: read})
	}
	s.cloudRead(nil)
	return s.view, nil
}

// read reads the cloud, or waits for the reading that is under way. Where the cloud is slower than
// the caller, the reading goes on and serves the next call.
func (s *Sidecar) read(ctx context.Context, began time.Time) error {
	s.mu.Lock()
	fresh := s.fetched != nil && began.Sub(s.fetched.At) < useful && s.view != s.fetched
	s.mu.Unlock()
	done := s.fetching.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.BackendTimeout)
		defer cancel()
		v, err := s.fetch(ctx)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fetched = v
		return nil, nil
	})
	out, stop := s.answerTimer(ctx)
	defer stop()
	select {
	case result := <-done:
		return result.Err
	case <-out:
	case <-ctx.Done():
	}
	if fresh {
		return nil
	}
	return errors.New("the cloud has not answered in time")
}

// fetch reads the cloud into a view. A group that cannot be read stays as it was in the view
// before; one that was never read is left out.
func (s *Sidecar) fetch(ctx context.Context) (*view, error) {
	began := s.o.Clock.Now()
	s.mu.Lock()
	s.applyNodes()
	before := known{last: cmp.Or(s.fetched, s.view, &view{}), ready: s.state.Ready(began)}
	s.mu.Unlock()
	if err := s.backend.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("refresh: %w", err)
	}
	groups, err := s.backend.NodeGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list node groups: %w", err)
	}
	s.mu.Lock()
	s.listings.keep(groups)
	before.joined = s.memory.joinedSince(before.last)
	s.mu.Unlock()
	read := make([]*steering.Group, len(groups))
	calls := new(errgroup.Group)
	calls.SetLimit(s.o.Parallel)
	for i := range groups {
		calls.Go(func() error {
			read[i] = s.fetchGroup(ctx, groups[i], &before)
			return nil
		})
	}
	_ = calls.Wait() // no call fails: each group has its own error
	s.takeBack(ctx, s.observe(steering.Late{Groups: slices.DeleteFunc(slices.Clone(read), func(g *steering.Group) bool { return g == nil })}))
	return newView(began, s.o.Clock.Since(began), read), nil
}

// known is what is known of instances when a reading begins.
type known struct {
	last   *view
	ready  map[string]bool                     // instances with a ready node
	joined map[string][]cloudprovider.Instance // since the last reading, by group
}

// fetchGroup reads one group; nil if it cannot be and never was.
func (s *Sidecar) fetchGroup(ctx context.Context, group cloudprovider.NodeGroup, known *known) *steering.Group {
	g, before := &steering.Group{NodeGroup: group}, known.last.Groups[group.ID]
	g.Revision = ask(&s.machine, func(state *steering.State) int { return state.Revision(group.ID) })

	var err error
	if g.Target, err = s.backend.TargetSize(ctx, group.ID); err == nil {
		err = s.listInstances(ctx, g, before, known)
	}
	switch {
	case err == nil:
	case before == nil:
		s.o.Log.Error(err, "Node group left out, it cannot be read", "nodeGroup", group.ID)
		return nil
	default:
		g.Target, g.Instances, g.Failed, g.Err = before.Target, before.Instances, before.Failed, err
		g.Revision = -1 // says nothing new
	}
	s.fetchDetails(ctx, g, before)
	if g.Err == nil {
		s.takeBack(ctx, s.step(steering.Failed{Group: g}))
		s.takeBack(ctx, s.step(steering.Overdue{Group: g}))
	}
	return g
}

// listInstances lists the instances of a group if that is due, or if the process has not led yet. Else
// they are those of the reading before, and those that show by nodes that have joined, unless the last
// listing has failed: then that still holds.
func (s *Sidecar) listInstances(ctx context.Context, g, before *steering.Group, known *known) (err error) {
	s.mu.Lock()
	now, last, settled := s.o.Clock.Now(), known.last.At, false
	if before != nil && (s.state.Loop() > 0 || now.Sub(last) < useful) {
		g.Kept = true
		g.Instances, settled = s.state.Kept(before, g.Target, known.joined[g.ID], known.ready)
	}
	if !g.Kept || s.listings.due(g.ID, settled, last, now) {
		g.Kept = false
		s.listings.noteListed(g.ID, now)
	}
	listing := s.listings[g.ID]
	err = listing.err
	s.mu.Unlock()
	if g.Kept {
		return err
	}
	g.Instances, err = s.backend.Nodes(ctx, g.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	listing.err = err
	return err
}

// fetchDetails reads what changes rarely.
func (s *Sidecar) fetchDetails(ctx context.Context, g, before *steering.Group) {
	now := s.o.Clock.Now()
	if before != nil && !before.DetailsAt.IsZero() && now.Sub(before.DetailsAt) < detailsFor && before.NodeGroup == g.NodeGroup {
		g.Template, g.TemplateErr, g.ZeroOrMax, g.DetailsAt = before.Template, before.TemplateErr, before.ZeroOrMax, before.DetailsAt
		g.Price, g.HasPrice = before.Price, before.HasPrice
		return
	}
	g.DetailsAt = now
	g.Template, g.TemplateErr = s.backend.Template(ctx, g.ID)
	if g.TemplateErr != nil && !errors.Is(g.TemplateErr, cloudprovider.ErrNotImplemented) {
		g.DetailsAt = time.Time{}
		if before != nil && before.Template.Node != nil {
			g.Template, g.TemplateErr = before.Template, nil
		}
	}
	options, err := s.backend.Options(ctx, g.ID, cloudprovider.GroupOptions{})
	g.ZeroOrMax = err == nil && options.ZeroOrMaxNodeScaling
	if err != nil && !errors.Is(err, cloudprovider.ErrNotImplemented) && before != nil {
		g.ZeroOrMax = before.ZeroOrMax
	}
	pricing, ok := s.backend.(cloudprovider.Pricing)
	if ok && g.Template.Node != nil && slices.Contains(s.o.Chain.Names(), "price") {
		price, err := pricing.NodePrice(ctx, g.Template.Node, now, now.Add(time.Hour))
		g.Price, g.HasPrice = price, err == nil
	}
}

// takeBack deletes nodes, and lowers the target size by what the cloud has not begun to fulfil.
func (s *Sidecar) takeBack(ctx context.Context, found steering.Answer) {
	for _, t := range found.TakeBacks {
		answered := steering.TakenBack{TakeBack: t}
		if len(t.Nodes) > 0 {
			answered.DeleteErr = s.backend.DeleteNodes(ctx, t.Group.ID, t.Nodes)
		}
		if t.Missing > 0 {
			answered.DecreaseErr = s.backend.DecreaseTargetSize(ctx, t.Group.ID, -t.Missing)
		}
		s.step(answered)
	}
}
