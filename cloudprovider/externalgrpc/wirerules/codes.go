package wirerules

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

func methodsImplemented(ctx context.Context, s *server) {
	_, refresh := ask(ctx, s.Refresh, &externalgrpcpb.RefreshRequest{})
	_, list := ask(ctx, s.NodeGroups, &externalgrpcpb.NodeGroupsRequest{})
	_, forNode := ask(ctx, s.NodeGroupForNode, &externalgrpcpb.NodeGroupForNodeRequest{Node: noSuchNode()})
	_, target := ask(ctx, s.NodeGroupTargetSize, &externalgrpcpb.NodeGroupTargetSizeRequest{Id: unknownID})
	_, nodes := ask(ctx, s.NodeGroupNodes, &externalgrpcpb.NodeGroupNodesRequest{Id: unknownID})
	for _, answered := range []struct {
		method string
		err    error
	}{
		{"Refresh", refresh}, {"NodeGroups", list}, {"NodeGroupForNode", forNode}, {"NodeGroupTargetSize", target}, {"NodeGroupNodes", nodes},
	} {
		switch status.Code(answered.err) {
		case codes.Unimplemented:
			s.Failf("%s answered Unimplemented, which Cluster Autoscaler does not expect of it", answered.method)
		case codes.Unavailable, codes.DeadlineExceeded:
			s.Failf("%s: %w", answered.method, answered.err)
		default: // any other code is an answer
		}
	}
}

func unknownGroupRefused(ctx context.Context, s *server) {
	_, target := ask(ctx, s.NodeGroupTargetSize, &externalgrpcpb.NodeGroupTargetSizeRequest{Id: unknownID})
	_, nodes := ask(ctx, s.NodeGroupNodes, &externalgrpcpb.NodeGroupNodesRequest{Id: unknownID})
	_, template := ask(ctx, s.NodeGroupTemplateNodeInfo, &externalgrpcpb.NodeGroupTemplateNodeInfoRequest{Id: unknownID})
	answer, options := ask(ctx, s.NodeGroupGetOptions, &externalgrpcpb.NodeGroupAutoscalingOptionsRequest{Id: unknownID,
		Defaults: someDefaults()})
	s.refused("NodeGroupTargetSize", target)
	s.refused("NodeGroupNodes", nodes)
	if status.Code(template) != codes.Unimplemented {
		s.refused("NodeGroupTemplateNodeInfo", template)
	}
	if status.Code(options) != codes.Unimplemented && (options != nil || answer.GetNodeGroupAutoscalingOptions() != nil) {
		s.refused("NodeGroupGetOptions", options)
	}
}

func unknownGroupUnchanged(ctx context.Context, s *server) {
	_, increase := ask(ctx, s.NodeGroupIncreaseSize, &externalgrpcpb.NodeGroupIncreaseSizeRequest{Id: unknownID, Delta: 1})
	_, decrease := ask(ctx, s.NodeGroupDecreaseTargetSize, &externalgrpcpb.NodeGroupDecreaseTargetSizeRequest{Id: unknownID, Delta: -1})
	_, deleted := ask(ctx, s.NodeGroupDeleteNodes, &externalgrpcpb.NodeGroupDeleteNodesRequest{
		Id: unknownID, Nodes: []*externalgrpcpb.ExternalGrpcNode{noSuchNode()},
	})
	s.refused("NodeGroupIncreaseSize", increase)
	s.refused("NodeGroupDecreaseTargetSize", decrease)
	s.refused("NodeGroupDeleteNodes", deleted)
}

func gpuLabel(ctx context.Context, s *server) {
	first, err := ask(ctx, s.GPULabel, &externalgrpcpb.GPULabelRequest{})
	if err != nil {
		s.Add(conformance.Warn("GPULabel: %v: Cluster Autoscaler continues without a label and repeats the call in every "+
			"loop; answer an empty one", err))
		return
	}
	again := answer(ctx, s, "second GPULabel", s.GPULabel, &externalgrpcpb.GPULabelRequest{})
	if first.GetLabel() != again.GetLabel() {
		s.Failf("GPULabel answered %q, then %q", first.GetLabel(), again.GetLabel())
	}
	if _, err := ask(ctx, s.GetAvailableGPUTypes, &externalgrpcpb.GetAvailableGPUTypesRequest{}); err != nil {
		s.Add(conformance.Warn("GetAvailableGPUTypes: %v: Cluster Autoscaler continues without types and repeats the call in "+
			"every loop; answer an empty list", err))
	}
}
