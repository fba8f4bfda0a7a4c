package externalgrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

// waiting is a provider whose refresh lasts as long as somebody waits for it.
type waiting struct {
	stub
	begun, ended chan struct{}
}

func (w waiting) Refresh(ctx context.Context) error {
	close(w.begun)
	<-ctx.Done()
	close(w.ended)
	return ctx.Err()
}

// TestCancel: a client that gives up ends the call of the provider.
func TestCancel(t *testing.T) {
	w := waiting{begun: make(chan struct{}), ended: make(chan struct{})}
	client := externalgrpc.NewClient(serve(t, w))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.begun
		cancel()
	}()
	if err := client.Refresh(ctx); err == nil {
		t.Error("a canceled call succeeded")
	}
	<-w.ended
}

// FuzzRequests: whatever bytes come for a request, there is an answer or a
// status, and what was decoded encodes to what decodes to the same.
func FuzzRequests(f *testing.F) {
	methods := externalgrpcpb.CloudProvider_ServiceDesc.Methods
	index := map[string]byte{}
	for i, method := range methods {
		index["/"+externalgrpcpb.CloudProvider_ServiceDesc.ServiceName+"/"+method.MethodName] = byte(i)
		f.Add(byte(i), []byte{})
	}
	for method, request := range recorded(f) {
		f.Add(index[method], request)
	}
	f.Fuzz(func(t *testing.T, method byte, wire []byte) {
		cloud, _ := newCloud(t)
		server := externalgrpc.NewServer(cloud)
		_, err := methods[int(method)%len(methods)].Handler(server, t.Context(), func(request any) error {
			message := request.(proto.Message)
			if err := proto.Unmarshal(wire, message); err != nil {
				return status.Error(codes.Internal, err.Error()) // as the library answers it
			}
			return stable(message)
		}, func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			answer, err := handler(ctx, request)
			if err == nil {
				if err := stable(answer.(proto.Message)); err != nil {
					t.Errorf("answer to %v: %v", request, err)
				}
			}
			return answer, err
		})
		if _, ok := status.FromError(err); !ok {
			t.Errorf("%q is no status", err)
		}
	})
}

// stable checks that a message encodes to bytes that decode to the same.
func stable(message proto.Message) error {
	first, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return err
	}
	again := message.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(first, again); err != nil {
		return err
	}
	second, err := proto.MarshalOptions{Deterministic: true}.Marshal(again)
	if err == nil && !bytes.Equal(first, second) {
		return errUnstable
	}
	return err
}

// errUnstable is no status, so it does not pass for an answer.
var errUnstable = errors.New("encodes to what decodes to something else")

// recorded are requests of a real Cluster Autoscaler by method, encoded.
func recorded(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/recording.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	service := externalgrpcpb.File_cloudprovider_externalgrpc_externalgrpcpb_externalgrpc_proto.Services().Get(0)
	out := map[string][]byte{}
	for line := range bytes.Lines(text) {
		var call struct {
			Method  string
			Request json.RawMessage
		}
		if err := json.Unmarshal(line, &call); err != nil {
			t.Fatal(err)
		}
		name := protoreflect.Name(path.Base(call.Method))
		message := dynamicpb.NewMessage(service.Methods().ByName(name).Input())
		if err := protojson.Unmarshal(call.Request, message); err != nil {
			t.Fatal(err)
		}
		if out[call.Method], err = proto.Marshal(message); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
