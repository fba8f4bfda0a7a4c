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
	index, requests := make(map[*v1.Pod]int, len(t.pods)), t.requests()
	for i, pod := range t.pods {
		index[pod] = i
	}
	judged := make([]expander.Option, len(options))
	for i := range options {
		judged[i] = t.judged(&options[i], index, requests)
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

// judged is an option as strategies see it. Index and requests are those of the pods.
func (t *attempt) judged(o *option, index map[*v1.Pod]int, requests []expander.Requests) expander.Option {
	template := t.templates[o.group.ID]
	out := expander.Option{
		Group: o.group.ID, Members: []string{o.group.ID}, NodeCount: o.count,
		Template: cloudprovider.Template{Node: template.Node.Node, Pods: template.Pods},
	}
	pods := make([]int, len(o.pods))
	for i, pod := range o.pods {
		pods[i] = index[pod]
		out.Requested = out.Requested.Plus(1, requests[pods[i]])
	}
	slices.Sort(pods)
	out.Pods = expander.Pods{{Pods: pods}}
	if pricing, ok := t.remote.Provider.(cloudprovider.Pricing); ok {
		price, err := pricing.NodePrice(t.deadline.from(t.now, t.options.Timeout), template.Node.Node, t.now, t.now.Add(time.Hour))
		out.NodePrice, out.HasPrice = price, err == nil
	}
	return out
}

// requests are those of the pods, worked out once for equal ones.
func (t *attempt) requests() []expander.Requests {
	all, known := make([]expander.Requests, len(t.pods)), map[int]expander.Requests{}
	for i, pod := range t.pods {
		kind := t.kindOf(pod)
		r, ok := known[kind]
		if !ok || kind == 0 {
			r = expander.RequestsOf(pod)
			known[kind] = r
		}
		all[i] = r
	}
	return all
}
