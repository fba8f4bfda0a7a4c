package autoscaler

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
)

// remote is Cluster Autoscaler's client of an external provider, with what it keeps between calls.
type remote struct {
	Connection
	caller *Autoscaler

	unlisted error    // why the groups could not be listed last
	groups   []*group // nil: not listed since the last Refresh
	byID     map[string]*group
	forNode  map[nodeKey]string // positive answers since the last Refresh
	label    *string            // kept for the life of the process
	types    bool
}

type nodeKey struct{ name, providerID string }

// group is a node group as the last list had it; its template is kept as long as it is. Package linked reads
// it and its remote as a node group and its cloud provider.
type group struct {
	ID       string
	min, max int
	remote   *remote
	template *v1.Node
}

func (g *group) Id() string               { return g.ID } //nolint:revive,staticcheck // Cluster Autoscaler's name
func (g *group) MinSize() int             { return g.min }
func (g *group) MaxSize() int             { return g.max }
func (g *group) TargetSize() (int, error) { return g.remote.targetSize(g.ID) }

// call makes one call, with its deadline. The result of a failed call must not be used.
func (r *remote) call(c Call, do func(context.Context) error) error {
	ctx := r.caller.deadline.from(r.caller.clock.Now(), r.caller.options.Timeout)
	if r.Intercept == nil {
		return do(ctx)
	}
	return r.Intercept(ctx, c, do)
}

// ask makes a call that answers something. A failed one answers nothing.
func ask[T any](r *remote, c Call, do func(context.Context) (T, error)) (answer T, err error) {
	err = r.call(c, func(ctx context.Context) (err error) {
		answer, err = do(ctx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return answer, nil
}

// deadline is that of the calls made at one moment.
type deadline struct {
	at     time.Time
	ctx    context.Context //nolint:containedctx // making one costs more than most calls
	cancel context.CancelFunc
}

// from is a context that is done so long after now.
func (d *deadline) from(now time.Time, timeout time.Duration) context.Context {
	if d.ctx != nil && d.at.Equal(now) {
		return d.ctx
	}
	d.end()
	d.at = now
	d.ctx, d.cancel = context.WithTimeout(context.Background(), timeout)
	return d.ctx
}

func (d *deadline) end() {
	if d.ctx != nil {
		d.cancel()
		d.ctx = nil
	}
}

// refresh drops what is kept before the call goes out.
func (r *remote) refresh() error {
	r.groups, r.byID, r.forNode = nil, nil, map[nodeKey]string{}
	return r.call(Call{Method: fake.MethodRefresh}, r.Provider.Refresh)
}

// NodeGroups is the list since the last Refresh. An error gives an empty one that is not kept.
func (r *remote) NodeGroups() []*group {
	if r.groups != nil {
		return r.groups
	}
	list, err := ask(r, Call{Method: fake.MethodNodeGroups}, r.Provider.NodeGroups)
	if r.unlisted = err; err != nil { // a provider has none then
		return nil
	}
	r.groups = make([]*group, 0, len(list))
	for _, g := range list {
		r.groups = append(r.groups, &group{ID: g.ID, min: g.MinSize, max: g.MaxSize, remote: r})
	}
	return r.groups
}

// named is the group of that name; nil for none.
func (r *remote) named(id string) *group {
	if r.byID == nil {
		r.byID = make(map[string]*group, len(r.groups))
		for _, g := range r.NodeGroups() {
			r.byID[g.ID] = g
		}
	}
	return r.byID[id]
}

// NodeGroupForNode returns the group of a node; nil for none.
func (r *remote) NodeGroupForNode(node *v1.Node) (*group, error) {
	id, err := r.groupOf(node)
	if err != nil || id == "" {
		return nil, err
	}
	return r.named(id), nil
}

// ZeroOrMax reports whether a group is either empty or at its maximum.
func (r *remote) ZeroOrMax(g *group) (bool, error) {
	options, err := r.groupOptions(g.ID)
	return err == nil && options != nil && options.ZeroOrMaxNodeScaling, err
}

// allOrNothing is ZeroOrMax; a group whose options cannot be read is not.
func (r *remote) allOrNothing(g *group) bool {
	is, _ := r.ZeroOrMax(g)
	return is
}

// groupOf names the group of a node. Only positive answers are kept.
func (r *remote) groupOf(node *v1.Node) (string, error) {
	key := nodeKey{node.Name, node.Spec.ProviderID}
	if id, ok := r.forNode[key]; ok {
		return id, nil
	}
	type answer struct {
		id string
		ok bool
	}
	call := Call{Method: fake.MethodNodeGroupForNode, Nodes: []string{node.Name}}
	found, err := ask(r, call, func(ctx context.Context) (a answer, err error) {
		a.id, a.ok, err = r.Provider.NodeGroupForNode(ctx, onWire(node))
		return a, err
	})
	if err != nil || !found.ok {
		return "", err
	}
	r.forNode[key] = found.id
	return found.id, nil
}

// onWire is what the protocol carries of a node.
func onWire(node *v1.Node) *v1.Node {
	out := &v1.Node{}
	out.Name, out.Labels, out.Annotations = node.Name, node.Labels, node.Annotations
	out.Spec.ProviderID = node.Spec.ProviderID
	return out
}

func fakeNodes(instances []cloudprovider.Instance, reason string) []*v1.Node {
	nodes := make([]*v1.Node, len(instances))
	for i, in := range instances {
		nodes[i] = cloudprovider.FakeNode(in.ID, reason)
	}
	return nodes
}

func (r *remote) targetSize(id string) (int, error) {
	return ask(r, Call{Method: fake.MethodTargetSize, Group: id}, func(ctx context.Context) (int, error) {
		return r.Provider.TargetSize(ctx, id)
	})
}

func (r *remote) increase(id string, delta int) error {
	return r.call(Call{Method: fake.MethodIncreaseSize, Group: id, Delta: delta}, func(ctx context.Context) error {
		return r.Provider.IncreaseSize(ctx, id, delta)
	})
}

func (r *remote) decrease(id string, delta int) error {
	return r.call(Call{Method: fake.MethodDecreaseTargetSize, Group: id, Delta: delta}, func(ctx context.Context) error {
		return r.Provider.DecreaseTargetSize(ctx, id, delta)
	})
}

func (r *remote) deleteNodes(id string, nodes []*v1.Node) error {
	names := make([]string, len(nodes))
	sent := make([]*v1.Node, len(nodes))
	for i, node := range nodes {
		names[i], sent[i] = node.Name, onWire(node)
	}
	return r.call(Call{Method: fake.MethodDeleteNodes, Group: id, Nodes: names}, func(ctx context.Context) error {
		return r.Provider.DeleteNodes(ctx, id, sent)
	})
}

func (r *remote) instances(id string) ([]cloudprovider.Instance, error) {
	return ask(r, Call{Method: fake.MethodNodes, Group: id}, func(ctx context.Context) ([]cloudprovider.Instance, error) {
		return r.Provider.Nodes(ctx, id)
	})
}

// template asks once per list. The protocol carries no pods.
func (r *remote) template(g *group) (*v1.Node, error) {
	if g.template != nil {
		return g.template, nil
	}
	t, err := ask(r, Call{Method: fake.MethodTemplate, Group: g.ID}, func(ctx context.Context) (cloudprovider.Template, error) {
		return r.Provider.Template(ctx, g.ID)
	})
	g.template = t.Node
	return t.Node, err
}

// groupOptions are a group's own options; nil for none. Two fields are not in the protocol, so
// having any options at all sets them to zero.
func (r *remote) groupOptions(id string) (*cloudprovider.GroupOptions, error) {
	o, err := ask(r, Call{Method: fake.MethodOptions, Group: id}, func(ctx context.Context) (cloudprovider.GroupOptions, error) {
		return r.Provider.Options(ctx, id, r.caller.options.groupDefaults())
	})
	switch {
	case errors.Is(err, cloudprovider.ErrNotImplemented):
		return nil, nil
	case err != nil:
		return nil, err
	}
	o.MaxNodeStartupTime, o.AllowNonAtomicScaleUpToMax = 0, false
	return &o, nil
}

// askGPULabel asks when the label is first needed, and again while that fails.
func (r *remote) askGPULabel() {
	gpus, ok := r.Provider.(cloudprovider.GPUs)
	if r.label != nil || !ok {
		return
	}
	if label, err := ask(r, Call{Method: MethodGPULabel}, gpus.GPULabel); err == nil {
		r.label = &label
	}
}

func (r *remote) askGPUTypes() {
	gpus, ok := r.Provider.(cloudprovider.GPUs)
	if r.types || !ok {
		return
	}
	_, err := ask(r, Call{Method: MethodGPUTypes}, gpus.GPUTypes)
	r.types = err == nil
}

func (r *remote) bestOptions(request expander.Question) ([]string, error) {
	return ask(r, Call{Method: MethodBestOptions}, func(ctx context.Context) ([]string, error) {
		return r.Expander.BestOptions(ctx, request)
	})
}
