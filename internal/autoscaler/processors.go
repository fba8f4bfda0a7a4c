package autoscaler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// processors are the places where a build of Cluster Autoscaler may put code of its own. Its own
// code is that of stock.
type processors interface {
	// surveyed is called where a loop is only surveyed, when the templates are known.
	surveyed()
	// unplaced tries pods that fit nowhere again, if it wants to, and returns the rest (PodListProcessor).
	unplaced(pods []*v1.Pod, try func([]*v1.Pod) ([]*v1.Pod, error)) ([]*v1.Pod, error)
	// begin sees what a scale-up is for (NodeGroupListProcessor).
	begin(t *attempt)
	// similar are the groups that are similar to one (NodeGroupSetProcessor). It is asked only with
	// Options.Balance.
	similar(t *attempt, g *group) []*group
	// terms are how the declared set of a group shares nodes; nil for a group of none.
	terms(id string) *nodegroupset.Terms
	// best is the option that is taken; nil for none (expander.Strategy). Choose is what was asked
	// for by --expander.
	best(t *attempt, options []option, choose func([]option) *option) *option
	// balance shares nodes among groups, of which the first is the chosen one (NodeGroupSetProcessor).
	balance(t *attempt, groups []*group, count int) ([]planned, error)
	// candidates puts the nodes in order that scale-down tries (ScaleDownNodeProcessor); nil leaves
	// that to chance.
	candidates() func(nodes []*v1.Node, moves func(*v1.Node) bool) []*v1.Node
	// removable has the last word on which nodes go (ScaleDownSetProcessor); nil leaves that to chance.
	removable() func(nodes []removal.Candidate, limit, drains int) nodegroupset.ShrinkResult
	// provisionTime is how long nodes of a group may take (NodeGroupConfigProcessor).
	provisionTime(id string, limit time.Duration) time.Duration
	// scaleUpFailed records a failure (NodeGroupChangeObserver).
	scaleUpFailed(id, why string, late bool)
}

// planned is one group's part in a scale-up.
type planned struct {
	group               *group
	current, size, most int
}

// stock is Cluster Autoscaler as it is.
type stock struct{ index *nodegroupset.Index }

func (*stock) surveyed() {}
func (*stock) unplaced(pods []*v1.Pod, _ func([]*v1.Pod) ([]*v1.Pod, error)) ([]*v1.Pod, error) {
	return pods, nil
}

func (s *stock) begin(*attempt)                                          { s.index = nil }
func (*stock) terms(string) *nodegroupset.Terms                          { return nil }
func (*stock) provisionTime(_ string, limit time.Duration) time.Duration { return limit }
func (*stock) scaleUpFailed(string, string, bool)                        {}
func (*stock) candidates() func([]*v1.Node, func(*v1.Node) bool) []*v1.Node {
	return nil
}

func (*stock) removable() func([]removal.Candidate, int, int) nodegroupset.ShrinkResult { return nil }

func (*stock) best(_ *attempt, options []option, choose func([]option) *option) *option {
	return choose(options)
}

// similar compares templates.
func (s *stock) similar(t *attempt, g *group) []*group {
	if s.index == nil {
		s.index = t.index()
	}
	alike := s.index.Similar(g.ID)
	var out []*group
	for _, other := range t.remote.NodeGroups() {
		if other.ID != g.ID && slices.Contains(alike, other.ID) {
			out = append(out, other)
		}
	}
	return out
}

// index determines which templates are similar, as this build of Cluster Autoscaler finds. One that
// cannot be compared is similar to none.
func (t *attempt) index() *nodegroupset.Index {
	var index *nodegroupset.Index
	var err error
	if l := t.options.Linked; l != nil {
		index, err = nodegroupset.NewIndex(l.Similarity)
	} else {
		index, err = nodegroupset.NewStockIndex(t.options.Cloud, t.options.Similarity)
	}
	if err != nil { // the options were checked when the process began
		index, _ = nodegroupset.NewIndex(nodegroupset.Options{})
	}
	for id, template := range t.templates {
		_ = index.Set(id, cloudprovider.Template{Node: template.Node.Node, Pods: template.Pods})
	}
	return index
}

// balance adds nodes one by one to the smallest group with room. It reads the sizes again, and
// fails at the first error.
func (*stock) balance(t *attempt, groups []*group, count int) ([]planned, error) {
	var plan []planned
	room := 0
	for _, g := range groups {
		size, err := t.remote.targetSize(g.ID)
		if err != nil {
			return nil, fmt.Errorf("balance: target size of %s: %w", g.ID, err)
		}
		if size != g.MaxSize() {
			room += max(g.MaxSize()-size, 0)
			plan = append(plan, planned{group: g, current: size, size: size, most: g.MaxSize()})
		}
	}
	if t.options.TiesByName {
		slices.SortStableFunc(plan[min(1, len(plan)):], func(p, q planned) int { return cmp.Compare(p.group.ID, q.group.ID) })
	} else {
		slices.SortStableFunc(plan, func(p, q planned) int { return cmp.Compare(p.current, q.current) })
	}
	for range min(count, room) {
		least := -1
		for i := range plan {
			if plan[i].size < plan[i].most && (least < 0 || plan[i].size < plan[least].size) {
				least = i
			}
		}
		plan[least].size++
	}
	return slices.DeleteFunc(plan, func(p planned) bool { return p.size == p.current }), nil
}
