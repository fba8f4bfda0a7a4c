package sidecar_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
	"github.com/evenkeel/evenkeel/fake"
)

// recordedCall is a line of a file that --record wrote.
type recordedCall struct {
	Method  string
	Request proto.Message
	Code    string // of gRPC
	Time    time.Duration
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *recordedCall) UnmarshalJSON(line []byte) error {
	raw := struct {
		Method  string
		Request json.RawMessage
		Error   struct{ Code string }
		T       float64
	}{}
	raw.Error.Code = codes.OK.String()
	if err := json.Unmarshal(line, &raw); err != nil {
		return err
	}
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(raw.Method, "/"), "/", "."))
	method, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return err
	}
	request, err := protoregistry.GlobalTypes.FindMessageByName(method.(protoreflect.MethodDescriptor).Input().FullName())
	if err != nil {
		return err
	}
	*c = recordedCall{raw.Method, request.New().Interface(), raw.Error.Code, time.Duration(math.Round(raw.T * float64(time.Second)))}
	return protojson.Unmarshal(raw.Request, c.Request)
}

// recorded are calls of a real Cluster Autoscaler, release 1.36, in order: of four-pods all those
// from its start on, of the others those that steer, which list groups, read their sizes, choose
// and increase.
func recorded(t *testing.T, name string) []recordedCall {
	t.Helper()
	file, err := os.Open("testdata/" + name + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var calls []recordedCall
	for lines := json.NewDecoder(text); lines.More(); {
		var c recordedCall
		if err := lines.Decode(&c); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	return calls
}

// zoned are node groups as those of the recording four-pods.
func zoned(sizes ...int) []fake.Group {
	groups := zones(sizes...)
	for i := range groups {
		g := &groups[i]
		g.ID, g.MaxSize, g.BootTime, g.ReadyDelay = "m-"+g.ID, 20, 0, 0
		g.Template.Node.Labels[v1.LabelTopologyZone] = "zone" + g.ID[1:]
	}
	return groups
}

// TestRecordings: a real Cluster Autoscaler's requests, in their order and at their times, lead to
// the exact sizes.
//
// Taken from the recordings are all requests but one: the options with their pods and templates as
// it sent them, the reads around them, and when they came. Driven are the increases: our answer may
// name another member than the one it was given then, so the increase goes to our pick, by the
// number of nodes in its option, as Cluster Autoscaler does. What the recorded question after it
// holds are the pods left over from a grant of the same size, which is asserted.
func TestRecordings(t *testing.T) {
	tests := map[string]struct {
		groups    []fake.Group
		want      []int
		questions int
	}{
		"nine-pods":     {slow(zones(0, 0, 0)), []int{3, 3, 3}, 3},
		"eighteen-pods": {slow(zones(0, 0, 0)), []int{3, 3, 3}, 3},
		"four-pods":     {zoned(1, 3, 6), []int{4, 4, 6}, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newHarness(t, setup{cloud: fake.Config{Groups: tt.groups}})
			provider, chooser := externalgrpc.NewServer(w.front), grpcexpander.NewServer(w.front)
			ctx := context.WithValue(context.Background(), connectionKey{}, "recorded")
			var pick *grpcexpanderpb.Option // waits for its increase
			left, questions := 0, 0
			for _, c := range recorded(t, name) {
				if d := c.Time - w.clock.Since(start); d > 0 {
					w.clock.Step(d)
				}
				var err error
				switch request := c.Request.(type) {
				case *grpcexpanderpb.BestOptionsRequest:
					var answer *grpcexpanderpb.BestOptionsResponse
					if answer, err = chooser.BestOptions(ctx, request); err == nil {
						pick = option(t, request, answer)
						questions++
						if n := int(pick.GetNodeCount()); left > 0 && n != left {
							t.Fatalf("the recording goes on with %d nodes, %d are left", n, left)
						}
					}
				case *externalgrpcpb.NodeGroupIncreaseSizeRequest:
					before := total(w.sizes())
					_, err = provider.NodeGroupIncreaseSize(ctx, &externalgrpcpb.NodeGroupIncreaseSizeRequest{Id: pick.GetNodeGroupId(),
						Delta: pick.GetNodeCount()})
					left = int(pick.GetNodeCount()) - (total(w.sizes()) - before)
				default:
					_, err = call(ctx, provider, c)
				}
				if got := status.Code(err).String(); got != c.Code {
					t.Fatalf("%s at %v: got %v, recorded was %v: %v", c.Method, c.Time, got, c.Code, err)
				}
			}
			w.clock.Step(10 * time.Minute)
			if got := w.sizes(); !slices.Equal(got, tt.want) || questions != tt.questions || left != 0 {
				t.Errorf("sizes %v after %d questions, %d nodes left\n%s", got, questions, left, w.log())
			}
		})
	}
}

// TestRecordedRequestsRoundTrip: what a real Cluster Autoscaler asks is the same message once read,
// written and read again.
func TestRecordedRequestsRoundTrip(t *testing.T) {
	for _, name := range []string{"nine-pods", "eighteen-pods", "four-pods"} {
		for _, c := range recorded(t, name) {
			text, err := proto.Marshal(c.Request)
			if err != nil {
				t.Fatalf("%s: %s at %v: %v", name, c.Method, c.Time, err)
			}
			again := c.Request.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(text, again); err != nil || !proto.Equal(c.Request, again) {
				t.Errorf("%s: %s at %v: read %v, written and read again %v, error %v", name, c.Method, c.Time, c.Request, again, err)
			}
		}
	}
}

// call makes a recorded call.
func call(ctx context.Context, provider externalgrpcpb.CloudProviderServer, c recordedCall) (any, error) {
	service := externalgrpcpb.CloudProvider_ServiceDesc
	for _, m := range service.Methods {
		if c.Method == "/"+service.ServiceName+"/"+m.MethodName {
			return m.Handler(provider, ctx, func(request any) error {
				proto.Merge(request.(proto.Message), c.Request)
				return nil
			}, nil)
		}
	}
	return nil, fmt.Errorf("no service has a method %s", c.Method)
}

// option is the option that was chosen; there must be one.
func option(t *testing.T, request *grpcexpanderpb.BestOptionsRequest, answer *grpcexpanderpb.BestOptionsResponse) *grpcexpanderpb.Option {
	t.Helper()
	if len(answer.GetOptions()) == 1 {
		for _, o := range request.GetOptions() {
			if o.GetNodeGroupId() == answer.GetOptions()[0].GetNodeGroupId() {
				return o
			}
		}
	}
	t.Fatalf("answer %v", answer)
	return nil
}

// sizes are the target sizes of the cloud's groups.
func (w *harness) sizes() []int {
	w.t.Helper()
	return w.ca.State().Sizes()
}
