package sidecar

import (
	"slices"

	"github.com/evenkeel/evenkeel/steering"
)

// kept is how many decisions are kept for the status page.
const kept = 50

// history is what was decided last.
type history struct {
	decisions []steering.Decision // the oldest first
	warnings  []string
}

// decided counts, logs and keeps a decision.
func (s *Sidecar) decided(d *steering.Decision) {
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
		if last := h.decisions[n-1]; last.Call == d.Call && last.Group == d.Group && last.Reason == d.Reason && last.Error == d.Error && last.Granted == d.Granted {
			h.decisions = h.decisions[:n-1]
		}
	}
	h.decisions = append(h.decisions, *d)
	if len(h.decisions) > kept {
		h.decisions = slices.Delete(h.decisions, 0, len(h.decisions)-kept)
	}
}
