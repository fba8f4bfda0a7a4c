package serving

import (
	"context"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// connections numbers the connections of the process.
var connections atomic.Uint64

type connectionKey struct{}

// Connection names the connection by which a call came in: no two connections
// to servers of this process have the same name. It is empty where ctx is not
// that of a served call.
func Connection(ctx context.Context) string {
	name, _ := ctx.Value(connectionKey{}).(string)
	return name
}

// tagger names connections.
type tagger struct{}

func (tagger) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, strconv.FormatUint(connections.Add(1), 10))
}

func (tagger) HandleConn(context.Context, stats.ConnStats) {}

func (tagger) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (tagger) HandleRPC(context.Context, stats.RPCStats) {}
