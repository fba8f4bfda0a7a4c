package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// timeline collects what happened, in order.
type timeline struct {
	rows   []v1alpha1.TimelineRow
	added  map[string]bool // rows that are added once
	failed map[string]*failure
}

// failure is an error that made whole rounds fail.
type failure struct{ row, rounds int }

// add adds a row with a text. The caller must set the other fields of the returned row before the
// next one is added.
func (t *timeline) add(at time.Duration, what, format string, args ...any) *v1alpha1.TimelineRow {
	t.rows = append(t.rows, v1alpha1.TimelineRow{
		At: metav1.Duration{Duration: at}, What: what, Text: fmt.Sprintf(format, args...),
	})
	return &t.rows[len(t.rows)-1]
}

// once adds a row unless the same has been added before: then it returns one that is discarded.
func (t *timeline) once(at time.Duration, what, text string) *v1alpha1.TimelineRow {
	return t.onceOf(at, what, text, text)
}

// onceOf is once, where the key says what is the same.
func (t *timeline) onceOf(at time.Duration, what, key, text string) *v1alpha1.TimelineRow {
	key = what + "\x00" + key
	if t.added[key] {
		return &v1alpha1.TimelineRow{}
	}
	t.added[key] = true
	return t.add(at, what, "%s", text)
}

// roundFailed reports an error once, with the number of rounds that it stopped.
func (t *timeline) roundFailed(at time.Duration, err error, faults []int) {
	text := fmt.Sprintf("the round failed: %v", err)
	f := t.failed[text]
	if f == nil {
		f = &failure{row: len(t.rows)}
		t.failed[text] = f
		row := t.add(at, v1alpha1.RowError, "%s", text)
		row.Error, row.Faults = err.Error(), faults
	}
	f.rounds++
	t.rows[f.row].Rounds = f.rounds
	if f.rounds > 1 {
		t.rows[f.row].Text = fmt.Sprintf("%s (in %s)", text, spelling.Count(f.rounds, "round"))
	}
}

// nodes adds a row about nodes, if there are any; otherwise it returns one that is discarded.
func (t *timeline) nodes(at time.Duration, what string, nodes tally, verb, more string) *v1alpha1.TimelineRow {
	if nodes.total() == 0 {
		return &v1alpha1.TimelineRow{}
	}
	row := t.add(at, what, "%s %s (%s)%s", spelling.Count(nodes.total(), "node"), verb, nodes, more)
	row.Nodes, row.Groups = nodes.total(), nodes.changes()
	return row
}

// changes are the nodes that were ordered, and given up or removed, by group.
func (t *timeline) changes() (ordered, removed tally) {
	ordered, removed = tally{}, tally{}
	for i := range t.rows {
		row := &t.rows[i]
		for _, g := range row.Groups {
			switch {
			case row.What == v1alpha1.RowScaleUp:
				ordered[g.Name] += g.Nodes
			case row.What == v1alpha1.RowScaleDown, row.What == v1alpha1.RowRepair && row.Error == "":
				removed[g.Name] += g.Nodes
			}
		}
	}
	return ordered, removed
}

// tally counts nodes by group.
type tally map[string]int

func (t tally) add(group string) { t[group]++ }

func (t tally) total() int {
	n := 0
	for _, nodes := range t {
		n += nodes
	}
	return n
}

func (t tally) changes() []v1alpha1.GroupChange {
	var all []v1alpha1.GroupChange
	for _, group := range slices.Sorted(maps.Keys(t)) {
		all = append(all, v1alpha1.GroupChange{Name: group, Nodes: t[group]})
	}
	return all
}

func (t tally) String() string {
	var parts []string
	for _, group := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%s %d", group, t[group]))
	}
	return few(parts)
}

// shown is the number of groups that a line names before it only counts them.
const shown = 8

func few(parts []string) string { return spelling.Few(parts, shown) }

// narrate adds the rows of a round. A round with the same results as an earlier one adds none.
func (s *simulation) narrate(at time.Duration, r *autoscaler.ScaleUp) {
	s.narrateShift(at, r)
	for _, repair := range r.Repairs {
		s.tellRepair(at, repair)
	}
	s.reportAttempts(at, r)
	for _, p := range r.Decision.Pods {
		if p.Outcome == autoscaler.PodsUnhelped {
			// Which ones of equal pods are left over differs from round to round.
			key := fmt.Sprint(p.Count, " of ", ownerOf(r.Survey.Pending[p.Pods[0]]), " ", steady(p.Reason))
			row := s.timeline.onceOf(at, v1alpha1.RowUnhelped, key, moreLikeIt(p.Example, p.Count)+": "+steady(p.Reason))
			row.Pods, row.Example, row.Reason, row.Rejections = p.Count, p.Example, steady(p.Reason), rejections(p)
		}
	}
	for _, warning := range r.Decision.Warnings {
		s.timeline.once(at, v1alpha1.RowWarning, warning).Reason = warning
	}
}

func (s *simulation) tellRepair(at time.Duration, repair autoscaler.Repair) {
	var row *v1alpha1.TimelineRow
	if repair.Err != nil {
		row = s.timeline.add(at, v1alpha1.RowRepair, "%s: %s: %v", repair.Group, repair.Reason, repair.Err)
		row.Error = repair.Err.Error()
	} else {
		row = s.timeline.add(at, v1alpha1.RowRepair, "%s: %s given up: %s", repair.Group, spelling.Count(repair.Nodes, "node"), repair.Reason)
		row.Nodes = repair.Nodes
	}
	row.Reason, row.Groups = repair.Reason, []v1alpha1.GroupChange{{Name: repair.Group, Nodes: repair.Nodes}}
	row.Faults = s.faults.on(at, repair.Group)
}

func rejections(p autoscaler.PodOutcome) []v1alpha1.Rejection {
	var all []v1alpha1.Rejection
	for _, r := range p.Rejections {
		all = append(all, v1alpha1.Rejection(r))
	}
	return all
}

// ownerOf names the controller of a pod, or the pod if it has none.
func ownerOf(pod *v1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return pod.Namespace + "/" + owner.Kind + "/" + owner.Name
	}
	return pod.Namespace + "/" + pod.Name
}

// moreLikeIt names several equal pods by one of them.
func moreLikeIt(example string, pods int) string {
	if pods == 1 {
		return example
	}
	return fmt.Sprintf("%s and %d more like it", example, pods-1)
}

// reportAttempts adds the rows of a scale-up: how the groups grew, and the errors of the cloud.
func (s *simulation) reportAttempts(at time.Duration, r *autoscaler.ScaleUp) {
	sizes, reasons := targets(r.Survey), map[string]string{}
	for _, o := range r.Decision.Groups {
		reasons[o.Group] = o.Reason
	}
	var grown []string
	var changes []v1alpha1.GroupChange
	for _, a := range r.Attempts {
		if a.Grew > 0 {
			c := resized(a.Group, sizes[a.Group], a.Grew)
			c.Reason = steady(reasons[a.Group])
			sizes[a.Group] += a.Grew
			grown, changes = append(grown, arrow(c)), append(changes, c)
		}
	}
	if len(grown) > 0 {
		report := scaleUpReport(r)
		row := s.timeline.add(at, v1alpha1.RowScaleUp, "%s (%s)", few(grown), why(r, report))
		row.Groups, row.Pods, row.ScaleUp, row.Nodes = changes, helped(r), report, r.Grew()
	}
	for _, a := range r.Attempts {
		if a.Err != nil {
			s.reportError(at, a)
		}
	}
}

// reportError adds the row of a group whose increase returned an error.
func (s *simulation) reportError(at time.Duration, a autoscaler.Attempt) {
	var row *v1alpha1.TimelineRow
	if a.Grew == 0 {
		row = s.timeline.add(at, v1alpha1.RowRefused, "%s +%d: %v", a.Group, a.Delta, a.Err)
	} else {
		grew := "grew"
		if a.Grew < a.Delta {
			grew = fmt.Sprintf("grew by %d", a.Grew)
		}
		row = s.timeline.add(at, v1alpha1.RowWarning, "%s +%d: %s although the cloud answered: %v", a.Group, a.Delta, grew, a.Err)
		row.Nodes = a.Grew
	}
	row.Groups, row.Error = []v1alpha1.GroupChange{{Name: a.Group, Nodes: a.Delta}}, a.Err.Error()
	row.Faults = s.faults.behind(at, a.Err, a.Group)
}

// targets are the target sizes of all groups by name.
func targets(w *autoscaler.Survey) map[string]int {
	sizes := make(map[string]int, len(w.Groups))
	for i := range w.Groups {
		sizes[w.Groups[i].ID] = w.Groups[i].Target
	}
	return sizes
}

// resized is a group with the change of its target size.
func resized(group string, from, by int) v1alpha1.GroupChange {
	to := from + by
	return v1alpha1.GroupChange{Name: group, Nodes: max(by, -by), From: &from, To: &to}
}

func arrow(c v1alpha1.GroupChange) string { return fmt.Sprintf("%s %d→%d", c.Name, *c.From, *c.To) }

func scaleUpReport(r *autoscaler.ScaleUp) *v1alpha1.ScaleUpReport {
	d := &r.Decision
	out := &v1alpha1.ScaleUpReport{Needed: d.Need, Unplaced: d.Unplaced, Chosen: d.Chosen}
	for _, a := range r.Attempts {
		out.Asked += a.Delta
	}
	for _, step := range d.Trail {
		taken := v1alpha1.ExpanderStep{Strategy: step.Strategy, Options: len(step.Options), Kept: len(step.Kept())}
		for _, judged := range step.Options {
			if judged.Group == d.Chosen {
				taken.Figure = judged.Figure
			}
		}
		out.Expander = append(out.Expander, taken)
	}
	return out
}

func helped(r *autoscaler.ScaleUp) int {
	n := 0
	for _, p := range r.Decision.Pods {
		if p.Outcome == autoscaler.PodsHelped {
			n += p.Count
		}
	}
	return n
}

// why describes the purpose of a scale-up and how the expander chose.
func why(r *autoscaler.ScaleUp, report *v1alpha1.ScaleUpReport) string {
	nodes := spelling.Count(max(r.Grew(), report.Needed), "node")
	if r.Grew() < report.Needed {
		nodes = fmt.Sprintf("%d of %s", r.Grew(), nodes)
	}
	parts := []string{fmt.Sprintf("%s for %s", nodes, spelling.Count(helped(r), "pod"))}
	var chosen []string
	for _, step := range report.Expander {
		if step.Figure != "" && step.Strategy != expander.SetStep {
			chosen = append(chosen, step.Strategy+" "+report.Chosen+": "+step.Figure)
		}
	}
	if len(chosen) > 0 {
		parts = append(parts, strings.Join(chosen, ", "))
	}
	if report.Unplaced > 0 {
		parts = append(parts, fmt.Sprintf("no room for %d more", report.Unplaced))
	}
	return strings.Join(parts, "; ")
}

// steady removes the remaining time from a reason, so that it is reported once.
func steady(reason string) string {
	const before, after = "backed off for another ", ": "
	head, tail, found := strings.Cut(reason, before)
	if !found {
		return reason
	}
	if _, rest, ok := strings.Cut(tail, after); ok {
		return head + "backed off" + after + steady(rest)
	}
	return reason
}
