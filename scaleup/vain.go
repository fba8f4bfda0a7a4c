package scaleup

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// A template may promise what the nodes that come do not keep: those of a group
// over several zones come up where the cloud likes. Pods for which nodes came that
// would not take them even if they were empty have nothing from one more of them.

// order is what was ordered in a group for pods that still wait.
type order struct {
	pods map[string]bool          // by podKey
	had  map[string]bool          // nodes that the group had before, by name
	came []cloudprovider.Template // of the nodes that came, one for each zone; they outlive the nodes
}

// podKey differs for two pods of one name that came one after the other.
func podKey(pod *v1.Pod) string { return podName(pod) + "/" + string(pod.UID) }

// remember notes for which pods nodes are ordered.
func (s *Scaler) remember(w *World, d *Decision, attempts []Attempt) {
	for _, a := range attempts {
		if a.Grew == 0 {
			continue
		}
		s.ordered[a.Group] = append(s.ordered[a.Group], nodegroupset.Order{At: w.Now, Nodes: a.Grew})
		o := s.orders[a.Group]
		if o == nil {
			o = &order{pods: map[string]bool{}, had: map[string]bool{}}
			for _, n := range s.members[a.Group] {
				o.had[n.Node.Name] = true
			}
			s.orders[a.Group] = o
		}
		for _, outcome := range d.Pods {
			helped := outcome.Outcome == PodsHelped && slices.ContainsFunc(d.shares, func(s share) bool {
				return s.class == outcome.class && slices.Contains(s.groups, a.Group)
			})
			for _, at := range outcome.Pods {
				if helped {
					o.pods[podKey(w.Pending[at])] = true
				}
			}
		}
	}
}

// judge notes with every group its results orders: which of the pods still wait,
// and what the nodes that came look like. What served its pods is forgotten.
func (s *Scaler) judge(w *World) {
	if len(s.orders) == 0 {
		return
	}
	keys := make([]string, len(w.Pending))
	for at, pod := range w.Pending {
		keys[at] = podKey(pod)
	}
	for i := range w.Groups {
		g := &w.Groups[i]
		o := s.orders[g.ID]
		if o == nil {
			continue
		}
		arrived := g.Upcoming == 0
		if arrived {
			if came := s.arrived(g.ID, o); len(came) > 0 {
				o.came = came
			}
		}
		waiting, pods := map[int]bool{}, map[string]bool{}
		for at, key := range keys {
			if o.pods[key] {
				waiting[at], pods[key] = true, true
			}
		}
		if o.pods = pods; len(pods) == 0 || arrived && len(o.came) == 0 {
			delete(s.orders, g.ID)
			continue
		}
		g.Came, g.CameFor = o.came, waiting
	}
}

// arrived are templates of the nodes that came for an order, one for each zone.
func (s *Scaler) arrived(group string, o *order) []cloudprovider.Template {
	byZone := map[string]predicates.Node{}
	for _, n := range s.members[group] {
		if o.had[n.Node.Name] || !template.IsReady(n.Node) || template.IsLeaving(n.Node) {
			continue
		}
		zone := nodegroupset.ZoneOf(n.Node)
		if best, known := byZone[zone]; !known || n.Node.Name < best.Node.Name {
			byZone[zone] = n
		}
	}
	var came []cloudprovider.Template
	for _, zone := range slices.Sorted(maps.Keys(byZone)) {
		came = append(came, *template.OfNode(group, byZone[zone].Node, byZone[zone].Pods, s.opts.StartupTaints))
	}
	return came
}

// passes reports whether new nodes of a group would take pods of a kind, by its
// template and by the nodes that came for such pods before.
func (p *planner) passes(group string, kind int) bool {
	return (p.fit.Passes(p.template[group], kind) || p.spreadAlone(group, kind)) && !p.inVain(group, kind)
}

// inVain reports whether nodes came in a group for pods of a kind and none of them
// would take one.
func (p *planner) inVain(group string, kind int) bool {
	came := p.came[group]
	if len(came) == 0 {
		return false
	}
	g := p.group(group)
	waited := slices.ContainsFunc(p.kinds[kind].Pods, func(at int) bool { return g.CameFor[p.pods[at]] })
	return waited && !slices.ContainsFunc(came, func(template int) bool { return p.fit.Passes(template, kind) })
}

// whyVain says what the nodes that came for pods of some kinds lack; it is empty
// if each of them was used.
func (p *planner) whyVain(group string, kinds []int) string {
	var t tally
	for _, k := range kinds {
		if p.fit.Passes(p.template[group], k) && p.inVain(group, k) {
			t.add(p.fit.Reasons(p.came[group][0], k), len(p.kinds[k].Pods))
		}
	}
	if len(t.counts) == 0 {
		return ""
	}
	return fmt.Sprintf("nodes came for these pods and do not take them: %s; not ordered again until something changes", t.list("pod"))
}
