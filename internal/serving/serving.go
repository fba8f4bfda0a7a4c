package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"k8s.io/utils/clock"
)

const (
	// MaxMessage is the maximum size of a message in bytes, in both directions.
	MaxMessage = 128 << 20
	// DefaultGrace is how long calls may take to finish when a server stops.
	DefaultGrace = 10 * time.Second

	// The keepalive interval and timeout: a silent peer gets a ping, and is dropped if it does not
	// respond.
	keepaliveTime, keepaliveTimeout = time.Minute, 20 * time.Second
	// The minimum interval of pings of a peer. Cluster Autoscaler sends none.
	keepaliveMinTime = 10 * time.Second
	// The timeouts of a handshake, and of the arrival of a request.
	handshakeTimeout, receiveTimeout = 10 * time.Second, 30 * time.Second
	// The maximum number of concurrent calls of a connection: each may hold a message.
	maxStreams = 100
	// The headers of a call, in bytes; those of Cluster Autoscaler take some hundred.
	maxHeader = 64 << 10
)

// Options of a server. The zero value is a server without TLS on loopback.
type Options struct {
	Files Files
	// Plaintext allows a server without TLS on addresses other than loopback.
	Plaintext bool
	// Grace is how long calls may take to finish; 0 means DefaultGrace.
	Grace time.Duration
	// MaxRequest is the maximum size of a request in bytes; 0 means MaxMessage. Set it to bound
	// memory if requests are small.
	MaxRequest int
	// Metrics counts calls and says when the certificate expires; nil means neither.
	Metrics *Metrics
	// Name identifies the listener in Metrics; empty means grpc.
	Name string
	// Clock is the time certificates are checked with; nil means the real one.
	Clock clock.WithTickerAndDelayedExecution
	// GRPC are further options, such as interceptors. They see a call after Metrics.
	GRPC []grpc.ServerOption
}

// Server is a gRPC server on a listener. Register services on it, then Run it.
type Server struct {
	*grpc.Server
	// Health is the state of the health service. Run sets it to not serving when the server stops.
	Health *health.Server

	listener net.Listener
	tls      *Certificates // nil without TLS
	grace    time.Duration
	clock    clock.WithTicker
	metrics  *Metrics // nil for none
}

// Listen opens a server on an address, host:port; port 0 is any free port. Until Run, connections
// wait. A server that is not Run must be closed by Stop.
func Listen(ctx context.Context, address string, o Options) (*Server, error) {
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.Clock = cmp.Or[clock.WithTickerAndDelayedExecution](o.Clock, clock.RealClock{})
	loaded, err := certificates(o.Files, o.Clock)
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, address, loaded, o.Plaintext)
	if err != nil {
		return nil, err
	}
	transport := insecure.NewCredentials()
	if loaded != nil {
		transport = credentials.NewTLS(loaded.server("h2"))
	}
	bounded := &gate{Listener: listener}
	s := &Server{Health: health.NewServer(), listener: bounded, tls: loaded, grace: o.Grace, clock: o.Clock, metrics: o.Metrics}
	options := []grpc.ServerOption{
		grpc.Creds(transport),
		grpc.MaxRecvMsgSize(cmp.Or(o.MaxRequest, MaxMessage)),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMinTime, PermitWithoutStream: true}),
		grpc.StatsHandler(&watcher{gate: bounded, clock: o.Clock}),
	}
	if o.Metrics != nil {
		options = append(options, grpc.ChainUnaryInterceptor(o.Metrics.UnaryServer))
		o.Metrics.expiry.add(cmp.Or(o.Name, "grpc"), loaded)
	}
	s.Server = grpc.NewServer(append(options, o.GRPC...)...)
	grpc_health_v1.RegisterHealthServer(s.Server, s.Health)
	reflection.Register(s.Server) // clients such as grpcurl list services with it
	return s, nil
}

// certificates are those of a server; nil means that it has no TLS.
func certificates(files Files, c clock.PassiveClock) (*Certificates, error) {
	switch {
	case !files.enabled():
		return nil, nil
	case files.Cert == "" && files.Key == "":
		return nil, errors.New("a server with TLS needs a certificate and its key")
	}
	return LoadCertificates(files, c)
}

// listen opens a listener. Without certificates, nil, there is no TLS.
func listen(ctx context.Context, address string, certificates *Certificates, plaintext bool) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if certificates == nil && !plaintext && !loopback(listener.Addr()) {
		_ = listener.Close() // nothing was served
		return nil, fmt.Errorf("no TLS on %s: name a certificate, listen on loopback, or ask for plain text", listener.Addr())
	}
	return listener, nil
}

// loopback reports whether only this machine can connect.
func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Address is where the server listens, host:port.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Problem returns the problem of the certificate; nil if there is none.
func (s *Server) Problem() error {
	return s.tls.Problem()
}

// Stop ends the server at once, whether it runs or not.
func (s *Server) Stop() {
	s.Health.Shutdown()
	s.Server.Stop()
	_ = s.listener.Close() // closed already if it ran
}

// Run serves until ctx is done. Then the health service reports not serving, new calls are refused,
// and calls in progress may finish within the grace period.
func (s *Server) Run(ctx context.Context) error {
	if s.metrics != nil {
		s.metrics.preset(s.GetServiceInfo())
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(s.listener) }()
	select {
	case err := <-served:
		s.Stop()
		return err
	case <-ctx.Done():
	}
	s.Health.Shutdown()
	finish(s.clock, s.grace, s.GracefulStop, s.Stop)
	return <-served
}

// finish ends a server gracefully, or cuts its calls off where that takes longer than the grace.
func finish(c clock.WithTicker, grace time.Duration, gracefully, cut func()) {
	stopped := make(chan struct{})
	go func() {
		gracefully()
		close(stopped)
	}()
	timer := c.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C():
		cut()
		<-stopped
	}
}
