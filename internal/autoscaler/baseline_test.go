package autoscaler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)

// groupOf is a node group of nodes with 4 cores in a zone of its own.
func groupOf(id string, size, most int, boot time.Duration) fake.Group {
	return fake.Group{ID: id, Size: size, MaxSize: most, BootTime: boot, Template: cloudprovider.Template{Node: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: "zone-" + id}},
		Status: v1.NodeStatus{Capacity: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110"),
		}},
	}}}
}

// podsOf are pods of one controller; of those with 3 cores one fits a node, of those with 2 two.
func podsOf(owner string, n int, cpu string) []*v1.Pod {
	controller := true
	out := make([]*v1.Pod, n)
	for i := range out {
		out[i] = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("%s-%d", owner, i),
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &controller}},
			},
			Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Gi"),
			}}}}},
		}
	}
	return out
}

// strategy is what a baseline does with what Cluster Autoscaler asks for.
type strategy int

const (
	all       strategy = iota // goes to the group asked
	diversion                 // is split, and Cluster Autoscaler not told
	steering                  // is granted in part, member after member
)

// baseline is provider and expander in one: the simplest that can be done, without memory or care.
type baseline struct {
	*fake.Cloud
	strategy strategy
	members  []string // of the last question
	chosen   string
	share    int

	onIncrease func(id string, delta int, err error) error // may replace the answer
	hide       bool                                        // answer OK where a member fails, and leave it out from then on
	out        map[string]bool                             // members left out
	options    func(defaults cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error)
	labels     int // GPULabel calls
}

func (b *baseline) GPULabel(context.Context) (string, error)   { b.labels++; return "gpu", nil }
func (b *baseline) GPUTypes(context.Context) ([]string, error) { return nil, nil }

func (b *baseline) Options(ctx context.Context, id string, defaults cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) {
	if b.options != nil {
		return b.options(defaults)
	}
	return b.Cloud.Options(ctx, id, defaults)
}

func (b *baseline) BestOptions(ctx context.Context, request expander.Question) ([]string, error) {
	need := 0
	b.members = nil
	for _, o := range request.Options {
		if b.out[o.Group] {
			continue
		}
		b.members = append(b.members, o.Group)
		need = max(need, o.NodeCount)
	}
	b.chosen = b.members[0]
	if b.strategy != steering {
		return []string{b.chosen}, nil
	}
	split, err := b.split(ctx, need)
	for i, share := range split {
		if share > 0 {
			b.chosen, b.share = b.members[i], share
			break
		}
	}
	return []string{b.chosen}, err
}

// split shares n nodes over the members.
func (b *baseline) split(ctx context.Context, n int) ([]int, error) {
	bounds, err := b.Cloud.NodeGroups(ctx)
	if err != nil {
		return nil, err
	}
	request := nodegroupset.SplitRequest{Nodes: int64(n)}
	for _, id := range b.members {
		size, err := b.TargetSize(ctx, id)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(bounds, func(g cloudprovider.NodeGroup) bool { return g.ID == id })
		request.Groups = append(request.Groups, nodegroupset.Group{Name: id, Size: int64(size), Max: int64(bounds[at].MaxSize)})
	}
	result, err := nodegroupset.Split(request)
	if err != nil {
		return nil, err
	}
	shares := make([]int, len(b.members))
	for i, g := range result.Groups {
		shares[i] = int(g.NewSize - request.Groups[i].Size)
	}
	return shares, nil
}

func (b *baseline) IncreaseSize(ctx context.Context, id string, delta int) error {
	err := b.increase(ctx, id, delta)
	if err != nil && b.hide {
		b.out, err = map[string]bool{id: true}, nil
	}
	if b.onIncrease != nil {
		err = b.onIncrease(id, delta, err)
	}
	return err
}

func (b *baseline) increase(ctx context.Context, id string, delta int) error {
	switch {
	case b.strategy == diversion:
		shares, err := b.split(ctx, delta)
		for i, share := range shares {
			if share > 0 {
				err = errors.Join(err, b.Cloud.IncreaseSize(ctx, b.members[i], share))
			}
		}
		return err
	case b.strategy == steering && id == b.chosen:
		delta = min(delta, b.share)
	}
	return b.Cloud.IncreaseSize(ctx, id, delta)
}

// trial is a world around a baseline.
type trial struct {
	*cluster
	*baseline
	clock *clocktesting.FakeClock
	calls []caCall
	fault func(caCall) callFault
}

func newTrial(t testing.TB, s strategy, cloud fake.Config, config clusterConfig) *trial {
	t.Helper()
	x := makeTrial(t, s, cloud)
	config.connect = func(int) autoscaler.Connection {
		return autoscaler.Connection{Provider: x.baseline, Expander: x.baseline}
	}
	x.begin(t, config)
	return x
}

// makeTrial makes a trial whose loop is still to begin.
func makeTrial(t testing.TB, s strategy, cloud fake.Config) *trial {
	t.Helper()
	clock := clocktesting.NewFakeClock(epoch)
	backend, err := fake.New(cloud, clock)
	if err != nil {
		t.Fatal(err)
	}
	return &trial{baseline: &baseline{Cloud: backend, strategy: s}, clock: clock}
}

func (x *trial) begin(t testing.TB, config clusterConfig) {
	t.Helper()
	config.clock, config.cloud = x.clock, x.Cloud
	config.fault = func(c caCall) callFault {
		x.calls = append(x.calls, c)
		if x.fault != nil {
			return x.fault(c)
		}
		return callFault{}
	}
	x.cluster = newCluster(t, config)
}

func (x *trial) settle(t testing.TB, until time.Duration) clusterState {
	t.Helper()
	return x.Settle(until)
}

// stepUntil runs loops until the condition holds.
func (x *trial) stepUntil(t testing.TB, condition func(clusterState) bool) {
	t.Helper()
	for range 1000 {
		if condition(x.State()) {
			return
		}
		x.Step()
	}
	t.Fatal("never happened")
}

func (x *trial) dump(t testing.TB) {
	t.Helper()
	for _, c := range x.changes {
		t.Log(c)
	}
}
