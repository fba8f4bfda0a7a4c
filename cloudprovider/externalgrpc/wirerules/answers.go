package wirerules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

func nodeGroupWithBounds(ctx context.Context, s *server) {
	found := false
	for _, g := range s.groups(ctx) {
		instances := s.nodes(ctx, g.GetId()).GetInstances()
		if len(instances) == 0 {
			continue
		}
		found = true
		id := instances[0].GetId()
		got := answer(ctx, s, fmt.Sprintf("NodeGroupForNode(%s)", id), s.NodeGroupForNode,
			&externalgrpcpb.NodeGroupForNodeRequest{Node: &externalgrpcpb.ExternalGrpcNode{
				Name: id, ProviderID: id, Annotations: cloudprovider.FakeNode(id, cloudprovider.FakeNodeUnregistered).Annotations,
			}}).GetNodeGroup()
		if got.GetId() == g.GetId() && (got.GetMinSize() != g.GetMinSize() || got.GetMaxSize() != g.GetMaxSize()) {
			s.Failf("NodeGroupForNode(%s) answered %q with bounds %d to %d, NodeGroups %d to %d",
				id, g.GetId(), got.GetMinSize(), got.GetMaxSize(), g.GetMinSize(), g.GetMaxSize())
		}
	}
	if !found {
		s.Add(conformance.Skip("there is no instance"))
	}
}

func instanceErrorsSeen(ctx context.Context, s *server) {
	for _, g := range s.groups(ctx) {
		for _, in := range s.nodes(ctx, g.GetId()).GetInstances() {
			info := in.GetStatus().GetErrorInfo()
			switch state := in.GetStatus().GetInstanceState(); {
			case info == nil || proto.Size(info) == 0:
			case state == externalgrpcpb.InstanceStatus_unspecified:
				s.Failf("instance %q of %q has the error %q and no state", in.GetId(), g.GetId(), info.GetErrorMessage())
			case info.GetErrorCode() == "":
				s.Failf("instance %q of %q has the error %q without a code", in.GetId(), g.GetId(), info.GetErrorMessage())
			}
		}
	}
}

func templateNodeBytes(ctx context.Context, s *server) {
	found := false
	for _, g := range s.groups(ctx) {
		answer, err := ask(ctx, s.NodeGroupTemplateNodeInfo, &externalgrpcpb.NodeGroupTemplateNodeInfoRequest{Id: g.GetId()})
		if status.Code(err) == codes.Unimplemented {
			continue
		}
		found = true
		switch {
		case err != nil:
			s.Failf("NodeGroupTemplateNodeInfo(%s): %w", g.GetId(), err)
		case len(answer.GetNodeBytes()) == 0 && len(answer.GetNodeInfo()) > 0:
			s.Failf("the template of %q is in nodeInfo, field 1, which Cluster Autoscaler 1.35 and later do not read", g.GetId())
		case len(answer.GetNodeBytes()) == 0:
			s.Failf("the template of %q is empty: answer Unimplemented if there is none", g.GetId())
		}
		if err := new(v1.Node).Unmarshal(answer.GetNodeBytes()); err != nil {
			s.Failf("the template of %q is not a v1.Node in Kubernetes' protobuf encoding: %w", g.GetId(), err)
		}
	}
	if !found {
		s.Add(conformance.Skip("templates are not implemented"))
	}
}

// someDefaults differ from any group's own options.
func someDefaults() *externalgrpcpb.NodeGroupAutoscalingOptions {
	return &externalgrpcpb.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    0.37,
		ScaleDownGpuUtilizationThreshold: 0.73,
		ScaleDownUnneededDuration:        durationpb.New(11 * time.Minute),
		ScaleDownUnreadyDuration:         durationpb.New(23 * time.Minute),
		MaxNodeProvisionDuration:         durationpb.New(17 * time.Minute),
	}
}

// options are those that groups answer, by group.
func (s *server) options(ctx context.Context) map[string]*externalgrpcpb.NodeGroupAutoscalingOptions {
	all := map[string]*externalgrpcpb.NodeGroupAutoscalingOptions{}
	for _, g := range s.groups(ctx) {
		answer, err := ask(ctx, s.NodeGroupGetOptions, &externalgrpcpb.NodeGroupAutoscalingOptionsRequest{Id: g.GetId(),
			Defaults: someDefaults()})
		options := answer.GetNodeGroupAutoscalingOptions()
		switch {
		case status.Code(err) == codes.Unimplemented:
		case err != nil:
			s.Failf("NodeGroupGetOptions(%s): %w", g.GetId(), err)
		case options != nil:
			all[g.GetId()] = options
		}
	}
	return all
}

// startup describes the effect of answering options.
const startup = "Cluster Autoscaler then takes MaxNodeStartupTime as zero, counts nodes that are still starting as " +
	"unready and orders them again"

func optionsLeftOut(ctx context.Context, s *server) {
	options := s.options(ctx)
	own := slices.Sorted(maps.Keys(options))
	for _, id := range own {
		sent := someDefaults()
		if proto.Equal(options[id], sent) {
			s.Failf("the options of %q are the defaults that were sent; %s: answer Unimplemented, or leave the options out", id, startup)
		}
		sent.ScaleDownUtilizationThreshold = sent.ScaleDownGpuUtilizationThreshold
		if proto.Equal(options[id], sent) {
			s.Failf("the options of %q are the defaults that were sent, with the GPU threshold for both; %s: answer "+
				"Unimplemented, or leave the options out", id, startup)
		}
	}
	if len(own) > 0 {
		s.Add(conformance.Warn("options are answered for %s; %s: answer them only for groups that need them", spelling.List(own, 3), startup))
	}
}

func optionsDurations(ctx context.Context, s *server) {
	options := s.options(ctx)
	if len(options) == 0 {
		s.Add(conformance.Skip("no group has options of its own"))
	}
	for _, id := range slices.Sorted(maps.Keys(options)) {
		for _, d := range []struct {
			name  string
			value *durationpb.Duration
		}{
			{"scaleDownUnneededDuration", options[id].GetScaleDownUnneededDuration()},
			{"scaleDownUnreadyDuration", options[id].GetScaleDownUnreadyDuration()},
			{"MaxNodeProvisionDuration", options[id].GetMaxNodeProvisionDuration()},
		} {
			if d.value == nil {
				s.Failf("the options of %q have no %s, which is zero and not the default", id, d.name)
			}
		}
	}
}
