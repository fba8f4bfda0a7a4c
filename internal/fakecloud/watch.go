package fakecloud

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

// Watched is a cloud in memory whose callers are watched. It implements
// cloudprovider.Provider and cloudprovider.Pricing.
type Watched struct {
	cloud   *fake.Cloud
	changed func()
	logger  klog.Logger
}

// Watch returns the cloud with its callers watched: changed is called after every call that may
// have changed the cloud, may be nil; the logger logs changes and calls that failed to make one, and
// with verbosity 4 all calls. The cloud's own log of calls stays empty.
func Watch(cloud *fake.Cloud, changed func(), logger klog.Logger) *Watched {
	if changed == nil {
		changed = func() {}
	}
	return &Watched{cloud: cloud, changed: changed, logger: logger}
}

// read is called after a call that changes nothing.
func (w *Watched) read(method fake.Method, err error) {
	w.cloud.ForgetCalls() // a watched cloud runs for long
	w.logger.V(4).Info("Answered a call", "method", method, "error", errText(err))
}

// write makes a call that changes a group: even one that fails may take effect.
func (w *Watched) write(id, how string, number int, call func() error) error {
	before := w.cloud.Target(id)
	err := call()
	w.cloud.ForgetCalls()
	after := w.cloud.Target(id)
	switch {
	case after != before:
		w.logger.Info("The size of a node group was changed", "group", id, how, number, "from", before, "to", after, "error", errText(err))
	case err != nil:
		w.logger.Info("A call did not change the size of a node group", "group", id, how, number, "size", after, "error", errText(err))
	default:
		w.logger.V(4).Info("A call had nothing to change", "group", id, how, number, "size", after)
	}
	w.changed()
	return err
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// NodeGroups implements cloudprovider.Provider.
func (w *Watched) NodeGroups(ctx context.Context) ([]cloudprovider.NodeGroup, error) {
	groups, err := w.cloud.NodeGroups(ctx)
	w.read(fake.MethodNodeGroups, err)
	return groups, err
}

// NodeGroupForNode implements cloudprovider.Provider.
func (w *Watched) NodeGroupForNode(ctx context.Context, node *v1.Node) (id string, ok bool, err error) {
	id, ok, err = w.cloud.NodeGroupForNode(ctx, node)
	w.read(fake.MethodNodeGroupForNode, err)
	return id, ok, err
}

// TargetSize implements cloudprovider.Provider.
func (w *Watched) TargetSize(ctx context.Context, id string) (int, error) {
	size, err := w.cloud.TargetSize(ctx, id)
	w.read(fake.MethodTargetSize, err)
	return size, err
}

// IncreaseSize implements cloudprovider.Provider.
func (w *Watched) IncreaseSize(ctx context.Context, id string, delta int) error {
	return w.write(id, "delta", delta, func() error { return w.cloud.IncreaseSize(ctx, id, delta) })
}

// DecreaseTargetSize implements cloudprovider.Provider.
func (w *Watched) DecreaseTargetSize(ctx context.Context, id string, delta int) error {
	return w.write(id, "delta", delta, func() error { return w.cloud.DecreaseTargetSize(ctx, id, delta) })
}

// DeleteNodes implements cloudprovider.Provider.
func (w *Watched) DeleteNodes(ctx context.Context, id string, nodes []*v1.Node) error {
	return w.write(id, "deletedNodes", len(nodes), func() error { return w.cloud.DeleteNodes(ctx, id, nodes) })
}

// Nodes implements cloudprovider.Provider.
func (w *Watched) Nodes(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
	instances, err := w.cloud.Nodes(ctx, id)
	w.read(fake.MethodNodes, err)
	return instances, err
}

// Template implements cloudprovider.Provider.
func (w *Watched) Template(ctx context.Context, id string) (cloudprovider.Template, error) {
	template, err := w.cloud.Template(ctx, id)
	w.read(fake.MethodTemplate, err)
	return template, err
}

// Options implements cloudprovider.Provider.
func (w *Watched) Options(ctx context.Context, id string, defaults cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) {
	options, err := w.cloud.Options(ctx, id, defaults)
	w.read(fake.MethodOptions, err)
	return options, err
}

// NodePrice implements cloudprovider.Pricing.
func (w *Watched) NodePrice(ctx context.Context, node *v1.Node, start, end time.Time) (cloudprovider.Price, error) {
	price, err := w.cloud.NodePrice(ctx, node, start, end)
	w.read(fake.MethodNodePrice, err)
	return price, err
}

// PodPrice implements cloudprovider.Pricing.
func (w *Watched) PodPrice(ctx context.Context, pod *v1.Pod, start, end time.Time) (cloudprovider.Price, error) {
	price, err := w.cloud.PodPrice(ctx, pod, start, end)
	w.read(fake.MethodPodPrice, err)
	return price, err
}

// Refresh implements cloudprovider.Provider.
func (w *Watched) Refresh(ctx context.Context) error {
	err := w.cloud.Refresh(ctx)
	w.read(fake.MethodRefresh, err)
	return err
}

// Cleanup implements cloudprovider.Provider.
func (w *Watched) Cleanup(ctx context.Context) error {
	err := w.cloud.Cleanup(ctx)
	w.read(fake.MethodCleanup, err)
	return err
}
