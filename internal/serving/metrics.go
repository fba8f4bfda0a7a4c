package serving

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/metricset"
)

// buckets range from answers from memory to a slow cloud, in seconds.
var buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// Metrics counts and times the calls that servers answer and clients make. Streams
// are not counted.
type Metrics struct {
	requests, backendRequests *prometheus.CounterVec
	duration, backendDuration *prometheus.HistogramVec
	build                     *prometheus.GaugeVec
	expiry                    *expiry
	clock                     clock.PassiveClock
}

// NewMetrics returns the metrics, registered with the registerer if that is not nil. It fails if metrics
// of the same names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_")
	m := &Metrics{
		requests: set.Counter("grpc_requests_total", "Calls answered, by service, method and gRPC code.", "service", "method", "code"),
		duration: set.Histogram("grpc_request_duration_seconds", "Time to answer a call, in seconds.", buckets, "service", "method"),
		backendRequests: set.Counter("backend_requests_total", "Calls made to the backend, by service, method and gRPC code.", "service",
			"method", "code"),
		backendDuration: set.Histogram("backend_request_duration_seconds", "Time the backend took to answer a call, in seconds.", buckets,
			"service", "method"),
		build: set.Gauge("build_info", "1, labelled with the version and commit of evenkeel and the Go version it was built with.", "version",
			"commit", "go_version"),
		expiry: metricset.Add(set, &expiry{certificates: map[string]*Certificates{}}),
		clock:  clock.RealClock{},
	}
	return m, set.Register(registerer)
}

// Build identifies the program.
func (m *Metrics) Build(version, commit string) {
	m.build.Reset()
	m.build.WithLabelValues(version, commit, runtime.Version()).Set(1)
}

// UnaryServer is an interceptor that counts and times the calls of a server. A
// server with Options.Metrics has it.
func (m *Metrics) UnaryServer(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	begin := m.clock.Now()
	answer, err := handle(ctx, request)
	service, method := split(info.FullMethod)
	m.duration.WithLabelValues(service, method).Observe(m.clock.Since(begin).Seconds())
	m.requests.WithLabelValues(service, method, code(err)).Inc()
	return answer, err
}

// Backend is an option of Dial that counts and times the calls of a connection.
// Those of the services named count from 0 on, so that the first shows as an
// increase.
func (m *Metrics) Backend(services ...*grpc.ServiceDesc) grpc.DialOption {
	for _, service := range services {
		for _, method := range service.Methods {
			preset(m.backendRequests, m.backendDuration, service.ServiceName, method.MethodName)
		}
	}
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, full string, request, answer any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		begin := m.clock.Now()
		err := invoke(ctx, full, request, answer, conn, options...)
		service, method := split(full)
		m.backendDuration.WithLabelValues(service, method).Observe(m.clock.Since(begin).Seconds())
		m.backendRequests.WithLabelValues(service, method, code(err)).Inc()
		return err
	})
}

// preset has the calls of a server counted from 0 on.
func (m *Metrics) preset(services map[string]grpc.ServiceInfo) {
	for name, service := range services {
		for _, method := range service.Methods {
			if !method.IsClientStream && !method.IsServerStream {
				preset(m.requests, m.duration, name, method.Name)
			}
		}
	}
}

func preset(requests *prometheus.CounterVec, duration *prometheus.HistogramVec, service, method string) {
	requests.WithLabelValues(service, method, codes.OK.String())
	duration.WithLabelValues(service, method)
}

// split gives the parts of /service/method.
func split(full string) (service, method string) {
	service, method, _ = strings.Cut(strings.TrimPrefix(full, "/"), "/")
	return service, method
}

// code is that of the answer: what a handler returns may be the error of a context.
func code(err error) string {
	if found := status.Code(err); found != codes.Unknown {
		return found.String()
	}
	return status.FromContextError(err).Code().String()
}

// expiry collects when certificates expire, which a renewal may change at any time.
type expiry struct {
	mu           sync.Mutex
	certificates map[string]*Certificates // by listener
}

var expiryDesc = prometheus.NewDesc("evenkeel_certificate_expiry_timestamp_seconds",
	"When the certificate in use by a listener expires, in seconds since 1970.", []string{"listener"}, nil)

// add watches the certificates of a listener, nil for none.
func (e *expiry) add(listener string, certificates *Certificates) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if certificates == nil {
		delete(e.certificates, listener)
		return
	}
	e.certificates[listener] = certificates
}

// Describe implements prometheus.Collector.
func (e *expiry) Describe(descs chan<- *prometheus.Desc) { descs <- expiryDesc }

// Collect implements prometheus.Collector.
func (e *expiry) Collect(metrics chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, listener := range slices.Sorted(maps.Keys(e.certificates)) {
		at := e.certificates[listener].Expiry()
		metrics <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(at.Unix()), listener)
	}
}
