package expander

import (
	"cmp"
	"slices"
	"strconv"
)

var priority = Strategy{
	Name: "priority",
	Help: "the highest user-given priority, from regular expressions over group names",
	Doc: "Keeps the options of the highest priority in Cluster Autoscaler's ConfigMap `cluster-autoscaler-priority-expander` " +
		"(key `priorities`: a map from number to a list of regular expressions over group names; the highest number wins). " +
		"An option has the highest priority of any group in its set, for the set is what gets the nodes. " +
		"Groups that match nothing lose; where none matches, all are kept.",
	NeedsPriorities: true,
	Filter: func(c Config, options []Option) []Result {
		return keepBest(options, c.Priorities.rank, rank.compare, rank.String)
	},
}

// rank is an option's priority and what gave it.
type rank struct {
	Match
	group string
	found bool
}

// rank is the best of the priorities that the groups of an option have.
func (p Priorities) rank(o Option) rank {
	best := rank{}
	for _, group := range slices.Concat([]string{o.Group}, o.members) {
		if m, found := p.Match(group); found {
			if r := (rank{m, group, true}); r.compare(best) < 0 {
				best = r
			}
		}
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
