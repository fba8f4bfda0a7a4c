package linked

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// Deadlines are the start-up deadlines of declared sets. The autoscaler itself gives up nodes that do
// not come, takes them back, leaves their group alone for a while and orders others: after the
// provision time of the group, which is the deadline where other members of its set can take them.
// Afterwards the group is on trial: it gets one node until one has become ready. It is safe for
// concurrent use.
type Deadlines[G NodeGroup] struct {
	declared func(group string) (*nodegroupset.Terms, []G)
	away     func(group string) string // why a group must not grow; empty if it may
	clock    clock.PassiveClock
	journal  *Journal

	mu      sync.Mutex
	backoff *backoff.Backoff
	trials  map[string]trial
	takers  map[string][]string            // the members that could take the last nodes of a group
	orders  map[string]nodegroupset.Orders // by group: of nodes that are not known to have come
}

// trial is of a group that has brought nodes too late.
type trial struct {
	since   time.Time
	ordered bool // it has got a node
}

// NewDeadlines returns deadlines without memory. Declared returns how the set of a group shares nodes
// and its members, away why a group must not grow, and the options are those of the autoscaler.
func NewDeadlines[G NodeGroup](declared func(group string) (*nodegroupset.Terms, []G), away func(group string) string,
	options backoff.Options, journal *Journal) *Deadlines[G] {
	return &Deadlines[G]{
		declared: declared, away: away, clock: journal.clock, journal: journal,
		backoff: backoff.New(options), trials: map[string]trial{}, takers: map[string][]string{},
		orders: map[string]nodegroupset.Orders{},
	}
}

// Patience returns how long nodes of a group may take, within the limit that the autoscaler has.
func (d *Deadlines[G]) Patience(group string, limit time.Duration) time.Duration {
	terms, members := d.declared(group)
	deadline := terms.Patience(limit)
	if deadline == limit {
		return limit
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replaceable(group, members) {
		return deadline
	}
	return limit
}

// replaceable reports whether other members could take the last nodes of a group.
func (d *Deadlines[G]) replaceable(group string, members []G) bool {
	takers, known := d.takers[group]
	return slices.ContainsFunc(members, func(m G) bool {
		id := m.Id()
		return id != group && (!known || slices.Contains(takers, id)) && d.well(id) && d.away(id) == "" && hasRoom(m)
	})
}

// well reports whether a group neither is left alone nor has anything to prove.
func (d *Deadlines[G]) well(group string) bool {
	_, tried := d.trials[group]
	return !tried && !d.leftAlone(group)
}

func (d *Deadlines[G]) leftAlone(group string) bool {
	_, _, off := d.backoff.Active(group, d.clock.Now())
	return off
}

func hasRoom[G NodeGroup](group G) bool {
	size, err := group.TargetSize()
	return err == nil && size < group.MaxSize()
}

// Failed records that a scale-up of a group has failed: late if its nodes did not come in time.
func (d *Deadlines[G]) Failed(group, why string, late bool) {
	terms, _ := d.declared(group)
	if terms == nil || terms.StartupDeadline == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.orders, group)
	if late {
		d.late(group, why, terms)
	} else {
		d.backoff.Failed(group, why, d.clock.Now())
	}
}

// late leaves a group alone for a while, and puts it on trial afterwards.
func (d *Deadlines[G]) late(group, why string, terms *nodegroupset.Terms) {
	d.backoff.Failed(group, why, d.clock.Now())
	d.trials[group] = trial{since: d.clock.Now()}
	klog.InfoS("Nodes have not come in time, others of the set take their share", "nodeGroup", group, "set", terms.Set, "startupDeadline",
		terms.StartupDeadline)
	d.journal.late(group, terms)
}

// Look takes in the nodes: groups of which one has become ready have proved themselves, and those
// that have not brought all nodes of an order within the deadline are late. The autoscaler does not
// always say so: where it orders more nodes of a group before the first have come, it counts the time
// from the last order on, and instances that have not become nodes it deletes without a word.
func (d *Deadlines[G]) Look(nodes []*v1.Node, cloud Cloud[G]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.trials) == 0 && len(d.orders) == 0 {
		return
	}
	ready := map[string][]time.Time{}
	for _, node := range nodes {
		if group, ours := groupOf(cloud, node); ours && template.IsReady(node) {
			ready[group.Id()] = append(ready[group.Id()], node.CreationTimestamp.Time)
		}
	}
	for group, t := range d.trials {
		if slices.ContainsFunc(ready[group], t.since.Before) {
			delete(d.trials, group)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(d.orders)) {
		d.followUp(group, ready[group])
	}
}

// followUp strikes out the orders whose nodes have come. Ready is when the group's ready nodes were
// created.
func (d *Deadlines[G]) followUp(group string, ready []time.Time) {
	open := d.orders[group]
	for len(open) > 0 && came(ready, open[0].At) >= open[0].Nodes {
		open = open[1:]
	}
	d.orders[group] = open
	if len(open) == 0 {
		delete(d.orders, group)
		return
	}
	terms, members := d.declared(group)
	if terms == nil || d.clock.Since(open[0].At) <= terms.StartupDeadline {
		return
	}
	delete(d.orders, group)
	if _, tried := d.trials[group]; !tried && d.replaceable(group, members) {
		d.late(group, "nodes were late", terms)
	}
}

func came(ready []time.Time, since time.Time) (n int) {
	for _, at := range ready {
		if !at.Before(since) {
			n++
		}
	}
	return n
}

// hold has groups on trial get one node, and none while they or another member of their set are left alone, as long as others can
// take the rest. Of nine nodes for three groups of 4, of which one is on trial, the split is 1, 4 and 4; all nine go to the group
// on trial if the others are at their maximum.
func (d *Deadlines[G]) hold(groups []nodegroupset.Group) {
	for i := range groups {
		if allowed, tried := d.trial(groups[i].Name); tried {
			groups[i].Reserve = max(0, groups[i].Max-groups[i].Size-allowed)
		}
	}
}

// allowed returns how many nodes a group on trial may get; tried is false for others.
func (d *Deadlines[G]) allowed(group string) (nodes int64, tried bool) {
	t, tried := d.trials[group]
	if !tried || t.ordered {
		return 0, tried
	}
	_, members := d.declared(group)
	if slices.ContainsFunc(members, func(m G) bool { return d.leftAlone(m.Id()) }) {
		return 0, true
	}
	return 1, true
}

// trial is allowed for callers without the lock.
func (d *Deadlines[G]) trial(group string) (nodes int64, tried bool) {
	if d == nil {
		return 0, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.allowed(group)
}

// given notes which nodes groups get, any of which could take what the others get.
func (d *Deadlines[G]) given(groups []G, split []splitMember) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range split {
		if terms, _ := d.declared(g.Name); g.NewSize > g.Size && terms != nil && terms.StartupDeadline > 0 {
			d.orders[g.Name] = append(d.orders[g.Name], nodegroupset.Order{At: d.clock.Now(), Nodes: int(g.NewSize - g.Size)})
		}
		if t, tried := d.trials[g.Name]; tried && g.NewSize > g.Size {
			t.ordered = true
			d.trials[g.Name] = t
		}
	}
	for _, g := range groups {
		var others []string
		for _, other := range groups {
			if other.Id() != g.Id() {
				others = append(others, other.Id())
			}
		}
		d.takers[g.Id()] = others
	}
}

// late records that nodes of a group did not come in time.
func (j *Journal) late(group string, terms *nodegroupset.Terms) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.metrics.late.Inc()
	j.announce(event{v1.EventTypeWarning, eventStartupDeadlineMissed, fmt.Sprintf(
		"Nodes ordered in %s were not ready within %s, the start-up deadline of set %s; "+
			"others of the set take their share, and it is tried with one node later", group, terms.StartupDeadline, terms.Set)})
}
