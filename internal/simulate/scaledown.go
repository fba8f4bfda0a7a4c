package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// groupShrinks is the outcome of a group from which nodes were removed.
const groupShrinks autoscaler.Outcome = "Shrinks"

// book reports what scale-down has decided and done.
func (s *simulation) book(at time.Duration, down *autoscaler.ScaleDown) {
	if down == nil {
		return
	}
	s.last.scaleDown = &down.Decision
	for _, o := range down.Decision.Nodes {
		if n := s.cluster.byName[o.Node]; n != nil {
			n.unneeded = o.Outcome.Unneeded()
		}
	}
	s.narrateScaleDown(at, down)
	for _, a := range down.Attempts {
		if a.Shrank > 0 {
			s.groups[a.Group].explain(autoscaler.GroupOutcome{Group: a.Group, Outcome: groupShrinks, Reason: "shrank: nodes were not needed"}, nil)
		}
	}
	if len(down.Attempts) > 0 {
		s.agenda.roundDue = true
	}
	if !down.Decision.Next.IsZero() {
		s.agenda.wakeups = append(s.agenda.wakeups, down.Decision.Next)
	}
}

// toBeDeleted returns the node with the taint of a node being removed.
func toBeDeleted(n *v1.Node) *v1.Node {
	if template.IsLeaving(n) {
		return n
	}
	marked := *n
	marked.Spec.Taints = append(slices.Clip(n.Spec.Taints), v1.Taint{Key: template.ToBeDeletedTaint, Effect: v1.TaintEffectNoSchedule})
	return &marked
}

// narrateScaleDown reports which groups shrank and why, what the cloud refused, and which groups
// wait.
func (s *simulation) narrateScaleDown(at time.Duration, down *autoscaler.ScaleDown) {
	var shrunk []v1alpha1.GroupChange
	nodes, moved, byGroup := 0, 0, map[string]int{}
	for _, a := range down.Attempts {
		byGroup[a.Group] += a.Shrank
		nodes += a.Shrank
		for _, name := range a.Nodes[:a.Shrank] {
			moved += s.moved[name]
			delete(s.moved, name)
		}
	}
	sizes := targets(down.Survey)
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		if n := byGroup[group]; n > 0 {
			shrunk = append(shrunk, resized(group, sizes[group], -n))
		}
	}
	if len(shrunk) > 0 {
		arrows := make([]string, len(shrunk))
		for i, c := range shrunk {
			arrows[i] = arrow(c)
		}
		why := []string{spelling.Count(nodes, "node") + " not needed"}
		if moved > 0 {
			why = append(why, spelling.Count(moved, "pod")+" to move")
		}
		row := s.timeline.add(at, v1alpha1.RowScaleDown, "%s (%s)", few(arrows), strings.Join(why, "; "))
		row.Groups, row.Nodes, row.Pods = shrunk, nodes, moved
	}
	for _, d := range down.Drains {
		row := s.timeline.onceOf(at, v1alpha1.RowWaiting, d.Node, fmt.Sprintf("%s of %s is drained as budgets allow: %s", d.Node, d.Group,
			d.Held))
		row.Reason, row.Groups = d.Held, []v1alpha1.GroupChange{{Name: d.Group}}
	}
	for _, a := range down.Attempts {
		if a.Err != nil {
			row := s.timeline.add(at, v1alpha1.RowRefused, "%s -%d: %v", a.Group, len(a.Nodes), a.Err)
			row.Groups = []v1alpha1.GroupChange{{Name: a.Group, Nodes: -len(a.Nodes)}}
			row.Error, row.Faults = a.Err.Error(), s.faults.behind(at, a.Err, a.Group)
		}
	}
	stands := len(down.Attempts) == 0 && !slices.ContainsFunc(down.Decision.Nodes,
		func(o removal.NodeOutcome) bool { return o.Outcome == removal.NodeLeaving })
	for _, o := range down.Decision.Nodes {
		if stands && o.Outcome == removal.WaitsForLevel {
			row := s.timeline.once(at, v1alpha1.RowWaiting, fmt.Sprintf("%s has unneeded nodes, but %s has to shrink first", o.Group, o.Behind))
			row.Groups = []v1alpha1.GroupChange{{Name: o.Group, Behind: o.Behind}}
		}
	}
}

// reportWaiting lists nodes with low utilization that were not removed, by group and reason.
func (s *simulation) reportWaiting() []v1alpha1.WaitingReport {
	if s.last.scaleDown == nil {
		return nil
	}
	var rows []v1alpha1.WaitingReport
	for _, o := range s.last.scaleDown.Nodes {
		switch o.Outcome {
		case removal.NodeGoes, removal.NodeLeaving, removal.NodeInUse, removal.NodeFixed:
			continue
		default:
		}
		at := slices.IndexFunc(rows, func(r v1alpha1.WaitingReport) bool { return r.Group == o.Group && r.Reason == o.Reason })
		if at < 0 {
			at = len(rows)
			rows = append(rows, v1alpha1.WaitingReport{Example: o.Node, Group: o.Group, Reason: o.Reason})
		}
		rows[at].Nodes++
	}
	return rows
}
