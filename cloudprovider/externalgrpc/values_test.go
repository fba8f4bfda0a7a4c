package externalgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/internal/loopback"
)

// stub answers some calls in its own way.
type stub struct {
	cloudprovider.Provider
	err       error
	instances []cloudprovider.Instance
	options   cloudprovider.GroupOptions
	groups    []cloudprovider.NodeGroup
}

func (s stub) NodeGroups(context.Context) ([]cloudprovider.NodeGroup, error) { return s.groups, s.err }
func (s stub) IncreaseSize(context.Context, string, int) error               { return s.err }
func (s stub) Nodes(context.Context, string) ([]cloudprovider.Instance, error) {
	return s.instances, s.err
}
func (s stub) Options(context.Context, string, cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) {
	return s.options, s.err
}

func TestErrorsCrossTheWire(t *testing.T) {
	tests := map[string]struct {
		err  error
		is   error
		code codes.Code
	}{
		"not implemented":  {cloudprovider.ErrNotImplemented, cloudprovider.ErrNotImplemented, codes.Unimplemented},
		"not found":        {cloudprovider.ErrNotFound, cloudprovider.ErrNotFound, codes.NotFound},
		"invalid delta":    {cloudprovider.ErrInvalidDelta, cloudprovider.ErrInvalidDelta, codes.InvalidArgument},
		"above max":        {cloudprovider.ErrAboveMax, cloudprovider.ErrAboveMax, codes.OutOfRange},
		"below min":        {cloudprovider.ErrBelowMin, cloudprovider.ErrBelowMin, codes.FailedPrecondition},
		"not in group":     {cloudprovider.ErrNotInGroup, cloudprovider.ErrNotInGroup, codes.InvalidArgument},
		"out of resources": {cloudprovider.ErrOutOfResources, cloudprovider.ErrOutOfResources, codes.ResourceExhausted},
		"quota exceeded":   {cloudprovider.ErrQuotaExceeded, cloudprovider.ErrQuotaExceeded, codes.ResourceExhausted},
		"unavailable":      {cloudprovider.ErrUnavailable, cloudprovider.ErrUnavailable, codes.Unavailable},
		"deadline":         {context.DeadlineExceeded, context.DeadlineExceeded, codes.DeadlineExceeded},
		"canceled there":   {context.Canceled, cloudprovider.ErrUnavailable, codes.Canceled},
		"unknown":          {errors.New("what?"), cloudprovider.ErrUnavailable, codes.Unknown},
		"long":             {errors.New(strings.Repeat("long", 1<<20)), cloudprovider.ErrUnavailable, codes.Unknown},
		"not UTF-8":        {fmt.Errorf("%w: \xff", cloudprovider.ErrNotFound), cloudprovider.ErrNotFound, codes.NotFound},
		"bare not found":   {status.Error(codes.NotFound, "x"), cloudprovider.ErrUnavailable, codes.Unknown},
		// a provider's own words, not the wire's
		"of several, first": {errors.Join(cloudprovider.ErrUnavailable, cloudprovider.ErrAboveMax), cloudprovider.ErrAboveMax, codes.OutOfRange},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sent := test.err
			if sent != cloudprovider.ErrNotImplemented {
				sent = fmt.Errorf("node group %q: %w", "a", sent)
			}
			conn := serve(t, stub{err: sent})
			_, raw := externalgrpcpb.NewCloudProviderClient(conn).NodeGroupIncreaseSize(t.Context(), &externalgrpcpb.NodeGroupIncreaseSizeRequest{})
			if status.Code(raw) != test.code {
				t.Errorf("code %v, want %v", status.Code(raw), test.code)
			}
			got := externalgrpc.NewClient(conn).IncreaseSize(t.Context(), "a", 1)
			if !errors.Is(got, test.is) {
				t.Errorf("got %v, want %v", got, test.is)
			}
			if cloudprovider.Refused(got) != cloudprovider.Refused(sent) || cloudprovider.OwnMistake(got) != cloudprovider.OwnMistake(sent) {
				t.Errorf("%v is judged differently from %v", got, sent)
			}
			if errors.Is(sent, cloudprovider.ErrNotImplemented) && got != cloudprovider.ErrNotImplemented {
				t.Errorf("ErrNotImplemented is wrapped: %v", got)
			}
		})
	}
}

// foreign is a server that knows nothing of our details.
type foreign struct {
	externalgrpcpb.UnimplementedCloudProviderServer
	code codes.Code
}

func TestErrorsOfOtherServers(t *testing.T) {
	tests := map[codes.Code]struct {
		is      error
		refused bool
	}{
		codes.Unimplemented:      {cloudprovider.ErrNotImplemented, true},
		codes.NotFound:           {cloudprovider.ErrNotFound, true},
		codes.InvalidArgument:    {cloudprovider.ErrInvalidDelta, true},
		codes.ResourceExhausted:  {cloudprovider.ErrUnavailable, false},
		codes.FailedPrecondition: {cloudprovider.ErrUnavailable, false},
		codes.Internal:           {cloudprovider.ErrUnavailable, false},
		codes.Unknown:            {cloudprovider.ErrUnavailable, false},
		codes.DeadlineExceeded:   {context.DeadlineExceeded, false},
	}
	for code, test := range tests {
		t.Run(code.String(), func(t *testing.T) {
			got := externalgrpc.NewClient(loopback.Serve(t,
				func(r grpc.ServiceRegistrar) { externalgrpcpb.RegisterCloudProviderServer(r, foreign{code: code}) })).IncreaseSize(t.Context(), "a", 1)
			if !errors.Is(got, test.is) || cloudprovider.Refused(got) != test.refused {
				t.Errorf("got %v, refused %v", got, cloudprovider.Refused(got))
			}
		})
	}
}

func TestInstancesCrossTheWire(t *testing.T) {
	stockOut := &cloudprovider.InstanceError{Class: cloudprovider.OutOfResourcesErrorClass, Code: "STOCK", Message: "none left"}
	tests := map[string]struct{ sent, want cloudprovider.Instance }{
		"running":         {cloudprovider.Instance{ID: "a", State: 1}, cloudprovider.Instance{ID: "a", State: 1}},
		"deleting":        {cloudprovider.Instance{ID: "a", State: 3}, cloudprovider.Instance{ID: "a", State: 3}},
		"state not known": {cloudprovider.Instance{ID: "a"}, cloudprovider.Instance{ID: "a"}},
		"failed": {cloudprovider.Instance{ID: "a", State: 2, Error: stockOut},
			cloudprovider.Instance{ID: "a", State: 2, Error: stockOut}},
		"failed, no state": {cloudprovider.Instance{ID: "a", Error: stockOut}, cloudprovider.Instance{ID: "a", State: 2, Error: stockOut}},
		"failed without code": {cloudprovider.Instance{ID: "a", State: 2, Error: &cloudprovider.InstanceError{Class: 99}},
			cloudprovider.Instance{ID: "a", State: 2, Error: &cloudprovider.InstanceError{Class: 99, Code: "Other"}}},
		"a state nobody has": {cloudprovider.Instance{ID: "a", State: 9}, cloudprovider.Instance{ID: "a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := externalgrpc.NewClient(serve(t, stub{instances: []cloudprovider.Instance{test.sent}})).Nodes(t.Context(), "a")
			if err != nil || len(got) != 1 {
				t.Fatal(got, err)
			}
			same := got[0].ID == test.want.ID && got[0].State == test.want.State && (got[0].Error == nil) == (test.want.Error == nil)
			if same && got[0].Error != nil {
				same = *got[0].Error == *test.want.Error
			}
			if !same {
				t.Errorf("got %+v, want %+v", got[0], test.want)
			}
		})
	}
}

// TestOptionsEchoIsUnimplemented: defaults handed back must not look like options of the group's
// own.
func TestOptionsEchoIsUnimplemented(t *testing.T) {
	defaults := cloudprovider.GroupOptions{ScaleDownUtilizationThreshold: 0.5, MaxNodeProvisionTime: time.Minute,
		MaxNodeStartupTime: time.Hour, AllowNonAtomicScaleUpToMax: true}
	if _, err := externalgrpc.NewClient(serve(t, stub{options: defaults})).Options(t.Context(), "a",
		defaults); err != cloudprovider.ErrNotImplemented {
		t.Errorf("echo of the defaults answered %v", err)
	}
	own := defaults
	own.ZeroOrMaxNodeScaling = true
	if got, err := externalgrpc.NewClient(serve(t, stub{options: own})).Options(t.Context(), "a", defaults); err != nil || got != own {
		t.Errorf("got %+v, error %v, want %+v", got, err, own)
	}
}

// TestOldClients: 1.34 and older send and read other field numbers.
func TestOldClients(t *testing.T) {
	cloud, _ := newCloud(t)
	raw := externalgrpcpb.NewCloudProviderClient(serve(t, cloud))
	template, err := raw.NodeGroupTemplateNodeInfo(t.Context(), &externalgrpcpb.NodeGroupTemplateNodeInfoRequest{Id: "a"})
	if err != nil || len(template.GetNodeInfo()) == 0 || string(template.GetNodeInfo()) != string(template.GetNodeBytes()) {
		t.Errorf("template under both numbers: %v, error %v", template, err)
	}
	minutes := func(n int64) *externalgrpcpb.KubernetesDuration {
		return &externalgrpcpb.KubernetesDuration{Duration: n * int64(time.Minute)}
	}
	answer, err := raw.NodeGroupGetOptions(t.Context(), &externalgrpcpb.NodeGroupAutoscalingOptionsRequest{
		Id: "b", Defaults: &externalgrpcpb.NodeGroupAutoscalingOptions{ScaleDownUnneededTime: minutes(10), MaxNodeProvisionTime: minutes(15)},
	})
	options := answer.GetNodeGroupAutoscalingOptions()
	if err != nil || options.GetScaleDownUnneededTime().GetDuration() != int64(10*time.Minute) ||
		options.GetMaxNodeProvisionTime().GetDuration() != int64(time.Hour) {
		t.Errorf("old options: %v, error %v", answer, err)
	}
	answer, err = raw.NodeGroupGetOptions(t.Context(), &externalgrpcpb.NodeGroupAutoscalingOptionsRequest{
		Id: "b", Defaults: &externalgrpcpb.NodeGroupAutoscalingOptions{MaxNodeProvisionDuration: durationpb.New(time.Minute)},
	})
	if err != nil || answer.GetNodeGroupAutoscalingOptions().GetMaxNodeProvisionTime() != nil {
		t.Errorf("a new client got old fields: %v, error %v", answer, err)
	}
}

func TestPricesAndGPUs(t *testing.T) {
	cloud, _ := newCloud(t)
	client := externalgrpc.NewClient(serve(t, cloud))
	start := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	node := cloudprovider.FakeNode(cloud.RegisteredNodes()[0].Spec.ProviderID, cloudprovider.FakeNodeUnregistered)
	want, wantErr := cloud.NodePrice(t.Context(), node, start, start.Add(time.Hour))
	if got, err := client.NodePrice(t.Context(), node, start, start.Add(time.Hour)); got != want || (err == nil) != (wantErr == nil) {
		t.Errorf("price %v (%v), want %v (%v)", got, err, want, wantErr)
	}
	if _, err := client.PodPrice(t.Context(), &v1.Pod{}, start, start.Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if label, err := client.GPULabel(t.Context()); label != "" || err != nil {
		t.Error(label, err)
	}
	if types, err := client.GPUTypes(t.Context()); len(types) != 0 || err != nil {
		t.Error(types, err)
	}
	if _, err := externalgrpc.NewClient(serve(t, stub{})).PodPrice(t.Context(), &v1.Pod{}, start,
		start); err != cloudprovider.ErrNotImplemented {
		t.Errorf("no prices: %v", err)
	}
}

// TestLargeAnswers: more than gRPC's own 4 MiB arrive.
func TestLargeAnswers(t *testing.T) {
	groups := make([]cloudprovider.NodeGroup, 1000)
	for i := range groups {
		groups[i] = cloudprovider.NodeGroup{ID: fmt.Sprintf("group-%04d", i), Debug: strings.Repeat("x", 10_000)}
	}
	got, err := externalgrpc.NewClient(serve(t, stub{groups: groups})).NodeGroups(t.Context())
	if err != nil || len(got) != len(groups) {
		t.Errorf("%d groups, error %v", len(got), err)
	}
}
