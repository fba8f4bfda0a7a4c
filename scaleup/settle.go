package scaleup

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/predicates"
)

// settle finds the pods that the scheduler will bind to nodes that exist and to
// those that are on their way: its business, and no reason to order more. Of the
// others it is asked which pass which of the templates.
func (p *planner) settle(templates []predicates.Node) error {
	w := p.world
	var err error
	if len(w.Pending) == 0 { // nobody looks for a place
		p.cluster, p.before = p.checker.Cluster(nil), &outcome{}
		p.fit, err = p.cluster.Fits(templates, nil)
		return err
	}
	var coming []arrival
	for i := range w.Groups {
		g := &w.Groups[i]
		if g.Template == nil || g.Upcoming == 0 {
			continue
		}
		coming = append(coming, underway(g, g.next(), w.Now)...)
	}
	if p.simulation.pods != nil {
		p.simulation = p.simulation.with(coming, p.group)
	} else if p.simulation, err = newSimulation(p.schedulers, w, coming, p.group); err != nil {
		return err
	}
	if p.before, err = p.simulation.simulate(nil); err != nil {
		return err
	}
	soon := p.before
	p.cluster = p.checker.Cluster(slices.Concat(p.simulation.nodes[:p.simulation.closed], soon.nodes))
	if err := p.reportSettled(soon); err != nil {
		return err
	}
	var pending []*v1.Pod
	for i, at := range soon.at {
		if at < 0 {
			p.pods, pending = append(p.pods, i), append(pending, w.Pending[i])
		}
	}
	if p.fit, err = p.cluster.Fits(templates, pending); err != nil {
		return err
	}
	p.kinds = p.fit.Kinds()
	return nil
}

// reportSettled says of each kind of pods how many have a place already, or soon.
func (p *planner) reportSettled(soon *outcome) error {
	if soon.placed == 0 {
		return nil
	}
	fit, err := p.cluster.Fits(nil, p.world.Pending)
	if err != nil {
		return err
	}
	existing := len(p.world.Nodes)
	for _, kind := range fit.Kinds() {
		var fits, awaiting []int
		var groups []string
		for _, pod := range kind.Pods {
			switch at := soon.at[pod]; {
			case at >= existing:
				awaiting = append(awaiting, pod)
				if group := soon.groups[at-existing]; !slices.Contains(groups, group) {
					groups = append(groups, group)
				}
			case at >= 0:
				fits = append(fits, pod)
			}
		}
		if len(fits) > 0 {
			p.decision.Pods = append(p.decision.Pods, PodOutcome{
				Example: podName(kind.Pod), Count: len(fits), Outcome: PodsFit,
				Reason: "fit on nodes that exist", Pods: fits,
			})
		}
		if len(awaiting) > 0 {
			slices.Sort(groups)
			p.decision.Pods = append(p.decision.Pods, PodOutcome{
				Example: podName(kind.Pod), Count: len(awaiting), Outcome: PodsAwaitNodes,
				Reason: "fit on nodes on their way in " + strings.Join(groups, ", "), Pods: awaiting,
			})
		}
	}
	return nil
}

func everyIndex(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
