package steering

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/zonalshift"
)

// Status returns what is known of the groups and the split that is being carried out. What was an effect,
// and what only the caller knows, is not in it: the decisions and warnings, how the cloud is doing, and
// the journal as long as it can be used.
func (s *State) Status(now time.Time) Status {
	mode, why := s.Mode()
	out := Status{Time: now, Mode: string(mode), ModeReason: why, Sets: s.sets.index.Sets(), Journal: s.saved.without(now)}
	if !s.caller.process.IsZero() {
		out.Autoscaler = "its present process was first seen at " + s.caller.process.UTC().Format(time.RFC3339)
		if s.caller.before136 {
			out.Autoscaler += ", of a release before 1.36"
		}
	}
	if s.view != nil {
		out.Groups = s.groupStatuses(now)
		out.Policies = s.policyStatuses()
		out.Warnings = s.present()
	}
	if p := s.plan.current; p != nil {
		out.Plan = &PlanStatus{Since: p.Since, Chosen: p.Chosen, Why: p.why, Need: p.need, Granted: p.granted, Members: slices.Clone(p.members)}
	}
	for _, set := range slices.Sorted(maps.Keys(s.plan.uneven)) {
		u := s.plan.uneven[set].UnevenStatus
		u.Members = slices.Clone(u.Members)
		out.Uneven = append(out.Uneven, u)
	}
	if w := s.plan.withheld; w.nodes > 0 {
		out.Withheld = &WithheldStatus{w.nodes, w.pods, slices.Clone(w.sets)}
	}
	out.Refused = s.sets.declared.refused
	out.ZonalShift = s.zones.status()
	report := s.sets.index.Explain()
	for _, miss := range report.Misses {
		out.Apart = append(out.Apart, ApartStatus{miss.Pair, miss.Remedy})
	}
	if len(report.Suggestion.Flags) > 0 {
		out.Suggestion = &report.Suggestion
	}
	return out
}

func (s *State) groupStatuses(now time.Time) []GroupStatus {
	at, _ := s.nodes.observation(now, &s.o)
	out := make([]GroupStatus, 0, len(s.view.Groups))
	for _, id := range slices.Sorted(maps.Keys(s.view.Groups)) {
		g, b := s.view.Groups[id], s.known(id)
		status := GroupStatus{Name: id, Set: s.set(id), Size: b.target, Min: g.MinSize, Max: g.MaxSize, Unseen: s.unseen(g, at)}
		n := at.count(g, b)
		status.Ready, status.InFlight, status.Broken = n.ready, n.inFlight, n.broken
		_, status.Limited = allowance(b.onTrial, n)
		if _, most := s.Bounds(g); status.Limited == "" && most < g.MaxSize {
			status.Limited = "at its maximum for this loop: Cluster Autoscaler asked for all nodes here, and others have their share to get"
		}
		status.Zone = s.zones.labels[id][v1.LabelTopologyZone]
		if g.Template.Node != nil {
			status.Zone = g.Template.Node.Labels[v1.LabelTopologyZone]
		}
		if why := g.leftAlone(); why != "" {
			status.Backoff = "by Cluster Autoscaler: " + why
		}
		if f, raised := s.levels.floors[id]; raised {
			status.FloorWhy = f.why
			if told := s.minimum(g); told != g.MinSize {
				status.Floor = told
			}
		}
		status.Shifted, status.Lag = s.zones.away(id), s.zones.decision.Lag[id]
		if until, why, off := s.failures.backoff.Active(id, at.now); off {
			what, why, _ := strings.Cut(why, ": ")
			status.Backoff = fmt.Sprintf("%s, first at %s, tried again at %s: %s", what,
				s.failures.backoff.Failure(id).First.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339), why)
		}
		status.Problem = cmp.Or(text(g.Err), text(g.TemplateErr))
		out = append(out, status)
	}
	return out
}

// Gauges are numbers that go up and down.
type Gauges struct {
	Mode                     Mode
	Groups, InFlight, Unseen int // InFlight and Unseen are nodes
	BackedOff, Limited, Held int // groups
	Unreadable               int // groups that have not been read lately
	ClosedSets               int
	PlanAge                  time.Duration // 0 without one
	OldestInFlight           time.Duration // since it was ordered; 0 without one
	UnevenSets               int
	WithheldNodes            int // that the last loop asked for and did not get
	WithheldPods             int // that needed them
	PoliciesRefused          bool
	Shifted                  []zonalshift.Domain
	ShiftProblem             bool // the newest marks of zones are not used
	Returning                int  // groups that catch up
	Sets                     []SetGauges
}

// SetGauges are the numbers of a set of two and more groups.
type SetGauges struct {
	Set          string // its first group
	UnevenNodes  int    // that would be in other groups of the set if its nodes were shared anew
	WithheldPods int    // of the nodes that the last loop asked for and did not get, if this set may get them
}

// Gauges returns the numbers as of the last reading; ok is false before it.
func (s *State) Gauges() (out Gauges, ok bool) {
	if s.view == nil {
		return Gauges{}, false
	}
	at := s.nodes.at
	out.Mode, _ = s.Mode()
	out.PoliciesRefused = s.sets.declared.refused != ""
	out.Groups, out.ClosedSets = len(s.view.Groups), len(s.failures.closed)
	for id, g := range s.view.Groups {
		b := s.known(id)
		n := at.count(g, b)
		out.InFlight += n.inFlight
		if n.inFlight > 0 && len(b.coming) > 0 {
			out.OldestInFlight = max(out.OldestInFlight, at.now.Sub(b.coming[0].At))
		}
		out.Unseen += s.unseen(g, at)
		if _, limit := allowance(b.onTrial, n); limit != "" {
			out.Limited++
		}
		if b.unreadable.lasts() {
			out.Unreadable++
		}
		if _, _, active := s.failures.backoff.Active(id, at.now); active || g.leftAlone() != "" {
			out.BackedOff++
		}
	}
	for _, f := range s.levels.floors {
		if f.held {
			out.Held++
		}
	}
	for i := range s.zones.decision.Shifted {
		out.Shifted = append(out.Shifted, s.zones.decision.Shifted[i].Domain)
	}
	out.ShiftProblem, out.Returning = s.zones.problem != "", len(s.zones.decision.Lag)
	out.UnevenSets, out.WithheldNodes, out.WithheldPods = len(s.plan.uneven), s.plan.withheld.nodes, s.plan.withheld.pods
	if s.plan.current != nil {
		out.PlanAge = at.now.Sub(s.plan.current.Since)
	}
	out.Sets = s.setGauges()
	return out, true
}

func (s *State) setGauges() []SetGauges {
	var out []SetGauges
	for _, set := range s.plan.sets {
		g := SetGauges{Set: set}
		if u := s.plan.uneven[set]; u != nil {
			for _, m := range u.Members {
				g.UnevenNodes += max(0, m.NewSize-m.Size)
			}
		}
		if slices.Contains(s.plan.withheld.sets, set) {
			g.WithheldPods = s.plan.withheld.pods
		}
		out = append(out, g)
	}
	return out
}
