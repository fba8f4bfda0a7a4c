package steering

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/evenkeel/evenkeel/backoff"
)

// Errors of a journal that is somebody else's by now.
var (
	// ErrNotLeader means that this replica does not lead: it orders nothing.
	ErrNotLeader = errors.New("not the leading replica")
	// ErrOutdated means that another process has written the journal: nothing is ordered until it
	// has been read.
	ErrOutdated = errors.New("another process has written the journal")
)

// journalVersion is that of the text; one of another version is not used, which costs loops and no
// nodes.
const journalVersion = 1

// journal is what survives the process.
type journal struct {
	Version  int                     `json:"version"`
	Writer   string                  `json:"writer"`
	Groups   map[string]journalGroup `json:"groups,omitempty"`
	Plan     *plan                   `json:"plan,omitempty"`
	Pick     *pick                   `json:"pick,omitempty"`
	Stopped  bool                    `json:"stopped,omitempty"`  // the answer of the expander was to grow no group
	Unread   bool                    `json:"unread,omitempty"`   // the expander's question could not be read
	Balances balancing               `json:"balances,omitempty"` // Cluster Autoscaler, by itself
	Shifted  []string                `json:"shifted,omitempty"`  // groups whose zone is shifted away or has come back lately
}

// journalGroup is a group of which there is something to keep.
type journalGroup struct {
	lasting
	Order     *order           `json:"order,omitempty"`
	Backoff   *backoff.Failure `json:"backoff,omitempty"`
	Instances []string         `json:"writtenOff,omitempty"`
	Missing   int              `json:"missing,omitempty"`
}

// Journal returns the text that has to survive the process.
func (s *Machine) Journal() ([]byte, error) {
	s.stopSaved = s.stopped
	return json.Marshal(s.journal())
}

// JournalSaved records whether the journal was written. If not, increases get nothing twice in a
// row, and are granted in full after that.
func (s *Machine) JournalSaved(err error) {
	s.journalErr = err
	if err == nil {
		s.unsaved = 0
		return
	}
	s.stopSaved = false
	s.count(JournalFailed, 1)
	s.log(Log{Err: err, Message: "Journal not written"})
}

// WithoutJournal says what happens to increases while the journal cannot be used.
func (s *Machine) WithoutJournal() string {
	switch {
	case errors.Is(s.journalErr, ErrNotLeader):
		return "nothing is ordered"
	case s.journalErr != nil && s.mayWaitForJournal():
		return "nothing is ordered for the moment, it is tried again"
	}
	return "increases are granted in full"
}

// Unsaved reports whether the journal could not be written, so that it is worth another try before
// an increase.
func (s *Machine) Unsaved() bool { return s.journalErr != nil }

// Stop replaces the answer to the expander's question, because of a journal that is somebody else's:
// no group grows in this loop. It reports whether the error is of that kind.
func (s *Machine) Stop(journalErr error) bool {
	if !errors.Is(journalErr, ErrNotLeader) && !errors.Is(journalErr, ErrOutdated) {
		return false
	}
	s.pick, s.stopped = nil, true
	s.note(Decision{Call: "BestOptions", Reason: "no group grows", Error: journalErr.Error()})
	return true
}

// OwnJournal reports whether the text of a journal holds nothing of another process, so that
// somebody has only deleted or touched it.
func (s *Machine) OwnJournal(text []byte) bool {
	var j journal
	return len(text) == 0 || json.Unmarshal(text, &j) == nil && j.Writer == s.writer
}

// JournalRead records the text of the journal, or that it could not be read. Another replica may
// have written it meanwhile.
func (s *Machine) JournalRead(text []byte, err error) {
	s.journalErr = err
	if err != nil {
		s.count(JournalFailed, 1)
		return
	}
	var j journal
	if len(text) > 0 {
		if err := json.Unmarshal(text, &j); err != nil {
			s.log(Log{Err: err, Message: "Journal not understood, all nodes on their way count as unknown to Cluster Autoscaler"})
			j = journal{}
		}
	}
	if j.Version == journalVersion && j.Writer != s.writer {
		s.restore(j)
	} else if j.Writer != s.writer {
		for _, b := range s.groups {
			b.Seen = false
		}
	}
}

// ReleasedBefore136 records whether Cluster Autoscaler is of a release before 1.36: it counts all
// nodes on their way that it is shown, and not only those of groups that it has a request for.
func (s *Machine) ReleasedBefore136(yes bool) { s.before136 = yes }

// NewProcess records that Cluster Autoscaler has been started anew: it knows of no node on its way.
// What the expander was asked before stands if asked is true: the new process has asked it already,
// and is about to do as it was told.
func (s *Machine) NewProcess(asked bool) {
	s.process = s.now
	for _, b := range s.groups {
		b.Seen, b.Unshown = false, 0
	}
	if s.renewed = s.view == nil; !s.renewed {
		s.hide(s.look())
	}
	if !asked {
		s.plan, s.pick, s.stopped, s.unread, s.balancing, s.unasked = nil, nil, false, false, "", false
	}
	s.note(Decision{Call: "GPULabel", Reason: "a new process of Cluster Autoscaler: it knows of no node that is on its way"})
	s.count(ProcessesNoticed, 1)
}

// journal is the text of what must survive.
func (s *Machine) journal() journal {
	j := journal{Version: journalVersion, Writer: s.writer, Groups: map[string]journalGroup{}, Plan: s.plan, Stopped: s.stopped, Unread: s.unread, Balances: s.balancing, Shifted: s.zonal.shifts.Away()}
	if p := s.pick; p != nil && !p.full {
		j.Pick = p
	}
	failures := s.backoff.Failures()
	for id, b := range s.groups {
		entry := journalGroup{lasting: b.lasting, Order: b.order, Instances: slices.Sorted(maps.Keys(b.off.instances)), Missing: b.off.missing}
		if failure, failed := failures[id]; failed {
			entry.Backoff = &failure
		}
		if entry.Seen || entry.Order != nil || entry.Backoff != nil || s.now.Sub(b.Asked) < s.o.MaxNodeProvisionTime {
			j.Groups[id] = entry
		}
	}
	return j
}

// restore takes over what another process has written. The answer to an order that was under way
// when that process ended has certainly not arrived.
func (s *Machine) restore(j journal) {
	for _, b := range s.groups {
		b.Seen = false
	}
	for id, entry := range j.Groups {
		b := s.state(id)
		b.lasting, b.off = entry.lasting, writtenOff{missing: entry.Missing, instances: map[string]bool{}}
		for _, instance := range entry.Instances {
			b.off.instances[instance] = true
		}
		if entry.Order != nil {
			b.Seen, b.Asked, b.Ordered = false, entry.Order.At, entry.Order.At
		}
		if entry.Backoff != nil {
			s.backoff.Restore(id, *entry.Backoff)
		}
	}
	s.balancing = j.Balances
	s.zonal.shifts.Restore(j.Shifted)
	s.plan, s.pick, s.stopped, s.unread = j.Plan, nil, j.Stopped && s.loop == 0, j.Unread && s.loop == 0
	if s.loop == 0 {
		s.pick = j.Pick
	}
	if s.plan != nil {
		s.plan.need, s.plan.why = s.plan.Left, "as chosen before a restart"
	}
}
