package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// The timeouts for sending a request, and for receiving the answer.
	httpReadTimeout, httpWriteTimeout = 10 * time.Second, 30 * time.Second
	// The timeout of a connection without a request.
	httpIdleTimeout = 2 * time.Minute
	// The maximum number of concurrent scrapes.
	maxScrapes = 4
)

// HTTPOptions of a server. The zero value is a server without TLS on loopback that
// is always healthy and ready.
type HTTPOptions struct {
	Files Files
	// SelfSigned makes a server without Files create and renew a certificate. It prevents
	// eavesdropping, but a client cannot verify it.
	SelfSigned bool
	// Certificate is asked at each handshake for the certificate to present, unless Files name one. A nil
	// result means that there is none: the handshake fails.
	Certificate func() *tls.Certificate
	// Plaintext allows a server without TLS on addresses other than loopback.
	Plaintext bool
	// Health and Ready are checks by name: what they return is why the process should be restarted,
	// or should not get calls now. They are called at once for each request, by many at a time.
	Health, Ready map[string]func() error
	// Gatherer has the metrics of /metrics; nil means that there is no /metrics.
	Gatherer prometheus.Gatherer
	// Handlers are further ones, by the patterns of http.ServeMux.
	Handlers map[string]http.Handler
	// Protect wraps /metrics and Handlers in an authorization check; nil means that there is none.
	// Probes never have one.
	Protect func(http.Handler) http.Handler
	// Ending is called once when the end begins, before the drain: what answers for long, such as a stream, must end. Nil
	// means that nothing does.
	Ending func()
	// Metrics says when the certificate expires; nil means that nothing does.
	Metrics *Metrics
	// Name identifies the listener in Metrics; empty means http.
	Name string
	// Drain is how long requests are still answered after the end has begun, so that clients that
	// find the server by a Service can learn that it ends. Each answer closes its connection then.
	Drain time.Duration
	// Grace is how long requests may take to finish; 0 means DefaultGrace.
	Grace time.Duration
	// MaxBody is the maximum size of the body of a request in bytes; 0 means no limit.
	MaxBody int64
	// Connections is how many may be established, a quarter of which may be in their handshake; 0
	// means the defaults of the package.
	Connections int
	// Clock is the time certificates are checked with; nil means the real one.
	Clock clock.WithTicker
}

// HTTPServer is an HTTP server on a listener.
type HTTPServer struct {
	server   *http.Server
	listener net.Listener
	address  string
	tls      *Certificates // nil without TLS
	grace    time.Duration
	drain    time.Duration
	ending   func()
	draining atomic.Bool
	clock    clock.WithTicker
}

// ListenHTTP opens a server on an address, host:port; port 0 is any free port. It answers /healthz
// and /readyz the way Kubernetes does, with each check for ?verbose, and /metrics. Until Run,
// connections wait. A server that is not Run must be closed by Stop.
func ListenHTTP(ctx context.Context, address string, o HTTPOptions) (*HTTPServer, error) {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	mux, err := o.mux()
	if err != nil {
		return nil, err
	}
	loaded, err := o.certificates()
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, address, loaded, o.Plaintext)
	if err != nil {
		return nil, err
	}
	bounded := &gate{Listener: listener, maxAdmitted: o.Connections, maxWaiting: o.Connections / 4}
	s := &HTTPServer{
		listener: bounded, address: listener.Addr().String(), tls: loaded,
		grace: cmp.Or(o.Grace, DefaultGrace), drain: o.Drain, ending: o.Ending, clock: o.Clock,
	}
	if loaded != nil {
		s.listener = tls.NewListener(bounded, loaded.server("http/1.1"))
	}
	if o.Metrics != nil {
		o.Metrics.expiry.add(cmp.Or(o.Name, "http"), loaded)
	}
	quiet := klog.NewStandardLogger("INFO")
	quiet.SetOutput(io.Discard) // of handshakes that fail, any client can make as many as it likes
	s.server = &http.Server{
		Handler:           s.closing(o.limited(mux)),
		ErrorLog:          quiet,
		ReadHeaderTimeout: httpReadTimeout,
		ReadTimeout:       httpReadTimeout,
		WriteTimeout:      httpWriteTimeout,
		IdleTimeout:       httpIdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         bounded.follow(),
	}
	return s, nil
}

func (o HTTPOptions) certificates() (*Certificates, error) {
	switch {
	case o.Certificate != nil && o.Files.Cert == "" && o.Files.Key == "":
		given := &Certificates{files: Files{CACert: o.Files.CACert}, given: o.Certificate, clock: o.Clock, read: o.Clock.Now()}
		return given, given.load()
	case o.SelfSigned && !o.Files.enabled():
		return newOwn(o.Clock)
	}
	return certificates(o.Files, o.Clock)
}

// mux has the handlers. It fails where a pattern is wrong, or is one of its own.
func (o HTTPOptions) mux() (mux *http.ServeMux, err error) {
	mux = http.NewServeMux()
	defer func() {
		if wrong := recover(); wrong != nil { // ServeMux reports an error by a panic
			err = fmt.Errorf("handlers: %v", wrong)
		}
	}()
	mux.Handle("GET /healthz", checks{"healthz", maps.Clone(o.Health)})
	mux.Handle("GET /readyz", checks{"readyz", maps.Clone(o.Ready)})
	protect := o.Protect
	if protect == nil {
		protect = func(h http.Handler) http.Handler { return h }
	}
	if o.Gatherer != nil {
		mux.Handle("GET /metrics", protect(promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
			ErrorHandling:       promhttp.ContinueOnError, // some metrics are better than none
			MaxRequestsInFlight: maxScrapes,
		})))
	}
	for _, pattern := range slices.Sorted(maps.Keys(o.Handlers)) {
		mux.Handle(pattern, protect(o.Handlers[pattern]))
	}
	return mux, nil
}

// limited bounds the bodies of requests.
func (o HTTPOptions) limited(h http.Handler) http.Handler {
	if o.MaxBody <= 0 {
		return h
	}
	return http.MaxBytesHandler(h, o.MaxBody)
}

// closing has each answer close its connection while the server drains.
func (s *HTTPServer) closing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Address is where the server listens, host:port.
func (s *HTTPServer) Address() string { return s.address }

// Problem returns the problem of the certificate; nil if there is none.
func (s *HTTPServer) Problem() error { return s.tls.Problem() }

// Stop ends the server at once, whether it runs or not.
func (s *HTTPServer) Stop() {
	_ = s.server.Close()
	_ = s.listener.Close() // closed already if it ran
}

// Run serves until ctx is done, or Stop is called. When ctx is done and the server has drained, new
// connections are refused, and requests in flight may finish within the grace.
func (s *HTTPServer) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(s.listener) }()
	select {
	case err := <-served:
		s.Stop()
		return ended(err)
	case <-ctx.Done():
	}
	if s.ending != nil {
		s.ending()
	}
	if s.drain > 0 {
		s.draining.Store(true)
		drained := s.clock.NewTimer(s.drain)
		defer drained.Stop()
		select {
		case err := <-served:
			s.Stop()
			return ended(err)
		case <-drained.C():
		}
	}
	waiting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	gracefully := func() { _ = s.server.Shutdown(waiting) } // fails only when it is cut
	finish(s.clock, s.grace, gracefully, func() { stop(); s.Stop() })
	return ended(<-served)
}

// ended returns the error of Serve, unless the server was stopped.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// follow reports changes of the connections of an HTTP server to the gate.
func (g *gate) follow() func(net.Conn, http.ConnState) {
	var admitted sync.Map // by connection
	return func(conn net.Conn, state http.ConnState) {
		switch state { //nolint:exhaustive // the others change nothing
		case http.StateActive:
			if _, before := admitted.LoadOrStore(conn, nil); !before {
				g.admit(conn.RemoteAddr())
			}
		case http.StateClosed, http.StateHijacked:
			if _, was := admitted.LoadAndDelete(conn); was {
				g.leave()
			}
		}
	}
}

// Results makes checks in the order of their names, as /healthz and /readyz do, and says on one line what is wrong; empty
// if nothing is.
func Results(checks map[string]func() error) iter.Seq2[string, string] {
	return func(yield func(name, problem string) bool) {
		for _, name := range slices.Sorted(maps.Keys(checks)) {
			problem := ""
			if err := checks[name](); err != nil {
				problem = cmp.Or(strings.Join(strings.Fields(err.Error()), " "), "failed")
			}
			if !yield(name, problem) {
				return
			}
		}
	}
}

// checks answers with what its checks say.
type checks struct {
	name string
	all  map[string]func() error
}

// ServeHTTP implements http.Handler.
func (c checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var lines strings.Builder
	failed := false
	for name, problem := range Results(c.all) {
		if problem != "" {
			failed = true
			fmt.Fprintf(&lines, "[-]%s failed: %s\n", name, problem)
		} else {
			fmt.Fprintf(&lines, "[+]%s ok\n", name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s%s check failed\n", lines.String(), c.name)
	case r.URL.Query().Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", lines.String(), c.name)
	default:
		fmt.Fprint(w, "ok")
	}
}
