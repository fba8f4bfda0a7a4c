package controller

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
)

const (
	// A client has so long to send a request, and to take the answer.
	readTimeout, writeTimeout = 10 * time.Second, 30 * time.Second
	// A connection without a request is kept for so long.
	idleTimeout = 2 * time.Minute
	// Headers are small.
	maxHeader = 64 << 10
	// So many scrapes may go on at a time.
	maxScrapes = 4
	// A probe waits so long for an answer; the kubelet gives it a second.
	probeTimeout = 500 * time.Millisecond
)

// A check of a probe says how things are, or what is wrong.
type check struct {
	name string
	of   func(*http.Request) (string, error)
}

// probe answers with what its checks say.
type probe struct {
	name   string
	checks []check
}

// ServeHTTP implements http.Handler.
func (p probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var lines strings.Builder
	failed := false
	for _, c := range p.checks {
		state, err := c.of(r)
		if err != nil {
			failed = true
			fmt.Fprintf(&lines, "[-]%s failed: %s\n", c.name, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Fprintf(&lines, "[+]%s %s\n", c.name, state)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s%s check failed\n", lines.String(), p.name)
	case r.URL.Query().Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", lines.String(), p.name)
	default:
		fmt.Fprint(w, "ok")
	}
}

// scrape answers with metrics.
func scrape(gatherer prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError, // some metrics are better than none
		MaxRequestsInFlight: maxScrapes,
	})
}

// newServer is an HTTP server that bounds what its clients cost.
func newServer(handler http.Handler) *http.Server {
	quiet := klog.NewStandardLogger("INFO")
	quiet.SetOutput(io.Discard) // any client can make as many errors as it likes
	return &http.Server{
		Handler:           handler,
		ErrorLog:          quiet,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}
}

// address is where a listener listens; empty for none.
func address(listener net.Listener) string {
	if listener == nil {
		return ""
	}
	return listener.Addr().String()
}
