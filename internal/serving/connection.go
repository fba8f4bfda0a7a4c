package serving

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc/stats"
	"k8s.io/utils/clock"
)

// connections numbers the connections of the process.
var connections atomic.Uint64

type (
	connectionKey struct{}
	callKey       struct{}
)

// connection is the state of a connection.
type connection struct {
	name string
	conn net.Conn // nil if it was closed before it was admitted
}

// Connection names the connection by which a call came in: no two connections to servers of this
// process have the same name. It is empty if ctx is not that of a served call.
func Connection(ctx context.Context) string {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return ""
	}
	return c.name
}

// watcher names the connections of a server, and closes those on which a request does not arrive
// within the receive limit, because a partial request uses memory.
type watcher struct {
	gate  *gate
	clock clock.WithDelayedExecution
}

func (w *watcher) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	name := strconv.FormatUint(connections.Add(1), 10)
	return context.WithValue(ctx, connectionKey{}, &connection{name: name, conn: w.gate.admit(info.RemoteAddr)})
}

func (w *watcher) HandleConn(_ context.Context, event stats.ConnStats) {
	if _, end := event.(*stats.ConnEnd); end {
		w.gate.leave()
	}
}

// call is a call whose request is awaited.
type call struct{ arrived func() bool }

func (w *watcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, callKey{}, &call{})
}

// HandleRPC waits for the request of a call from its beginning until it is there,
// or the call has ended. Calls of unknown methods do not begin.
func (w *watcher) HandleRPC(ctx context.Context, event stats.RPCStats) {
	this, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return
	}
	switch event.(type) {
	case *stats.Begin:
		if c, ok := ctx.Value(connectionKey{}).(*connection); ok && c.conn != nil {
			this.arrived = w.await(c.conn)
		}
	case *stats.InPayload, *stats.End:
		if this.arrived != nil {
			this.arrived()
		}
	}
}

// await closes the connection at the receive limit, unless the function it returns is called before.
func (w *watcher) await(conn net.Conn) (arrived func() bool) {
	return w.clock.AfterFunc(receiveTimeout, func() { _ = conn.Close() }).Stop // the server notices
}
