package expander

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Chain chooses between options by one strategy after the other. The zero value
// has no strategy and chooses by name. A Chain never changes; it may be used
// from several goroutines.
type Chain struct {
	strategies []Strategy
	config     Config
}

// ParseNames splits the value of an --expander flag, as in
// "priority,least-waste", and checks it as New does.
func ParseNames(list string) ([]string, error) {
	names := strings.Split(list, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	if _, err := strategiesOf(names); err != nil {
		return nil, err
	}
	return names, nil
}

// New makes a chain of the named strategies; without a name, of the Default.
// It refuses unknown names, a name given twice, whatever stands behind a
// strategy that always leaves one option, and the strategy priority without
// Priorities.
func New(names []string, config Config) (Chain, error) {
	if len(names) == 0 {
		names = []string{Default}
	}
	strategies, err := strategiesOf(names)
	if err != nil {
		return Chain{}, err
	}
	if config.Priorities.Empty() && slices.ContainsFunc(strategies, func(s Strategy) bool { return s.NeedsPriorities }) {
		return Chain{}, ErrNoPriorities
	}
	return Chain{strategies, config}, nil
}

func strategiesOf(names []string) ([]Strategy, error) {
	var strategies []Strategy
	for i, name := range names {
		s, err := find(name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%w: %s", ErrDuplicateStrategy, name)
		}
		if i > 0 && strategies[i-1].Single {
			return nil, fmt.Errorf("%w: %s stands behind %s, which always leaves one option", ErrUnreachableStrategy, name, names[i-1])
		}
		strategies = append(strategies, s)
	}
	return strategies, nil
}

// Names lists the strategies in their order.
func (c Chain) Names() []string {
	var names []string
	for _, s := range c.strategies {
		names = append(names, s.Name)
	}
	return names
}

// ForRound is the same chain for the n-th choice of a run. Only the strategy
// random draws anew in each round: without it a choice that comes up again would
// end the same way every time.
func (c Chain) ForRound(n uint64) Chain {
	c.config.Round = n
	return c
}

// Choose picks one option and says why. Of every set only the representative
// takes part. Each strategy filters what the one before left, until one option
// is left. If the strategies find several options equal, the one that needs the
// fewest nodes per pod is chosen, then the one that helps the most pods, then the
// first by name.
// The order of the options does not matter, and they are not changed.
func (c Chain) Choose(options []Option) (Option, Trail, error) {
	if len(options) == 0 {
		return Option{}, nil, ErrNoOptions
	}
	if name, ok := duplicate(options); ok {
		return Option{}, nil, fmt.Errorf("%w: %s", ErrDuplicateOption, name)
	}
	left, merged := represent(options)
	var trail Trail
	if len(left) < len(options) {
		trail = append(trail, merged)
	}
	for _, strategy := range c.strategies {
		if len(left) == 1 {
			break
		}
		results := strategy.Filter(c.config, left)
		trail = append(trail, newStep(strategy.Name, left, results))
		left = remaining(left, results)
	}
	if len(left) > 1 {
		results := fewestNodes(left)
		if fewer := remaining(left, results); len(fewer) < len(left) {
			trail, left = append(trail, newStep(NodesStep, left, results)), fewer
		}
	}
	if len(left) > 1 {
		trail = append(trail, nameStep(left))
	}
	return left[0], trail, nil
}

// remaining returns a new slice, for the caller's options are not ours to reorder.
func remaining(options []Option, results []Result) []Option {
	var left []Option
	for i, v := range results {
		if v.Kept {
			left = append(left, options[i])
		}
	}
	return left
}

func byName(a, b Option) int { return cmp.Compare(a.Group, b.Group) }

func duplicate(options []Option) (name string, found bool) {
	seen := make(map[string]bool, len(options))
	for _, o := range options {
		if seen[o.Group] {
			return o.Group, true
		}
		seen[o.Group] = true
	}
	return "", false
}
