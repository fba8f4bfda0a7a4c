package steering

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

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
	Seen      bool             `json:"seen,omitempty"`
	Unshown   int              `json:"extra,omitempty"`
	Asked     time.Time        `json:"asked,omitzero"`
	Ordered   time.Time        `json:"ordered,omitzero"`
	OnTrial   bool             `json:"onTrial,omitempty"`
	Order     *order           `json:"order,omitempty"`
	Backoff   *backoff.Failure `json:"backoff,omitempty"`
	Instances []string         `json:"writtenOff,omitempty"`
	Missing   int              `json:"missing,omitempty"`
}

// saved is what is known of the journal.
type saved struct {
	writer  string // names this process in it; empty without a journal
	err     error
	stopped bool      // it says that the expander's last answer was to grow no group
	missed  int       // increases in a row that got nothing because it could not be written
	since   time.Time // when the first of them did
}

// can reports whether increases may be granted in part, and why not.
func (j *saved) can() (ok bool, why string) {
	switch {
	case j.writer == "":
		return false, "there is no journal"
	case j.err != nil:
		return false, "the journal cannot be used: " + j.err.Error()
	}
	return true, ""
}

// maxUnsaved is how often in a row nothing is granted because the journal could not be written.
// Loops that follow one another at once count as one: an API server takes longer to come back.
const maxUnsaved = 2

// wait reports whether an increase is to wait for the journal, and counts it.
func (j *saved) wait(now time.Time) bool {
	if !j.mayWait(now) {
		return false
	}
	if j.missed == 0 {
		j.since = now
	}
	j.missed++
	return true
}

func (j *saved) mayWait(now time.Time) bool {
	return j.missed < maxUnsaved || now.Sub(j.since) < scanInterval
}

// without says what happens to increases while the journal cannot be used, and why that is so; it is
// empty if it can.
func (j *saved) without(now time.Time) string {
	can, why := j.can()
	switch {
	case can:
		return ""
	case errors.Is(j.err, ErrNotLeader):
		return why + "; nothing is ordered"
	case j.err != nil && j.mayWait(now):
		return why + "; nothing is ordered for the moment, it is tried again"
	}
	return why + "; increases are granted in full"
}

// Journal returns the text that has to survive the process.
func (s *State) Journal() ([]byte, error) { return json.Marshal(s.journal()) }

// JournalSaved says whether the journal was written. If not, increases get nothing twice in a row, and
// are granted in full after that.
type JournalSaved struct{ Err error }

func (e JournalSaved) apply(s *State) Answer {
	s.saved.err, s.saved.stopped = e.Err, e.Err == nil && s.caller.stopped
	if e.Err == nil {
		s.saved.missed = 0
		return Answer{}
	}
	s.count(JournalFailed, 1)
	s.log(Log{Err: e.Err, Message: "Journal not written"})
	return Answer{}
}

// Unsaved reports whether the journal could not be written, so that it is worth another try before
// an increase.
func (s *State) Unsaved() bool { return s.saved.err != nil }

// Stop takes the answer to the expander's question back, because its journal was not written. The answer
// has the error if no group grows in this loop, since the journal is somebody else's.
type Stop struct{ JournalErr error }

func (e Stop) apply(s *State) Answer {
	if !errors.Is(e.JournalErr, ErrNotLeader) && !errors.Is(e.JournalErr, ErrOutdated) {
		return Answer{}
	}
	s.caller.pick, s.caller.stopped = nil, true
	s.note(Decision{Call: "BestOptions", Reason: "no group grows", Error: e.JournalErr.Error()})
	return Answer{Err: e.JournalErr}
}

// OwnJournal reports whether the text of a journal holds nothing of another process, so that
// somebody has only deleted or touched it.
func (s *State) OwnJournal(text []byte) bool {
	var j journal
	return len(text) == 0 || json.Unmarshal(text, &j) == nil && j.Writer == s.saved.writer
}

// JournalRead is the text of the journal, or why it could not be read. Another replica may have written
// it meanwhile.
type JournalRead struct {
	Text []byte
	Err  error
}

func (e JournalRead) apply(s *State) Answer {
	s.saved.err = e.Err
	if e.Err != nil {
		s.count(JournalFailed, 1)
		return Answer{}
	}
	var j journal
	if len(e.Text) > 0 {
		if err := json.Unmarshal(e.Text, &j); err != nil {
			s.log(Log{Err: err, Message: "Journal not understood, all nodes on their way count as unknown to Cluster Autoscaler"})
			j = journal{}
		}
	}
	if j.Version == journalVersion && j.Writer != s.saved.writer {
		s.restore(j)
	} else if j.Writer != s.saved.writer {
		for _, b := range s.groups {
			b.seen = false
		}
	}
	return Answer{}
}

// journal is the text of what must survive.
func (s *State) journal() journal {
	j := journal{Version: journalVersion, Writer: s.saved.writer, Groups: map[string]journalGroup{}, Plan: s.plan.current,
		Stopped: s.caller.stopped, Unread: s.caller.unread, Balances: s.caller.balancing, Shifted: s.zones.shifts.Away()}
	if p := s.caller.pick; p != nil && !p.full {
		j.Pick = p
	}
	failures := s.failures.backoff.Failures()
	for id, b := range s.groups {
		entry := journalGroup{
			Seen: b.seen, Unshown: b.unshown, Asked: b.asked, Ordered: b.ordered, OnTrial: b.onTrial, Order: b.order,
			Instances: slices.Sorted(maps.Keys(b.off.instances)), Missing: b.off.missing,
		}
		if failure, failed := failures[id]; failed {
			entry.Backoff = &failure
		}
		if entry.Seen || entry.Order != nil || entry.Backoff != nil || s.now.Sub(b.asked) < s.o.MaxNodeProvisionTime {
			j.Groups[id] = entry
		}
	}
	return j
}

// restore takes over what another process has written. The answer to an order that was under way
// when that process ended has certainly not arrived.
func (s *State) restore(j journal) {
	for _, b := range s.groups {
		b.seen = false
	}
	for id, entry := range j.Groups {
		b := s.state(id)
		b.seen, b.unshown, b.asked, b.ordered, b.onTrial = entry.Seen, entry.Unshown, entry.Asked, entry.Ordered, entry.OnTrial
		b.off = writtenOff{missing: entry.Missing, instances: map[string]bool{}}
		for _, instance := range entry.Instances {
			b.off.instances[instance] = true
		}
		if entry.Order != nil {
			b.seen, b.asked, b.ordered = false, entry.Order.At, entry.Order.At
		}
		if entry.Backoff != nil {
			s.failures.backoff.Restore(id, *entry.Backoff)
		}
	}
	s.caller.balancing = j.Balances
	s.zones.shifts.Restore(j.Shifted)
	s.plan.current, s.caller.pick, s.caller.stopped, s.caller.unread = j.Plan, nil, j.Stopped && s.caller.loop == 0, j.Unread &&
		s.caller.loop == 0
	if s.caller.loop == 0 {
		s.caller.pick = j.Pick
	}
	if s.plan.current != nil {
		s.plan.current.need, s.plan.current.why = s.plan.current.Left, "as chosen before a restart"
	}
}
