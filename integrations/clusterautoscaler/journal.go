package clusterautoscaler

import (
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset"

	"k8s.io/utils/clock"
	stateutils "sigs.k8s.io/cluster-autoscaler/pkg/clusterstate/utils"
)

// remembered is how many splits, and how many rounds of scale-down, a journal keeps.
const remembered = 50

// Reasons of a nodeDecision.
const (
	reasonLevel   = "level"   // waiting: a larger group of the set shrinks first
	reasonLimit   = "limit"   // waiting: as many nodes go now as may go at once
	reasonOverdue = "overdue" // removed: it has waited as long as a node may wait for balance
)

// splitDecision is a scale-up that was shared among the groups of a set.
type splitDecision struct {
	Chosen   string                    // the group the expander chose
	Need     int                       // nodes the pods need, whatever limits there are
	Asked    int                       // nodes the autoscaler asked to share
	Unplaced int                       // of those, the nodes no group had room for
	Groups   []nodegroupset.GroupSplit // the sizes before and after
	Failed   map[string]string         // group to error: left out of the split
	Quotas   []string                  // the quotas that bound it
}

// shrinkDecision is what a round of scale-down did with the nodes that may go.
type shrinkDecision struct {
	Removed []nodeDecision
	Waiting []nodeDecision
}

// nodeDecision is a node that may go, and whether it does.
type nodeDecision struct {
	Node, Group, Set string
	Reason           string    // one of the reasons above; empty for a node that goes because it is its group's turn
	Behind           string    // the larger group that shrinks first, for reasonLevel
	Since            time.Time // when it was first deferred; zero for a node that never was
}

// comparison is a change of the index: which groups are similar now.
type comparison struct {
	Groups  int               // groups that were compared
	Changed int               // of those, the groups whose template was new or had changed
	Took    time.Duration     // how long the comparison took
	Sets    [][]string        // every group in one set, as nodegroupset.Index.Sets
	Failed  map[string]string // group to error: without a template that can be compared
	// Explain explains the sets. It is expensive, is asked only for the page, at any time and from any goroutine.
	Explain func() (nodegroupset.Report, error)
}

// journal remembers what was decided, for metrics, events and the page. It is safe for concurrent use.
type journal struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	recorder *stateutils.LogEventRecorder
}

func newJournal(clock clock.PassiveClock) *journal {
	return &journal{clock: clock}
}

// tell makes the journal tell further decisions as events of the recorder, which is the one of the autoscaling context. It may be nil.
func (j *journal) tell(recorder *stateutils.LogEventRecorder) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.recorder = recorder
}

// split records a scale-up that was shared.
func (j *journal) split(splitDecision) {}

// shrunk records a round of scale-down.
func (j *journal) shrunk(shrinkDecision) {}

// compared records a change of the index.
func (j *journal) compared(comparison) {}
