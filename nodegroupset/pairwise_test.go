package nodegroupset

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// The baseline compares every group with every group as Cluster Autoscaler does:
// each comparison builds maps of the capacity, allocatable and free amounts and of
// the labels of both templates, in resource.Quantity arithmetic, and nothing is
// kept. As there, the sum of the pods' requests is known beforehand.

type pairwiseNode struct {
	node      *v1.Node
	requested v1.ResourceList
}

type pairwise struct {
	ignored                   map[string]bool
	memory, allocatable, free float64
}

var pairwiseOnAWS = pairwise{memory: 0.015, allocatable: 0.05, free: 0.05, ignored: map[string]bool{
	"kubernetes.io/hostname": true, "topology.kubernetes.io/zone": true, "topology.kubernetes.io/region": true,
	"failure-domain.beta.kubernetes.io/zone": true, "failure-domain.beta.kubernetes.io/region": true,
	"eks.amazonaws.com/nodegroup": true, "alpha.eksctl.io/nodegroup-name": true, "topology.k8s.aws/zone-id": true,
	"topology.ebs.csi.aws.com/zone": true, "beta.kubernetes.io/fluentd-ds-ready": true, "kops.k8s.io/instancegroup": true,
}}

func (p pairwise) similar(a, b pairwiseNode) bool {
	capacity := map[v1.ResourceName][]resource.Quantity{}
	allocatable := map[v1.ResourceName][]resource.Quantity{}
	free := map[v1.ResourceName][]resource.Quantity{}
	for _, n := range []pairwiseNode{a, b} {
		for name, quantity := range n.node.Status.Capacity {
			capacity[name] = append(capacity[name], quantity)
		}
		for name, quantity := range n.node.Status.Allocatable {
			allocatable[name] = append(allocatable[name], quantity)
		}
		for name, quantity := range n.requested {
			left := n.node.Status.Allocatable[name].DeepCopy()
			left.Sub(quantity)
			free[name] = append(free[name], left)
		}
	}
	for name, pair := range capacity {
		if len(pair) != 2 {
			return false
		}
		if name == v1.ResourceMemory {
			if !pairwiseWithin(pair, p.memory) {
				return false
			}
		} else if pair[0].Cmp(pair[1]) != 0 {
			return false
		}
	}
	for _, pair := range allocatable {
		if len(pair) != 2 || !pairwiseWithin(pair, p.allocatable) {
			return false
		}
	}
	for _, pair := range free {
		if len(pair) != 2 || !pairwiseWithin(pair, p.free) {
			return false
		}
	}
	labels := map[string][]string{}
	for _, n := range []pairwiseNode{a, b} {
		for key, value := range n.node.Labels {
			if !p.ignored[key] {
				labels[key] = append(labels[key], value)
			}
		}
	}
	for _, values := range labels {
		if len(values) != 2 || values[0] != values[1] {
			return false
		}
	}
	return true
}

func pairwiseWithin(pair []resource.Quantity, ratio float64) bool {
	larger := math.Max(float64(pair[0].MilliValue()), float64(pair[1].MilliValue()))
	smaller := math.Min(float64(pair[0].MilliValue()), float64(pair[1].MilliValue()))
	return larger-smaller <= larger*ratio
}

// pairwiseRows compares the first groups with all.
func pairwiseRows(nodes []pairwiseNode, rows int) (pairs int) {
	for i, a := range nodes[:rows] {
		for j, b := range nodes {
			if i != j && pairwiseOnAWS.similar(a, b) {
				pairs++
			}
		}
	}
	return pairs
}

func pairwiseNodes(fleet []cloudprovider.Template) []pairwiseNode {
	out := make([]pairwiseNode, len(fleet))
	for i, t := range fleet {
		requested := list("cpu", "0", "memory", "0", "pods", "0", "ephemeral-storage", "0")
		for name, quantity := range oracleRequests(t.Pods) {
			requested[name] = quantity
		}
		out[i] = pairwiseNode{t.Node, requested}
	}
	return out
}
