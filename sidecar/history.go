package sidecar

import (
	"slices"
)

// kept is how many decisions are kept for the status page.
const kept = 50

// history is what was decided last.
type history struct {
	decisions []Decision // the oldest first
	warnings  []string
}

// note keeps a decision and logs it. An answer that repeats the one before is kept once.
func (s *Sidecar) note(d Decision) {
	d.Time = s.o.Clock.Now()
	s.o.Metrics.decided(d)
	log := s.o.Log.WithValues("call", d.Call, "nodeGroup", d.Group, "asked", d.Asked, "granted", d.Granted, "reason", d.Reason)
	if d.Error != "" {
		log = log.WithValues("error", d.Error)
	}
	log.Info("Decided")
	h := &s.history
	if n := len(h.decisions); n > 0 {
		if last := h.decisions[n-1]; last.Call == d.Call && last.Group == d.Group && last.Reason == d.Reason && last.Error == d.Error && last.Granted == d.Granted {
			h.decisions = h.decisions[:n-1]
		}
	}
	h.decisions = append(h.decisions, d)
	if len(h.decisions) > kept {
		h.decisions = slices.Delete(h.decisions, 0, len(h.decisions)-kept)
	}
}

// warn tells somebody to look at something.
func (s *Sidecar) warn(reason, message string) {
	if slices.Contains(s.history.warnings, message) {
		return
	}
	s.history.warnings = append(s.history.warnings, message)
	s.o.Log.Info("Warning", "reason", reason, "message", message)
	s.o.Recorder.Event(true, reason, message)
}
