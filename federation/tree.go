package federation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
)

// A node of the tree by which replicas are shared: the root shares among tiers, a tier among
// clusters and groups, a group among its clusters. Without tiers, the root is the only tier.
type node struct {
	target apportion.Target // the node in the request of its parent
	// words name the node in explanations; empty for the root.
	words    string
	policy   apportion.Policy
	children []*node
	member   *member // the cluster of a leaf
}

// share is what a leaf gets.
type share struct {
	target apportion.Target
	result apportion.TargetResult
	// path explains how the parents of the leaf got theirs.
	path    string
	weights int64 // the sum of the weights of the leaf and its siblings
}

// tree builds the tree of the clusters that take part. The targets of the leaves are by the name of
// the cluster.
func (p *pass) tree(targets map[string]apportion.Target) *node {
	tiers := map[int32]*node{}
	groups := map[string]*node{}
	for i := range p.members {
		m := &p.members[i]
		target, ok := targets[m.Name]
		if !ok {
			continue
		}
		entry := p.preferences.Clusters[m.entry]
		tier := tiers[entry.Tier]
		if tier == nil {
			tier = &node{policy: apportion.Proportional, words: fmt.Sprintf("tier %d", entry.Tier),
				target: apportion.Target{Name: fmt.Sprint(entry.Tier)}}
			tiers[entry.Tier] = tier
		}
		parent := tier
		if entry.Selector != nil {
			if parent = groups[m.entry]; parent == nil {
				parent = &node{policy: apportion.Proportional, words: "group " + m.entry}
				parent.target = targetOf("/"+m.entry, entry.ClusterPreference) // no cluster has such a name
				groups[m.entry] = parent
				tier.children = append(tier.children, parent)
			}
		}
		parent.children = append(parent.children, &node{target: target, member: m})
	}
	root := &node{policy: apportion.Priority}
	for _, number := range slices.Sorted(maps.Keys(tiers)) {
		root.children = append(root.children, tiers[number])
	}
	if len(root.children) == 1 {
		root = root.children[0]
		root.words = ""
	}
	root.sum(!p.preferences.Rebalance)
	return root
}

// targetOf is what a preference says, as a target.
func targetOf(name string, p v1alpha1.ClusterPreference) apportion.Target {
	t := apportion.Target{Name: name, Weight: new(int64(ptr.Deref(p.Weight, 0))), Min: int64(ptr.Deref(p.MinReplicas, 0)),
		Max: new(apportion.MaxReplicas)}
	if p.MaxReplicas != nil {
		*t.Max = int64(*p.MaxReplicas)
	}
	return t
}

// sum makes the target of a node the sum of those of its children, within the bounds of its own.
func (n *node) sum(sticky bool) {
	if n.member != nil {
		return
	}
	var low, high, able, current int64
	known := false
	for _, c := range n.children {
		c.sum(sticky)
		most := c.most(sticky)
		low, high = low+c.target.Min, high+most
		able += min(most, ptr.Deref(c.target.Capacity, most))
		known = known || c.target.Capacity != nil
		current += min(c.target.Current, ptr.Deref(c.target.Max, apportion.MaxReplicas))
	}
	t := &n.target
	high = min(high, ptr.Deref(t.Max, apportion.MaxReplicas))
	t.Max, t.Min, t.Current = new(high), min(max(low, t.Min), high), min(current, high)
	if known && able < high {
		t.Capacity = new(able)
	}
}

// most is how many replicas a node may have: one without weight has no more than its minimum, or
// than what stays there.
func (n *node) most(sticky bool) int64 {
	high := ptr.Deref(n.target.Max, apportion.MaxReplicas)
	if ptr.Deref(n.target.Weight, 1) > 0 {
		return high
	}
	if sticky {
		return min(high, max(n.target.Min, n.target.Current))
	}
	return min(high, n.target.Min)
}

// distribute shares a total among the leaves below a node.
func (p *pass) distribute(n *node, total int64, path string, into map[string]share) error {
	request := apportion.Request{
		Replicas: min(total, apportion.MaxReplicas), Policy: n.policy, Rounding: apportion.Rounding(p.in.Spec.Rounding),
		Shortage: apportion.TotalWins, Rebalance: &p.preferences.Rebalance,
		Key: p.in.Key, TieBreak: apportion.Hash,
	}
	var weights int64
	for _, c := range n.children {
		request.Targets = append(request.Targets, c.target)
		if weight := ptr.Deref(c.target.Weight, 1); weight < pinnedWeight {
			weights += weight
		}
	}
	result, err := apportion.Distribute(request)
	if err != nil {
		return err
	}
	if p.trace != nil {
		if err := p.trace(n, request, result); err != nil {
			return err
		}
	}
	for i, r := range result.Targets {
		c := n.children[i]
		if c.member != nil {
			into[c.member.Name] = share{target: c.target, result: r, path: path, weights: weights}
			continue
		}
		below := r.Replicas
		if r.Reason == apportion.ReasonCapacity && r.Pending == 0 && below < *c.target.Max {
			below++ // so that a cluster below counts as held by its capacity, too
		}
		if err := p.distribute(c, below, path+c.explain(r, n.policy), into); err != nil {
			return err
		}
	}
	return nil
}

// explain says what a tier or a group gets, and why.
func (n *node) explain(r apportion.TargetResult, policy apportion.Policy) string {
	why, ok := map[apportion.Reason]string{
		apportion.ReasonCapacity: "all that it is able to run", apportion.ReasonMax: "its maximum", apportion.ReasonMin: "its minimum",
		apportion.ReasonSticky: "replicas stay where they are",
	}[r.Reason]
	if !ok {
		why = "its share by weight"
		if policy == apportion.Priority {
			why = "tiers are filled in order"
		}
	}
	return fmt.Sprintf("; %s runs %s: %s", n.words, inWords(r.Replicas-r.Pending), why)
}

// deep reports whether the tree has more than one level.
func (n *node) deep() bool {
	return slices.ContainsFunc(n.children, func(c *node) bool { return c.member == nil })
}

// grant lowers minimums that sum to more than the total, so that those of clusters that are not
// written, whose weight is the largest, come first in every branch of a tree.
func grant(targets map[string]apportion.Target, total int64) {
	names := slices.Collect(maps.Keys(targets))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(ptr.Deref(targets[b].Weight, 1), ptr.Deref(targets[a].Weight, 1)), strings.Compare(a, b))
	})
	for _, name := range names {
		t := targets[name]
		t.Min = min(t.Min, total)
		if keeps(t) {
			t.Max = new(t.Min)
		}
		total -= t.Min
		targets[name] = t
	}
}
