package grpcexpander_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
	"github.com/evenkeel/evenkeel/internal/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a chooser on loopback until the test ends.
func serve(t testing.TB, chooser expander.Chooser) grpcexpanderpb.ExpanderClient {
	t.Helper()
	return grpcexpanderpb.NewExpanderClient(loopback.Serve(t, grpcexpander.NewServer(chooser).Register))
}

func podBytes(t testing.TB, name string) []byte {
	t.Helper()
	encoded, err := (&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// describe makes a request a line of text.
func describe(r expander.Question) string {
	var out []string
	for _, o := range r.Options {
		var names []string
		for _, i := range o.Pods {
			names = append(names, r.Pods[i].Name)
		}
		out = append(out, fmt.Sprintf("%s+%d %s%v", o.Group, o.NodeCount, o.Debug, names))
	}
	return fmt.Sprintf("%s; %d pods, %d nodes", strings.Join(out, " "), len(r.Pods), len(r.Nodes))
}

func TestRequests(t *testing.T) {
	p, q := podBytes(t, "p"), podBytes(t, "q")
	tests := map[string]struct {
		request *grpcexpanderpb.BestOptionsRequest
		want    string
	}{
		"nothing": {&grpcexpanderpb.BestOptionsRequest{}, "; 0 pods, 0 nodes"},
		"shared pods are decoded once": {&grpcexpanderpb.BestOptionsRequest{
			Options: []*grpcexpanderpb.Option{{NodeGroupId: "a", NodeCount: 2, Debug: "d", PodBytes: [][]byte{p, q}},
				{NodeGroupId: "b", PodBytes: [][]byte{q}}},
			NodeBytesMap: map[string][]byte{"a": nil, "c": nil},
		}, "a+2 d[p q] b+0 [q]; 2 pods, 2 nodes"},
		"1.33": {&grpcexpanderpb.BestOptionsRequest{
			Options: []*grpcexpanderpb.Option{{NodeGroupId: "a", Pod: [][]byte{p}}}, NodeMap: map[string][]byte{"a": nil},
		}, "a+0 [p]; 1 pods, 1 nodes"},
		"1.34": {&grpcexpanderpb.BestOptionsRequest{
			Options: []*grpcexpanderpb.Option{{NodeGroupId: "a", Pod: [][]byte{p}, PodBytes: [][]byte{p}}},
			NodeMap: map[string][]byte{"a": nil}, NodeBytesMap: map[string][]byte{"a": nil},
		}, "a+0 [p]; 1 pods, 1 nodes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got string
			client := serve(t, expander.ChooserFunc(func(_ context.Context, r expander.Question) ([]string, error) {
				got = describe(r)
				return nil, nil
			}))
			answer, err := client.BestOptions(t.Context(), test.request)
			if err != nil || len(answer.GetOptions()) != 0 || got != test.want {
				t.Errorf("got %q, answer %v, error %v, want %q", got, answer, err, test.want)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	tests := map[string]struct {
		chosen []string
		err    error
		want   []string
		code   codes.Code
	}{
		"one":           {chosen: []string{"b"}, want: []string{"b"}},
		"several":       {chosen: []string{"b", "a"}, want: []string{"b", "a"}},
		"a veto":        {},
		"no option":     {chosen: []string{"x"}, code: codes.Internal},
		"an error":      {err: errors.New("no idea"), code: codes.Unavailable},
		"a large error": {err: errors.New(strings.Repeat("no \xff", 1<<20)), code: codes.Unavailable},
		"too late":      {err: context.DeadlineExceeded, code: codes.DeadlineExceeded},
		"canceled":      {err: context.Canceled, code: codes.Canceled},
	}
	request := &grpcexpanderpb.BestOptionsRequest{Options: []*grpcexpanderpb.Option{{NodeGroupId: "a"}, {NodeGroupId: "b"}}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := serve(t, expander.ChooserFunc(func(context.Context, expander.Question) ([]string, error) { return test.chosen, test.err }))
			answer, err := client.BestOptions(t.Context(), request)
			var got []string
			for _, o := range answer.GetOptions() {
				got = append(got, o.GetNodeGroupId())
			}
			if status.Code(err) != test.code || !slices.Equal(got, test.want) {
				t.Errorf("got %v, error %v", got, err)
			}
		})
	}
}

func TestGarbageIsRefused(t *testing.T) {
	client := serve(t, expander.ChooserFunc(func(context.Context, expander.Question) ([]string, error) {
		t.Error("the chooser was asked")
		return nil, nil
	}))
	for name, request := range map[string]*grpcexpanderpb.BestOptionsRequest{
		"pod":  {Options: []*grpcexpanderpb.Option{{NodeGroupId: "a", PodBytes: [][]byte{{0xff}}}}},
		"node": {NodeBytesMap: map[string][]byte{"a": {0xff}}},
	} {
		if _, err := client.BestOptions(t.Context(), request); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLargeRequest: far above gRPC's own 4 MiB.
func TestLargeRequest(t *testing.T) {
	request := &grpcexpanderpb.BestOptionsRequest{}
	pod := podBytes(t, strings.Repeat("x", 1<<20))
	for range 32 {
		request.Options = append(request.Options, &grpcexpanderpb.Option{NodeGroupId: "a", PodBytes: [][]byte{pod}})
	}
	client := serve(t, expander.ChooserFunc(func(_ context.Context, r expander.Question) ([]string, error) {
		return []string{"a"}, nil
	}))
	if _, err := client.BestOptions(t.Context(), request); err != nil {
		t.Error(err)
	}
}

// TestRecordingRoundTrips: what a real Cluster Autoscaler sent has a place in our
// messages, every field of it, and can be read.
func TestRecordingRoundTrips(t *testing.T) {
	client := serve(t, expander.ChooserFunc(func(_ context.Context, r expander.Question) ([]string, error) {
		for i := range r.Options {
			if len(r.Options[i].Pods) == 0 || r.Nodes[r.Options[i].Group] == nil {
				t.Errorf("option %+v has no pods or no template", r.Options[i])
			}
		}
		return []string{r.Options[0].Group}, nil
	}))
	calls := recorded(t)
	for _, call := range calls {
		request := &grpcexpanderpb.BestOptionsRequest{}
		roundTrip(t, call.Request, request, &grpcexpanderpb.BestOptionsRequest{})
		roundTrip(t, call.Response, &grpcexpanderpb.BestOptionsResponse{}, &grpcexpanderpb.BestOptionsResponse{})
		if _, err := client.BestOptions(t.Context(), request); err != nil {
			t.Error(err)
		}
	}
	if len(calls) != 2 {
		t.Errorf("%d calls", len(calls))
	}
}

// call is one recorded call of a real Cluster Autoscaler.
type call struct{ Request, Response json.RawMessage }

func recorded(t testing.TB) []call {
	t.Helper()
	text, err := os.ReadFile("testdata/recording.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var calls []call
	for line := range bytes.Lines(text) {
		calls = append(calls, call{})
		if err := json.Unmarshal(line, &calls[len(calls)-1]); err != nil {
			t.Fatal(err)
		}
	}
	return calls
}

func roundTrip(t *testing.T, text []byte, first, second proto.Message) {
	t.Helper()
	if err := protojson.Unmarshal(text, first); err != nil {
		t.Fatal(err)
	}
	wire, err := proto.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(wire, second); err != nil || !proto.Equal(first, second) {
		t.Errorf("%v became %v, error %v", first, second, err)
	}
}

// TestWire pins field numbers by bytes: tag, then value.
func TestWire(t *testing.T) {
	got, err := proto.Marshal(&grpcexpanderpb.BestOptionsRequest{
		Options: []*grpcexpanderpb.Option{{NodeGroupId: "a", NodeCount: 1, Debug: "d", Pod: [][]byte{[]byte("o")},
			PodBytes: [][]byte{[]byte("n")}}},
		NodeMap:      map[string][]byte{"o": {1}},
		NodeBytesMap: map[string][]byte{"n": {2}},
	})
	want := strings.ReplaceAll("0a0e 0a0161 1001 1a0164 22016f 2a016e 1206 0a016f 120101 1a06 0a016e 120102", " ", "")
	if err != nil || hex.EncodeToString(got) != want {
		t.Errorf("%x, error %v, want %s", got, err, want)
	}
}

func ExampleServer() {
	chooser := expander.ChooserFunc(func(_ context.Context, r expander.Question) ([]string, error) {
		return []string{r.Options[0].Group}, nil
	})
	answer, err := grpcexpander.NewServer(chooser).BestOptions(context.Background(), &grpcexpanderpb.BestOptionsRequest{
		Options: []*grpcexpanderpb.Option{{NodeGroupId: "a"}, {NodeGroupId: "b"}},
	})
	fmt.Println(answer.GetOptions()[0].GetNodeGroupId(), err)
	// Output: a <nil>
}
