package simulate

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// narrateMarks adds rows about subsets that new pods begin or cease to pass over.
func (s *simulation) narrateMarks(m *managed, before *v1alpha1.WorkloadSpreadStatus) {
	was, is := marks(before), marks(m.spread.status)
	for _, name := range m.spread.names() {
		until, marked := is[name]
		_, had := was[name]
		switch {
		case marked && !had:
			row := s.timeline.add(s.elapsed(), v1alpha1.RowSubset, "%s: pods cannot be scheduled in %s: new ones pass over it until +%s", m.label(),
				name, until.Sub(epoch))
			row.Reason, row.Workload, row.Domain, row.Until = workloadspread.ReasonUnschedulable, m.key(), name, since(until.Sub(epoch))
		case had && !marked:
			row := s.timeline.add(s.elapsed(), v1alpha1.RowSubset, "%s: new pods may go to %s again", m.label(), name)
			row.Reason, row.Workload, row.Domain = workloadspread.ReasonSchedulable, m.key(), name
		}
	}
}

// narrateMove adds a row about pods that move on, or do not.
func (s *simulation) narrateMove(m *managed, pods []*pod, reason, one, several string) {
	text := several
	if len(pods) == 1 {
		text = one
	}
	s.tell(m, pods, v1alpha1.RowSubset, reason, text)
}

// reportSpreads reports the WorkloadSpreads at the end.
func (s *simulation) reportSpreads() []v1alpha1.WorkloadSpreadReport {
	var all []v1alpha1.WorkloadSpreadReport
	for i := range s.setup.Spreads {
		object := s.setup.Spreads[i].Object
		row := v1alpha1.WorkloadSpreadReport{
			Name: object.Namespace + "/" + object.Name, Workload: object.Spec.TargetRef.Kind + " " + object.Spec.TargetRef.Name,
		}
		at := slices.IndexFunc(s.controllers.managed, func(m *managed) bool { return m.spread != nil && m.spread.object == object })
		if at < 0 {
			row.Conditions = []string{v1alpha1.ConditionTargetFound + " " + workloadspread.ReasonNotFound + ": there is no " + row.Workload}
		} else {
			s.reportSpread(s.controllers.managed[at], &row)
		}
		all = append(all, row)
	}
	return all
}

func (s *simulation) reportSpread(m *managed, row *v1alpha1.WorkloadSpreadReport) {
	w := m.spread
	row.Replicas, row.Refused = m.replicas, m.refused
	row.Rescheduled, row.Waited = w.rescheduled, w.waited
	for _, c := range w.status.Conditions {
		if !meta.IsStatusConditionTrue(w.status.Conditions, c.Type) {
			row.Conditions = append(row.Conditions, fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message))
		}
	}
	until := marks(w.status)
	index := map[string]int{}
	for i, subset := range w.status.SubsetStatuses {
		out := v1alpha1.SubsetReport{Name: subset.Name}
		if subset.MaxReplicas != workloadspread.Unlimited {
			out.MaxReplicas = &subset.MaxReplicas
		}
		if at, marked := until[subset.Name]; marked {
			out.UnschedulableUntil = since(at.Sub(epoch))
		}
		row.Subsets = append(row.Subsets, out)
		index[subset.Name] = i
	}
	own, _ := s.podsOf(m)
	groups := make([]tally, len(row.Subsets))
	var order []*pod
	for _, set := range m.sets {
		for _, p := range own[set] {
			if i, ok := index[p.subset()]; !ok {
				row.Unassigned++
			} else if p.node == nil {
				row.Subsets[i].Pending++
			} else {
				row.Subsets[i].Running++
				if groups[i] == nil {
					groups[i] = tally{}
				}
				groups[i].add(cmp.Or(p.node.group, p.node.object.Name))
			}
		}
		order = append(order, m.firstOf(own, set, len(own[set]), s)...)
	}
	for i := range groups {
		for _, c := range groups[i].changes() {
			row.Subsets[i].Groups = append(row.Subsets[i].Groups, v1alpha1.SubsetPods{Name: c.Name, Pods: c.Nodes})
		}
	}
	for _, p := range order {
		c := v1alpha1.DeletionCandidate{Pod: p.object.Name, Subset: p.subset()}
		if cost, has := p.cost(); has {
			c.Cost = new(int32(cost))
		}
		if p.node != nil {
			c.Node = p.node.object.Name
		}
		row.DeletionOrder = append(row.DeletionOrder, c)
	}
}
