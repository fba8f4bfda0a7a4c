package predicates

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// cycle is one pod looked at in one state of the cluster: the result of its
// PreFilter plugins.
type cycle struct {
	c      *Checker
	pod    *v1.Pod
	state  fwk.CycleState
	status *fwk.Status      // not success: no node will do
	only   sets.Set[string] // the node names left over; nil means all
	by     []string         // the plugins that restricted them
}

// begin runs the PreFilter plugins of the pod over the nodes.
func (c *Checker) begin(pod *v1.Pod, nodes []fwk.NodeInfo) *cycle {
	c.preFilterRuns++
	c.seen.nodes = nodes
	cy := &cycle{c: c, pod: pod, state: framework.NewCycleState()}
	result, status, by := c.fw.RunPreFilterPlugins(c.quiet, cy.state, pod)
	if !status.IsSuccess() {
		cy.status = status
	}
	if !result.AllNodes() {
		cy.only, cy.by = result.NodeNames, sets.List(by)
	}
	return cy
}

// filter runs the Filter plugins up to the first that rejects and returns its
// status; nil means the pod fits.
func (cy *cycle) filter(n fwk.NodeInfo) *fwk.Status {
	if cy.status != nil {
		return cy.status
	}
	if cy.only != nil && !cy.only.Has(n.Node().Name) {
		status := fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", cy.by))
		return status.WithPlugin(cy.by[0])
	}
	cy.c.filterRuns++
	status := cy.c.fw.RunFilterPlugins(cy.c.quiet, cy.state, cy.pod, n)
	if status.IsSuccess() {
		return nil
	}
	return status
}

// all runs every Filter plugin and returns the statuses that are not success,
// in the order of the profile.
func (cy *cycle) all(n fwk.NodeInfo) []*fwk.Status {
	first := cy.filter(n)
	if first == nil {
		return nil
	}
	if cy.status != nil || cy.only != nil && !cy.only.Has(n.Node().Name) {
		return []*fwk.Status{first}
	}
	cy.c.filterRuns++
	var failed []*fwk.Status
	skip := cy.state.GetSkipFilterPlugins()
	for _, p := range cy.c.filters {
		if skip.Has(p.Name()) {
			continue
		}
		if status := p.Filter(cy.c.quiet, cy.state, cy.pod, n); !status.IsSuccess() {
			failed = append(failed, status.WithPlugin(p.Name()))
		}
	}
	return failed
}

// rejects reports whether a plugin that looks at nothing but the node itself rejects a pod, whatever
// the node's resources.
func (c *Checker) rejects(p *v1.Pod, n *v1.Node) bool {
	bare := framework.NewNodeInfo()
	bare.SetNode(n)
	cy := c.begin(p, one(bare))
	counted := func(status *fwk.Status) bool {
		return status.Plugin() == names.NodeResourcesFit || stateDependent(status.Plugin())
	}
	first := cy.filter(bare)
	if first == nil || !counted(first) {
		return first != nil
	}
	return slices.ContainsFunc(cy.all(bare), func(status *fwk.Status) bool { return !counted(status) })
}

func one(n *framework.NodeInfo) []fwk.NodeInfo { return []fwk.NodeInfo{n} }
