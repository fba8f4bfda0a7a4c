package serving_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/internal/serving"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := serving.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	metrics.Build("v1.0.0", "abc")
	files, c := newFolder(t, start), clocktesting.NewFakeClock(start)
	server := run(t, serving.Options{Metrics: metrics, Name: "expander", Files: files.server(false), Clock: c})
	runHTTP(t, serving.HTTPOptions{Metrics: metrics, Clock: c})
	conn, err := serving.Dial(server.Address(), files.client(), c, metrics.Backend(&grpc_health_v1.Health_ServiceDesc))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health := grpc_health_v1.NewHealthClient(conn)
	for _, service := range []string{"", "", "unknown"} {
		_, _ = health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
	}
	want := `
# HELP evenkeel_backend_requests_total Calls made to the backend, by service, method and gRPC code.
# TYPE evenkeel_backend_requests_total counter
evenkeel_backend_requests_total{code="NotFound",method="Check",service="grpc.health.v1.Health"} 1
evenkeel_backend_requests_total{code="OK",method="Check",service="grpc.health.v1.Health"} 2
evenkeel_backend_requests_total{code="OK",method="List",service="grpc.health.v1.Health"} 0
# HELP evenkeel_certificate_expiry_timestamp_seconds When the certificate in use by a listener expires, in seconds since 1970.
# TYPE evenkeel_certificate_expiry_timestamp_seconds gauge
evenkeel_certificate_expiry_timestamp_seconds{listener="expander"} 1.7882676e+09
# HELP evenkeel_grpc_requests_total Calls answered, by service, method and gRPC code.
# TYPE evenkeel_grpc_requests_total counter
evenkeel_grpc_requests_total{code="NotFound",method="Check",service="grpc.health.v1.Health"} 1
evenkeel_grpc_requests_total{code="OK",method="Check",service="grpc.health.v1.Health"} 2
evenkeel_grpc_requests_total{code="OK",method="List",service="grpc.health.v1.Health"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"evenkeel_backend_requests_total", "evenkeel_certificate_expiry_timestamp_seconds", "evenkeel_grpc_requests_total"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]int{"evenkeel_build_info": 1, "evenkeel_grpc_request_duration_seconds": 2,
		"evenkeel_backend_request_duration_seconds": 2} {
		if got, err := testutil.GatherAndCount(registry, name); err != nil || got != want {
			t.Errorf("%s has %d series, error %v, want %d", name, got, err, want)
		}
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("problems %v, error %v", problems, err)
	}
	if code := listed(t, conn); code != codes.OK {
		t.Errorf("reflection answers %v", code)
	}
}

// TestCodesCountAsAnswered: what a handler returns need not be an error of gRPC.
func TestCodesCountAsAnswered(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := serving.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	info := &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}
	for _, err := range []error{nil, context.Canceled, fmt.Errorf("late: %w", context.DeadlineExceeded), fmt.Errorf("odd"),
		status.Error(codes.NotFound, "")} {
		_, _ = metrics.UnaryServer(t.Context(), nil, info, func(context.Context, any) (any, error) { return nil, err })
	}
	want := `
# HELP evenkeel_grpc_requests_total Calls answered, by service, method and gRPC code.
# TYPE evenkeel_grpc_requests_total counter
evenkeel_grpc_requests_total{code="Canceled",method="C",service="a.B"} 1
evenkeel_grpc_requests_total{code="DeadlineExceeded",method="C",service="a.B"} 1
evenkeel_grpc_requests_total{code="NotFound",method="C",service="a.B"} 1
evenkeel_grpc_requests_total{code="OK",method="C",service="a.B"} 1
evenkeel_grpc_requests_total{code="Unknown",method="C",service="a.B"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "evenkeel_grpc_requests_total"); err != nil {
		t.Error(err)
	}
}

// listed is how reflection answers the question for the services.
func listed(t *testing.T, conn *grpc.ClientConn) codes.Code {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	answer, err := stream.Recv()
	if err == nil && len(answer.GetListServicesResponse().GetService()) == 0 {
		t.Error("no services are listed")
	}
	return status.Code(err)
}

// TestDialTells what is wrong, with the address, when a call is made or before.
func TestDialTells(t *testing.T) {
	c := clock.RealClock{}
	files := newFolder(t, time.Now())
	secure := run(t, serving.Options{Files: files.server(false)})
	elsewhere := run(t, serving.Options{Files: serving.Files{Cert: files.path("elsewhere.crt"), Key: files.path("elsewhere.key")}})
	_, port, err := net.SplitHostPort(secure.Address())
	if err != nil {
		t.Fatal(err)
	}
	gone, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		address string
		files   serving.Files
		want    []string
	}{
		"nobody listens":    {gone.Addr().String(), serving.Files{}, []string{"Unavailable", gone.Addr().String(), "connection refused"}},
		"no such host":      {"nowhere.invalid:1", serving.Files{}, []string{"Unavailable", "lookup nowhere.invalid"}},
		"another host":      {elsewhere.Address(), files.client(), []string{"Unavailable", "cannot validate certificate for 127.0.0.1"}},
		"no port":           {"localhost", serving.Files{}, []string{`address "localhost" is not host:port`, "missing port"}},
		"an empty port":     {"localhost:", serving.Files{}, []string{`address "localhost:" needs a host and a port`}},
		"no host":           {":" + port, files.client(), []string{"needs a host and a port"}},
		"a URL":             {"https://localhost:1", serving.Files{}, []string{"is not host:port"}},
		"files not there":   {"localhost:1", serving.Files{CACert: files.path("x")}, []string{"no such file"}},
		"the name will do":  {"localhost:" + port, files.client(), nil},
		"its address, too":  {"127.0.0.1:" + port, files.client(), nil},
		"nothing is wanted": {run(t, serving.Options{}).Address(), serving.Files{}, nil},
	} {
		conn, err := serving.Dial(test.address, test.files, c)
		if err == nil {
			_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			_ = conn.Close()
		}
		if (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range test.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}
