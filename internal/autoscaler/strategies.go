package autoscaler

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/podfit"
)

// byStrategies chooses by the strategies of --expander. Every group is a choice of its own, and what
// the strategies find equal is drawn.
func (t *attempt) byStrategies(options []option) *option {
	requests := make([]podfit.Resources, len(t.kinds))
	for k, pods := range t.kinds {
		requests[k] = podfit.Requests(pods[0])
	}
	judged := make([]expander.Option, len(options))
	for i := range options {
		judged[i] = t.judged(&options[i], requests)
	}
	chain := t.options.Strategies.ForRound(t.random.Uint64())
	_, trail, err := chain.Choose(judged)
	if err != nil {
		return &options[t.random.IntN(len(options))]
	}
	kept := judged
	for i := range trail {
		if !trail[i].TieBreak() {
			names := trail[i].Kept()
			kept = slices.DeleteFunc(slices.Clone(kept), func(o expander.Option) bool { return !slices.Contains(names, o.Group) })
		}
	}
	trail = slices.DeleteFunc(trail, func(s expander.Step) bool { return s.TieBreak() })
	chosen := kept[t.draw(len(kept))].Group
	t.decision.Trail = trail
	return &options[slices.IndexFunc(options, func(o option) bool { return o.group.ID == chosen })]
}

// draw is a number below n.
func (t *attempt) draw(n int) int {
	if n == 1 {
		return 0
	}
	return rand.New(rand.NewPCG(t.random.Uint64(), 0)).IntN(n) // a repeatable choice is wanted
}

// judged is an option as strategies see it, with what a pod of each kind requests.
func (t *attempt) judged(o *option, requests []podfit.Resources) expander.Option {
	template := t.templates[o.group.ID]
	out := expander.Option{
		Group: o.group.ID, NodeCount: o.count, Pods: len(o.pods),
		Template: cloudprovider.Template{Node: template.Node.Node, Pods: template.Pods}, Requested: podfit.Resources{},
	}
	for k, n := range o.placed {
		out.Requested.Add(int64(n), requests[k])
	}
	if pricing, ok := t.remote.Provider.(cloudprovider.Pricing); ok {
		price, err := pricing.NodePrice(t.deadline.from(t.now, t.options.Timeout), template.Node.Node, t.now, t.now.Add(time.Hour))
		out.NodePrice, out.HasPrice = price, err == nil
	}
	return out
}
