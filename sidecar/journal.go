package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/backoff"
)

// journalVersion is that of the text; one of another version is not used, which costs loops and no nodes.
const journalVersion = 1

// saveTimeout is how long saving may take: it is on Cluster Autoscaler's way.
const saveTimeout = time.Second

// journal is what survives the process.
type journal struct {
	Version   int                     `json:"version"`
	Writer    string                  `json:"writer"`
	Groups    map[string]journalGroup `json:"groups,omitempty"`
	Plan      *journalPlan            `json:"plan,omitempty"`
	Pick      *journalPick            `json:"pick,omitempty"`
	Balancing bool                    `json:"balancing,omitempty"`
}

// journalPlan is the set that is being filled. The pods it was begun for are not kept.
type journalPlan struct {
	Since  time.Time `json:"since"`
	Chosen string    `json:"chosen"`
	Left   int       `json:"left"`
}

// journalGroup is a group of which there is something to keep.
type journalGroup struct {
	Seen    bool      `json:"seen,omitempty"`
	Away    bool      `json:"away,omitempty"`
	Asked   time.Time `json:"asked,omitzero"`
	Order   *order    `json:"order,omitempty"`
	Ordered time.Time `json:"ordered,omitzero"`
	journalFailure
}

// journalPick is the answer of the expander, which the increase that follows belongs to.
type journalPick struct {
	Group string `json:"group"`
	Share int    `json:"share"`
}

// saveJournal writes the books down.
func (s *Sidecar) saveJournal(ctx context.Context) error {
	if s.o.Journal == nil {
		return nil
	}
	s.mu.Lock()
	text, err := json.Marshal(s.journal())
	s.mu.Unlock()
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, saveTimeout)
		defer cancel()
		err = s.o.Journal.Save(ctx, text)
		if err != nil && !errors.Is(err, ErrNotLeader) && s.ownJournal(ctx) {
			err = s.o.Journal.Save(ctx, text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journalErr = err
	if err != nil {
		s.journalOf, s.journalRead = "", false // it may be somebody else's now
		s.o.Metrics.journalFailed()
		s.o.Log.Error(err, "Journal not written, increases are granted in full")
		return fmt.Errorf("the journal can not be written: %w", err)
	}
	return nil
}

// ownJournal loads the journal, without which it cannot be written again, and reports whether it holds nothing of another
// process: somebody has deleted it, or touched it.
func (s *Sidecar) ownJournal(ctx context.Context) bool {
	text, err := s.o.Journal.Load(ctx)
	if err != nil {
		return false
	}
	var j journal
	return len(text) == 0 || json.Unmarshal(text, &j) == nil && j.Writer == s.writer
}

// journal is the text of what must survive.
func (s *Sidecar) journal() journal {
	j := journal{Version: journalVersion, Writer: s.writer, Groups: map[string]journalGroup{}, Balancing: s.balancing}
	if s.plan != nil {
		j.Plan = &journalPlan{s.plan.since, s.plan.chosen, s.plan.left}
	}
	if p := s.pick; p != nil && !p.full {
		j.Pick = &journalPick{p.group, p.share}
	}
	refusals := s.backoff.Failures()
	for id, b := range s.books {
		var refusal *backoff.Failure
		if r, ok := refusals[id]; ok {
			refusal = &r
		}
		entry := journalGroup{Seen: b.seen, Away: b.away, Asked: b.asked, Ordered: b.ordered, Order: b.order, journalFailure: b.journalFailure(refusal)}
		if entry.Seen || entry.Away || entry.Order != nil || entry.Backoff != nil || s.o.Clock.Since(b.asked) < s.o.MaxNodeProvisionTime {
			j.Groups[id] = entry
		}
	}
	return j
}

// loadJournal reads the books at the first call on a connection: another replica may have led meanwhile.
func (s *Sidecar) loadJournal(ctx context.Context) {
	if s.o.Journal == nil {
		return
	}
	connection := s.o.Connection(ctx)
	s.mu.Lock()
	known := s.journalRead && s.journalOf == connection
	s.mu.Unlock()
	if known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	text, err := s.o.Journal.Load(ctx)
	var j journal
	if err == nil && len(text) > 0 {
		if jsonErr := json.Unmarshal(text, &j); jsonErr != nil {
			s.o.Log.Error(jsonErr, "Journal not understood, all nodes on their way count as unknown to Cluster Autoscaler")
			j = journal{}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journalErr = err
	if err != nil {
		s.o.Metrics.journalFailed()
		if !errors.Is(err, ErrNotLeader) {
			s.o.Log.Error(err, "Journal not read, increases are granted in full")
		}
		return
	}
	s.journalRead, s.journalOf = true, connection
	if j.Version == journalVersion && j.Writer != s.writer {
		s.restore(j)
	} else if j.Writer != s.writer {
		for _, b := range s.books {
			b.seen = false
		}
	}
}

// restore takes over what another process has written. Of an order that was under way when it ended the answer was
// certainly not heard.
func (s *Sidecar) restore(j journal) {
	for _, b := range s.books {
		b.seen = false
	}
	for id, entry := range j.Groups {
		b := s.book(id)
		b.seen = entry.Seen && entry.Order == nil
		b.away, b.asked, b.ordered = entry.Away, entry.Asked, entry.Ordered
		b.restoreFailure(entry.journalFailure)
		if entry.Order != nil {
			b.asked = entry.Order.At
		}
		if entry.Backoff != nil {
			s.backoff.Restore(id, *entry.Backoff)
		}
	}
	s.balancing = j.Balancing
	s.plan, s.pick = nil, nil
	if j.Pick != nil && s.loop == 0 {
		s.pick = &pick{group: j.Pick.Group, share: j.Pick.Share}
	}
	if j.Plan != nil {
		s.plan = &plan{since: j.Plan.Since, chosen: j.Plan.Chosen, left: j.Plan.Left, need: j.Plan.Left, why: "as chosen before a restart"}
	}
}
