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
func answerSizes(ctx context.Context, s server) error {
	list, err := ask(ctx, s.NodeGroups, &externalgrpcpb.NodeGroupsRequest{})
	if err != nil {
		return fmt.Errorf("NodeGroups: %w", err)
	}
	if len(list.GetNodeGroups()) == 0 {
		return conformance.Skip("there is no node group")
	}
	warning := measure("NodeGroups", proto.Size(list))
	if conformance.Judge("", warning).Outcome == conformance.Failed {
		return warning
	}
	err = s.instances(ctx, func(g *externalgrpcpb.NodeGroup, nodes *externalgrpcpb.NodeGroupNodesResponse) error {
		size, count := proto.Size(nodes), len(nodes.GetInstances())
		judged := measure(fmt.Sprintf("NodeGroupNodes(%s)", g.GetId()), size)
		if count > 0 && judged == nil {
			if full := int(int64(size) * int64(g.GetMaxSize()) / int64(count)); full > largest {
				judged = conformance.Warn("NodeGroupNodes(%s) answers %d bytes with %d instances, which makes %s at the group's maximum of %d: Cluster Autoscaler receives at most 4 MiB",
					g.GetId(), size, count, mebibytes(full), g.GetMaxSize())
			}
		}
		if conformance.Judge("", judged).Outcome == conformance.Warned {
			warning, judged = judged, nil
		}
		return judged
	})
	if err != nil {
		return err
	}
	return warning
}

func measure(call string, size int) error {
	switch {
	case size > near:
		return fmt.Errorf("%s answers %s: Cluster Autoscaler receives at most 4 MiB", call, mebibytes(size))
	case size > halfway:
		return conformance.Warn("%s answers %s: Cluster Autoscaler receives at most 4 MiB", call, mebibytes(size))
	}
	return nil
}

func mebibytes(size int) string { return fmt.Sprintf("%.1f MiB", float64(size)/(1<<20)) }
