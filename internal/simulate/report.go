package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
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
			Settled:    s.agenda.settled,
			Rounds:     s.rounds,
			CloudCalls: s.calls,
			Running:    len(s.cluster.pods) - len(waiting) - len(s.cluster.stranded()),
			Pending:    len(waiting),
			Notes:      s.setup.Notes,
			Timeline:   s.timeline.rows,
			Story:      s.reportStory(),
		},
	}
	status := &r.Status
	status.ScaleUps = sumOf(status, v1alpha1.RowScaleUp, func(*v1alpha1.TimelineRow) int { return 1 })
	status.NodesScaledDown = sumOf(status, v1alpha1.RowScaleDown, func(row *v1alpha1.TimelineRow) int { return row.Nodes })
	if err := s.reportGroups(ctx, status); err != nil {
		return nil, err
	}
	status.LeftAlone, status.PendingPods = s.leftAlone, s.reportPending(waiting)
	status.WaitingNodes = s.reportWaiting()
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
	ordered, removed := s.timeline.changes()
	for _, g := range s.setup.Cloud.Groups {
		record := s.groups[g.ID]
		row := v1alpha1.GroupReport{
			Name: g.ID, Zone: strings.Join(g.ZoneNames(), ","), Min: g.MinSize, Max: g.MaxSize,
			Before: record.before, After: record.before + ordered[g.ID] - removed[g.ID],
			Ready: ready[g.ID], Ordered: ordered[g.ID], Removed: removed[g.ID],
			Pods: pods[g.ID], Set: numberOf[g.ID], Template: record.template, Why: steady(record.outcome.Reason),
			Outcome: string(record.outcome.Outcome), Sizes: s.history.sizes(g.ID, record.before),
			DiffersFrom: record.outcome.DiffersFrom, Differences: differences(record.outcome.Differences),
		}
		if g.PricePerHour != 0 {
			row.Price = amount(g.PricePerHour)
		}
		if size, err := s.cloud.TargetSize(ctx, g.ID); err == nil {
			row.After = size
		}
		status.Groups = append(status.Groups, row)
	}
	status.NodesOrdered, status.NodesRemoved = ordered.total(), removed.total()
	slices.SortFunc(status.Groups, func(a, b v1alpha1.GroupReport) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// surveyed are the groups as the last round has seen them, by name.
func (s *simulation) surveyed() map[string]*autoscaler.Group {
	groups := map[string]*autoscaler.Group{}
	if s.last.scaleUp != nil {
		for i := range s.last.scaleUp.Survey.Groups {
			groups[s.last.scaleUp.Survey.Groups[i].ID] = &s.last.scaleUp.Survey.Groups[i]
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
	if s.last.scaleUp != nil && s.last.err == nil {
		for _, outcome := range s.last.scaleUp.Decision.Pods {
			row := v1alpha1.PendingReport{Reason: steady(outcome.Reason), Rejections: rejections(outcome)}
			for _, at := range outcome.Pods {
				if p := s.last.pending[at]; still[p] {
					delete(still, p)
					countIn(&row, p)
				}
			}
			if row.Pods > 0 {
				rows = append(rows, row)
			}
		}
	}
	waiting, _ = partition(waiting, func(p *pod) bool { return still[p] })
	alone, unseen := partition(waiting, func(p *pod) bool { return p.why != "" })
	for _, row := range leftAloneRows(append(alone, s.cluster.leftAlone.outside...)) {
		row.Reason = "left alone: " + row.Reason
		rows = append(rows, row)
	}
	late := v1alpha1.PendingReport{Reason: "not seen by a round yet"}
	if s.last.err != nil {
		late.Reason = fmt.Sprintf("no round could be made: %v", s.last.err)
	}
	for _, p := range unseen {
		countIn(&late, p)
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

// reportHistory summarizes what happened over time. Groups and sets must already be reported.
func (s *simulation) reportHistory(status *v1alpha1.ScenarioReportStatus) {
	h, end := s.history, s.elapsed()
	h.pay(end)
	status.History = slices.Clone(h.rows)
	s.reportUnevenness(status)
	status.PendingTime = s.reportPendingTime(end)
	status.Cost = s.reportCost(status)
	status.Faults = s.faults.all
	status.Nodes, status.Pods = h.reportNodes(), make([]v1alpha1.PodReport, len(h.pods))
	for i, p := range h.pods {
		status.Pods[i] = p.report
	}
}

func (s *simulation) reportPendingTime(end time.Duration) v1alpha1.PendingTime {
	h := s.history
	waited := h.waited
	for _, p := range append(s.cluster.stranded(), s.cluster.waiting()...) {
		waited += (end - p.life.pending).Milliseconds()
	}
	out := v1alpha1.PendingTime{PodSeconds: (waited + 500) / 1000, Waits: len(h.waits)}
	if len(h.waits) > 0 {
		waits := slices.Sorted(slices.Values(h.waits))
		out.Median = metav1.Duration{Duration: waits[(len(waits)-1)/2]}
		out.P99 = metav1.Duration{Duration: waits[(99*len(waits)-1)/100]}
		out.Longest = metav1.Duration{Duration: waits[len(waits)-1]}
	}
	return out
}

// spread is the difference of sizes within one set over time.
type spread struct {
	sizes   map[string]int
	now     int // the difference
	largest int
	area    int64 // the difference multiplied by its duration in milliseconds
}

// apart is the largest less the smallest of some numbers; 0 for none.
func apart[K comparable](numbers map[K]int) int {
	if len(numbers) == 0 {
		return 0
	}
	all := slices.Collect(maps.Values(numbers))
	return slices.Max(all) - slices.Min(all)
}

// reportUnevenness replays the sizes of all groups, now that the sets are known, and adds their
// differences to each row of the history.
func (s *simulation) reportUnevenness(status *v1alpha1.ScenarioReportStatus) {
	spreads := make([]spread, len(status.Sets))
	type change struct {
		at   time.Duration
		set  int
		name string
		size int
	}
	var changes []change
	for i, set := range status.Sets {
		spreads[i].sizes = map[string]int{}
		for _, name := range set {
			for _, size := range s.history.ofGroup[name] {
				changes = append(changes, change{size.At.Duration, i, name, size.Target})
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	worst := spread{}
	for i := range status.History {
		row, lasted := &status.History[i], rowLasted(status.History, i, status.End.Duration)
		var touched []int
		for len(changes) > 0 && changes[0].at <= row.At.Duration {
			spreads[changes[0].set].sizes[changes[0].name] = changes[0].size
			touched, changes = append(touched, changes[0].set), changes[1:]
		}
		slices.Sort(touched)
		for _, set := range slices.Compact(touched) {
			p := &spreads[set]
			p.now = apart(p.sizes)
			p.largest = max(p.largest, p.now)
		}
		worst.now = 0
		for j := range spreads {
			spreads[j].area += int64(spreads[j].now) * lasted.Milliseconds()
			worst.now = max(worst.now, spreads[j].now)
		}
		worst.largest = max(worst.largest, worst.now)
		worst.area += int64(worst.now) * lasted.Milliseconds()
		row.Unevenness = worst.now
	}
	status.History = slices.CompactFunc(status.History, func(a, b v1alpha1.HistoryRow) bool {
		a.At = b.At
		return a == b
	})
	whole := status.End.Milliseconds()
	status.Unevenness = v1alpha1.Unevenness{Largest: worst.largest, Mean: worst.mean(whole)}
	for i := range spreads {
		if p := &spreads[i]; len(status.Sets[i]) > 1 {
			status.Unevenness.Sets = append(status.Unevenness.Sets, v1alpha1.SetUnevenness{
				Set: i, Largest: p.largest, Mean: p.mean(whole), End: p.now,
			})
		}
	}
}

// rowLasted is how long a row of a history was true.
func rowLasted(rows []v1alpha1.HistoryRow, at int, end time.Duration) time.Duration {
	if at+1 < len(rows) {
		end = rows[at+1].At.Duration
	}
	return end - rows[at].At.Duration
}

// mean returns the mean difference over this number of milliseconds, in thousandths; the current
// difference if no time has passed.
func (p *spread) mean(whole int64) json.Number {
	thousandths := int64(p.now) * 1000
	if whole > 0 {
		thousandths = (p.area*1000 + whole/2) / whole
	}
	return json.Number(trimZeros(fmt.Sprintf("%d.%03d", thousandths/1000, thousandths%1000)))
}

// amount is a price as a number.
func amount(p cloudprovider.Price) json.Number { return json.Number(trimZeros(p.String())) }

func trimZeros(decimal string) string {
	return strings.TrimSuffix(strings.TrimRight(decimal, "0"), ".")
}

// pay adds the time since the last call to the running time of the machines.
func (h *history) pay(now time.Duration) {
	for group, machines := range h.running {
		h.machineTime[group] += int64(machines) * (now - h.runningSince).Milliseconds()
	}
	h.runningSince = now
}

// priced reports whether any group has a price.
func (s *simulation) priced() bool {
	return slices.ContainsFunc(s.setup.Cloud.Groups, func(g fake.Group) bool { return g.PricePerHour != 0 })
}

// costPerHour returns the current cost of the running machines; empty if nothing has a price.
func (s *simulation) costPerHour() json.Number {
	if !s.priced() {
		return ""
	}
	var sum cloudprovider.Price
	for i := range s.setup.Cloud.Groups {
		g := &s.setup.Cloud.Groups[i]
		sum += g.PricePerHour.Scale(int64(s.history.running[g.ID]), 1)
	}
	return amount(sum)
}

// reportCost returns the total cost of the machines; nil if nothing has a price.
func (s *simulation) reportCost(status *v1alpha1.ScenarioReportStatus) *v1alpha1.Cost {
	if !s.priced() {
		return nil
	}
	h := s.history
	had := map[string]bool{}
	out := &v1alpha1.Cost{PerHour: s.costPerHour(), HighestPerHour: "0"}
	for _, n := range h.lives {
		had[n.report.Group] = true
		if n.report.Group == "" {
			out.UnpricedNodes++
		}
	}
	var total cloudprovider.Price
	for i := range s.setup.Cloud.Groups {
		g := &s.setup.Cloud.Groups[i]
		total += g.PricePerHour.Scale(h.machineTime[g.ID], time.Hour.Milliseconds())
		if g.PricePerHour == 0 && had[g.ID] {
			out.Unpriced = append(out.Unpriced, g.ID)
		}
	}
	slices.Sort(out.Unpriced)
	out.Total = amount(total)
	highest := 0.0
	for _, row := range status.History {
		if cost, err := row.CostPerHour.Float64(); err == nil && cost > highest {
			highest, out.HighestPerHour = cost, row.CostPerHour
		}
	}
	return out
}
