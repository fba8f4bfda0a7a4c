package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"golang.org/x/sync/errgroup"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

const (
	// detailsFor is how long templates and options of groups are not read again. Cluster Autoscaler prefers real nodes
	// to templates, so a template that changes is no hurry.
	detailsFor = time.Minute
	// useful is how old a reading may be that took longer than Cluster Autoscaler waited for it.
	useful = 30 * time.Second
	// confirmAfter is how long a group's target size must have stayed what it was after an increase without a clear
	// answer, until the increase counts as refused.
	confirmAfter = 5 * time.Second
)

// Refresh implements cloudprovider.Provider: it reads the whole cloud once per loop. An error skips the loop, which is
// the one failure that costs Cluster Autoscaler nothing it knows.
func (s *Sidecar) Refresh(ctx context.Context) error {
	began := s.o.Clock.Now()
	s.hear(ctx, newLoop, "")
	s.loadJournal(ctx)
	err := s.read(ctx, began)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetchErr = err
	s.refreshes = [2]time.Time{s.refreshes[1], began}
	if err != nil {
		s.o.Metrics.refreshFailed()
		return fmt.Errorf("%w: %w", cloudprovider.ErrUnavailable, err)
	}
	if s.fetched != nil {
		s.show(s.fetched)
		s.fetched = nil
	}
	s.loop++
	clear(s.grown)
	s.pick = nil
	if s.plan != nil && began.Sub(s.plan.since) > s.o.MaxNodeProvisionTime {
		s.plan = nil // nobody has asked for its pods any more
	}
	s.memory.options = nil
	s.inferred.forget(began.Add(-10 * time.Minute))
	s.levelOut(began)
	s.o.Metrics.refreshed(s.o.Clock.Since(began))
	s.gauge()
	return nil
}

// ensure makes sure that there is something to show: Cluster Autoscaler asks for groups and nodes before its first Refresh,
// and a replica that does not lead may wait for days before it does.
func (s *Sidecar) ensure(ctx context.Context) (*view, error) {
	s.mu.Lock()
	v, stale := s.view, s.loop == 0 && s.view != nil && s.o.Clock.Since(s.view.at) >= useful
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
	if s.fetched != nil {
		s.show(s.fetched)
		s.fetched = nil
	}
	s.fetchErr = nil
	return s.view, nil
}

// read reads the cloud, or waits for the reading that is under way. Where the cloud is slower than the caller, the
// reading goes on and serves the next call.
func (s *Sidecar) read(ctx context.Context, began time.Time) error {
	s.mu.Lock()
	fresh := s.fetched != nil && began.Sub(s.fetched.at) < useful && s.view != s.fetched
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
	out, stop := s.patience(ctx)
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

// fetch reads the cloud into a view. A group that can not be read stays as it was in the view before; one that was never
// read is left out.
func (s *Sidecar) fetch(ctx context.Context) (*view, error) {
	began := s.o.Clock.Now()
	if err := s.backend.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("refresh: %w", err)
	}
	groups, err := s.backend.NodeGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list node groups: %w", err)
	}
	v := &view{at: began, byID: make(map[string]*groupView, len(groups))}
	read := make([]*groupView, len(groups))
	calls := new(errgroup.Group)
	calls.SetLimit(s.o.Parallel)
	for i := range groups {
		calls.Go(func() error {
			read[i] = s.fetchGroup(ctx, groups[i])
			return nil
		})
	}
	_ = calls.Wait() // no call fails: each group has its own error
	for _, g := range read {
		if g != nil {
			v.groups = append(v.groups, g.NodeGroup)
			v.byID[g.ID] = g
		}
	}
	slices.SortFunc(v.groups, func(a, b cloudprovider.NodeGroup) int { return compareStrings(a.ID, b.ID) })
	v.groupOf = indexInstances(v.byID)
	v.took = s.o.Clock.Since(began)
	return v, nil
}

// fetchGroup reads one group; nil if it can not be and never was.
func (s *Sidecar) fetchGroup(ctx context.Context, group cloudprovider.NodeGroup) *groupView {
	s.mu.Lock()
	revision := s.book(group.ID).revision
	var before *groupView
	if s.view != nil {
		before = s.view.byID[group.ID]
	}
	hide := s.hides()
	s.mu.Unlock()

	g := &groupView{NodeGroup: group, revision: revision}
	target, err := s.backend.TargetSize(ctx, group.ID)
	var instances []cloudprovider.Instance
	if err == nil {
		instances, err = s.backend.Nodes(ctx, group.ID)
	}
	switch {
	case err == nil:
		g.target, g.instances = target, instances
	case before == nil:
		s.o.Log.Error(err, "Node group left out, it can not be read", "nodeGroup", group.ID)
		return nil
	default:
		g.target, g.instances, g.failed, g.err = before.target, before.instances, before.failed, err
		g.revision = -1 // says nothing new
	}
	s.fetchDetails(ctx, g, before)
	if hide && g.err == nil {
		s.dropFailed(ctx, g)
		s.takeBackOverdue(ctx, g)
	}
	return g
}

// fetchDetails reads what changes rarely.
func (s *Sidecar) fetchDetails(ctx context.Context, g, before *groupView) {
	now := s.o.Clock.Now()
	if before != nil && !before.detailsAt.IsZero() && now.Sub(before.detailsAt) < detailsFor && before.NodeGroup == g.NodeGroup {
		g.template, g.templateErr, g.zeroOrMax, g.detailsAt = before.template, before.templateErr, before.zeroOrMax, before.detailsAt
		g.price, g.hasPrice = before.price, before.hasPrice
		return
	}
	g.detailsAt = now
	g.template, g.templateErr = s.backend.Template(ctx, g.ID)
	if g.templateErr != nil && !errors.Is(g.templateErr, cloudprovider.ErrNotImplemented) {
		g.detailsAt = time.Time{}
		if before != nil && before.template.Node != nil {
			g.template, g.templateErr = before.template, nil
		}
	}
	options, err := s.backend.Options(ctx, g.ID, cloudprovider.GroupOptions{})
	g.zeroOrMax = err == nil && options.ZeroOrMaxNodeScaling
	if err != nil && !errors.Is(err, cloudprovider.ErrNotImplemented) && before != nil {
		g.zeroOrMax = before.zeroOrMax
	}
	pricing, ok := s.backend.(cloudprovider.Pricing)
	if ok && g.template.Node != nil && slices.Contains(s.o.Chain.Names(), "price") {
		price, err := pricing.NodePrice(ctx, g.template.Node, now, now.Add(time.Hour))
		g.price, g.hasPrice = price, err == nil
	}
}

// hides tells whether failures of members are kept from Cluster Autoscaler: any error it sees makes the healthy nodes of
// that group that are on their way invisible to it.
func (s *Sidecar) hides() bool {
	m, _ := s.mode()
	return m == steering
}

// dropFailed deletes instances that could not be created and backs the group off.
func (s *Sidecar) dropFailed(ctx context.Context, g *groupView) {
	var nodes []*v1.Node
	first := g.failed
	g.instances = slices.DeleteFunc(slices.Clone(g.instances), func(i cloudprovider.Instance) bool {
		if i.Error == nil || i.State == cloudprovider.InstanceDeleting {
			return false
		}
		g.failed = append(g.failed, i)
		nodes = append(nodes, cloudprovider.FakeNode(i.ID, cloudprovider.FakeNodeCreateError))
		return true
	})
	if len(nodes) == 0 {
		g.failed = first
		return
	}
	why := fmt.Sprintf("%d instances could not be created: %s: %s", len(nodes), g.failed[0].Error.Code, g.failed[0].Error.Message)
	err := s.backend.DeleteNodes(ctx, g.ID, nodes)
	if err == nil {
		g.target -= len(nodes)
		g.failed = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(g.ID, why, bringNode)
	s.note(Decision{Call: "Refresh", Group: g.ID, Asked: -len(nodes), Granted: -len(nodes), Reason: why + "; they are deleted and others take their share", Error: text(err)})
}

// takeBackOverdue lowers the target size by what the cloud has not begun to fulfil, shortly before Cluster Autoscaler
// would, which would take back more than is missing and leave the group alone.
func (s *Sidecar) takeBackOverdue(ctx context.Context, g *groupView) {
	missing := g.target - g.existing()
	now := s.o.Clock.Now()
	s.mu.Lock()
	b := s.book(g.ID)
	switch {
	case missing <= 0:
		b.missing = time.Time{}
	case b.missing.IsZero() || b.missing.Before(b.asked):
		b.missing = cmp.Or(b.asked, now)
	}
	since := b.missing
	overdue := b.order == nil && (b.unborn || now.Sub(since) >= s.o.MaxNodeProvisionTime*19/20)
	b.unborn = false
	missing -= max(0, min(b.off.vanished, missing)-s.roomBeside(g.ID))
	s.mu.Unlock()
	if !overdue || missing <= 0 {
		return
	}
	why := fmt.Sprintf("%d nodes ordered %s ago have no instance", missing, now.Sub(since).Round(time.Second))
	err := s.backend.DecreaseTargetSize(ctx, g.ID, -missing)
	if err == nil {
		g.target -= missing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(g.ID, why, bringNode)
	s.note(Decision{Call: "Refresh", Group: g.ID, Asked: -missing, Granted: -missing, Reason: why + "; they are taken back and others take their share", Error: text(err)})
}

// roomBeside is how many nodes the other members of a group's set can take. What has vanished and none of them can take stays on
// order: it comes as soon as the cloud has it.
func (s *Sidecar) roomBeside(id string) int {
	if s.view == nil {
		return math.MaxInt
	}
	room, now := 0, s.o.Clock.Now()
	for other, g := range s.view.byID {
		if _, _, off := s.backoff.Active(other, now); other != id && !off && s.set(other) == s.set(id) {
			room += max(0, g.MaxSize-s.book(other).target)
		}
	}
	return room
}

// show makes a view the one that Cluster Autoscaler is shown, and brings the books up to date with it.
func (s *Sidecar) show(v *view) {
	before := s.view
	s.view = v
	born := s.born()
	at := s.look()
	s.since = watchUnregistered(v, at.nodes, s.since)
	at.since = s.since
	for _, id := range slices.Sorted(maps.Keys(v.byID)) {
		g, b := v.byID[id], s.book(id)
		s.settleByReading(g, b)
		s.watch(before.group(id), g, b, born)
		n := at.count(g, b)
		if n.expected == 0 {
			b.seen, b.away = false, false // nothing to come: Cluster Autoscaler drops its request now
		}
	}
	if !s.holds(at) {
		s.provided = provided{}
	}
	for id := range s.books {
		if v.byID[id] == nil {
			delete(s.books, id)
		}
	}
}

// settleByReading takes over a target size that was read, and ends an order of which only the size tells what became of it.
func (s *Sidecar) settleByReading(g *groupView, b *book) {
	if g.revision != b.revision {
		return // read before something changed here
	}
	o := b.order
	switch {
	case o == nil:
		b.target = g.target - len(g.failed)
	case g.target >= o.Before+o.Delta:
		b.target = g.target - len(g.failed)
		if !o.failed.IsZero() {
			s.taken(b)
		}
	case !o.failed.IsZero() && s.o.Clock.Since(o.failed) >= confirmAfter:
		s.refused(g.ID, b, o.err)
		b.target = g.target - len(g.failed)
	default:
		b.target = g.target + o.Delta - len(g.failed)
	}
}
