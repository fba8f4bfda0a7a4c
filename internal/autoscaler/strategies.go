package autoscaler

import (
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/podfit"
)

// byStrategies chooses by the strategies of --expander. Every group is a choice of its own, and what
// the strategies find equal is drawn.
func (t *attempt) byStrategies(options []option) *option {
	kinds := t.judgedKinds()
	judged := make([]expander.Option, len(options))
	for i := range options {
		judged[i] = t.judged(&options[i], kinds)
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

// judgedKind is a kind of equal pods as strategies see it.
type judgedKind struct {
	pods     []int // positions
	requests podfit.Resources
}

func (t *attempt) judgedKinds() []judgedKind {
	index := make(map[*v1.Pod]int, len(t.pods))
	for i, pod := range t.pods {
		index[pod] = i
	}
	out := make([]judgedKind, len(t.kinds))
	for k, pods := range t.kinds {
		out[k].requests = podfit.Requests(pods[0])
		for _, pod := range pods {
			out[k].pods = append(out[k].pods, index[pod])
		}
	}
	return out
}

// judged is an option as strategies see it.
func (t *attempt) judged(o *option, kinds []judgedKind) expander.Option {
	template := t.templates[o.group.ID]
	out := expander.Option{
		Group: o.group.ID, Members: []string{o.group.ID}, NodeCount: o.count,
		Template: cloudprovider.Template{Node: template.Node.Node, Pods: template.Pods}, Requested: podfit.Resources{},
	}
	for k, n := range o.placed {
		if n > 0 {
			out.Pods = append(out.Pods, expander.Share{Kind: k, Pods: kinds[k].pods[:n]})
			out.Requested.Add(int64(n), kinds[k].requests)
		}
	}
	if pricing, ok := t.remote.Provider.(cloudprovider.Pricing); ok {
		price, err := pricing.NodePrice(t.deadline.from(t.now, t.options.Timeout), template.Node.Node, t.now, t.now.Add(time.Hour))
		out.NodePrice, out.HasPrice = price, err == nil
	}
	return out
}
