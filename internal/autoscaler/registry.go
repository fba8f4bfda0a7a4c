package autoscaler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// The limits of the health gates: more unready nodes than the count and than the share make cluster
// or group unhealthy.
const (
	okUnready        = 3
	maxUnreadyShare  = 0.45
	instancesRefresh = 2 * time.Minute
)

// request is a scale-up Cluster Autoscaler has asked for and not seen the end of.
type request struct {
	increase int
	expects  time.Time
}

// readiness counts the nodes of a group.
type readiness struct {
	ready, unready, notStarted, deleted, registered int
	unregistered, longUnregistered                  int

	notStartedNames []string
}

// sizes are the bounds between which the number of a group's nodes is as it should be.
type sizes struct{ min, target int }

// unregistered is an instance without node.
type unregistered struct {
	node  *v1.Node
	since time.Time
}

// wrongSize is a target size that differs from the number of nodes.
type wrongSize struct {
	registered, target int
	since              time.Time
}

// registry is Cluster Autoscaler's state of the cluster. It lives as long as the process.
type registry struct {
	caller       *Autoscaler
	remote       *remote
	requests     map[string]*request
	backoffs     *backoff.Backoff
	refused      map[string]bool                     // groups whose last failure is that of an increase
	cached       map[string][]cloudprovider.Instance // by group; absent entries are fetched
	refreshed    time.Time                           // when all of cached was last fetched
	current      map[string][]cloudprovider.Instance // what the last update saw, and the one before
	previous     map[string][]cloudprovider.Instance
	unregistered []unregistered
	perGroup     map[string]*readiness // only groups with nodes or instances
	nodes        int
	unready      int
	ranges       map[string]sizes
	wrong        map[string]wrongSize
}

func newRegistry(a *Autoscaler, r *remote) *registry {
	backoffs := a.options.Backoff
	backoffs.Inclusive = true
	return &registry{
		caller: a, remote: r,
		requests: map[string]*request{}, refused: map[string]bool{}, backoffs: backoff.New(backoffs),
		cached: map[string][]cloudprovider.Instance{},
	}
}

// refreshInstances is what a background task does every two minutes. An error leaves an empty list
// behind.
func (s *registry) refreshInstances(now time.Time) {
	s.refreshed = now
	groups := s.remote.NodeGroups()
	maps.DeleteFunc(s.cached, func(id string, _ []cloudprovider.Instance) bool {
		return !slices.ContainsFunc(groups, func(g *group) bool { return g.ID == id })
	})
	for _, g := range groups {
		instances, err := s.remote.instances(g.ID)
		if err != nil {
			instances = nil
		}
		s.cached[g.ID] = instances
	}
}

// update takes in the nodes. An error leaves everything as it was.
func (s *registry) update(nodes []predicates.Node, now time.Time) error {
	targets, err := s.targets()
	if err != nil {
		return err
	}
	instances, err := s.instances()
	if err != nil {
		return err
	}
	s.previous, s.current = s.current, instances
	s.updateUnregistered(nodes, now)
	s.updateReadiness(nodes, now)
	s.updateRanges(targets)
	s.updateRequests(now)
	s.handleCreationErrors(now)
	s.updateRanges(targets)
	s.updateWrong(now)
	return nil
}

func (s *registry) targets() (map[string]int, error) {
	targets := map[string]int{}
	for _, g := range s.remote.NodeGroups() {
		size, err := s.remote.targetSize(g.ID)
		if err != nil {
			return nil, fmt.Errorf("target size of %s: %w", g.ID, err)
		}
		targets[g.ID] = size
	}
	return targets, nil
}

// recalculate counts again within the loop. If the target sizes cannot be read, all count as zero.
func (s *registry) recalculate() {
	targets, err := s.targets()
	if err != nil {
		targets = nil
	}
	s.updateRanges(targets)
}

// instances reads the lists of groups believed to be scaling up anew, and all others that are not
// kept.
func (s *registry) instances() (map[string][]cloudprovider.Instance, error) {
	groups := s.remote.NodeGroups()
	for _, g := range groups {
		if s.scalingUp(g.ID) {
			delete(s.cached, g.ID)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(groups), func(g *group) bool { _, ok := s.cached[g.ID]; return ok })
	s.caller.shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
	for _, g := range missing { // at the same time there; an error here is followed by a second try below
		if instances, err := s.remote.instances(g.ID); err == nil {
			s.cached[g.ID] = instances
		}
	}
	all := make(map[string][]cloudprovider.Instance, len(groups))
	for _, g := range groups {
		if _, ok := s.cached[g.ID]; !ok {
			instances, err := s.remote.instances(g.ID)
			if err != nil {
				return nil, fmt.Errorf("instances of %s: %w", g.ID, err)
			}
			s.cached[g.ID] = instances
		}
		all[g.ID] = s.cached[g.ID]
	}
	return all, nil
}

// updateUnregistered keeps since when an instance has been without node.
func (s *registry) updateUnregistered(nodes []predicates.Node, now time.Time) {
	registered := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		registered[node.Node.Spec.ProviderID] = true
	}
	known := make(map[string]time.Time, len(s.unregistered))
	for _, u := range s.unregistered {
		known[u.node.Name] = u.since
	}
	s.unregistered = nil
	for _, g := range s.remote.NodeGroups() {
		for _, in := range s.current[g.ID] {
			if registered[in.ID] || in.State == cloudprovider.InstanceDeleting || failureOf(in) != "" {
				continue
			}
			since, ok := known[in.ID]
			if !ok {
				since = now
			}
			s.unregistered = append(s.unregistered, unregistered{cloudprovider.FakeNode(in.ID, cloudprovider.FakeNodeUnregistered), since})
		}
	}
}

func (s *registry) updateReadiness(nodes []predicates.Node, now time.Time) {
	s.perGroup, s.nodes, s.unready = map[string]*readiness{}, len(nodes), 0
	startup := startupTime // what one node's group says counts for the nodes after it that have no group
	classify := func(node *v1.Node, to *readiness) {
		if id, err := s.remote.groupOf(node); err == nil && id != "" {
			options, err := s.remote.groupOptions(id)
			switch {
			case err == nil && options == nil:
				startup = startupTime
			case err == nil:
				startup = options.MaxNodeStartupTime
			}
		}
		to.registered++
		switch {
		case deleting(node):
			to.deleted++
		case template.IsHealthy(node):
			to.ready++
		case node.CreationTimestamp.Add(startup).After(now):
			to.notStarted++
			to.notStartedNames = append(to.notStartedNames, node.Name)
		default:
			to.unready++
		}
	}
	var total readiness
	for _, n := range nodes {
		if id, err := s.remote.groupOf(n.Node); err == nil && id != "" {
			classify(n.Node, s.countOf(id))
		}
		classify(n.Node, &total)
	}
	s.unready = total.unready
	for _, u := range s.unregistered {
		id, err := s.remote.groupOf(u.node)
		if err != nil || id == "" {
			continue
		}
		limit, err := s.provisionTime(id)
		switch {
		case err != nil:
		case u.since.Add(limit).Before(now):
			s.countOf(id).longUnregistered++
		default:
			s.countOf(id).unregistered++
		}
	}
}

func (s *registry) countOf(id string) *readiness {
	if s.perGroup[id] == nil {
		s.perGroup[id] = &readiness{}
	}
	return s.perGroup[id]
}

// provisionTime is how long a node of the group may take.
func (s *registry) provisionTime(id string) (time.Duration, error) {
	options, err := s.remote.groupOptions(id)
	switch {
	case err != nil:
		return 0, err
	case options == nil:
		return s.caller.processors.provisionTime(id, s.caller.options.ProvisionTime), nil
	}
	return s.caller.processors.provisionTime(id, options.MaxNodeProvisionTime), nil
}

func (s *registry) updateRanges(targets map[string]int) {
	ranges := map[string]sizes{}
	for _, g := range s.remote.NodeGroups() {
		long := 0
		if r := s.perGroup[g.ID]; r != nil {
			long = r.longUnregistered
		}
		ranges[g.ID] = sizes{min: targets[g.ID] - long, target: targets[g.ID]}
	}
	for id, request := range s.requests {
		r := ranges[id]
		r.min -= request.increase
		ranges[id] = r
	}
	s.ranges = ranges
}

// upcoming is how many nodes of the group are to come, by what was counted last.
func (s *registry) upcoming(id string) int {
	r := s.perGroup[id]
	if r == nil {
		return s.ranges[id].target
	}
	return s.ranges[id].target - r.ready - r.unready - r.longUnregistered
}

func (s *registry) scalingUp(id string) bool {
	return s.requests[id] != nil && s.upcoming(id) > 0
}

// updateRequests ends the requests nothing of which is to come any more, and those whose time is
// over.
func (s *registry) updateRequests(now time.Time) {
	s.backoffs.Forget(now)
	for _, id := range slices.Sorted(maps.Keys(s.requests)) {
		request := s.requests[id]
		switch {
		case s.upcoming(id) <= 0:
			delete(s.requests, id)
		case request.expects.Before(now):
			s.failed(id, now, fmt.Sprintf("%d nodes did not come within the provision time", request.increase), true)
			if !s.caller.options.Before136 {
				// An error is only logged: instances that exist are deleted as unregistered nodes.
				if s.remote.decrease(id, -request.increase) == nil {
					s.caller.records.repaired(id, request.increase, "they did not come within the provision time", nil)
				}
			}
			delete(s.requests, id)
		}
	}
}

// register adds to the group's request, or takes from it.
func (s *registry) register(id string, delta int, now time.Time) {
	limit, err := s.provisionTime(id)
	if err != nil {
		return
	}
	r := s.requests[id]
	switch {
	case r == nil && delta > 0:
		s.requests[id] = &request{increase: delta, expects: now.Add(limit)}
	case r == nil:
	case r.increase+delta <= 0:
		delete(s.requests, id)
	default:
		r.increase += delta
		if delta > 0 {
			r.expects = now.Add(limit)
		}
	}
}

// failed backs the group off, unless its template is not known.
func (s *registry) failed(id string, now time.Time, why string, late bool) {
	s.caller.processors.scaleUpFailed(id, why, late)
	delete(s.refused, id)
	if s.caller.templates[id] == nil {
		return
	}
	s.backoffs.Failed(id, why, now)
}

func (s *registry) backedOff(id string, now time.Time) bool {
	_, _, active := s.backoffs.Active(id, now)
	return active && s.caller.templates[id] != nil
}

// failureOf is the error of an instance that could not be created; empty for none.
func failureOf(in cloudprovider.Instance) string {
	if in.State == 0 || in.Error == nil || in.Error.Code == "" {
		return ""
	}
	return fmt.Sprintf("%d.%s", in.Error.Class, in.Error.Code)
}

// notCreated are the instances that failed while being created.
func notCreated(instances []cloudprovider.Instance) []cloudprovider.Instance {
	return slices.DeleteFunc(slices.Clone(instances), func(in cloudprovider.Instance) bool {
		return failureOf(in) == "" || in.State != cloudprovider.InstanceCreating
	})
}

func (s *registry) handleCreationErrors(now time.Time) {
	for _, g := range s.remote.NodeGroups() {
		seen, unseen := map[string]bool{}, map[string]int{}
		for _, in := range notCreated(s.previous[g.ID]) {
			seen[in.ID] = true
		}
		for _, in := range notCreated(s.current[g.ID]) {
			if !seen[in.ID] {
				unseen[failureOf(in)]++
			}
		}
		for _, code := range slices.Sorted(maps.Keys(unseen)) {
			if s.scalingUp(g.ID) {
				s.register(g.ID, -unseen[code], now)
				s.failed(g.ID, now, "instances could not be created: "+code, false)
			}
		}
	}
}

func (s *registry) updateWrong(now time.Time) {
	wrong := map[string]wrongSize{}
	for _, g := range s.remote.NodeGroups() {
		r := s.perGroup[g.ID]
		if r == nil {
			continue
		}
		target := s.ranges[g.ID].target
		if r.registered <= target && r.registered >= target-r.unregistered-r.longUnregistered {
			continue
		}
		w := wrongSize{registered: r.registered, target: target, since: now}
		if old, ok := s.wrong[g.ID]; ok && old.registered == w.registered && old.target == w.target {
			w.since = old.since
		}
		wrong[g.ID] = w
	}
	s.wrong = wrong
}

func (s *registry) clusterHealthy() bool {
	return s.unready <= okUnready || float64(s.unready) <= maxUnreadyShare*float64(s.nodes)
}

func (s *registry) groupHealthy(id string) bool {
	bounds, ok := s.ranges[id]
	if !ok {
		return false
	}
	r := s.perGroup[id]
	if r == nil {
		return bounds.target == 0 || bounds.min == 0
	}
	missing := max(bounds.min-r.ready, 0)
	return missing <= okUnready || float64(missing) <= maxUnreadyShare*float64(r.ready+r.unready+r.notStarted)
}

func (s *registry) safe(id string, now time.Time) bool {
	return s.groupHealthy(id) && !s.backedOff(id, now)
}

// unsafe says why a group may not grow; empty if it may.
func (s *registry) unsafe(id string, now time.Time) string {
	switch {
	case !s.groupHealthy(id):
		return "not healthy: too many of its nodes are not ready, or did not come"
	case s.backedOff(id, now):
		until, why, _ := s.backoffs.Active(id, now)
		return fmt.Sprintf("backed off for another %s: %s", until.Sub(now).Round(time.Second), why)
	}
	return ""
}

// upcomingNodes counts the nodes to come, by group, and names those that are registered already.
// From 1.36 on groups without a request, or backed off, do not count.
func (s *registry) upcomingNodes(now time.Time) (counts map[string]int, registered map[string]bool) {
	counts, registered = map[string]int{}, map[string]bool{}
	for _, g := range s.remote.NodeGroups() {
		n := s.upcoming(g.ID)
		if n <= 0 || !s.caller.options.Before136 && (s.requests[g.ID] == nil || s.backedOff(g.ID, now)) {
			continue
		}
		counts[g.ID] = n
		if r := s.perGroup[g.ID]; r != nil {
			for _, name := range r.notStartedNames {
				registered[name] = true
			}
		}
	}
	return counts, registered
}
