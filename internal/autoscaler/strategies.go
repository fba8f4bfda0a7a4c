package autoscaler

import (
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
)

// byStrategies chooses by the strategies of --expander. Every group is a choice of its own, and what
// the strategies find equal is drawn.
func (t *attempt) byStrategies(options []option) *option {
	index := make(map[*v1.Pod]int, len(t.pods))
	for i, pod := range t.pods {
		index[pod] = i
	}
	judged := make([]expander.Option, len(options))
	for i := range options {
		judged[i] = t.judged(&options[i], index)
	}
	chain := t.options.Strategies.ForRound(t.random.Uint64())
	_, trail, err := chain.Choose(judged)
	if err != nil {
		return &options[t.random.IntN(len(options))]
	}
	kept := judged
	for _, step := range trail {
		if step.Strategy != expander.NameStep {
			names := step.Kept()
			kept = slices.DeleteFunc(slices.Clone(kept), func(o expander.Option) bool { return !slices.Contains(names, o.Group) })
		}
	}
	trail = slices.DeleteFunc(trail, func(s expander.Step) bool { return s.Strategy == expander.NameStep })
	chosen := kept[t.draw(len(kept))].Group
	t.round.trail(trail)
	return &options[slices.IndexFunc(options, func(o option) bool { return o.group.ID == chosen })]
}

// draw is a number below n.
func (t *attempt) draw(n int) int {
	if n == 1 {
		return 0
	}
	return rand.New(rand.NewPCG(t.random.Uint64(), 0)).IntN(n) //nolint:gosec // G404: a repeatable choice is wanted
}

// judged is an option as strategies see it.
func (t *attempt) judged(o *option, index map[*v1.Pod]int) expander.Option {
	template := t.templates[o.group.ID]
	out := expander.Option{
		Group: o.group.ID, Members: []string{o.group.ID}, NodeCount: o.count,
		Template: cloudprovider.Template{Node: template.Node.Node, Pods: template.Pods},
	}
	pods := make([]int, len(o.pods))
	for i, pod := range o.pods {
		pods[i] = index[pod]
		out.Requested = out.Requested.Plus(1, t.requests(pod))
	}
	slices.Sort(pods)
	out.Pods = expander.Pods{{Pods: pods}}
	if pricing, ok := t.remote.Provider.(cloudprovider.Pricing); ok {
		price, err := pricing.NodePrice(t.deadline.from(t.now, t.options.Timeout), template.Node.Node, t.now, t.now.Add(time.Hour))
		out.NodePrice, out.HasPrice = price, err == nil
	}
	return out
}

// requests is expander.RequestsOf, worked out once for the pods of one kind.
func (t *attempt) requests(pod *v1.Pod) expander.Requests {
	kind := t.kindOf(pod)
	if known, ok := t.requested[kind]; ok && kind != "" {
		return known
	}
	r := expander.RequestsOf(pod)
	t.requested[kind] = r
	return r
}
