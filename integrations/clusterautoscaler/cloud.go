package clusterautoscaler

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/linked"
	"github.com/evenkeel/evenkeel/podfit"

	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
)

// cloud is the autoscaler's cloud provider as package linked reads it.
type cloud struct {
	ca.CloudProvider
	ctx *ca_context.AutoscalingContext
}

var _ linked.Cloud[ca.NodeGroup] = cloud{}

func cloudOf(ctx *ca_context.AutoscalingContext) cloud { return cloud{ctx.CloudProvider, ctx} }

// ZeroOrMax reports whether a group goes from nothing to its maximum at once and back only.
func (c cloud) ZeroOrMax(group ca.NodeGroup) (bool, error) {
	options, err := group.GetOptions(c.ctx.NodeGroupDefaults)
	if err != nil && err != ca.ErrNotImplemented {
		return false, err
	}
	return options != nil && options.ZeroOrMaxNodeScaling, nil
}

// sets are the sets of the autoscaler's node groups.
type sets = linked.Sets[*framework.NodeInfo, ca.NodeGroup]

// templateOf is what is compared of a template. It shares the node and the pods.
func templateOf(info *framework.NodeInfo) linked.Template {
	template := linked.Template{Node: info.Node(), Pods: func() []*v1.Pod { return podsOf(info) }}
	if r := info.Requested; r != nil {
		template.Requested = podfit.Resources{
			v1.ResourcePods: int64(len(info.GetPods())), v1.ResourceCPU: r.MilliCPU,
			v1.ResourceMemory: r.Memory, v1.ResourceEphemeralStorage: r.EphemeralStorage,
		}
		maps.Copy(template.Requested, r.ScalarResources)
	}
	return template
}

func podsOf(info *framework.NodeInfo) []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range info.GetPods() {
		pods = append(pods, pod.GetPod())
	}
	return pods
}
