package sidecar_test

import (
	"compress/gzip"
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/serving/recording"
)

// recorded are the calls of a real Cluster Autoscaler, release 1.36, that steer: those to list groups, to read their sizes,
// to choose and to increase, in order.
func recorded(t *testing.T, name string) []*recording.Call {
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
	var calls []*recording.Call
	for c, err := range recording.Read(text, externalgrpcpb.File_cloudprovider_externalgrpc_externalgrpcpb_externalgrpc_proto, grpcexpanderpb.File_expander_grpcexpander_grpcexpanderpb_expander_proto) {
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	return calls
}

// TestRecordings: a real Cluster Autoscaler's requests, in their order and at their times, lead to the exact sizes.
//
// Taken from the recordings are all requests but one: the options with their pods and templates as it sent them, the reads
// around them, and when they came. Driven are the increases: our answer may name another member than the one it was given
// then, so the increase goes to our pick, by the number of nodes in its option, as Cluster Autoscaler does. What the
// recorded question after it holds are the pods left over from a grant of the same size, which is asserted.
func TestRecordings(t *testing.T) {
	tests := map[string][]int{"nine-pods": {3, 3, 3}, "eighteen-pods": {3, 3, 3}}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{cloud: fake.Config{Groups: slow(zones(0, 0, 0))}})
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
				case *externalgrpcpb.NodeGroupsRequest:
					_, err = provider.NodeGroups(ctx, request)
				case *externalgrpcpb.RefreshRequest:
					_, err = provider.Refresh(ctx, request)
				case *externalgrpcpb.NodeGroupTargetSizeRequest:
					_, err = provider.NodeGroupTargetSize(ctx, request)
				case *externalgrpcpb.GPULabelRequest:
					_, err = provider.GPULabel(ctx, request)
				case *externalgrpcpb.GetAvailableGPUTypesRequest:
					_, err = provider.GetAvailableGPUTypes(ctx, request)
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
					_, err = provider.NodeGroupIncreaseSize(ctx, &externalgrpcpb.NodeGroupIncreaseSizeRequest{Id: pick.GetNodeGroupId(), Delta: pick.GetNodeCount()})
					left = int(pick.GetNodeCount()) - (total(w.sizes()) - before)
				default:
					t.Fatalf("no place for %s", c.Method)
				}
				if err != nil {
					t.Fatalf("%s: %v", c.Method, err)
				}
			}
			w.clock.Step(10 * time.Minute)
			if got := w.sizes(); !slices.Equal(got, want) || questions != 3 || left != 0 {
				t.Errorf("sizes %v after %d questions, %d nodes left\n%s", got, questions, left, w.log())
			}
		})
	}
}

// option is the option that was chosen; there has to be one.
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
func (w *world) sizes() []int {
	w.t.Helper()
	state, err := w.ca.State()
	if err != nil {
		w.t.Fatal(err)
	}
	return state.Sizes()
}
