package grpcexpander

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
)

// Arrivals learns of questions before they are read. Cluster Autoscaler may stop waiting for an
// answer while the question still is in a buffer: then no Chooser gets it.
type Arrivals interface {
	// Arrive is called when a question begins to arrive. The context it returns is that of the
	// question.
	Arrive(ctx context.Context) context.Context
	// Leave is called when the question has ended, whether or not it was read.
	Leave(ctx context.Context)
}

// Report returns an option of a grpc.Server that reports the arrivals of questions.
func Report(to Arrivals) grpc.ServerOption { return grpc.StatsHandler(arrivals{to}) }

// arrivals implements stats.Handler.
type arrivals struct{ to Arrivals }

type questionKey struct{}

// TagRPC implements stats.Handler.
func (a arrivals) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if info.FullMethodName != grpcexpanderpb.Expander_BestOptions_FullMethodName {
		return ctx
	}
	return context.WithValue(a.to.Arrive(ctx), questionKey{}, true)
}

// HandleRPC implements stats.Handler.
func (a arrivals) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ended := s.(*stats.End); ended && ctx.Value(questionKey{}) != nil {
		a.to.Leave(ctx)
	}
}

// TagConn implements stats.Handler.
func (arrivals) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (arrivals) HandleConn(context.Context, stats.ConnStats) {}
