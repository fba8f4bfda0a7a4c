package simulate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// history keeps what happened to pods, nodes and sizes over time.
type history struct {
	clock *virtualClock

	pods         []*podLife
	waits        []time.Duration      // that ended with a node
	waited       int64                // of all pods, in milliseconds
	nodes        map[string]*nodeLife // that are there
	lives        []*nodeLife          // of all that ever existed
	observations int                  // of the cloud
	rows         []v1alpha1.HistoryRow
	ofGroup      map[string][]v1alpha1.GroupSize

	vanishes func(at time.Duration, group string) bool

	running      map[string]int   // machines that run and are paid for, by group
	machineTime  map[string]int64 // of each group, in milliseconds
	runningSince time.Duration
}

func newHistory(clock *virtualClock, vanishes func(time.Duration, string) bool) *history {
	return &history{
		clock: clock, vanishes: vanishes, nodes: map[string]*nodeLife{}, ofGroup: map[string][]v1alpha1.GroupSize{},
		running: map[string]int{}, machineTime: map[string]int64{},
	}
}

func (h *history) now() time.Duration { return h.clock.Since(epoch) }

// podLife is the history of one pod.
type podLife struct {
	report  v1alpha1.PodReport
	on      *nodeLife     // nil: it runs nowhere, having no node, or one that does not respond
	pending time.Duration // since when, while it is
}

// arrived begins the history of a pod, which may already be bound.
func (h *history) arrived(p *pod) {
	p.life = &podLife{pending: h.now(), report: v1alpha1.PodReport{
		Name: p.object.Namespace + "/" + p.object.Name, Subset: p.subset(), Arrived: metav1.Duration{Duration: h.now()},
	}}
	if p.owner != nil {
		p.life.report.Workload = p.owner.key()
	}
	h.pods = append(h.pods, p.life)
	if p.node != nil && p.node.downSince.IsZero() {
		h.runs(p)
	}
}

func (h *history) bound(p *pod) {
	wait := h.now() - p.life.pending
	h.waits = append(h.waits, wait)
	h.waited += wait.Milliseconds()
	h.runs(p)
}

func (h *history) runs(p *pod) {
	n := h.node(p.node.object.Name, p.node.group)
	n.pods++
	n.report.PodsAtMost = max(n.report.PodsAtMost, n.pods)
	p.life.on = n
	p.life.report.Runs = append(p.life.report.Runs,
		v1alpha1.PodRun{Node: n.report.Name, Span: v1alpha1.Span{From: metav1.Duration{Duration: h.now()}}})
}

// unbound ends a pod's time on a node, as the pod loses it or the node does not respond any more.
func (h *history) unbound(p *pod) {
	if p.life.on == nil {
		return
	}
	runs := p.life.report.Runs
	runs[len(runs)-1].To = since(h.now())
	p.life.on.pods--
	p.life.on, p.life.pending = nil, h.now()
}

func (h *history) left(p *pod) {
	h.unbound(p)
	h.waited += (h.now() - p.life.pending).Milliseconds()
	p.life.report.Left = since(h.now())
}

// nodeLife is the history of one node, or of a machine that never became one.
type nodeLife struct {
	report  v1alpha1.NodeReport
	created time.Time
	ready   bool
	pods    int
	seen    int // the last observation in which the cloud had it
}

func (h *history) node(name, group string) *nodeLife {
	n := h.nodes[name]
	if n == nil {
		n = &nodeLife{report: v1alpha1.NodeReport{Name: name, Group: group}}
		h.nodes[name] = n
		h.lives = append(h.lives, n)
	}
	return n
}

// deleting records that the deletion of a node was requested, or that it stays after all.
func (h *history) deleting(name string, is bool) {
	switch n := h.nodes[name]; {
	case n == nil:
	case !is:
		n.report.Removed = nil
	case n.report.Removed == nil:
		n.report.Removed = since(h.now())
	}
}

func since(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// observe records the state of the cloud, the nodes and the pods at this instant.
func (s *simulation) observe() {
	h, now := s.history, s.elapsed()
	h.pay(now)
	state := s.cloud.State()
	h.observations++
	clear(h.running)
	for i := range state {
		h.observeMachines(&state[i])
	}
	for _, n := range s.cluster.nodes {
		life := h.node(n.object.Name, n.group)
		life.seen, life.report.Zone = h.observations, nodegroupset.ZoneOf(n.object)
		life.becomes(n.ready, now)
	}
	for _, n := range h.nodes { // they are independent: their order does not matter
		if n.seen != h.observations {
			h.end(n)
		}
	}
	waiting, ready := len(s.cluster.waiting()), s.cluster.readyNodes()
	row := v1alpha1.HistoryRow{
		At: metav1.Duration{Duration: now}, Running: len(s.cluster.pods) - waiting - len(s.cluster.stranded()), Pending: waiting,
		Nodes:       ready.total(),
		CostPerHour: s.costPerHour(),
	}
	for i := range state {
		g := &state[i]
		h.resize(g.ID, v1alpha1.GroupSize{At: row.At, Target: g.Target, Ready: ready[g.ID]})
	}
	if n := len(h.rows); n > 0 && h.rows[n-1].At == row.At {
		h.rows = h.rows[:n-1]
	}
	h.rows = append(h.rows, row)
}

func (h *history) resize(group string, size v1alpha1.GroupSize) {
	sizes := h.ofGroup[group]
	if n := len(sizes); n > 0 && sizes[n-1].At == size.At { // it changed twice at this instant
		sizes = sizes[:n-1]
	}
	if n := len(sizes); n == 0 || sizes[n-1].Target != size.Target || sizes[n-1].Ready != size.Ready {
		sizes = append(sizes, size)
	}
	h.ofGroup[group] = sizes
}

// observeMachines updates the histories of a group's machines.
func (h *history) observeMachines(g *fake.GroupState) {
	for _, m := range g.Machines {
		n := h.nodes[m.Name]
		if n != nil && !n.created.IsZero() && !n.created.Equal(m.Created) {
			h.end(n) // another machine with the same name replaces it
		}
		n = h.node(m.Name, g.ID)
		if n.created.IsZero() {
			n.created = m.Created
			if !m.Ordered.IsZero() {
				n.report.Ordered, n.report.Created = since(m.Ordered.Sub(epoch)), since(m.Created.Sub(epoch))
			}
		}
		n.seen, n.report.Failed = h.observations, m.Failed
		if !m.Removed.IsZero() {
			n.report.Removed = since(m.Removed.Sub(epoch))
		}
		if m.Runs {
			h.running[g.ID]++
		}
	}
}

func (n *nodeLife) becomes(ready bool, now time.Duration) {
	if ready == n.ready {
		return
	}
	n.ready = ready
	r := &n.report
	switch {
	case ready && r.Ready == nil:
		r.Ready = since(now)
	case ready && len(r.Unready) > 0 && r.Unready[len(r.Unready)-1].To == nil:
		r.Unready[len(r.Unready)-1].To = since(now)
	case !ready && r.Removed == nil:
		r.Unready = append(r.Unready, v1alpha1.Span{From: metav1.Duration{Duration: now}})
	}
}

// end ends the history of a machine that the cloud no longer has.
func (h *history) end(n *nodeLife) {
	r := &n.report
	r.Gone = since(h.now())
	switch {
	case r.Removed != nil:
	case h.vanishes(h.now(), r.Group):
		r.Lost = r.Gone
	default:
		r.Removed = r.Gone // a machine that is gone at once was never observed being deleted
	}
	if last := len(r.Unready) - 1; last >= 0 && r.Unready[last].To == nil {
		r.Unready[last].To = r.Gone
	}
	delete(h.nodes, r.Name)
}

// sizes are those of a group over time, from the one before the run on; nil if it stayed as it was.
func (h *history) sizes(group string, before int) []v1alpha1.GroupSize {
	sizes := h.ofGroup[group]
	if len(sizes) > 0 && sizes[0].Target != before { // changed in the first instant
		return slices.Insert(slices.Clone(sizes), 0, v1alpha1.GroupSize{Target: before, Ready: sizes[0].Ready})
	}
	if len(sizes) == 1 {
		return nil
	}
	return sizes
}

// reportNodes lists all nodes that ever existed, by group and then by age.
func (h *history) reportNodes() []v1alpha1.NodeReport {
	lives := slices.Clone(h.lives)
	slices.SortStableFunc(lives, func(a, b *nodeLife) int {
		return cmp.Or(strings.Compare(a.report.Group, b.report.Group), a.created.Compare(b.created))
	})
	rows := make([]v1alpha1.NodeReport, len(lives))
	for i, n := range lives {
		rows[i] = n.report
	}
	return rows
}
