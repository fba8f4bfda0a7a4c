package fakecloud

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/serving"
)

// Listen opens a server of the external cloud provider protocol for a cloud.
// changed is called after every call that may have changed the cloud; nil for
// nobody. The context's logger is told of such calls. The cloud's own log of
// calls is kept empty.
func Listen(ctx context.Context, address string, cloud *fake.Cloud, changed func(), o serving.Options) (*serving.Server, error) {
	w := &watcher{cloud: cloud, changed: changed, logger: klog.FromContext(ctx)}
	o.GRPC = append(slices.Clone(o.GRPC), grpc.ChainUnaryInterceptor(w.intercept))
	server, err := serving.Listen(ctx, address, o)
	if err != nil {
		return nil, err
	}
	externalgrpc.NewServer(cloud).Register(server)
	return server, nil
}

// watcher notices the calls that change something.
type watcher struct {
	cloud   *fake.Cloud
	changed func()
	logger  klog.Logger
}

func (w *watcher) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	w.cloud.ForgetCalls() // a server runs for long
	group, details := change(request)
	if group == "" {
		w.logger.V(4).Info("Answered a call", "method", info.FullMethod, "error", errText(err))
		return answer, err
	}
	w.logger.Info("The size of a node group was changed", append([]any{"group", group, "error", errText(err)}, details...)...)
	if w.changed != nil {
		w.changed() // even after an error: it may have taken effect
	}
	return answer, err
}

// change is the group that a request changes, and how; empty if it changes none.
func change(request any) (group string, details []any) {
	switch r := request.(type) {
	case *externalgrpcpb.NodeGroupIncreaseSizeRequest:
		return r.GetId(), []any{"delta", r.GetDelta()}
	case *externalgrpcpb.NodeGroupDecreaseTargetSizeRequest:
		return r.GetId(), []any{"delta", r.GetDelta()}
	case *externalgrpcpb.NodeGroupDeleteNodesRequest:
		return r.GetId(), []any{"deletedNodes", len(r.GetNodes())}
	}
	return "", nil
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
