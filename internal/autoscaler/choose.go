package autoscaler

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
)

// choose asks the expander. If it fails, or names several, the choice is random.
func (t *attempt) choose(options []option) *option {
	switch {
	case t.remote.Expander != nil:
	case t.options.Strategies != nil:
		return t.byStrategies(options)
	default:
		return &options[t.random.IntN(len(options))]
	}
	request := t.request(options)
	answer, err := t.remote.bestOptions(request)
	var named []int
	for _, id := range answer {
		if i := slices.IndexFunc(options, func(o option) bool { return o.group.ID == id }); i >= 0 {
			named = append(named, i)
		}
	}
	switch {
	case err != nil || len(named) == 0 && len(answer) > 0:
		return &options[t.random.IntN(len(options))]
	case len(answer) == 0:
		t.choices.vetoed = true
		return nil
	}
	if len(named) == 1 {
		return &options[named[0]]
	}
	return &options[named[t.random.IntN(len(named))]]
}

// request is the question as the expander receives it. It shares nodes and pods with the world;
// neither side changes them.
func (t *attempt) request(options []option) expander.Question {
	request := expander.Question{Nodes: make(map[string]*v1.Node, len(t.templates))}
	for id, template := range t.templates {
		request.Nodes[id] = template.Node.Node
	}
	index := make(map[*v1.Pod]int, len(t.pods))
	for _, o := range options {
		sent := expander.Offer{Group: o.group.ID, NodeCount: o.count, Pods: make([]int, 0, len(o.pods))}
		for _, pod := range o.pods {
			i, ok := index[pod]
			if !ok {
				i = len(request.Pods)
				index[pod] = i
				request.Pods = append(request.Pods, pod)
			}
			sent.Pods = append(sent.Pods, i)
		}
		request.Options = append(request.Options, sent)
	}
	return request
}
