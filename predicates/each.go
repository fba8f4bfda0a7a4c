package predicates

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/evenkeel/evenkeel/podfit"
)

// Reasons answers for each of the nodes of a cluster why a pod cannot be bound to it; nothing where
// it can. Every plugin that rejects is named, in the order of the profile: unlike the scheduler,
// which stops at the first, it asks each plugin by itself.
//
// It returns ErrNilObject for a nil node or pod.
func (c *Checker) Reasons(nodes []Node, pod *v1.Pod) ([][]Reason, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pod == nil {
		return nil, fmt.Errorf("pod to place: %w", ErrNilObject)
	}
	infos, own := make([]fwk.NodeInfo, len(nodes)), make([]*framework.NodeInfo, len(nodes))
	for i, n := range nodes {
		info, err := infoOf(n)
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
		infos[i], own[i] = info, info
	}
	c.seen.nodes = infos
	reasons, asks := make([][]Reason, len(nodes)), asksOf(pod)
	for _, f := range c.filters {
		ask := c.alone(f, pod, infos)
		for i, n := range infos {
			if status := ask(n); !status.IsSuccess() {
				reasons[i] = append(reasons[i], c.explain([]*fwk.Status{status.WithPlugin(f.Name())}, pod, &asks, own[i])...)
				if f.Name() == names.TaintToleration {
					taint, _ := podfit.RulesOf(pod).Untolerated(nodes[i].Node)
					reasons[i][len(reasons[i])-1].Message += " " + taint.ToString()
				}
			}
		}
	}
	return reasons, nil
}

// infoOf returns a node as the scheduler keeps it, without its finished pods.
func infoOf(n Node) (*framework.NodeInfo, error) {
	if n.Node == nil {
		return nil, ErrNilObject
	}
	info := framework.NewNodeInfo()
	for _, p := range n.Pods {
		if p == nil {
			return nil, ErrNilObject
		}
		if !finished(p) {
			// Terms that cannot be parsed are left out, as the scheduler's cache does.
			parsed, _ := framework.NewPodInfo(p)
			info.AddPodInfo(parsed)
		}
	}
	info.SetNode(n.Node)
	return info, nil
}

// alone returns the answers of one plugin for a pod.
func (c *Checker) alone(f fwk.FilterPlugin, pod *v1.Pod, nodes []fwk.NodeInfo) func(fwk.NodeInfo) *fwk.Status {
	state := framework.NewCycleState()
	var only *fwk.PreFilterResult
	if before, ok := f.(fwk.PreFilterPlugin); ok {
		c.preFilterRuns++
		var status *fwk.Status
		only, status = before.PreFilter(c.quiet, state, pod, nodes)
		if !status.IsSuccess() && !status.IsSkip() {
			return func(fwk.NodeInfo) *fwk.Status { return status }
		}
		if status.IsSkip() {
			return func(fwk.NodeInfo) *fwk.Status { return nil }
		}
	}
	return func(n fwk.NodeInfo) *fwk.Status {
		c.filterRuns++
		status := f.Filter(c.quiet, state, pod, n)
		if status.IsSuccess() && !only.AllNodes() && !only.NodeNames.Has(n.Node().Name) {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) not among those that the pod names")
		}
		return status
	}
}
