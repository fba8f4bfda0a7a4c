package expander

import (
	"cmp"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// Names of the steps of a Trail that are no strategy.
const (
	SetStep   = "set"           // of every set one option goes on
	NodesStep = "nodes-per-pod" // of equal options those that need the fewest nodes for a pod, and then help the most pods
	NameStep  = "name"          // the last tie-break
)

// Trail is how a choice came about, one Step per filter that was needed.
type Trail []Step

// Step is what one filter made of the options the one before it left.
type Step struct {
	Strategy string         `json:"strategy"` // the strategy's name, SetStep, NodesStep or NameStep
	Options  []OptionResult `json:"options"`  // those kept first, then by name
}

// OptionResult is the result for the option of one group.
type OptionResult struct {
	Group string `json:"group"`
	Result
}

func newStep(strategy string, options []Option, results []Result) Step {
	s := Step{Strategy: strategy, Options: make([]OptionResult, len(options))}
	for i, o := range options {
		s.Options[i] = OptionResult{Group: o.Group, Result: results[i]}
	}
	s.sort()
	return s
}

// TieBreak reports whether the step is about options that all strategies find equal.
func (s *Step) TieBreak() bool { return s.Strategy == NodesStep || s.Strategy == NameStep }

// fewestNodes keeps those of equal options that need the fewest nodes per pod, and of these the ones that help the most pods.
func fewestNodes(options []Option) []Result {
	byNodes := func(a, b Option) int {
		return cmp.Or(cmp.Compare(a.NodeCount*b.Pods, b.NodeCount*a.Pods), cmp.Compare(b.Pods, a.Pods))
	}
	best := slices.MinFunc(options, byNodes)
	results := make([]Result, len(options))
	for i, o := range options {
		results[i] = Result{Kept: byNodes(o, best) == 0, Figure: spelling.Count(o.Pods, "pod") + " on " +
			spelling.Count(o.NodeCount, "node")}
	}
	return results
}

// nameStep settles between options that are sorted by name.
func nameStep(options []Option) Step {
	results := make([]Result, len(options))
	results[0] = Result{Kept: true, Figure: "first by name"}
	return newStep(NameStep, options, results)
}

func (s Step) sort() {
	slices.SortFunc(s.Options, func(a, b OptionResult) int {
		if a.Kept != b.Kept {
			if a.Kept {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Group, b.Group)
	})
}

// Kept lists the groups whose options went on.
func (s Step) Kept() []string {
	var names []string
	for _, o := range s.Options {
		if o.Kept {
			names = append(names, o.Group)
		}
	}
	return names
}

// shown bounds how many options of one side a line names.
const shown = 3

// String is one line: what was kept, what was dropped and the figures, the
// first few of each.
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(s.Strategy + ": keeps ")
	split := slices.IndexFunc(s.Options, func(o OptionResult) bool { return !o.Kept })
	if split < 0 {
		split = len(s.Options)
	}
	writeJudged(&b, s.Options[:split])
	if split < len(s.Options) {
		b.WriteString("; drops ")
		writeJudged(&b, s.Options[split:])
	}
	return b.String()
}

func writeJudged(b *strings.Builder, options []OptionResult) {
	for i, o := range options {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == shown && len(options) > shown+1 {
			b.WriteString("and " + spelling.Count(len(options)-shown, "other"))
			return
		}
		b.WriteString(o.Group)
		if o.Figure != "" {
			b.WriteString(" (" + o.Figure + ")")
		}
	}
}

// String is one line per step.
func (t Trail) String() string {
	var b strings.Builder
	for _, s := range t {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}
