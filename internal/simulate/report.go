package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

// report summarizes the run and checks the scenario's expectations.
func (s *simulation) report(ctx context.Context) (*v1alpha1.ScenarioReport, error) {
	waiting := s.cluster.waiting()
	r := &v1alpha1.ScenarioReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindScenarioReport},
		ObjectMeta: metav1.ObjectMeta{Name: s.setup.Name},
		Status: v1alpha1.ScenarioReportStatus{
			End:        metav1.Duration{Duration: s.elapsed()},
			Settled:    s.settled,
			Rounds:     s.rounds,
			ScaleUps:   s.ledger.scaleUps,
			CloudCalls: s.calls,
			Running:    len(s.cluster.pods) - len(waiting) - len(s.cluster.stranded()),
			Pending:    len(waiting),
			Notes:      s.setup.Notes,
			Timeline:   s.timeline.rows,
			Story:      s.reportStory(),
		},
	}
	status := &r.Status
	if err := s.reportGroups(ctx, status); err != nil {
		return nil, err
	}
	status.LeftAlone, status.PendingPods = s.leftAlone, s.reportPending(waiting)
	status.NodesScaledDown, status.WaitingNodes = s.ledger.scaledDown, s.reportWaiting()
	status.WorkloadSpreads = s.reportSpreads()
	s.reportHistory(status)
	status.Expectations = s.expectations(r)
	status.Holds = !slices.ContainsFunc(status.Expectations, func(e v1alpha1.Expectation) bool { return !e.OK })
	return r, nil
}

func (s *simulation) reportGroups(ctx context.Context, status *v1alpha1.ScenarioReportStatus) error {
	pods, ready := tally{}, s.cluster.readyNodes()
	for _, p := range s.cluster.pods {
		if p.node != nil {
			pods.add(p.node.group)
		}
	}
	sets, numberOf, err := s.sets()
	if err != nil {
		return err
	}
	status.Sets = sets
	for _, g := range s.setup.Cloud.Groups {
		account := s.ledger.groups[g.ID]
		row := v1alpha1.GroupReport{
			Name: g.ID, Zone: strings.Join(g.ZoneNames(), ","), Min: g.MinSize, Max: g.MaxSize,
			Before: account.before, After: account.before + account.ordered - account.removed,
			Ready: ready[g.ID], Ordered: account.ordered, Removed: account.removed,
			Pods: pods[g.ID], Set: numberOf[g.ID], Template: account.template, Why: steady(account.outcome.Reason),
			Outcome: string(account.outcome.Outcome), Price: money(g.PricePerHour), Sizes: s.history.sizes(g.ID, account.before),
			DiffersFrom: account.outcome.DiffersFrom, Differences: differences(account.outcome.Differences),
		}
		if size, err := s.cloud.TargetSize(ctx, g.ID); err == nil {
			row.After = size
		}
		status.NodesOrdered += account.ordered
		status.NodesRemoved += account.removed
		status.Groups = append(status.Groups, row)
	}
	slices.SortFunc(status.Groups, func(a, b v1alpha1.GroupReport) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// surveyed are the groups as the last round has seen them, by name.
func (s *simulation) surveyed() map[string]*autoscaler.Group {
	groups := map[string]*autoscaler.Group{}
	if s.last != nil {
		for i := range s.last.Survey.Groups {
			groups[s.last.Survey.Groups[i].ID] = &s.last.Survey.Groups[i]
		}
	}
	return groups
}

// reportPending explains the pods still pending with the results of the last round, or why there
// was none.
func (s *simulation) reportPending(waiting []*pod) []v1alpha1.PendingReport {
	still := make(map[*pod]bool, len(waiting))
	for _, p := range waiting {
		still[p] = true
	}
	var rows []v1alpha1.PendingReport
	if s.last != nil && s.lastErr == nil {
		for _, outcome := range s.last.Decision.Pods {
			row := v1alpha1.PendingReport{Reason: steady(outcome.Reason), Rejections: rejections(outcome)}
			for _, at := range outcome.Pods {
				if p := s.lastPods[at]; still[p] {
					delete(still, p)
					countIn(&row, p)
				}
			}
			if row.Pods > 0 {
				rows = append(rows, row)
			}
		}
	}
	var aside []*pod
	for _, p := range waiting {
		if still[p] && p.why != "" {
			delete(still, p)
			aside = append(aside, p)
		}
	}
	for _, row := range leftAloneRows(append(aside, s.cluster.aside.outside...)) {
		row.Reason = "left alone: " + row.Reason
		rows = append(rows, row)
	}
	late := v1alpha1.PendingReport{Reason: "not seen by a round yet"}
	if s.lastErr != nil {
		late.Reason = fmt.Sprintf("no round could be made: %v", s.lastErr)
	}
	for _, p := range waiting {
		if still[p] {
			countIn(&late, p)
		}
	}
	if late.Pods > 0 {
		rows = append(rows, late)
	}
	return rows
}

// countIn counts a pod in a row.
func countIn(r *v1alpha1.PendingReport, p *pod) {
	if r.Pods == 0 {
		r.Example = p.object.Namespace + "/" + p.object.Name
	}
	r.Pods++
}
