package grpcexpander

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
)

// NewClient returns Cluster Autoscaler's client of an expander server, over a connection that
// stays the caller's. It writes what release 1.35 and later write.
func NewClient(conn grpc.ClientConnInterface) expander.Chooser {
	remote := grpcexpanderpb.NewExpanderClient(conn)
	return expander.ChooserFunc(func(ctx context.Context, request expander.Question) ([]string, error) {
		wire, err := toWire(request)
		if err != nil {
			return nil, err
		}
		answer, err := remote.BestOptions(ctx, wire, grpc.MaxCallRecvMsgSize(MaxMessage))
		if err != nil {
			return nil, fmt.Errorf("best options: %w", err)
		}
		groups := make([]string, 0, len(answer.GetOptions()))
		for _, o := range answer.GetOptions() {
			groups = append(groups, o.GetNodeGroupId())
		}
		return groups, nil
	})
}

// toWire repeats the pods in every option, as Cluster Autoscaler does.
func toWire(request expander.Question) (*grpcexpanderpb.BestOptionsRequest, error) {
	pods := make([][]byte, len(request.Pods))
	for i, pod := range request.Pods {
		var err error
		if pods[i], err = pod.Marshal(); err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	wire := &grpcexpanderpb.BestOptionsRequest{NodeBytesMap: make(map[string][]byte, len(request.Nodes))}
	for id, node := range request.Nodes {
		text, err := node.Marshal()
		if err != nil {
			return nil, fmt.Errorf("template of %s: %w", id, err)
		}
		wire.NodeBytesMap[id] = text
	}
	for _, o := range request.Options {
		sent := &grpcexpanderpb.Option{NodeGroupId: o.Group, Debug: o.Debug}
		sent.NodeCount = int32(o.NodeCount) // at most 1000 nodes
		for _, i := range o.Pods {
			sent.PodBytes = append(sent.PodBytes, pods[i])
		}
		wire.Options = append(wire.Options, sent)
	}
	return wire, nil
}
