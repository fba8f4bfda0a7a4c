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

// Rules returns all rules for the server at the other end of a connection, in the order they are checked.
// Their names differ from those of package conformance.
func Rules(conn grpc.ClientConnInterface) []conformance.Rule {
	rule := func(name string, reach conformance.Reach, about string, check func(context.Context, *server)) conformance.Rule {
		return conformance.Rule{Name: name, Reach: reach, About: about, Find: func(ctx context.Context, _ conformance.Harness) error {
			s := &server{CloudProviderClient: externalgrpcpb.NewCloudProviderClient(conn)}
			check(ctx, s)
			return s.Err()
		}}
	}
	return []conformance.Rule{
		rule("methods-implemented", conformance.Reads, "Unimplemented is answered for prices, templates and options only.", methodsImplemented),
		rule("unknown-group-refused", conformance.Reads, "Queries about an unknown group are answered with an error, preferably NotFound.",
			unknownGroupRefused),
		rule("unknown-group-unchanged", conformance.Changes, "Changes of an unknown group are answered with an error, preferably NotFound.",
			unknownGroupUnchanged),
		rule("node-group-with-bounds", conformance.Reads,
			"NodeGroupForNode answers the group with the same bounds as NodeGroups: they are used until the next Refresh.", nodeGroupWithBounds),
		rule("instance-errors-seen", conformance.Reads, "An instance's error has a code and comes with a state; otherwise it is ignored.",
			instanceErrorsSeen),
		rule("template-node-bytes", conformance.Reads, "A template is in nodeBytes; a group without one answers Unimplemented.",
			templateNodeBytes),
		rule("options-left-out", conformance.Reads,
			"NodeGroupGetOptions answers Unimplemented, or no options, unless the group has some of its own.", optionsLeftOut),
		rule("options-durations", conformance.Reads,
			"Options that are answered have all three durations: a missing one is zero, not the default.", optionsDurations),
		rule("gpu-label", conformance.Reads, "The GPU label and the GPU types are answered, and never change: they are read once.", gpuLabel),
		rule("answer-sizes", conformance.Reads, "Answers stay below 4 MiB: Cluster Autoscaler does not receive larger ones.", answerSizes),
	}
}

// server is the server under test, with what a rule finds.
type server struct {
	externalgrpcpb.CloudProviderClient
	conformance.Findings
}

// ask makes one call.
func ask[Q, A any](ctx context.Context, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	return method(ctx, request, grpc.MaxCallRecvMsgSize(maxMessage))
}

// answer makes one call, whose error is a failure, unless the check has ended.
func answer[Q, A any](ctx context.Context, s *server, call string, method func(context.Context, Q, ...grpc.CallOption) (A, error),
	request Q) A {
	return conformance.Ask(&s.Findings, call, func() (A, error) { return ask(ctx, method, request) })
}

// groups lists the groups of the server; without any the rule is skipped.
func (s *server) groups(ctx context.Context) []*externalgrpcpb.NodeGroup {
	groups := answer(ctx, s, "NodeGroups", s.NodeGroups, &externalgrpcpb.NodeGroupsRequest{}).GetNodeGroups()
	if len(groups) == 0 {
		s.Add(conformance.Skip("there is no node group"))
	}
	return groups
}

// nodes answers the instances of a group.
func (s *server) nodes(ctx context.Context, id string) *externalgrpcpb.NodeGroupNodesResponse {
	return answer(ctx, s, fmt.Sprintf("NodeGroupNodes(%s)", id), s.NodeGroupNodes, &externalgrpcpb.NodeGroupNodesRequest{Id: id})
}

const unknownID = "conformance-no-such-group"

// refused judges the answer to a call that must be refused.
func (s *server) refused(method string, err error) {
	switch code := status.Code(err); code {
	case codes.OK:
		s.Failf("%s of an unknown group was not refused", method)
	case codes.Unimplemented:
		s.Failf("%s answered Unimplemented, which Cluster Autoscaler does not expect of it", method)
	case codes.Unavailable, codes.DeadlineExceeded:
		s.Failf("%s of an unknown group: %w", method, err)
	case codes.NotFound:
	default:
		s.Add(conformance.Warn("%s of an unknown group answered %s: Cluster Autoscaler takes any error, but NotFound tells "+
			"others that nothing was done", method, code))
	}
}

func noSuchNode() *externalgrpcpb.ExternalGrpcNode {
	return &externalgrpcpb.ExternalGrpcNode{Name: "conformance://no-such-node", ProviderID: "conformance://no-such-node"}
}
