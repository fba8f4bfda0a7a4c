package expander

// Strategy filters options. Help texts, validation and documentation are all made from the strategies.
type Strategy struct {
	Name            string // as in --expander
	Help            string // one line, without a full stop
	Doc             string // what it does to the last case, in markdown
	Single          bool   // always leaves one option, so nothing may stand behind it
	NeedsPriorities bool
	// Filter returns one Result for each option, in the order of the options. Of one or more options
	// it keeps at least one. The order of the options does not matter to it.
	Filter func(config Config, options []Option) []Result
}

// Result is what a strategy found about one option.
type Result struct {
	Kept   bool   `json:"kept"`
	Figure string `json:"figure,omitempty"` // what was measured, with its unit
}

// keepBest measures every option and keeps those that no other one precedes.
// Compare is negative where the first of two measures is the better one.
func keepBest[M any](options []Option, measure func(Option) M, compare func(a, b M) int, figure func(M) string) []Result {
	measures := make([]M, len(options))
	best := 0
	for i, o := range options {
		measures[i] = measure(o)
		if compare(measures[i], measures[best]) < 0 {
			best = i
		}
	}
	results := make([]Result, len(options))
	for i, m := range measures {
		results[i] = Result{Kept: compare(m, measures[best]) == 0, Figure: figure(m)}
	}
	return results
}
