package expander

import (
	"cmp"
	"strconv"
)

var priorityDefinition = Definition{
	Name: "priority",
	Help: "the highest user-given priority, from regular expressions over group names",
	Doc: "Keeps the options of the highest priority in Cluster Autoscaler's ConfigMap `cluster-autoscaler-priority-expander` " +
		"(key `priorities`: a map from number to a list of regular expressions over group names; the highest number wins). " +
		"An option has the highest priority of any group in its set, for the set is what gets the nodes. " +
		"Groups that match nothing lose; where none matches, all are kept.",
	New: func(c Config) (Strategy, error) {
		if c.Priorities.Empty() {
			return nil, ErrNoPriorities
		}
		return priority{c.Priorities}, nil
	},
}

type priority struct{ priorities Priorities }

func (priority) Name() string { return priorityDefinition.Name }

func (p priority) Filter(options []Option) []Result {
	return keepBest(options, p.measure, rank.compare, rank.String)
}

// rank is an option's priority and what gave it.
type rank struct {
	Match
	group string
	found bool
}

func (p priority) measure(o Option) rank {
	best := rank{}
	try := func(group string) {
		if m, ok := p.priorities.Match(group); ok {
			if r := (rank{Match: m, group: group, found: true}); r.compare(best) < 0 {
				best = r
			}
		}
	}
	try(o.Group)
	for _, member := range o.Members {
		try(member)
	}
	return best
}

func (r rank) compare(other rank) int {
	if r.found != other.found {
		if r.found {
			return -1
		}
		return 1
	}
	return cmp.Compare(other.Priority, r.Priority)
}

func (r rank) String() string {
	if !r.found {
		return "no priority matches"
	}
	return "priority " + strconv.FormatInt(r.Priority, 10) + " (" + r.group + " matches " + strconv.Quote(r.Rule) + ")"
}
