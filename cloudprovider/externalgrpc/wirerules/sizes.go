package wirerules

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

// Cluster Autoscaler receives answers up to largest bytes. An answer that is nearly as large fails
// the rule, and one of half that size gets a warning, because answers grow with the cluster.
const (
	largest = 4 << 20
	near    = largest / 16 * 15
	halfway = largest / 2
)

// answerSizes measures the answers that grow with the number of groups and nodes.
func answerSizes(ctx context.Context, s *server) {
	list := answer(ctx, s, "NodeGroups", s.NodeGroups, &externalgrpcpb.NodeGroupsRequest{})
	if len(list.GetNodeGroups()) == 0 {
		s.Add(conformance.Skip("there is no node group"))
	}
	s.measure("NodeGroups", proto.Size(list))
	for _, g := range list.GetNodeGroups() {
		nodes := s.nodes(ctx, g.GetId())
		size, count := proto.Size(nodes), len(nodes.GetInstances())
		s.measure(fmt.Sprintf("NodeGroupNodes(%s)", g.GetId()), size)
		if full := int(int64(size) * int64(g.GetMaxSize()) / int64(max(1, count))); count > 0 && full > largest {
			s.Add(conformance.Warn("NodeGroupNodes(%s) answers %d bytes with %d instances, which makes %s at the group's maximum "+
				"of %d: Cluster Autoscaler receives at most 4 MiB",
				g.GetId(), size, count, mebibytes(full), g.GetMaxSize()))
		}
	}
}

func (s *server) measure(call string, size int) {
	switch {
	case size > near:
		s.Failf("%s answers %s: Cluster Autoscaler receives at most 4 MiB", call, mebibytes(size))
	case size > halfway:
		s.Add(conformance.Warn("%s answers %s: Cluster Autoscaler receives at most 4 MiB", call, mebibytes(size)))
	}
}

func mebibytes(size int) string { return fmt.Sprintf("%.1f MiB", float64(size)/(1<<20)) }
