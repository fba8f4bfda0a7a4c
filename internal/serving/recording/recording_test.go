package recording_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/internal/serving/recording"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// cloud answers some calls.
type cloud struct {
	externalgrpcpb.UnimplementedCloudProviderServer
	clock *clocktesting.FakeClock
}

func (c cloud) NodeGroups(context.Context, *externalgrpcpb.NodeGroupsRequest) (*externalgrpcpb.NodeGroupsResponse, error) {
	c.clock.Step(250 * time.Millisecond)
	return &externalgrpcpb.NodeGroupsResponse{NodeGroups: []*externalgrpcpb.NodeGroup{{Id: "a", MaxSize: 9, Debug: "line\nfeed"}}}, nil
}

func (cloud) NodeGroupTargetSize(_ context.Context,
	r *externalgrpcpb.NodeGroupTargetSizeRequest) (*externalgrpcpb.NodeGroupTargetSizeResponse, error) {
	return nil, status.Errorf(codes.NotFound, "no group %q", r.GetId())
}

func (cloud) Refresh(context.Context, *externalgrpcpb.RefreshRequest) (*externalgrpcpb.RefreshResponse, error) {
	return nil, fmt.Errorf("too slow: %w", context.DeadlineExceeded)
}

// TestRecordsCalls: what a server answered is in the file, for its owner only.
func TestRecordsCalls(t *testing.T) {
	name := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(name, []byte(`{"method":"cut o`), 0o644); err != nil {
		t.Fatal(err)
	}
	c := clocktesting.NewFakeClock(start)
	recorder, err := recording.Open(name, recording.Options{Clock: c, Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	serveCalls(t, recorder, c)
	if err := recorder.Close(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const service = "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/"
	want := []string{
		`{"method":"cut o`,
		`{"method":"` + service + `NodeGroups","request":{},"response":{"nodeGroups":[{"id":"a","maxSize":9,"debug":"line\nfeed"}]},"t":0}`,
		`{"method":"` + service +
			`NodeGroupTargetSize","request":{"id":"<b>"},"error":{"code":"NotFound","message":"no group \"\u003cb\u003e\""},"t":0.25}`,
		`{"method":"` + service +
			`Refresh","request":{},"error":{"code":"DeadlineExceeded","message":"too slow: context deadline exceeded"},"t":0.25}`,
	}
	// The JSON of protocol buffers has blanks in places that change from build to build.
	got := strings.Split(strings.NewReplacer(", ", ",", `": `, `":`).Replace(strings.TrimSuffix(string(text), "\n")), "\n")
	got = slices.DeleteFunc(got, func(line string) bool { return line == "" })
	for i := range want {
		want[i] = strings.NewReplacer(", ", ",", `": `, `":`).Replace(want[i])
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// serveCalls has a server with the recorder answer one call of each kind.
func serveCalls(t *testing.T, recorder *recording.Recorder, c *clocktesting.FakeClock) {
	t.Helper()
	server, err := serving.Listen(t.Context(), "127.0.0.1:0",
		serving.Options{GRPC: []grpc.ServerOption{grpc.ChainUnaryInterceptor(recorder.Intercept)}})
	if err != nil {
		t.Fatal(err)
	}
	externalgrpcpb.RegisterCloudProviderServer(server, cloud{clock: c})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	conn, err := serving.Dial(server.Address(), serving.Files{}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	client := externalgrpcpb.NewCloudProviderClient(conn)
	_, _ = client.NodeGroups(ctx, &externalgrpcpb.NodeGroupsRequest{})
	_, _ = client.NodeGroupTargetSize(ctx, &externalgrpcpb.NodeGroupTargetSizeRequest{Id: "<b>"})
	_, _ = client.Refresh(ctx, &externalgrpcpb.RefreshRequest{})
	_, _ = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}) // is left out
	_ = conn.Close()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing", "calls.jsonl")
	if _, err := recording.Open(name, recording.Options{}); err == nil || !strings.Contains(err.Error(), "recording: open "+name) {
		t.Errorf("got %v", err)
	}
}

// TestAfterClose: a call that comes too late is answered and left out.
func TestAfterClose(t *testing.T) {
	name := filepath.Join(t.TempDir(), "calls.jsonl")
	recorder, err := recording.Open(name, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		t.Error(err)
	}
	answer, err := recorder.Intercept(t.Context(), &externalgrpcpb.RefreshRequest{}, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"},
		func(context.Context, any) (any, error) {
			return &externalgrpcpb.RefreshResponse{}, nil
		})
	if text, unread := os.ReadFile(name); err != nil || answer == nil || unread != nil || len(text) > 0 {
		t.Errorf("answer %v, error %v, written %s, %v", answer, err, text, unread)
	}
	if err := recorder.Close(); err == nil {
		t.Error("closed twice, no error")
	}
}

// TestMemoryOfLargeCalls: a request of 100 MiB is in memory once, and while it is
// written once more as JSON.
func TestMemoryOfLargeCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	recorder, err := recording.Open(filepath.Join(t.TempDir(), "calls.jsonl"), recording.Options{Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	pod := bytes.Repeat([]byte("x"), 20<<10)
	request := &grpcexpanderpb.BestOptionsRequest{}
	for len(request.GetOptions())*len(pod) < 100<<20 {
		request.Options = append(request.Options, &grpcexpanderpb.Option{NodeGroupId: "a", Debug: string(pod)})
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	_, _ = recorder.Intercept(t.Context(), request, &grpc.UnaryServerInfo{FullMethod: grpcexpanderpb.Expander_BestOptions_FullMethodName},
		func(context.Context, any) (any, error) {
			return nil, errors.New("refused")
		})
	took := time.Since(begin)
	if err := recorder.Close(); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("%d MiB: the call took %v longer, %v until it was written, %d MiB allocated", proto.Size(request)>>20, took, time.Since(begin),
		allocated)
	if allocated > 200 {
		t.Errorf("%d MiB allocated", allocated)
	}
}
