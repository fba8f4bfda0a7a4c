package scaleup

import (
	"slices"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// shareDomains has the policy of a declared set say which groups of each domain the new nodes are of:
// the spread says how many a domain gets, and no more than that. Where the policy has no group for a
// node, the plan stays as it is: it keeps all limits.
func (l *placer) shareDomains(r *topologyspread.SplitRequest, plan *topologyspread.SplitResult) {
	if len(plan.Groups) == 0 || l.ledger.terms[r.Groups[0].Name].Level() {
		return
	}
	books := l.ledger.fork()
	r.Share(plan, func(groups []string) int {
		result, err := books.fork().split(1, l.decision.Chosen, groups)
		i := slices.IndexFunc(result.Groups, func(g nodegroupset.GroupSplit) bool { return g.NewSize > g.Size })
		if err != nil || i < 0 {
			return -1
		}
		books.give(groups[i], 1)
		return i
	})
}
