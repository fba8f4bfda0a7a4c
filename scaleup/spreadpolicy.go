package scaleup

import (
	"slices"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// shareDomains has the policy of a declared set say which groups of each domain the new nodes are of:
// the spread says how many a domain gets, and no more than that. The domains take turns.
func (l *placer) shareDomains(r *topologyspread.SplitRequest, plan *topologyspread.SplitResult) {
	if len(plan.Groups) == 0 || l.ledger.terms[r.Groups[0].Name].Level() {
		return
	}
	left, at := map[string]int64{}, map[string]int{}
	groups := map[string][]string{}
	var domains []string
	for i, g := range plan.Groups {
		domain := r.Groups[i].Domain
		if groups[domain] == nil {
			domains = append(domains, domain)
		}
		at[g.Name], groups[domain] = i, append(groups[domain], g.Name)
		left[domain] += g.NewSize - g.Size
	}
	slices.Sort(domains)
	shared, books := slices.Clone(plan.Groups), l.ledger.fork()
	for i := range shared {
		shared[i].NewSize = shared[i].Size
	}
	for more := true; more; {
		more = false
		for _, domain := range domains {
			if left[domain] == 0 {
				continue
			}
			result, err := books.fork().split(1, l.decision.Chosen, groups[domain])
			k := slices.IndexFunc(result.Groups, func(g nodegroupset.GroupSplit) bool { return g.NewSize > g.Size })
			if err != nil || k < 0 {
				return // the plan as it is keeps all limits
			}
			name := result.Groups[k].Name
			books.give(name, 1)
			shared[at[name]].NewSize++
			left[domain]--
			more = true
		}
	}
	plan.Groups = shared
}
