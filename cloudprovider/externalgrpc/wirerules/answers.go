package wirerules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

func nodeGroupWithBounds(ctx context.Context, s server) error {
	found := false
	err := s.instances(ctx, func(g *externalgrpcpb.NodeGroup, nodes *externalgrpcpb.NodeGroupNodesResponse) error {
		if len(nodes.GetInstances()) == 0 {
			return nil
		}
		found = true
		id := nodes.GetInstances()[0].GetId()
		answer, err := ask(ctx, s.NodeGroupForNode, &externalgrpcpb.NodeGroupForNodeRequest{Node: &externalgrpcpb.ExternalGrpcNode{
			Name: id, ProviderID: id, Annotations: cloudprovider.FakeNode(id, cloudprovider.FakeNodeUnregistered).Annotations,
		}})
		if err != nil {
			return fmt.Errorf("NodeGroupForNode(%s): %w", id, err)
		}
		got := answer.GetNodeGroup()
		if got.GetId() == g.GetId() && (got.GetMinSize() != g.GetMinSize() || got.GetMaxSize() != g.GetMaxSize()) {
			return fmt.Errorf("NodeGroupForNode(%s) answered %q with bounds %d to %d, NodeGroups %d to %d",
				id, g.GetId(), got.GetMinSize(), got.GetMaxSize(), g.GetMinSize(), g.GetMaxSize())
		}
		return nil
	})
	if err == nil && !found {
		return conformance.Skip("there is no instance")
	}
	return err
}

func instanceErrorsSeen(ctx context.Context, s server) error {
	return s.instances(ctx, func(g *externalgrpcpb.NodeGroup, nodes *externalgrpcpb.NodeGroupNodesResponse) error {
		for _, in := range nodes.GetInstances() {
			info := in.GetStatus().GetErrorInfo()
			switch state := in.GetStatus().GetInstanceState(); {
			case info == nil || proto.Size(info) == 0:
			case state == externalgrpcpb.InstanceStatus_unspecified:
				return fmt.Errorf("instance %q of %q has the error %q and no state", in.GetId(), g.GetId(), info.GetErrorMessage())
			case info.GetErrorCode() == "":
				return fmt.Errorf("instance %q of %q has the error %q without a code", in.GetId(), g.GetId(), info.GetErrorMessage())
			}
		}
		return nil
	})
}

func templateNodeBytes(ctx context.Context, s server) error {
	groups, err := s.groups(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, g := range groups {
		answer, err := ask(ctx, s.NodeGroupTemplateNodeInfo, &externalgrpcpb.NodeGroupTemplateNodeInfoRequest{Id: g.GetId()})
		if status.Code(err) == codes.Unimplemented {
			continue
		}
		if err != nil {
			return fmt.Errorf("NodeGroupTemplateNodeInfo(%s): %w", g.GetId(), err)
		}
		found = true
		switch {
		case len(answer.GetNodeBytes()) == 0 && len(answer.GetNodeInfo()) > 0:
			return fmt.Errorf("the template of %q is in nodeInfo, field 1, which Cluster Autoscaler 1.35 and later do not read", g.GetId())
		case len(answer.GetNodeBytes()) == 0:
			return fmt.Errorf("the template of %q is empty: answer Unimplemented if there is none", g.GetId())
		}
		if err := new(v1.Node).Unmarshal(answer.GetNodeBytes()); err != nil {
			return fmt.Errorf("the template of %q is not a v1.Node in Kubernetes' protobuf encoding: %w", g.GetId(), err)
		}
	}
	if !found {
		return conformance.Skip("templates are not implemented")
	}
	return nil
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

// options calls f with the options of groups that answer some.
func (s server) options(ctx context.Context, f func(id string, o *externalgrpcpb.NodeGroupAutoscalingOptions) error) error {
	groups, err := s.groups(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		answer, err := ask(ctx, s.NodeGroupGetOptions, &externalgrpcpb.NodeGroupAutoscalingOptionsRequest{Id: g.GetId(), Defaults: someDefaults()})
		options := answer.GetNodeGroupAutoscalingOptions()
		switch {
		case status.Code(err) == codes.Unimplemented:
		case err != nil:
			return fmt.Errorf("NodeGroupGetOptions(%s): %w", g.GetId(), err)
		case options != nil:
			if err := f(g.GetId(), options); err != nil {
				return err
			}
		}
	}
	return nil
}

// startup describes the effect of answering options.
const startup = "Cluster Autoscaler then takes MaxNodeStartupTime as zero, counts nodes that are still starting as unready and orders them again"

func optionsLeftOut(ctx context.Context, s server) error {
	var own []string
	err := s.options(ctx, func(id string, got *externalgrpcpb.NodeGroupAutoscalingOptions) error {
		sent := someDefaults()
		if proto.Equal(got, sent) {
			return fmt.Errorf("the options of %q are the defaults that were sent; %s: answer Unimplemented, or leave the options out", id, startup)
		}
		sent.ScaleDownUtilizationThreshold = sent.ScaleDownGpuUtilizationThreshold
		if proto.Equal(got, sent) {
			return fmt.Errorf("the options of %q are the defaults that were sent, with the GPU threshold for both; %s: answer Unimplemented, or leave the options out", id, startup)
		}
		own = append(own, id)
		return nil
	})
	if err == nil && len(own) > 0 {
		return conformance.Warn("options are answered for %s; %s: answer them only for groups that need them", some(own), startup)
	}
	return err
}

// some names the first few of many.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

func optionsDurations(ctx context.Context, s server) error {
	found := false
	err := s.options(ctx, func(id string, o *externalgrpcpb.NodeGroupAutoscalingOptions) error {
		found = true
		for _, d := range []struct {
			name  string
			value *durationpb.Duration
		}{
			{"scaleDownUnneededDuration", o.GetScaleDownUnneededDuration()},
			{"scaleDownUnreadyDuration", o.GetScaleDownUnreadyDuration()},
			{"MaxNodeProvisionDuration", o.GetMaxNodeProvisionDuration()},
		} {
			if d.value == nil {
				return fmt.Errorf("the options of %q have no %s, which is zero and not the default", id, d.name)
			}
		}
		return nil
	})
	if err == nil && !found {
		return conformance.Skip("no group has options of its own")
	}
	return err
}
