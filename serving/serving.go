package serving

import (
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
	"k8s.io/utils/clock"
)

const (
	// MaxMessage is how large a message may be, in bytes, in both directions.
	MaxMessage = 128 << 20
	// DefaultGrace is how long calls may take to finish when a server stops.
	DefaultGrace = 10 * time.Second

	// A peer that says nothing for so long is asked whether it is there, and
	// dropped when it does not answer.
	keepaliveTime, keepaliveTimeout = time.Minute, 20 * time.Second
	// A connection has so long for its handshake.
	handshakeTimeout = 10 * time.Second
	// A connection has at most so many calls at a time: each may hold a message.
	maxStreams = 100
)

// Options of a server. The zero value is a server without TLS on loopback.
type Options struct {
	Files Files
	// Plaintext allows a server without TLS off loopback.
	Plaintext bool
	// Grace is how long calls may take to finish; 0 means DefaultGrace.
	Grace time.Duration
	// Clock is the time certificates are checked with; nil means the real one.
	Clock clock.WithTicker
	// GRPC are further options, such as interceptors.
	GRPC []grpc.ServerOption
}

// Server is a gRPC server on a listener. Register services on it, then Run it.
type Server struct {
	*grpc.Server
	// Health is the state told by the health service. Run has it say that it does
	// not serve when the server stops.
	Health *health.Server

	listener     net.Listener
	certificates *Certificates // nil without TLS
	grace        time.Duration
	clock        clock.WithTicker
}

// Listen opens a server on an address, host:port; port 0 is any free one. Until
// Run, connections wait. A server that is not Run is to be closed by Stop.
func Listen(ctx context.Context, address string, o Options) (*Server, error) {
	s := &Server{Health: health.NewServer(), grace: o.Grace, clock: o.Clock}
	if s.grace == 0 {
		s.grace = DefaultGrace
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	transport := insecure.NewCredentials()
	if o.Files.enabled() {
		if o.Files.Cert == "" {
			return nil, errors.New("a server with TLS needs a certificate and its key")
		}
		loaded, err := LoadCertificates(o.Files, s.clock)
		if err != nil {
			return nil, err
		}
		s.certificates, transport = loaded, credentials.NewTLS(loaded.server())
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if s.certificates == nil && !o.Plaintext && !loopback(listener.Addr()) {
		_ = listener.Close() // nothing was served
		return nil, fmt.Errorf("no TLS on %s: name a certificate, listen on loopback, or ask for plain text", listener.Addr())
	}
	s.listener = listener
	s.Server = grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(transport),
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.StatsHandler(tagger{}),
	}, o.GRPC...)...)
	grpc_health_v1.RegisterHealthServer(s.Server, s.Health)
	return s, nil
}

// loopback tells whether only this machine can connect.
func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Address is where the server listens, host:port.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Problem tells what is wrong with the certificate; nil when all is well.
func (s *Server) Problem() error {
	if s.certificates == nil {
		return nil
	}
	return s.certificates.Problem()
}

// Stop ends the server at once, whether it runs or not.
func (s *Server) Stop() {
	s.Health.Shutdown()
	s.Server.Stop()
	_ = s.listener.Close() // closed already if it ran
}

// Run serves until ctx is done. Then the health service says so, new calls are
// refused, and those in flight may finish within the grace.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.Serve(s.listener) }()
	select {
	case err := <-served:
		s.Stop()
		return err
	case <-ctx.Done():
	}
	s.Health.Shutdown()
	stopped := make(chan struct{})
	go func() {
		s.GracefulStop()
		close(stopped)
	}()
	timer := s.clock.NewTimer(s.grace)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C():
		s.Stop()
		<-stopped
	}
	return <-served
}

// Dial makes a connection to an address, host:port, with the files of a client.
// It connects when it is first used, and again whenever it has to. Nothing is
// retried that may have had an effect.
func Dial(address string, files Files, c clock.PassiveClock) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if files.enabled() {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("address %q: %w", address, err)
		}
		loaded, err := LoadCertificates(files, c)
		if err != nil {
			return nil, err
		}
		transport = credentials.NewTLS(loaded.client(host))
	}
	return grpc.NewClient(address,
		grpc.WithTransportCredentials(transport),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
	)
}
