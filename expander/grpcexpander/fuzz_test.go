package grpcexpander_test

import (
	"bytes"
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
)

// TestCancel: a client that gives up ends the choice.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	client := serve(t, expander.ChooserFunc(func(ctx context.Context, _ expander.Question) ([]string, error) {
		cancel()
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}))
	if _, err := client.BestOptions(ctx, &grpcexpanderpb.BestOptionsRequest{}); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	<-ended
}

// FuzzBestOptions: whatever bytes come, there is an answer or a status, indexes
// are in range, and what was decoded encodes to what decodes to the same.
func FuzzBestOptions(f *testing.F) {
	f.Add([]byte{})
	for _, call := range recorded(f) {
		request := &grpcexpanderpb.BestOptionsRequest{}
		if err := protojson.Unmarshal(call.Request, request); err != nil {
			f.Fatal(err)
		}
		option := request.GetOptions()[0] // the rest is like it, and would slow the search
		small := &grpcexpanderpb.BestOptionsRequest{
			Options: []*grpcexpanderpb.Option{{
				NodeGroupId: option.GetNodeGroupId(), NodeCount: option.GetNodeCount(), Debug: option.GetDebug(), PodBytes: option.GetPodBytes()[:1],
			}},
			NodeBytesMap: map[string][]byte{option.GetNodeGroupId(): request.GetNodeBytesMap()[option.GetNodeGroupId()]},
		}
		wire, err := proto.Marshal(small)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		first := &grpcexpanderpb.BestOptionsRequest{}
		if proto.Unmarshal(wire, first) != nil {
			return // the library refuses it
		}
		server := grpcexpander.NewServer(expander.ChooserFunc(func(_ context.Context, r expander.Question) ([]string, error) {
			return all(t, r), nil
		}))
		answer, err := server.BestOptions(t.Context(), first)
		if _, ok := status.FromError(err); !ok || (err == nil) != (answer != nil) {
			t.Errorf("answer %v, error %v", answer, err)
		}
		once, err := proto.MarshalOptions{Deterministic: true}.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		second := &grpcexpanderpb.BestOptionsRequest{}
		if err := proto.Unmarshal(once, second); err != nil {
			t.Fatal(err)
		}
		if twice, err := (proto.MarshalOptions{Deterministic: true}).Marshal(second); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%x, then %x, error %v", once, twice, err)
		}
	})
}

// all chooses every option, having looked at every pod and template.
func all(t *testing.T, r expander.Question) []string {
	t.Helper()
	var groups []string
	for _, o := range r.Options {
		groups = append(groups, o.Group)
		for _, i := range o.Pods {
			if r.Pods[i] == nil {
				t.Errorf("pod %d of %q is missing", i, o.Group)
			}
		}
	}
	for group, node := range r.Nodes {
		if node == nil {
			t.Errorf("the template of %q is missing", group)
		}
	}
	return groups
}
