package wirerules

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

// maxMessage is the size in bytes up to which an answer is checked.
const maxMessage = 128 << 20

// Rule is a rule that every server must follow.
type Rule struct {
	Name  string // short, in kebab-case, different from those of package conformance
	Reach conformance.Reach
	About string // what is required, in one sentence
	check func(context.Context, server) error
}

// Rules returns all rules in the order they are checked.
func Rules() []Rule {
	return []Rule{
		{"methods-implemented", conformance.Reads, "Unimplemented is answered for prices, templates and options only.", methodsImplemented},
		{"unknown-group-refused", conformance.Reads, "Queries about an unknown group are answered with an error, preferably NotFound.", unknownGroupRefused},
		{"unknown-group-unchanged", conformance.Changes, "Changes of an unknown group are answered with an error, preferably NotFound.", unknownGroupUnchanged},
		{"node-group-with-bounds", conformance.Reads, "NodeGroupForNode answers the group with the same bounds as NodeGroups: they are used until the next Refresh.", nodeGroupWithBounds},
		{"instance-errors-seen", conformance.Reads, "An instance's error has a code and comes with a state; otherwise it is ignored.", instanceErrorsSeen},
		{"template-node-bytes", conformance.Reads, "A template is in nodeBytes; a group without one answers Unimplemented.", templateNodeBytes},
		{"options-left-out", conformance.Reads, "NodeGroupGetOptions answers Unimplemented, or no options, unless the group has some of its own.", optionsLeftOut},
		{"options-durations", conformance.Reads, "Options that are answered have all three durations: a missing one is zero, not the default.", optionsDurations},
		{"gpu-label", conformance.Reads, "The GPU label and the GPU types are answered, and never change: they are read once.", gpuLabel},
		{"answer-sizes", conformance.Reads, "Answers stay below 4 MiB: Cluster Autoscaler does not receive larger ones.", answerSizes},
	}
}

// Check checks one rule of the server at the other end of a connection.
func (r Rule) Check(ctx context.Context, conn grpc.ClientConnInterface) conformance.Result {
	return conformance.Judge(r.Name, r.check(ctx, server{externalgrpcpb.NewCloudProviderClient(conn)}))
}

// server is the server under test, with the queries that rules have in common.
type server struct {
	externalgrpcpb.CloudProviderClient
}

// ask makes one call.
func ask[Q, A any](ctx context.Context, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	return method(ctx, request, grpc.MaxCallRecvMsgSize(maxMessage))
}

// groups lists the groups of the server.
func (s server) groups(ctx context.Context) ([]*externalgrpcpb.NodeGroup, error) {
	answer, err := ask(ctx, s.NodeGroups, &externalgrpcpb.NodeGroupsRequest{})
	if err != nil {
		return nil, fmt.Errorf("NodeGroups: %w", err)
	}
	if len(answer.GetNodeGroups()) == 0 {
		return nil, conformance.Skip("there is no node group")
	}
	return answer.GetNodeGroups(), nil
}

// instances calls f with the instances of each group and the size of the answer that has them.
func (s server) instances(ctx context.Context, f func(*externalgrpcpb.NodeGroup, *externalgrpcpb.NodeGroupNodesResponse) error) error {
	groups, err := s.groups(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		answer, err := ask(ctx, s.NodeGroupNodes, &externalgrpcpb.NodeGroupNodesRequest{Id: g.GetId()})
		if err != nil {
			return fmt.Errorf("NodeGroupNodes(%s): %w", g.GetId(), err)
		}
		if err := f(g, answer); err != nil {
			return err
		}
	}
	return nil
}

const unknownID = "conformance-no-such-group"

// refusal judges the answer to a call that must be refused.
func refusal(method string, err error) error {
	switch code := status.Code(err); code {
	case codes.OK:
		return fmt.Errorf("%s of an unknown group was not refused", method)
	case codes.Unimplemented:
		return fmt.Errorf("%s answered Unimplemented, which Cluster Autoscaler does not expect of it", method)
	case codes.Unavailable, codes.DeadlineExceeded:
		return fmt.Errorf("%s of an unknown group: %w", method, err)
	case codes.NotFound:
		return nil
	default:
		return conformance.Warn("%s of an unknown group answered %s: Cluster Autoscaler takes any error, but NotFound tells others that nothing was done", method, code)
	}
}

func noSuchNode() *externalgrpcpb.ExternalGrpcNode {
	return &externalgrpcpb.ExternalGrpcNode{Name: "conformance://no-such-node", ProviderID: "conformance://no-such-node"}
}
