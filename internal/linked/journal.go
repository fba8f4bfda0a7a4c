package linked

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// remembered is how many splits, and how many rounds of scale-down, a journal keeps.
const remembered = page.MaxDecisions

// Reasons of a nodeDecision.
const (
	reasonLevel   = "level"   // waiting: a larger group of the set shrinks first
	reasonLimit   = "limit"   // waiting: as many nodes go now as may go at once
	reasonOverdue = "overdue" // removed: it has waited as long as a node may wait for balance
)

// splitDecision is a scale-up that was shared among the groups of a set. As JSON it is what the page shows.
type splitDecision struct {
	Time     time.Time     `json:"time"`
	Chosen   string        `json:"chosen"`             // the group the expander chose
	Policy   string        `json:"-"`                  // of a declared set
	Need     int           `json:"need"`               // nodes the pods need, whatever limits there are
	Asked    int           `json:"asked"`              // nodes the autoscaler asked to share
	Given    int64         `json:"given"`              // nodes the groups got
	Unplaced int           `json:"unplaced"`           // nodes that were to be shared and no group had room for
	Pods     int           `json:"pods,omitempty"`     // with a plan for all pods at once: those that have room then
	PodsLeft int           `json:"podsLeft,omitempty"` // with such a plan: those that do not
	Groups   []splitMember `json:"groups"`
	LeftOut  []problem     `json:"leftOut"` // groups whose size is not known
	Quotas   []string      `json:"quotas"`  // that bound it
}

// splitMember is the part of one group in a split.
type splitMember struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	NewSize int64  `json:"newSize"`
	Why     string `json:"why,omitempty"` // what held it where it is
}

func membersOf(result []nodegroupset.GroupSplit) []splitMember {
	var out []splitMember
	for _, g := range result {
		out = append(out, splitMember{g.Name, g.Size, g.NewSize, held(g)})
	}
	return out
}

// problem is an error of a group.
type problem struct {
	Group string `json:"group"`
	Error string `json:"error"`
}

// problems are errors by group, in name order.
func problems(failed map[string]string) []problem {
	out := []problem{}
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		out = append(out, problem{id, failed[id]})
	}
	return out
}

// shrinkDecision is what a round of scale-down did with the nodes that may go.
type shrinkDecision struct {
	Time    time.Time      `json:"time"`
	Removed []nodeDecision `json:"removed"`
	Waiting []nodeDecision `json:"waiting"`
}

// nodeDecision is a node that may go, and whether it does.
type nodeDecision struct {
	Node   string    `json:"node"`
	Group  string    `json:"group"`
	Set    string    `json:"set,omitempty"`
	Reason string    `json:"reason,omitempty"` // one of the reasons above; empty for a node that goes because it is its group's turn
	Behind string    `json:"behind,omitempty"` // the larger group that shrinks first, for reasonLevel
	Since  time.Time `json:"since,omitzero"`   // when it was first deferred; zero for a node that never was
	Began  bool      `json:"-"`                // it is deferred for the first time
}

// forBalance are the nodes of decisions that wait because they would make their set uneven.
func forBalance(all []nodeDecision) []nodeDecision {
	return slices.DeleteFunc(slices.Clone(all), func(d nodeDecision) bool { return d.Reason != reasonLevel })
}

// comparison is a change of the index: which groups are similar now.
type comparison struct {
	Time    time.Time
	Groups  int               // groups that were compared
	Changed int               // of those, the groups whose template was new or had changed
	Took    time.Duration     // how long the comparison took
	Sets    [][]string        // every group in one set, as nodegroupset.Index.Sets
	Failed  map[string]string // group to error: without a template that can be compared
	// Explain explains the sets. It is expensive, is asked only for the page, at any time and from
	// any goroutine.
	Explain func() (nodegroupset.Report, error)
}

// sizeReading is what the cloud says about the groups that have similar ones, at the end of a loop.
type sizeReading struct {
	Sizes  map[string]int    // group to target size
	Failed map[string]string // group to error
}

// history is what a journal remembers. A copy of it may be read without the journal's lock: what it
// points to does not change.
type history struct {
	splits   []splitDecision  // newest last
	rounds   []shrinkDecision // those that removed a node, or in which other nodes waited than in the one before; newest last
	last     shrinkDecision   // the last round, whatever it did
	compared comparison
	sizes    sizeReading
	shift    zonalshift.Decision // zones that are shifted away
}

// Recorder writes events where the autoscaler's own are.
type Recorder interface {
	Eventf(kind, reason, format string, args ...any)
}

// Journal remembers what was decided, for metrics, events and the page. It is safe for concurrent
// use.
type Journal struct {
	clock clock.PassiveClock
	page  *page.Page

	mu       sync.Mutex
	recorder Recorder // nil: events are not written
	metrics  *Metrics
	history  history
}

// NewJournal returns an empty journal, which counts where nobody looks and writes no events until
// WriteEvents is called.
func NewJournal(clock clock.PassiveClock) *Journal {
	j := &Journal{clock: clock, metrics: NewMetrics(nil)}
	j.page = page.New(func() any { return j.remembers().status(j.clock.Now().UTC()) })
	return j
}

// WriteEvents makes the journal write further decisions as events.
func (j *Journal) WriteEvents(recorder Recorder) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.recorder = recorder
}

// CountIn makes the journal count further decisions in these metrics.
func (j *Journal) CountIn(m *Metrics) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.metrics = m
}

// split records a scale-up that was shared.
func (j *Journal) split(d splitDecision) {
	d.Groups, d.LeftOut, d.Quotas = append([]splitMember{}, d.Groups...), append([]problem{}, d.LeftOut...), append([]string{}, d.Quotas...)
	for _, g := range d.Groups {
		d.Given += g.NewSize - g.Size
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	d.Time = j.clock.Now()
	j.history.splits = appended(j.history.splits, d)
	j.metrics.split(d)
	j.announce(splitEvent(d))
}

// shrunk records a round of scale-down.
func (j *Journal) shrunk(d shrinkDecision) {
	d.Removed, d.Waiting = slices.Clone(d.Removed), slices.Clone(d.Waiting)
	j.mu.Lock()
	defer j.mu.Unlock()
	before := j.history.last
	d.Time = j.clock.Now()
	j.history.last = d
	if len(d.Removed) > 0 || !slices.EqualFunc(before.Waiting, d.Waiting, sameWait) {
		j.history.rounds = appended(j.history.rounds, d)
	}
	j.metrics.shrunk(d)
	j.announce(shrinkEvent(d))
}

// sameWait is whether a node waits as it did before; behind whom may change with every node that
// goes.
func sameWait(a, b nodeDecision) bool { return a.Node == b.Node && a.Reason == b.Reason }

// compared records a change of the index.
func (j *Journal) compared(c comparison) {
	if c.Explain != nil {
		c.Explain = sync.OnceValues(c.Explain) // however often the page is asked
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	c.Time = j.clock.Now()
	j.history.compared = c
	j.metrics.compared(c)
}

// policies records that declared sets are used, or why newer ones are not.
func (j *Journal) policies(refused string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.metrics.policies(refused != "")
	if refused != "" {
		j.announce(event{v1.EventTypeWarning, eventPoliciesRefused,
			fmt.Sprintf("New policies of sets are not used, those before stay: %.800s", refused)})
	}
}

// sized records the sizes at the end of a loop.
func (j *Journal) sized(s sizeReading) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history.sizes = s
	j.metrics.sized(j.history.compared.Sets, s.Sizes)
}

// remembers returns what the journal remembers now.
func (j *Journal) remembers() history {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.history
	h.splits, h.rounds = slices.Clone(h.splits), slices.Clone(h.rounds)
	return h
}

// appended adds one to the newest that are kept.
func appended[T any](all []T, one T) []T {
	if len(all) == remembered {
		all = slices.Delete(all, 0, 1)
	}
	return append(all, one)
}
