package plan

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/topologyspread"
)

func validateSpread(s *v1alpha1.TopologySpreadSpec) field.ErrorList {
	var c checks
	if at := spec.Child("pod"); s.Pod == nil {
		c.Add(field.Required(at, "must be the pod to place"))
	} else {
		c.typeOf(at, s.Pod.TypeMeta, "Pod")
		c.Add(admission.Labels(at.Child("metadata", "labels"), s.Pod.Labels)...)
		c.Add(admission.Scheduling(at.Child("spec"), &s.Pod.Spec)...)
	}
	if s.Nodes == nil {
		c.Add(field.Required(spec.Child("nodes"), "must be a list of nodes"))
	}
	known := map[string]bool{}
	for i := range s.Nodes {
		n, at := &s.Nodes[i], spec.Child("nodes").Index(i)
		c.typeOf(at, n.TypeMeta, "Node")
		c.Add(admission.Node(at, n)...)
		if n.Name != "" && known[n.Name] {
			c.Add(field.Duplicate(at.Child("metadata", "name"), admission.Shorten(n.Name)))
		}
		known[n.Name] = true
	}
	for i := range s.Pods {
		p, at := &s.Pods[i], spec.Child("pods").Index(i)
		c.pod(at, p)
		c.Add(admission.Labels(at.Child("metadata", "labels"), p.Labels)...)
		admission.Option(&c.Checker, at.Child("status", "phase"), p.Status.Phase,
			v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown)
		if !finished(p) {
			c.onNode(at.Child("spec", "nodeName"), p.Spec.NodeName, known)
		}
	}
	return c.Errors
}

// onNode checks that a pod is on one of the nodes.
func (c *checks) onNode(at *field.Path, name string, known map[string]bool) {
	switch {
	case name == "":
		c.Add(field.Required(at, "must be the node that the pod is on"))
	case !known[name]:
		c.Add(field.Invalid(at, admission.Shorten(name), "must be the name of a node of spec.nodes"))
	}
}

func finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// nodeFilters is a scheduler with the filters beside topology spread that a TopologySpread applies.
const nodeFilters = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: NodeUnschedulable}
      - {name: NodeName}
      - {name: TaintToleration}
      - {name: NodeAffinity}
      - {name: NodeResourcesFit}
      - {name: DefaultBinder}
`

func spread(s *v1alpha1.TopologySpreadSpec) (any, error) {
	pod := inNamespace(s.Pod)
	nodes := fleetOf(s, pod)
	checker, err := predicates.New(context.Background(), predicates.Options{Configuration: []byte(nodeFilters)})
	if err != nil {
		return nil, err
	}
	reasons, err := checker.Reasons(nodes, pod)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec, err)
	}
	fleet := make([]topologyspread.Node, len(nodes))
	for i, n := range nodes {
		fleet[i] = topologyspread.Node(n)
	}
	table, err := topologyspread.NewTable(pod, fleet)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Child("pod", "spec"), err)
	}
	status := &v1alpha1.TopologySpreadStatus{Nodes: make([]v1alpha1.TopologySpreadNode, len(nodes))}
	var fitting []int
	for i := range nodes {
		row := &status.Nodes[i]
		row.Name, row.Reasons = nodes[i].Node.Name, []string{}
		for _, r := range reasons[i] {
			row.Reasons = append(row.Reasons, r.String())
		}
		for _, r := range table.Refusals(i) {
			row.Reasons = append(row.Reasons, "PodTopologySpread: "+r.String())
		}
		if row.Fits = len(row.Reasons) == 0; row.Fits {
			fitting = append(fitting, i)
		}
	}
	if table.Scored() {
		for i, score := range table.Scores(fitting) {
			status.Nodes[fitting[i]].Score = &score
		}
	}
	return status, nil
}

// fleetOf returns the nodes of a document with the pods on them.
func fleetOf(s *v1alpha1.TopologySpreadSpec, incoming *v1.Pod) []predicates.Node {
	nodes, at := make([]predicates.Node, len(s.Nodes)), make(map[string]int, len(s.Nodes))
	for i := range s.Nodes {
		nodes[i].Node = withResources(&s.Nodes[i], incoming)
		at[s.Nodes[i].Name] = i
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if n, known := at[p.Spec.NodeName]; known && !finished(p) {
			nodes[n].Pods = append(nodes[n].Pods, inNamespace(p))
		}
	}
	return nodes
}

// inNamespace returns a pod that is in the namespace default if it was in none.
func inNamespace(p *v1.Pod) *v1.Pod {
	if p.Namespace != "" {
		return p
	}
	in := *p
	in.Namespace = metav1.NamespaceDefault
	return &in
}

// podsPerNode is what a kubelet allows by default.
const podsPerNode = 110

// withResources completes what a node does not say of its resources. It takes any pod if it says
// nothing.
func withResources(n *v1.Node, incoming *v1.Pod) *v1.Node {
	allocatable := maps.Clone(n.Status.Allocatable)
	if len(allocatable) == 0 {
		allocatable = maps.Clone(n.Status.Capacity)
	}
	if len(allocatable) == 0 {
		allocatable = v1.ResourceList{v1.ResourcePods: *unbounded()}
		for name := range resourcehelper.PodRequests(incoming, resourcehelper.PodResourcesOptions{}) {
			allocatable[name] = *unbounded()
		}
	}
	if _, given := allocatable[v1.ResourcePods]; !given {
		allocatable[v1.ResourcePods] = *resource.NewQuantity(podsPerNode, resource.DecimalSI)
	}
	c := *n
	c.Status.Allocatable = allocatable
	return &c
}

// unbounded is more of a resource than pods can have requested, also in thousandths.
func unbounded() *resource.Quantity { return resource.NewQuantity(1<<53, resource.DecimalSI) }
