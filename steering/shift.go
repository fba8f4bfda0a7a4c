package steering

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/zonalshift"
)

// zonal is what is known of zones that are shifted away.
type zonal struct {
	shifts *zonalshift.Shifts
	marks  []zonalshift.Mark // of users, as last found to be good
	// offered are marks of which it is not known yet whether their zones exist.
	offered  []zonalshift.Mark
	checked  bool   // there are none
	source   string // of the marks; empty without one
	problem  string // why the newest marks are not used
	decision zonalshift.Decision
	labels   map[string]map[string]string // of a node of each group, as Cluster Autoscaler sent it last
	waiting  string                       // pods that wait for a zone, as last reported
}

// Shift is a new reading of the zones that users have shifted away, or why it could not be used: then
// the marks before hold on.
type Shift struct {
	Source string
	Marks  []zonalshift.Mark
	Err    error
}

func (e Shift) apply(s *State) Answer {
	z := &s.zones
	z.source = e.Source
	if e.Err != nil {
		z.offered, z.checked = nil, true
		s.refuseMarks(e.Err)
		return Answer{}
	}
	z.offered, z.checked = slices.Clone(e.Marks), false
	s.checkMarks()
	s.shiftZones()
	return Answer{}
}

// checkMarks takes over the newest marks once it is known that their zones exist.
func (s *State) checkMarks() {
	z := &s.zones
	if z.checked || s.view == nil {
		return
	}
	groups := s.shiftGroups()
	err := zonalshift.Check(z.offered, func(key string) []string { return zonalshift.Domains(key, groups) })
	if err != nil {
		s.refuseMarks(fmt.Errorf("%s: %w", z.source, err))
		return
	}
	z.marks, z.offered, z.checked, z.problem = z.offered, nil, true, ""
}

// refuseMarks reports once why marks are not used.
func (s *State) refuseMarks(err error) {
	text := err.Error()
	var kept []string
	for i := range s.zones.marks {
		kept = append(kept, s.zones.marks[i].Domain.String())
	}
	if len(kept) > 0 {
		text += "; the last good marks are kept: " + strings.Join(kept, ", ")
	} else {
		text += "; no zone is shifted away by a mark"
	}
	if s.zones.problem == text {
		return
	}
	s.zones.problem = text
	s.log(Log{Err: errors.New(text), Message: "The marks of zones cannot be used"})
	s.event("ZonalShiftInvalid", text)
}

// shiftZones decides anew what holds for zones that are shifted away. It comes after a reading of
// the cloud, a question, and a change of the marks.
func (s *State) shiftZones() {
	z := &s.zones
	s.checkMarks()
	if s.view == nil || len(z.marks) == 0 && !z.shifts.Watches() {
		return
	}
	z.decision = z.shifts.Advance(s.now, z.marks, s.shiftGroups())
	for i := range z.decision.Began {
		began := &z.decision.Began[i]
		until := ""
		if !began.Until.IsZero() {
			until = " until " + began.Until.UTC().Format("2006-01-02 15:04 UTC")
		}
		s.log(Log{Message: "Zone is shifted away", Values: []any{"zone", began.Domain.String(), "reason", began.Reason, "detected",
			began.Detected, "nodeGroups", began.Groups}})
		s.event("ZoneShifted", fmt.Sprintf("%s%s: nothing grows there and no member of the sets shrinks: %s", began, until,
			strings.Join(began.Groups, ", ")))
	}
	for _, ended := range z.decision.Ended {
		s.log(Log{Message: "Zone has come back", Values: []any{"zone", ended.Domain.String(), "reason", ended.Reason}})
		s.out.Events = append(s.out.Events, KubernetesEvent{Reason: "ZoneReturned",
			Message: fmt.Sprintf("%s has come back: %s", ended.Domain, ended.Reason), Normal: true})
	}
	for _, ignored := range z.decision.Ignored {
		s.warn("ZonalShiftIgnored", ignored.String())
	}
}

// shiftGroups are all groups as a shift sees them.
func (s *State) shiftGroups() []zonalshift.Group {
	set, terms := s.firstOf(), s.terms(nil)
	out := make([]zonalshift.Group, 0, len(s.view.Groups))
	for _, id := range slices.Sorted(maps.Keys(s.view.Groups)) {
		g, b := s.view.Groups[id], s.state(id)
		n := s.nodes.at.count(g, b)
		_, _, refuses := s.failures.backoff.Active(id, s.now)
		one := zonalshift.Group{
			Name: id, Labels: s.labelsOf(g), Size: max(0, b.target), Max: g.MaxSize, Ready: n.ready, NotReady: n.broken, Refuses: refuses ||
				g.leftAlone() != "",
		}
		if !s.o.NotBalanced && !g.ZeroOrMax {
			one.Set, one.Portion = set[id], terms[id].PortionOf(id)
		}
		out = append(out, one)
	}
	return out
}

// labelsOf are those of a node of the group as Cluster Autoscaler sent it last, or as the cloud
// describes it.
func (s *State) labelsOf(g *Group) map[string]string {
	if labels := s.zones.labels[g.ID]; labels != nil {
		return labels
	}
	if g.Template.Node != nil {
		return g.Template.Node.Labels
	}
	return nil
}

// learnLabels notes in which zones the groups of a question are.
func (s *State) learnLabels(nodes map[string]*v1.Node) {
	for name, node := range nodes {
		s.zones.labels[name] = node.Labels
	}
	maps.DeleteFunc(s.zones.labels, func(name string, _ map[string]string) bool { return s.view.Groups[name] == nil })
}

// away says why a group must not grow; empty if it may.
func (z *zonal) away(id string) string { return z.decision.Away[id] }

// lag is by how much a group counts as larger in a split, since its zone has come back lately.
func (z *zonal) lag(id string) int64 { return int64(z.decision.Lag[id]) }

// holdLevels raises the minimums of groups that must not shrink while a zone of their set is shifted
// away, so that Cluster Autoscaler removes no node there. Where a group must not grow either, the
// minimum is lowered to its size: Cluster Autoscaler may raise groups to their minimums.
func (s *State) holdLevels() {
	if mode, _ := s.Mode(); mode == DryRun || s.view == nil {
		return
	}
	for id, why := range s.zones.decision.Held {
		g, b := s.view.Groups[id], s.state(id)
		if g == nil {
			continue
		}
		if s.levels.floors == nil {
			s.levels.floors = map[string]floor{}
		}
		// Nodes that are not ready may come back with their zone.
		s.levels.floors[id] = floor{min: min(b.confirmedSize(), s.nodes.at.staying(g, true)), held: true, why: why, away: s.zones.away(id) != ""}
	}
}

// publishWaiting publishes which pods wait because they can run only in zones that are shifted away.
func (c *choice) publishWaiting(growable []string) {
	served := c.podsOf(growable)
	waiting, why := map[int]bool{}, map[string]bool{}
	for _, name := range c.names {
		if away := c.s.zones.away(name); away != "" {
			for _, i := range c.options[name].Pods {
				if !served[i] {
					waiting[i], why[away] = true, true
				}
			}
		}
	}
	text := ""
	if len(waiting) > 0 {
		first := c.request.Pods[slices.Min(slices.Collect(maps.Keys(waiting)))]
		text = fmt.Sprintf("%d pods can run nowhere else and wait, such as %s/%s: %s", len(waiting), first.Namespace, first.Name,
			strings.Join(slices.Sorted(maps.Keys(why)), "; "))
	}
	if text != c.s.zones.waiting {
		if text != "" {
			c.s.event("PodsHeldByZonalShift", text)
		}
		c.s.zones.waiting = text
	}
}

// ZonalShiftStatus is what is known of zones that are shifted away.
type ZonalShiftStatus struct {
	Source  string               `json:"source,omitempty"`  // where marks are read
	Problem string               `json:"problem,omitempty"` // why the newest ones are not used
	Shifted []zonalshift.Shifted `json:"shifted"`           // in the order in which they count
	Ignored []zonalshift.Ignored `json:"ignored,omitempty"` // without effect
	Waiting string               `json:"waiting,omitempty"` // pods that can run nowhere else
}

func (z *zonal) status() *ZonalShiftStatus {
	if z.source == "" && z.decision.Idle() {
		return nil
	}
	return &ZonalShiftStatus{
		Source: z.source, Problem: z.problem, Shifted: append([]zonalshift.Shifted{}, z.decision.Shifted...),
		Ignored: slices.Clone(z.decision.Ignored), Waiting: z.waiting,
	}
}
