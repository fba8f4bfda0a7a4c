package sidecar

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Ready is nil when Cluster Autoscaler can be served: the cloud was read and answered last time.
func (s *Sidecar) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready()
}

func (s *Sidecar) ready() error {
	switch {
	case s.fetchErr != nil:
		return fmt.Errorf("the cloud does not answer: %w", s.fetchErr)
	case s.view == nil:
		return errors.New("the cloud has not been read yet")
	}
	return nil
}

// Status tells what the sidecar knows and last decided.
func (s *Sidecar) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, why := s.mode()
	out := Status{Time: s.o.Clock.Now(), Mode: string(m), ModeReason: why, Ready: s.ready() == nil, Sets: s.index.Sets()}
	if err := s.ready(); err != nil {
		out.NotReady = err.Error()
	}
	if !s.process.IsZero() {
		out.Autoscaler = "its present process was first seen at " + s.process.UTC().Format(time.RFC3339)
	}
	out.Journal = "kept"
	if !s.journalRead {
		out.Journal = "not read yet"
	}
	if ok, why := s.canShare(); !ok {
		out.Journal = why + "; increases are granted in full"
	}
	if s.view != nil {
		out.LastRefresh, out.RefreshTook = s.view.at, s.view.took.Round(time.Millisecond).String()
		out.Groups = s.groupStatuses()
	}
	if p := s.plan; p != nil {
		out.Plan = &PlanStatus{Since: p.since, Chosen: p.chosen, Why: p.why, Need: p.need, Granted: p.granted, Members: slices.Clone(p.members)}
	}
	out.Decisions = slices.Clone(s.history.decisions)
	slices.Reverse(out.Decisions)
	out.Warnings = slices.Clone(s.history.warnings)
	if s.o.Nodes != nil {
		if _, ok := s.o.Nodes.List(); !ok {
			out.Warnings = append(out.Warnings, "The nodes are not known from the API server; which are ready is inferred from the calls of Cluster Autoscaler")
		}
	}
	report := s.index.Explain()
	for _, miss := range report.Misses {
		out.Apart = append(out.Apart, ApartStatus{Left: miss.Left, Right: miss.Right, Differences: miss.Differences, Remedy: miss.Remedy})
	}
	if len(report.Suggestion.Flags) > 0 {
		out.Suggestion = &report.Suggestion
	}
	return out
}

func (s *Sidecar) groupStatuses() []GroupStatus {
	at := s.look()
	out := make([]GroupStatus, 0, len(s.view.groups))
	for _, id := range slices.Sorted(maps.Keys(s.view.byID)) {
		g, b := s.view.byID[id], s.book(id)
		status := GroupStatus{Name: id, Set: s.set(id), Size: b.target, Min: g.MinSize, Max: g.MaxSize, Unseen: s.unseen(g, at)}
		n := at.count(g, b)
		status.Ready, status.InFlight, status.Broken = n.ready, n.inFlight, n.broken
		_, status.Limited = allowance(b.proof, n)
		if g.template.Node != nil {
			status.Zone = g.template.Node.Labels[v1.LabelTopologyZone]
		}
		if f, raised := s.levels.floors[id]; raised {
			status.Floor, status.FloorWhy = s.told(g), f.why
		}
		if until, why, off := s.backoff.Active(id, at.now); off {
			status.Backoff = fmt.Sprintf("until %s: %s", until.UTC().Format(time.RFC3339), why)
		}
		switch {
		case g.err != nil:
			status.Problem = g.err.Error()
		case g.templateErr != nil:
			status.Problem = g.templateErr.Error()
		}
		out = append(out, status)
	}
	return out
}

// gauge brings the gauges up to date.
func (s *Sidecar) gauge() {
	if s.view == nil {
		return
	}
	at := s.at
	var inFlight, unseen, off, limited int
	for id, g := range s.view.byID {
		b := s.book(id)
		n := at.count(g, b)
		inFlight += n.inFlight
		if _, limit := allowance(b.proof, n); limit != "" {
			limited++
		}
		unseen += s.unseen(g, at)
		if _, _, active := s.backoff.Active(id, at.now); active {
			off++
		}
	}
	held := 0
	for _, f := range s.levels.floors {
		if f.held {
			held++
		}
	}
	m, _ := s.mode()
	age := time.Duration(0)
	if s.plan != nil {
		age = at.now.Sub(s.plan.since)
	}
	s.o.Metrics.state(gauges{mode: m, groups: len(s.view.byID), inFlight: inFlight, unseen: unseen, backedOff: off, limited: limited, shut: len(s.shut), held: held, plan: age})
}
