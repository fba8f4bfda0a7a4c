package nodegroupset

import (
	"fmt"
	"strings"
)

// whatIf answers which sets a fleet would form under another rule. What was asked
// before is not worked out again.
type whatIf struct {
	index   *Index
	answers map[string]whatIfAnswer
}

type whatIfAnswer struct {
	index *Index
	sets  [][]string
}

func newWhatIf(x *Index) *whatIf { return &whatIf{index: x, answers: map[string]whatIfAnswer{}} }

// under compares the fleet again. Rules of one type are distinguished by their flags.
func (w *whatIf) under(r rule, flags []string) (*Index, [][]string) {
	question := fmt.Sprintf("%T %s", r, strings.Join(flags, " "))
	answer, ok := w.answers[question]
	if !ok {
		x := newIndex(r)
		x.options.Policies = w.index.options.Policies
		_, stock := r.(*stockRule)
		for _, name := range w.index.Names() {
			e := w.index.groups[name]
			if stock { // an autoscaler without evenkeel knows of no policy
				x.set(name, e.facts, 0)
			} else {
				x.set(name, e.facts, e.set)
			}
		}
		answer = whatIfAnswer{x, x.Sets()}
		w.answers[question] = answer
	}
	return answer.index, answer.sets
}

// outcome completes a remedy by comparing the fleet again under its flags.
func (w *whatIf) outcome(remedy *Remedy, r rule, before [][]string) {
	_, sets := w.under(r, remedy.Flags)
	remedy.Sets, remedy.Joined = len(sets), newSets(before, sets)
}

// newSets returns the sets that are not among those before.
func newSets(before, after [][]string) [][]string {
	known := map[string]bool{}
	for _, set := range before {
		known[setKey(set)] = true
	}
	var out [][]string
	for _, set := range after {
		if !known[setKey(set)] {
			out = append(out, set)
		}
	}
	return out
}

func setKey(set []string) string { return strings.Join(set, "\x00") }
