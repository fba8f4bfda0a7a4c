package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// timeline collects what happened, in order.
type timeline struct {
	rows   []v1alpha1.TimelineRow
	said   map[string]bool // rows that are added once
	failed map[string]*failure
}

// failure is an error that made whole rounds fail.
type failure struct{ row, rounds int }

// add adds a row with a text. The caller must set the other fields of the returned row before the
// next one is added.
func (t *timeline) add(at time.Duration, what, format string, args ...any) *v1alpha1.TimelineRow {
	t.rows = append(t.rows, v1alpha1.TimelineRow{
		At: metav1.Duration{Duration: at}, What: what, Text: fmt.Sprintf(format, args...),
	})
	return &t.rows[len(t.rows)-1]
}

// once adds a row unless the same has been added before: then it returns one that is discarded.
func (t *timeline) once(at time.Duration, what, text string) *v1alpha1.TimelineRow {
	return t.onceOf(at, what, text, text)
}

// onceOf is once, where the key says what is the same.
func (t *timeline) onceOf(at time.Duration, what, key, text string) *v1alpha1.TimelineRow {
	if t.said == nil {
		t.said = map[string]bool{}
	}
	key = what + "\x00" + key
	if t.said[key] {
		return &v1alpha1.TimelineRow{}
	}
	t.said[key] = true
	return t.add(at, what, "%s", text)
}

// roundFailed reports an error once, with the number of rounds that it stopped.
func (t *timeline) roundFailed(at time.Duration, err error, faults []int) {
	text := fmt.Sprintf("the round failed: %v", err)
	f := t.failed[text]
	if f == nil {
		if t.failed == nil {
			t.failed = map[string]*failure{}
		}
		f = &failure{row: len(t.rows)}
		t.failed[text] = f
		row := t.add(at, v1alpha1.RowError, "%s", text)
		row.Error, row.Faults = err.Error(), faults
	}
	f.rounds++
	t.rows[f.row].Rounds = f.rounds
	if f.rounds > 1 {
		t.rows[f.row].Text = fmt.Sprintf("%s (in %s)", text, count(f.rounds, "round"))
	}
}

// nodes adds a row about nodes, if there are any; otherwise it returns one that is discarded.
func (t *timeline) nodes(at time.Duration, what string, nodes tally, verb, more string) *v1alpha1.TimelineRow {
	if nodes.total() == 0 {
		return &v1alpha1.TimelineRow{}
	}
	row := t.add(at, what, "%s %s (%s)%s", count(nodes.total(), "node"), verb, nodes, more)
	row.Nodes, row.Groups = nodes.total(), nodes.changes()
	return row
}

// tally counts nodes by group.
type tally map[string]int

func (t tally) add(group string) { t[group]++ }

func (t tally) total() int {
	n := 0
	for _, nodes := range t {
		n += nodes
	}
	return n
}

func (t tally) changes() []v1alpha1.GroupChange {
	var all []v1alpha1.GroupChange
	for _, group := range slices.Sorted(maps.Keys(t)) {
		all = append(all, v1alpha1.GroupChange{Name: group, Nodes: t[group]})
	}
	return all
}

func (t tally) String() string {
	var parts []string
	for _, group := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%s %d", group, t[group]))
	}
	return few(parts)
}

// shown is the number of groups that a line names before it only counts them.
const shown = 8

func few(parts []string) string {
	if len(parts) <= shown+1 {
		return strings.Join(parts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(parts[:shown], ", "), len(parts)-shown)
}

// count formats a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
