package wirerules

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

func methodsImplemented(ctx context.Context, s server) error {
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
			return fmt.Errorf("%s answered Unimplemented, which Cluster Autoscaler does not expect of it", answered.method)
		case codes.Unavailable, codes.DeadlineExceeded:
			return fmt.Errorf("%s: %w", answered.method, answered.err)
		default: // any other code is an answer
		}
	}
	return nil
}

func unknownGroupRefused(ctx context.Context, s server) error {
	_, target := ask(ctx, s.NodeGroupTargetSize, &externalgrpcpb.NodeGroupTargetSizeRequest{Id: unknownID})
	_, nodes := ask(ctx, s.NodeGroupNodes, &externalgrpcpb.NodeGroupNodesRequest{Id: unknownID})
	_, template := ask(ctx, s.NodeGroupTemplateNodeInfo, &externalgrpcpb.NodeGroupTemplateNodeInfoRequest{Id: unknownID})
	answer, options := ask(ctx, s.NodeGroupGetOptions, &externalgrpcpb.NodeGroupAutoscalingOptionsRequest{Id: unknownID, Defaults: someDefaults()})
	judged := []error{refusal("NodeGroupTargetSize", target), refusal("NodeGroupNodes", nodes)}
	if status.Code(template) != codes.Unimplemented {
		judged = append(judged, refusal("NodeGroupTemplateNodeInfo", template))
	}
	none := status.Code(options) == codes.Unimplemented || options == nil && answer.GetNodeGroupAutoscalingOptions() == nil
	if !none {
		judged = append(judged, refusal("NodeGroupGetOptions", options))
	}
	return worst(judged)
}

func unknownGroupUnchanged(ctx context.Context, s server) error {
	_, increase := ask(ctx, s.NodeGroupIncreaseSize, &externalgrpcpb.NodeGroupIncreaseSizeRequest{Id: unknownID, Delta: 1})
	_, decrease := ask(ctx, s.NodeGroupDecreaseTargetSize, &externalgrpcpb.NodeGroupDecreaseTargetSizeRequest{Id: unknownID, Delta: -1})
	_, deleted := ask(ctx, s.NodeGroupDeleteNodes, &externalgrpcpb.NodeGroupDeleteNodesRequest{
		Id: unknownID, Nodes: []*externalgrpcpb.ExternalGrpcNode{noSuchNode()},
	})
	return worst([]error{
		refusal("NodeGroupIncreaseSize", increase), refusal("NodeGroupDecreaseTargetSize", decrease), refusal("NodeGroupDeleteNodes", deleted),
	})
}

// worst is the first failure, or else the first warning.
func worst(errs []error) error {
	var warning error
	for _, err := range errs {
		switch conformance.Judge("", err).Outcome {
		case conformance.Failed:
			return err
		case conformance.Warned:
			if warning == nil {
				warning = err
			}
		case conformance.Passed, conformance.Skipped:
		}
	}
	return warning
}

func gpuLabel(ctx context.Context, s server) error {
	first, err := ask(ctx, s.GPULabel, &externalgrpcpb.GPULabelRequest{})
	if err != nil {
		return conformance.Warn("GPULabel: %v: Cluster Autoscaler continues without a label and repeats the call in every loop; answer an empty one", err)
	}
	again, err := ask(ctx, s.GPULabel, &externalgrpcpb.GPULabelRequest{})
	if err != nil {
		return fmt.Errorf("second GPULabel: %w", err)
	}
	if first.GetLabel() != again.GetLabel() {
		return fmt.Errorf("GPULabel answered %q, then %q", first.GetLabel(), again.GetLabel())
	}
	if _, err := ask(ctx, s.GetAvailableGPUTypes, &externalgrpcpb.GetAvailableGPUTypesRequest{}); err != nil {
		return conformance.Warn("GetAvailableGPUTypes: %v: Cluster Autoscaler continues without types and repeats the call in every loop; answer an empty list", err)
	}
	return nil
}
