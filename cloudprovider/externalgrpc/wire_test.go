package externalgrpc_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

func (f foreign) NodeGroupIncreaseSize(context.Context,
	*externalgrpcpb.NodeGroupIncreaseSizeRequest) (*externalgrpcpb.NodeGroupIncreaseSizeResponse, error) {
	return nil, status.Error(f.code, "in its own words")
}

// TestRecordingRoundTrips: what a real Cluster Autoscaler sent and got has a
// place in our messages, every field of it.
func TestRecordingRoundTrips(t *testing.T) {
	file, err := os.Open("testdata/recording.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	service := externalgrpcpb.File_cloudprovider_externalgrpc_externalgrpcpb_externalgrpc_proto.Services().Get(0)
	calls := 0
	for lines := bufio.NewScanner(file); lines.Scan(); calls++ {
		var call struct {
			Method            string
			Request, Response json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(call.Method, "/"+string(service.FullName())+"/")
		method := service.Methods().ByName(protoreflect.Name(name))
		if !ok || method == nil {
			t.Fatalf("no method %q", call.Method)
		}
		roundTrip(t, method.Input(), call.Request)
		if call.Response != nil {
			roundTrip(t, method.Output(), call.Response)
		}
	}
	if calls < 20 {
		t.Errorf("only %d calls", calls)
	}
}

// roundTrip reads JSON strictly, writes and reads the wire, and compares.
func roundTrip(t *testing.T, kind protoreflect.MessageDescriptor, text []byte) {
	t.Helper()
	first, second := dynamicpb.NewMessage(kind), dynamicpb.NewMessage(kind)
	if err := protojson.Unmarshal(text, first); err != nil {
		t.Fatalf("%s: %v", kind.Name(), err)
	}
	bytes, err := proto.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(bytes, second); err != nil {
		t.Fatal(err)
	}
	again, err := protojson.Marshal(second)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(first, second) || !sameJSON(t, text, again) {
		t.Errorf("%s: %s became %s", kind.Name(), text, again)
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var texts [2]string
	for i, text := range [][]byte{a, b} {
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		canonical, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(canonical)
	}
	return texts[0] == texts[1]
}

// TestWire pins field numbers by bytes: tag, then value.
func TestWire(t *testing.T) {
	at := &timestamppb.Timestamp{Seconds: 1}
	old := &externalgrpcpb.KubernetesDuration{Duration: 1}
	tests := map[string]struct {
		message proto.Message
		want    string
	}{
		"IncreaseSize": {&externalgrpcpb.NodeGroupIncreaseSizeRequest{Delta: 3, Id: "a"}, "0803 120161"},
		"Decrease":     {&externalgrpcpb.NodeGroupDecreaseTargetSizeRequest{Delta: -1, Id: "a"}, "08ffffffffffffffffff01 120161"},
		"DeleteNodes": {&externalgrpcpb.NodeGroupDeleteNodesRequest{Nodes: []*externalgrpcpb.ExternalGrpcNode{{ProviderID: "p"}}, Id: "a"},
			"0a030a0170 120161"},
		"TargetSize": {&externalgrpcpb.NodeGroupTargetSizeResponse{TargetSize: 3}, "0803"},
		"NodeGroup":  {&externalgrpcpb.NodeGroup{Id: "a", MinSize: 1, MaxSize: 2, Debug: "d"}, "0a0161 1001 1802 220164"},
		"Node": {&externalgrpcpb.ExternalGrpcNode{ProviderID: "p", Name: "n", Labels: map[string]string{"l": "m"},
			Annotations: map[string]string{"a": "b"}}, "0a0170 12016e 1a060a016c12016d 22060a0161120162"},
		"Template": {&externalgrpcpb.NodeGroupTemplateNodeInfoResponse{NodeInfo: []byte("o"), NodeBytes: []byte("n")}, "0a016f 12016e"},
		"NodePrice": {&externalgrpcpb.PricingNodePriceRequest{StartTime: at, EndTime: at, StartTimestamp: at, EndTimestamp: at},
			"12020801 1a020801 22020801 2a020801"},
		"PodPrice": {&externalgrpcpb.PricingPodPriceRequest{Pod: []byte("o"), StartTime: at, EndTime: at, PodBytes: []byte("n"),
			StartTimestamp: at, EndTimestamp: at}, "0a016f 12020801 1a020801 22016e 2a020801 32020801"},
		"Instance": {&externalgrpcpb.Instance{Id: "i", Status: &externalgrpcpb.InstanceStatus{InstanceState: 2,
			ErrorInfo: &externalgrpcpb.InstanceErrorInfo{ErrorCode: "c", ErrorMessage: "m", InstanceErrorClass: 99}}},
			"0a0169 120c 0802 1208 0a0163 12016d 1863"},
		"Options": {&externalgrpcpb.NodeGroupAutoscalingOptions{ScaleDownUnneededTime: old, ScaleDownUnreadyTime: old,
			MaxNodeProvisionTime: old, ZeroOrMaxNodeScaling: true, IgnoreDaemonSetsUtilization: true}, "1a020801 22020801 2a020801 3001 3801"},
		"OptionsAnswer": {&externalgrpcpb.NodeGroupAutoscalingOptionsResponse{NodeGroupAutoscalingOptions: &externalgrpcpb.NodeGroupAutoscalingOptions{ZeroOrMaxNodeScaling: true}}, "0a023001"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := proto.MarshalOptions{Deterministic: true}.Marshal(test.message)
			if want := strings.ReplaceAll(test.want, " ", ""); err != nil || hex.EncodeToString(got) != want {
				t.Errorf("%x, error %v, want %s", got, err, want)
			}
		})
	}
}
