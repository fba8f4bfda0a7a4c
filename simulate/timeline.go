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

// Words for what happened, the WHAT column of the timeline.
const (
	rowPods      = "pods"
	rowBound     = "bound"
	rowUp        = "nodes"
	rowDown      = "nodes-lost"
	rowScaleUp   = "scale-up"
	rowScaleDown = "scale-down"
	rowWaiting   = "waiting"
	rowRefused   = "refused"
	rowRepair    = "repair"
	rowUnhelped  = "unhelped"
	rowWarning   = "warning"
	rowError     = "error"
)

// timeline collects what happened, in order.
type timeline struct {
	rows   []v1alpha1.TimelineRow
	said   map[string]bool // rows that are told once
	failed map[string]*failure
}

// failure is an error that made whole rounds fail.
type failure struct{ row, rounds int }

func (t *timeline) add(at time.Duration, what, format string, args ...any) {
	t.rows = append(t.rows, v1alpha1.TimelineRow{
		At: metav1.Duration{Duration: at}, What: what, Text: fmt.Sprintf(format, args...),
	})
}

// once adds a row unless the same has been said before.
func (t *timeline) once(at time.Duration, what, text string) {
	if t.said == nil {
		t.said = map[string]bool{}
	}
	if key := what + "\x00" + text; !t.said[key] {
		t.said[key] = true
		t.add(at, what, "%s", text)
	}
}

// roundFailed tells an error once, and in that row how many rounds it stopped.
func (t *timeline) roundFailed(at time.Duration, err error) {
	text := fmt.Sprintf("the round failed: %v", err)
	f := t.failed[text]
	if f == nil {
		if t.failed == nil {
			t.failed = map[string]*failure{}
		}
		f = &failure{row: len(t.rows)}
		t.failed[text] = f
		t.add(at, rowError, "%s", text)
	}
	if f.rounds++; f.rounds > 1 {
		t.rows[f.row].Text = fmt.Sprintf("%s (in %s)", text, count(f.rounds, "round"))
	}
}

// nodes adds a row about nodes, if there are any.
func (t *timeline) nodes(at time.Duration, what string, nodes tally, verb, more string) {
	if nodes.total() > 0 {
		t.add(at, what, "%s %s (%s)%s", count(nodes.total(), "node"), verb, nodes, more)
	}
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

func (t tally) String() string {
	var parts []string
	for _, group := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%s %d", group, t[group]))
	}
	return few(parts)
}

// shown is how many groups a line names before it only counts them.
const shown = 8

func few(parts []string) string {
	if len(parts) <= shown+1 {
		return strings.Join(parts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(parts[:shown], ", "), len(parts)-shown)
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
