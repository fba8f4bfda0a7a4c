package sidecar

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/steering"
)

// How many decisions are kept for the status page, and how many of those that granted an increase in
// full, which are kept longer.
const maxDecisions, maxInFull = 100, 10

// history is what was decided last.
type history struct {
	decisions []steering.Decision // the oldest first
	inFull    []steering.Decision // of them, and of those before; the oldest first
	full      int                 // how many there have been
	warnings  []string
}

// decided counts, logs and keeps a decision.
func (s *machine) decided(d *steering.Decision) {
	s.o.Metrics.decided(d)
	log := s.o.Log.WithValues("call", d.Call, "nodeGroup", d.Group, "asked", d.Asked, "granted", d.Granted, "reason", d.Reason)
	if d.Error != "" {
		log = log.WithValues("error", d.Error)
	}
	log.Info("Decided")
	s.history.keep(d)
}

// keep keeps a decision. An answer that repeats the one before is kept once.
func (h *history) keep(d *steering.Decision) {
	if n := len(h.decisions); n > 0 {
		if before := h.decisions[n-1]; before.Call == d.Call && before.Group == d.Group && before.Reason == d.Reason && before.Error == d.Error &&
			before.Granted == d.Granted {
			h.decisions = h.decisions[:n-1]
		}
	}
	h.decisions = last(append(h.decisions, *d), maxDecisions)
	if d.InFull {
		h.inFull, h.full = last(append(h.inFull, *d), maxInFull), h.full+1
	}
}

// last removes all but the last decisions.
func last(decisions []steering.Decision, n int) []steering.Decision {
	return slices.Delete(decisions, 0, max(0, len(decisions)-n))
}

// show adds what was decided last to a status, the newest first.
func (h *history) show(to *steering.Status) {
	to.Decisions, to.InFull = slices.Clone(h.decisions), slices.Clone(h.inFull)
	slices.Reverse(to.Decisions)
	slices.Reverse(to.InFull)
	to.Warnings = append(to.Warnings, h.attention()...)
}

// attention is what somebody should look at.
func (h *history) attention() []string {
	out := slices.Clone(h.warnings)
	if n := len(h.inFull); n > 0 {
		d := &h.inFull[n-1]
		out = append(out, fmt.Sprintf("%d increases were granted in full, so that sets may be uneven; the last was %d nodes for %s at %s: %s",
			h.full, d.Granted, d.Group, d.Time.UTC().Format(time.RFC3339), strings.TrimPrefix(d.Reason, "in full: ")))
	}
	return out
}
