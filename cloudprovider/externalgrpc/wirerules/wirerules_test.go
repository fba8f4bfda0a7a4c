package wirerules_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	pb "github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/wirerules"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// twist changes what a true server answers.
type twist func(request, answer any, err error) (any, error)

// serve serves a fake cloud, twisted.
func serve(t testing.TB, change twist) grpc.ClientConnInterface {
	t.Helper()
	group := func(id string, size int) fake.Group {
		return fake.Group{ID: id, MaxSize: 10, Size: size, Template: cloudprovider.Template{Node: &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: id}},
			Status: v1.NodeStatus{Capacity: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110"),
			}},
		}}}
	}
	cloud, err := fake.New(fake.Config{Groups: []fake.Group{group("a", 1), group("b", 2)}},
		clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)))
	if err != nil {
		t.Fatal(err)
	}
	return loopback.Serve(t, externalgrpc.NewServer(cloud).Register, grpc.ChainUnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			answer, err := handler(ctx, request)
			if change == nil {
				return answer, err
			}
			return change(request, answer, err)
		}))
}

// check runs all rules that are about servers and says which did not pass,
// those skipped for want of a situation left out.
func check(t testing.TB, conn grpc.ClientConnInterface) map[string]conformance.Result {
	t.Helper()
	found := map[string]conformance.Result{}
	note := func(r conformance.Result) {
		if r.Outcome == conformance.Failed || r.Outcome == conformance.Warned {
			found[r.Rule] = r
		}
		if r.Outcome != conformance.Passed && r.Reason == "" {
			t.Errorf("%s: %s without a reason", r.Rule, r.Outcome)
		}
	}
	for _, rule := range conformance.Rules() {
		if rule.Reach != conformance.InProcess {
			note(rule.Check(t.Context(), conformance.Harness{Provider: externalgrpc.NewClient(conn)}))
		}
	}
	for _, rule := range wirerules.Rules(conn) {
		note(rule.Check(t.Context(), conformance.Harness{}))
	}
	return found
}

func TestServedFakeConforms(t *testing.T) {
	for _, result := range check(t, serve(t, nil)) {
		t.Errorf("%+v", result)
	}
}

// refused answers calls of some kind of request with a code.
func refused[Q any](code codes.Code, when func(Q) bool) twist {
	return func(request, answer any, err error) (any, error) {
		if q, ok := request.(Q); ok && when(q) {
			return nil, status.Error(code, "in its own words")
		}
		return answer, err
	}
}

// answers changes the good answers of one kind.
func answers[A any](change func(A)) twist {
	return func(_, answer any, err error) (any, error) {
		if a, ok := answer.(A); ok && err == nil {
			change(a)
		}
		return answer, err
	}
}

// options answers NodeGroupGetOptions with what change makes of the defaults.
func options(change func(*pb.NodeGroupAutoscalingOptions) *pb.NodeGroupAutoscalingOptions) twist {
	return func(request, answer any, err error) (any, error) {
		q, ok := request.(*pb.NodeGroupAutoscalingOptionsRequest)
		if !ok || status.Code(err) == codes.NotFound {
			return answer, err
		}
		return &pb.NodeGroupAutoscalingOptionsResponse{NodeGroupAutoscalingOptions: change(q.GetDefaults())}, nil
	}
}

func always[Q any](Q) bool { return true }

// unknown tells a request about the group that does not exist.
func unknown[Q interface{ GetId() string }](q Q) bool {
	return strings.HasPrefix(q.GetId(), "conformance-")
}

// many makes a list of instances with long ids.
func many(n, length int) func(*pb.NodeGroupNodesResponse) {
	return func(a *pb.NodeGroupNodesResponse) {
		for i := range n {
			a.Instances = append(a.Instances, &pb.Instance{Id: fmt.Sprintf("%s-%p-%d", strings.Repeat("x", length), a, i)})
		}
	}
}

// TestWrongServers: each mistake is found by its rule, and by no other.
func TestWrongServers(t *testing.T) {
	label := 0
	tests := map[string]struct {
		twist twist
		rules []string // the last is the one meant; others see the same mistake
		want  conformance.Outcome
	}{
		"target sizes of unknown groups are not implemented": {
			refused(codes.Unimplemented, unknown[*pb.NodeGroupTargetSizeRequest]), []string{"unknown-group-refused", "methods-implemented"},
			conformance.Failed},
		"refresh is not implemented": {
			refused(codes.Unimplemented, always[*pb.RefreshRequest]), []string{"refresh-idempotent", "methods-implemented"}, conformance.Failed},
		"nodes of nobody are not implemented": {
			refused(codes.Unimplemented, func(q *pb.NodeGroupForNodeRequest) bool {
				return strings.HasPrefix(q.GetNode().GetName(), "conformance")
			}),
			[]string{"methods-implemented", "node-group-of-foreign-node"}, conformance.Failed},
		"unknown groups are empty": {func(request, answer any, err error) (any, error) {
			if _, ok := request.(*pb.NodeGroupNodesRequest); ok && err != nil {
				return &pb.NodeGroupNodesResponse{}, nil
			}
			return answer, err
		}, []string{"unknown-group-refused"}, conformance.Failed},
		"unknown groups are an unknown error": {
			refused(codes.Unknown, unknown[*pb.NodeGroupTemplateNodeInfoRequest]), []string{"unknown-group-refused"}, conformance.Warned},
		"unknown groups grow": {func(request, answer any, err error) (any, error) {
			if _, ok := request.(*pb.NodeGroupIncreaseSizeRequest); ok && status.Code(err) == codes.NotFound {
				return &pb.NodeGroupIncreaseSizeResponse{}, nil
			}
			return answer, err
		}, []string{"unknown-group-unchanged"}, conformance.Failed},
		"no bounds with a node": {
			answers(func(a *pb.NodeGroupForNodeResponse) { a.NodeGroup = &pb.NodeGroup{Id: a.GetNodeGroup().GetId()} }),
			[]string{"node-group-with-bounds"}, conformance.Failed},
		"an error without a state": {
			answers(func(a *pb.NodeGroupNodesResponse) {
				for _, in := range a.GetInstances() {
					in.Status = &pb.InstanceStatus{ErrorInfo: &pb.InstanceErrorInfo{ErrorCode: "c"}}
				}
			}), []string{"instance-errors-seen"}, conformance.Failed},
		"an error without a code": {
			answers(func(a *pb.NodeGroupNodesResponse) {
				for _, in := range a.GetInstances() {
					in.Status = &pb.InstanceStatus{InstanceState: pb.InstanceStatus_instanceCreating,
						ErrorInfo: &pb.InstanceErrorInfo{ErrorMessage: "oops"}}
				}
			}), []string{"instance-errors-seen"}, conformance.Failed},
		"templates of the old field": {
			answers(func(a *pb.NodeGroupTemplateNodeInfoResponse) { a.NodeBytes = nil }), []string{"template-node-bytes"}, conformance.Failed},
		"empty templates": {
			answers(func(a *pb.NodeGroupTemplateNodeInfoResponse) { a.NodeBytes, a.NodeInfo = nil, nil }), []string{"template-node-bytes"},
			conformance.Failed},
		"echoed options": {
			options(func(o *pb.NodeGroupAutoscalingOptions) *pb.NodeGroupAutoscalingOptions { return o }), []string{"options-left-out"},
			conformance.Failed},
		"echoed options, one threshold for the other": {
			options(func(o *pb.NodeGroupAutoscalingOptions) *pb.NodeGroupAutoscalingOptions {
				o.ScaleDownUtilizationThreshold = o.GetScaleDownGpuUtilizationThreshold()
				return o
			}), []string{"options-left-out"}, conformance.Failed},
		"options that are meant": {
			options(func(o *pb.NodeGroupAutoscalingOptions) *pb.NodeGroupAutoscalingOptions {
				o.MaxNodeProvisionDuration = durationpb.New(time.Hour)
				return o
			}), []string{"options-left-out"}, conformance.Warned},
		"options with a duration left out": {
			options(func(o *pb.NodeGroupAutoscalingOptions) *pb.NodeGroupAutoscalingOptions {
				o.ScaleDownUnreadyDuration = nil
				return o
			}), []string{"options-left-out", "options-durations"}, conformance.Failed},
		"no GPU label": {
			refused(codes.Unimplemented, always[*pb.GPULabelRequest]), []string{"gpu-label"}, conformance.Warned},
		"no GPU types": {
			refused(codes.Internal, always[*pb.GetAvailableGPUTypesRequest]), []string{"gpu-label"}, conformance.Warned},
		"a GPU label that changes": {
			answers(func(a *pb.GPULabelResponse) { label++; a.Label = fmt.Sprint(label) }), []string{"gpu-label"}, conformance.Failed},
		"a list that nearly fills the message": {
			answers(func(a *pb.NodeGroupsResponse) { a.GetNodeGroups()[0].Debug = strings.Repeat("x", 4<<20-1000) }), []string{"answer-sizes"},
			conformance.Failed},
		"a list that half fills the message": {
			answers(func(a *pb.NodeGroupsResponse) { a.GetNodeGroups()[0].Debug = strings.Repeat("x", 3<<20) }), []string{"answer-sizes"},
			conformance.Warned},
		"instances that will be too many": {
			answers(func(a *pb.NodeGroupNodesResponse) {
				for _, in := range a.GetInstances() {
					in.Status.ErrorInfo = &pb.InstanceErrorInfo{ErrorCode: "c", ErrorMessage: strings.Repeat("x", 1<<19)}
				}
			}), []string{"answer-sizes"}, conformance.Warned},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := check(t, serve(t, test.twist))
			for _, rule := range test.rules {
				if _, ok := found[rule]; !ok {
					t.Errorf("%s does not see it", rule)
				}
			}
			for _, result := range found {
				t.Log(result.Outcome, result.Rule, result.Reason)
				if !slices.Contains(test.rules, result.Rule) {
					t.Errorf("%s sees it too", result.Rule)
				}
			}
			if got := found[test.rules[len(test.rules)-1]].Outcome; got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestTooManyInstances: the rules about sizes overlap with it, so only this one is checked.
func TestTooManyInstances(t *testing.T) {
	conn := serve(t, answers(many(5000, 1000)))
	for _, rule := range wirerules.Rules(conn) {
		if rule.Name != "answer-sizes" {
			continue
		}
		if result := rule.Check(t.Context(), conformance.Harness{}); result.Outcome != conformance.Failed ||
			!strings.Contains(result.Reason, "NodeGroupNodes(a) answers 4.") {
			t.Errorf("%+v", result)
		}
	}
}

// TestNamesAreUnique: rules of both packages stand in one table.
func TestNamesAreUnique(t *testing.T) {
	names := map[string]bool{}
	for _, rule := range conformance.Rules() {
		names[rule.Name] = true
	}
	for _, rule := range wirerules.Rules(nil) {
		if names[rule.Name] || rule.About == "" {
			t.Errorf("%q is taken or not explained", rule.Name)
		}
		names[rule.Name] = true
	}
}

// TestDeadServer: every rule fails with the transport's error or says why not, and none hangs.
func TestDeadServer(t *testing.T) {
	conn := loopback.Dial(t, "127.0.0.1:1")
	for _, rule := range wirerules.Rules(conn) {
		if result := rule.Check(t.Context(), conformance.Harness{}); rule.Name != "gpu-label" && result.Outcome != conformance.Failed {
			t.Errorf("%+v", result)
		}
	}
}

func ExampleRules() {
	for _, rule := range wirerules.Rules(nil) {
		if rule.Reach == conformance.Changes {
			fmt.Println(rule.Name)
		}
	}
	// Output: unknown-group-unchanged
}
