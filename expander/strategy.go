package expander

// Strategy filters options. A strategy is a pure function of the options it is
// given, and their order does not matter to it.
type Strategy interface {
	// Name is the name the registry knows the strategy by.
	Name() string

	// Filter returns one Result for each option, in the order of the options.
	// Of one or more options it keeps at least one.
	Filter(options []Option) []Result
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
