package autoscaler

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/utils/clock"
)

// The calls of the external cloud provider's protocol that tests look at.
const (
	Refresh            = "Refresh"
	IncreaseSize       = "NodeGroupIncreaseSize"
	DecreaseTargetSize = "NodeGroupDecreaseTargetSize"
	DeleteNodes        = "NodeGroupDeleteNodes"
)

// A Call is one call that a Tap has passed on.
type Call struct {
	Method string
	// Group is that of a call below, Delta that of IncreaseSize and DecreaseTargetSize, and Nodes how
	// many DeleteNodes names.
	Group string
	Delta int
	Nodes int
	// At is when the call came in, and Ended when it was answered.
	At, Ended time.Time
	// OK says that it was answered without an error.
	OK bool
}

// A Tap stands in front of a gRPC server on loopback and writes down what is
// asked of it. It works on HTTP/2, without a copy of the protocol, so it passes
// on what both sides say and nothing else. Each connection to it has a
// connection of its own to the server, which can tell its clients apart as if
// there were no tap.
type Tap struct {
	// Address is where clients reach the tap.
	Address string

	backend *url.URL
	mutex   sync.Mutex
	calls   []Call
	changed chan struct{} // closed at the next call
}

// NewTap starts a tap in front of an address. It ends with the test.
func NewTap(t testing.TB, backend string) *Tap {
	t.Helper()
	tap := &Tap{backend: &url.URL{Scheme: "http", Host: backend}, changed: make(chan struct{})}
	server := httptest.NewUnstartedServer(tap.handler())
	server.Config.Protocols, server.Config.ConnContext = http2(), tap.ownConnection
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections() // whatever is open is of programs that have ended
		server.Close()
	})
	tap.Address = server.Listener.Addr().String()
	return tap
}

// http2 is HTTP/2 without TLS, as gRPC speaks it.
func http2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

type transportKey struct{}

// ownConnection gives a connection to the tap its own way to the server.
func (t *Tap) ownConnection(ctx context.Context, _ net.Conn) context.Context {
	transport := &http.Transport{Protocols: http2(), DisableCompression: true}
	context.AfterFunc(ctx, transport.CloseIdleConnections)
	return context.WithValue(ctx, transportKey{}, transport)
}

// RoundTrip sends a request to the server.
func (t *Tap) RoundTrip(r *http.Request) (*http.Response, error) {
	return r.Context().Value(transportKey{}).(*http.Transport).RoundTrip(r)
}

func (t *Tap) handler() http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(t.backend) },
		Transport: t,
		// The client gets the status; the test reads it from the call.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := Call{Method: path.Base(r.URL.Path), At: clock.RealClock{}.Now()}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		if call.Method == IncreaseSize || call.Method == DecreaseTargetSize {
			call.Group, call.Delta, _ = resize(body)
		}
		if call.Method == DeleteNodes {
			call.Group, _, call.Nodes = resize(body)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
		call.Ended, call.OK = clock.RealClock{}.Now(), status(w.Header()) == "0"
		t.record(call)
	})
}

// status finds the gRPC status of an answer, which is a trailer or, in an answer
// without a message, a header.
func status(h http.Header) string {
	if s := h.Get("Grpc-Status"); s != "" {
		return s
	}
	return h.Get(http.TrailerPrefix + "Grpc-Status")
}

// resize reads the message of IncreaseSize and DecreaseTargetSize, which have
// the same fields, or of DeleteNodes, whose first field is a list of nodes. What is
// no such message has neither group nor delta.
func resize(body []byte) (group string, delta, nodes int) {
	const prefix = 5 // one byte for compression, which autoscalers do not use, and the length
	if len(body) < prefix || int(binary.BigEndian.Uint32(body[1:])) != len(body)-prefix {
		return "", 0, 0
	}
	for rest := body[prefix:]; len(rest) > 0; {
		number, kind, tag := protowire.ConsumeTag(rest)
		if tag < 0 {
			return "", 0, 0
		}
		value := rest[tag:]
		n := protowire.ConsumeFieldValue(number, kind, value)
		if n < 0 {
			return "", 0, 0
		}
		switch {
		case number == 1 && kind == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			delta = int(int32(v))
		case number == 1 && kind == protowire.BytesType:
			nodes++
		case number == 2 && kind == protowire.BytesType:
			v, _ := protowire.ConsumeBytes(value)
			group = string(v)
		}
		rest = value[n:]
	}
	return group, delta, nodes
}

func (t *Tap) record(c Call) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.calls = append(t.calls, c)
	close(t.changed)
	t.changed = make(chan struct{})
}

// Calls returns what was asked so far, in the order of the answers.
func (t *Tap) Calls() []Call {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return slices.Clone(t.calls)
}

// Until waits until the calls are as wanted.
func (t *Tap) Until(ctx context.Context, wanted func([]Call) bool) error {
	for {
		t.mutex.Lock()
		calls, changed := t.calls[:len(t.calls):len(t.calls)], t.changed
		t.mutex.Unlock()
		if wanted(calls) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Refreshes counts the loops that were begun.
func Refreshes(calls []Call) int {
	n := 0
	for _, c := range calls {
		if c.Method == Refresh && c.OK {
			n++
		}
	}
	return n
}

// Increases are the calls by which nodes were ordered.
func Increases(calls []Call) []Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return c.Method != IncreaseSize || !c.OK })
}

// Growing counts the loops in which a group was increased.
func Growing(calls []Call) int {
	loops, grew := 0, false
	for _, c := range calls {
		switch {
		case c.Method == Refresh:
			grew = false
		case c.Method == IncreaseSize && c.OK && !grew:
			grew = true
			loops++
		}
	}
	return loops
}
