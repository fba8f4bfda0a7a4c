package externalgrpc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

// MaxMessage is the maximum size of a message in bytes, in both directions. The default of gRPC is
// 4 MiB.
const MaxMessage = 128 << 20

// Client is a cloud behind an external cloud provider server. It implements
// cloudprovider.Provider, cloudprovider.Pricing and cloudprovider.GPUs. A template has no
// pods, and options have the caller's MaxNodeStartupTime and
// AllowNonAtomicScaleUpToMax: the protocol carries neither.
type Client struct {
	remote externalgrpcpb.CloudProviderClient
}

var (
	_ cloudprovider.Provider = (*Client)(nil)
	_ cloudprovider.Pricing  = (*Client)(nil)
	_ cloudprovider.GPUs     = (*Client)(nil)
)

// NewClient returns a client over a connection, which stays the caller's.
func NewClient(conn grpc.ClientConnInterface) *Client {
	return &Client{remote: externalgrpcpb.NewCloudProviderClient(conn)}
}

// call makes one call of the protocol on behalf of a method of the contract.
func call[Q, A any](ctx context.Context, method string, do func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	answer, err := do(ctx, request, grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage))
	return answer, fromStatus(ctx, method, err)
}

// NodeGroups implements cloudprovider.Provider.
func (c *Client) NodeGroups(ctx context.Context) ([]cloudprovider.NodeGroup, error) {
	answer, err := call(ctx, "NodeGroups", c.remote.NodeGroups, &externalgrpcpb.NodeGroupsRequest{})
	if err != nil {
		return nil, err
	}
	groups := make([]cloudprovider.NodeGroup, 0, len(answer.GetNodeGroups()))
	for _, g := range answer.GetNodeGroups() {
		groups = append(groups, groupFromWire(g))
	}
	slices.SortStableFunc(groups, func(a, b cloudprovider.NodeGroup) int { return strings.Compare(a.ID, b.ID) })
	return groups, nil
}

// NodeGroupForNode implements cloudprovider.Provider.
func (c *Client) NodeGroupForNode(ctx context.Context, node *v1.Node) (id string, ok bool, err error) {
	answer, err := call(ctx, "NodeGroupForNode", c.remote.NodeGroupForNode, &externalgrpcpb.NodeGroupForNodeRequest{Node: nodeToWire(node)})
	id = answer.GetNodeGroup().GetId()
	return id, id != "", err
}

// TargetSize implements cloudprovider.Provider.
func (c *Client) TargetSize(ctx context.Context, id string) (int, error) {
	answer, err := call(ctx, "TargetSize", c.remote.NodeGroupTargetSize, &externalgrpcpb.NodeGroupTargetSizeRequest{Id: id})
	return int(answer.GetTargetSize()), err
}

// IncreaseSize implements cloudprovider.Provider.
func (c *Client) IncreaseSize(ctx context.Context, id string, delta int) error {
	wire, err := int32Of("increase by", delta)
	if err != nil {
		return fmt.Errorf("node group %q: %w: %w", id, cloudprovider.ErrInvalidDelta, err)
	}
	_, err = call(ctx, "IncreaseSize", c.remote.NodeGroupIncreaseSize, &externalgrpcpb.NodeGroupIncreaseSizeRequest{Id: id, Delta: wire})
	return err
}

// DecreaseTargetSize implements cloudprovider.Provider.
func (c *Client) DecreaseTargetSize(ctx context.Context, id string, delta int) error {
	wire, err := int32Of("decrease by", delta)
	if err != nil {
		return fmt.Errorf("node group %q: %w: %w", id, cloudprovider.ErrInvalidDelta, err)
	}
	_, err = call(ctx, "DecreaseTargetSize", c.remote.NodeGroupDecreaseTargetSize, &externalgrpcpb.NodeGroupDecreaseTargetSizeRequest{Id: id,
		Delta: wire})
	return err
}

// DeleteNodes implements cloudprovider.Provider.
func (c *Client) DeleteNodes(ctx context.Context, id string, nodes []*v1.Node) error {
	request := &externalgrpcpb.NodeGroupDeleteNodesRequest{Id: id}
	for _, node := range nodes {
		request.Nodes = append(request.Nodes, nodeToWire(node))
	}
	_, err := call(ctx, "DeleteNodes", c.remote.NodeGroupDeleteNodes, request)
	return err
}

// Nodes implements cloudprovider.Provider.
func (c *Client) Nodes(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
	answer, err := call(ctx, "Nodes", c.remote.NodeGroupNodes, &externalgrpcpb.NodeGroupNodesRequest{Id: id})
	if err != nil {
		return nil, err
	}
	instances := make([]cloudprovider.Instance, 0, len(answer.GetInstances()))
	for _, in := range answer.GetInstances() {
		instances = append(instances, instanceFromWire(in))
	}
	return instances, nil
}

// Template implements cloudprovider.Provider.
func (c *Client) Template(ctx context.Context, id string) (cloudprovider.Template, error) {
	answer, err := call(ctx, "Template", c.remote.NodeGroupTemplateNodeInfo, &externalgrpcpb.NodeGroupTemplateNodeInfoRequest{Id: id})
	if err != nil {
		return cloudprovider.Template{}, err
	}
	bytes := answer.GetNodeBytes()
	if len(bytes) == 0 {
		bytes = answer.GetNodeInfo()
	}
	if len(bytes) == 0 {
		return cloudprovider.Template{}, cloudprovider.ErrNotImplemented
	}
	node := &v1.Node{}
	if err := node.Unmarshal(bytes); err != nil {
		return cloudprovider.Template{}, fmt.Errorf("node group %q: %w: template: %w", id, cloudprovider.ErrUnavailable, err)
	}
	return cloudprovider.Template{Node: node}, nil
}

// Options implements cloudprovider.Provider.
func (c *Client) Options(ctx context.Context, id string, defaults cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) {
	answer, err := call(ctx, "Options", c.remote.NodeGroupGetOptions,
		&externalgrpcpb.NodeGroupAutoscalingOptionsRequest{Id: id, Defaults: optionsToWire(defaults, false)})
	if err != nil {
		return cloudprovider.GroupOptions{}, err
	}
	if answer.GetNodeGroupAutoscalingOptions() == nil {
		return cloudprovider.GroupOptions{}, cloudprovider.ErrNotImplemented
	}
	options, _ := optionsFromWire(answer.GetNodeGroupAutoscalingOptions())
	options.MaxNodeStartupTime = defaults.MaxNodeStartupTime
	options.AllowNonAtomicScaleUpToMax = defaults.AllowNonAtomicScaleUpToMax
	return options, nil
}

// Refresh implements cloudprovider.Provider.
func (c *Client) Refresh(ctx context.Context) error {
	_, err := call(ctx, "Refresh", c.remote.Refresh, &externalgrpcpb.RefreshRequest{})
	return err
}

// Cleanup implements cloudprovider.Provider. It does not close the connection.
func (c *Client) Cleanup(ctx context.Context) error {
	_, err := call(ctx, "Cleanup", c.remote.Cleanup, &externalgrpcpb.CleanupRequest{})
	return err
}

// NodePrice implements cloudprovider.Pricing. The server sees only the names, labels and
// annotations of the node.
func (c *Client) NodePrice(ctx context.Context, node *v1.Node, start, end time.Time) (cloudprovider.Price, error) {
	answer, err := call(ctx, "NodePrice", c.remote.PricingNodePrice, &externalgrpcpb.PricingNodePriceRequest{
		Node: nodeToWire(node), StartTimestamp: timestamppb.New(start), EndTimestamp: timestamppb.New(end),
	})
	if err != nil {
		return 0, err
	}
	return priceFromWire(answer.GetPrice())
}

// PodPrice implements cloudprovider.Pricing.
func (c *Client) PodPrice(ctx context.Context, pod *v1.Pod, start, end time.Time) (cloudprovider.Price, error) {
	bytes, err := pod.Marshal()
	if err != nil {
		return 0, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	answer, err := call(ctx, "PodPrice", c.remote.PricingPodPrice, &externalgrpcpb.PricingPodPriceRequest{
		PodBytes: bytes, StartTimestamp: timestamppb.New(start), EndTimestamp: timestamppb.New(end),
	})
	if err != nil {
		return 0, err
	}
	return priceFromWire(answer.GetPrice())
}

// GPULabel implements cloudprovider.GPUs.
func (c *Client) GPULabel(ctx context.Context) (string, error) {
	answer, err := call(ctx, "GPULabel", c.remote.GPULabel, &externalgrpcpb.GPULabelRequest{})
	return answer.GetLabel(), err
}

// GPUTypes implements cloudprovider.GPUs.
func (c *Client) GPUTypes(ctx context.Context) ([]string, error) {
	answer, err := call(ctx, "GPUTypes", c.remote.GetAvailableGPUTypes, &externalgrpcpb.GetAvailableGPUTypesRequest{})
	return slices.Sorted(maps.Keys(answer.GetGpuTypes())), err
}
