package externalgrpc

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

// Server serves a provider to Cluster Autoscaler. Prices and GPUs are served if the provider
// implements cloudprovider.Pricing and cloudprovider.GPUs. It needs a grpc.Server that receives messages up to
// MaxMessage.
//
// Cleanup is answered and not passed on: a client that disconnects is not a reason to release a
// provider that other clients, or the same client after a restart, use.
type Server struct {
	externalgrpcpb.UnimplementedCloudProviderServer
	provider cloudprovider.Provider

	mu     sync.Mutex
	groups map[string]*externalgrpcpb.NodeGroup // as listed last; nil after a refresh
}

// NewServer returns a server for the provider.
func NewServer(provider cloudprovider.Provider) *Server {
	return &Server{provider: provider}
}

// Register makes the server answer on a grpc.Server.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	externalgrpcpb.RegisterCloudProviderServer(registrar, s)
}

// NodeGroups implements the protocol.
func (s *Server) NodeGroups(ctx context.Context, _ *externalgrpcpb.NodeGroupsRequest) (*externalgrpcpb.NodeGroupsResponse, error) {
	listed, err := s.provider.NodeGroups(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	answer := &externalgrpcpb.NodeGroupsResponse{NodeGroups: make([]*externalgrpcpb.NodeGroup, 0, len(listed))}
	groups := make(map[string]*externalgrpcpb.NodeGroup, len(listed))
	for _, g := range listed {
		wire, err := groupToWire(g)
		if err != nil {
			return nil, toStatus(err)
		}
		answer.NodeGroups = append(answer.NodeGroups, wire)
		groups[g.ID] = wire
	}
	s.remember(groups)
	return answer, nil
}

func (s *Server) remember(groups map[string]*externalgrpcpb.NodeGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = groups
}

func (s *Server) group(id string) *externalgrpcpb.NodeGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[id]
}

// NodeGroupForNode implements the protocol. The answer has the group's bounds,
// which Cluster Autoscaler keeps until its next Refresh.
func (s *Server) NodeGroupForNode(ctx context.Context,
	r *externalgrpcpb.NodeGroupForNodeRequest) (*externalgrpcpb.NodeGroupForNodeResponse, error) {
	id, ok, err := s.provider.NodeGroupForNode(ctx, nodeFromWire(r.GetNode()))
	if err != nil {
		return nil, toStatus(err)
	}
	if !ok {
		return &externalgrpcpb.NodeGroupForNodeResponse{NodeGroup: &externalgrpcpb.NodeGroup{}}, nil
	}
	if s.group(id) == nil {
		if _, err := s.NodeGroups(ctx, nil); err != nil {
			return nil, err
		}
	}
	g := s.group(id)
	if g == nil {
		return nil, toStatus(fmt.Errorf("%w: %q, the group of node %q", cloudprovider.ErrNotFound, id, r.GetNode().GetName()))
	}
	return &externalgrpcpb.NodeGroupForNodeResponse{NodeGroup: g}, nil
}

// PricingNodePrice implements the protocol.
func (s *Server) PricingNodePrice(ctx context.Context,
	r *externalgrpcpb.PricingNodePriceRequest) (*externalgrpcpb.PricingNodePriceResponse, error) {
	pricing, ok := s.provider.(cloudprovider.Pricing)
	if !ok {
		return nil, toStatus(cloudprovider.ErrNotImplemented)
	}
	start, end := timeOf(r.GetStartTimestamp(), r.GetStartTime()), timeOf(r.GetEndTimestamp(), r.GetEndTime())
	price, err := pricing.NodePrice(ctx, nodeFromWire(r.GetNode()), start, end)
	return &externalgrpcpb.PricingNodePriceResponse{Price: priceToWire(price)}, toStatus(err)
}

// PricingPodPrice implements the protocol.
func (s *Server) PricingPodPrice(ctx context.Context,
	r *externalgrpcpb.PricingPodPriceRequest) (*externalgrpcpb.PricingPodPriceResponse, error) {
	pricing, ok := s.provider.(cloudprovider.Pricing)
	if !ok {
		return nil, toStatus(cloudprovider.ErrNotImplemented)
	}
	start, end := timeOf(r.GetStartTimestamp(), r.GetStartTime()), timeOf(r.GetEndTimestamp(), r.GetEndTime())
	bytes := r.GetPodBytes()
	if len(bytes) == 0 {
		bytes = r.GetPod()
	}
	pod := &v1.Pod{}
	if err := pod.Unmarshal(bytes); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "pod: %v", err)
	}
	price, err := pricing.PodPrice(ctx, pod, start, end)
	return &externalgrpcpb.PricingPodPriceResponse{Price: priceToWire(price)}, toStatus(err)
}

// GPULabel implements the protocol.
func (s *Server) GPULabel(ctx context.Context, _ *externalgrpcpb.GPULabelRequest) (*externalgrpcpb.GPULabelResponse, error) {
	gpus, ok := s.provider.(cloudprovider.GPUs)
	if !ok {
		return &externalgrpcpb.GPULabelResponse{}, nil
	}
	label, err := gpus.GPULabel(ctx)
	return &externalgrpcpb.GPULabelResponse{Label: label}, toStatus(err)
}

// GetAvailableGPUTypes implements the protocol.
func (s *Server) GetAvailableGPUTypes(ctx context.Context,
	_ *externalgrpcpb.GetAvailableGPUTypesRequest) (*externalgrpcpb.GetAvailableGPUTypesResponse, error) {
	answer := &externalgrpcpb.GetAvailableGPUTypesResponse{}
	gpus, ok := s.provider.(cloudprovider.GPUs)
	if !ok {
		return answer, nil
	}
	types, err := gpus.GPUTypes(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	answer.GpuTypes = make(map[string]*anypb.Any, len(types))
	for _, name := range types {
		answer.GpuTypes[name] = &anypb.Any{}
	}
	return answer, nil
}

// Cleanup implements the protocol.
func (s *Server) Cleanup(context.Context, *externalgrpcpb.CleanupRequest) (*externalgrpcpb.CleanupResponse, error) {
	return &externalgrpcpb.CleanupResponse{}, nil
}

// Refresh implements the protocol.
func (s *Server) Refresh(ctx context.Context, _ *externalgrpcpb.RefreshRequest) (*externalgrpcpb.RefreshResponse, error) {
	err := s.provider.Refresh(ctx)
	s.remember(nil)
	return &externalgrpcpb.RefreshResponse{}, toStatus(err)
}

// NodeGroupTargetSize implements the protocol.
func (s *Server) NodeGroupTargetSize(ctx context.Context,
	r *externalgrpcpb.NodeGroupTargetSizeRequest) (*externalgrpcpb.NodeGroupTargetSizeResponse, error) {
	size, err := s.provider.TargetSize(ctx, r.GetId())
	if err != nil {
		return nil, toStatus(err)
	}
	wire, err := int32Of("target size of "+r.GetId(), size)
	return &externalgrpcpb.NodeGroupTargetSizeResponse{TargetSize: wire}, toStatus(err)
}

// NodeGroupIncreaseSize implements the protocol.
func (s *Server) NodeGroupIncreaseSize(ctx context.Context,
	r *externalgrpcpb.NodeGroupIncreaseSizeRequest) (*externalgrpcpb.NodeGroupIncreaseSizeResponse, error) {
	err := s.provider.IncreaseSize(ctx, r.GetId(), int(r.GetDelta()))
	return &externalgrpcpb.NodeGroupIncreaseSizeResponse{}, toStatus(err)
}

// NodeGroupDecreaseTargetSize implements the protocol.
func (s *Server) NodeGroupDecreaseTargetSize(ctx context.Context,
	r *externalgrpcpb.NodeGroupDecreaseTargetSizeRequest) (*externalgrpcpb.NodeGroupDecreaseTargetSizeResponse, error) {
	err := s.provider.DecreaseTargetSize(ctx, r.GetId(), int(r.GetDelta()))
	return &externalgrpcpb.NodeGroupDecreaseTargetSizeResponse{}, toStatus(err)
}

// NodeGroupDeleteNodes implements the protocol.
func (s *Server) NodeGroupDeleteNodes(ctx context.Context,
	r *externalgrpcpb.NodeGroupDeleteNodesRequest) (*externalgrpcpb.NodeGroupDeleteNodesResponse, error) {
	nodes := make([]*v1.Node, 0, len(r.GetNodes()))
	for _, node := range r.GetNodes() {
		nodes = append(nodes, nodeFromWire(node))
	}
	err := s.provider.DeleteNodes(ctx, r.GetId(), nodes)
	return &externalgrpcpb.NodeGroupDeleteNodesResponse{}, toStatus(err)
}

// NodeGroupNodes implements the protocol.
func (s *Server) NodeGroupNodes(ctx context.Context,
	r *externalgrpcpb.NodeGroupNodesRequest) (*externalgrpcpb.NodeGroupNodesResponse, error) {
	instances, err := s.provider.Nodes(ctx, r.GetId())
	if err != nil {
		return nil, toStatus(err)
	}
	answer := &externalgrpcpb.NodeGroupNodesResponse{Instances: make([]*externalgrpcpb.Instance, 0, len(instances))}
	for _, in := range instances {
		answer.Instances = append(answer.Instances, instanceToWire(in))
	}
	return answer, nil
}

// NodeGroupTemplateNodeInfo implements the protocol, for clients of all versions.
func (s *Server) NodeGroupTemplateNodeInfo(ctx context.Context,
	r *externalgrpcpb.NodeGroupTemplateNodeInfoRequest) (*externalgrpcpb.NodeGroupTemplateNodeInfoResponse, error) {
	template, err := s.provider.Template(ctx, r.GetId())
	if err == nil && template.Node == nil {
		err = cloudprovider.ErrNotImplemented
	}
	if err != nil {
		return nil, toStatus(err)
	}
	bytes, err := template.Node.Marshal()
	return &externalgrpcpb.NodeGroupTemplateNodeInfoResponse{NodeInfo: bytes, NodeBytes: bytes}, toStatus(err)
}

// NodeGroupGetOptions implements the protocol. Options that equal the defaults count as no options:
// see the package comment.
func (s *Server) NodeGroupGetOptions(ctx context.Context,
	r *externalgrpcpb.NodeGroupAutoscalingOptionsRequest) (*externalgrpcpb.NodeGroupAutoscalingOptionsResponse, error) {
	defaults, old := optionsFromWire(r.GetDefaults())
	options, err := s.provider.Options(ctx, r.GetId(), defaults)
	if err == nil && wireOptions(options) == defaults {
		err = cloudprovider.ErrNotImplemented
	}
	if err != nil {
		return nil, toStatus(err)
	}
	return &externalgrpcpb.NodeGroupAutoscalingOptionsResponse{NodeGroupAutoscalingOptions: optionsToWire(options, old)}, nil
}
