package fake_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

// model is the obvious account of a cloud: numbers per group and nothing else.
// Machines of group c are out of stock from the start until restock, silently.
type model struct {
	groups  map[string]*modelGroup
	quota   int // over groups a and b
	restock time.Duration
}

type modelGroup struct {
	min, max, target int
	waiting          int
}

var ids = []string{"a", "b", "c"}

func (m *model) increase(id string, delta int, now time.Duration) error {
	g := m.groups[id]
	switch {
	case delta <= 0:
		return cloudprovider.ErrInvalidDelta
	case g.target+delta > g.max:
		return cloudprovider.ErrAboveMax
	case id != "c" && m.groups["a"].target+m.groups["b"].target+delta > m.quota:
		return cloudprovider.ErrQuotaExceeded
	}
	g.target += delta
	if id == "c" && now < m.restock {
		g.waiting += delta
	}
	return nil
}

func (m *model) decrease(id string, delta int) error {
	g := m.groups[id]
	if delta >= 0 || -delta > g.waiting {
		return cloudprovider.ErrInvalidDelta
	}
	g.target += delta
	g.waiting += delta
	return nil
}

func (m *model) delete(id string, nodes int) error {
	g := m.groups[id]
	if nodes > 0 && g.target-nodes < g.min {
		return cloudprovider.ErrBelowMin
	}
	g.target -= nodes
	return nil
}

// TestModel plays random calls and waits against the model. After each of them
// the target sizes are the model's, no quota is exceeded, every node wanted is
// either waited for or there, and each node has gone no further than its age
// allows.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config, m := drawCloud(t)
		clock := clocktesting.NewFakeClock(epoch)
		cloud, err := fake.New(config, clock)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		group := rapid.SampledFrom(ids)
		compare := func(t *rapid.T, got, want error) {
			if !errors.Is(got, want) || (got == nil) != (want == nil) {
				t.Fatalf("error %v, the model says %v", got, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"increase": func(t *rapid.T) {
				id, delta := group.Draw(t, "group"), rapid.IntRange(-1, 5).Draw(t, "delta")
				compare(t, cloud.IncreaseSize(ctx, id, delta), m.increase(id, delta, clock.Since(epoch)))
			},
			"decrease": func(t *rapid.T) {
				id, delta := group.Draw(t, "group"), rapid.IntRange(-3, 1).Draw(t, "delta")
				compare(t, cloud.DecreaseTargetSize(ctx, id, delta), m.decrease(id, delta))
			},
			"delete": func(t *rapid.T) {
				id := group.Draw(t, "group")
				nodes := someInstances(t, cloud, id)
				compare(t, cloud.DeleteNodes(ctx, id, nodes), m.delete(id, len(nodes)))
			},
			"wait": func(t *rapid.T) {
				clock.Step(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			},
			"wait for what comes next": func(t *rapid.T) {
				if at, ok := cloud.NextEvent(); ok {
					if !at.After(clock.Now()) {
						t.Fatalf("the next event is at %v, now is %v", at, clock.Now())
					}
					clock.SetTime(at)
				}
			},
			"": func(t *rapid.T) {
				if clock.Since(epoch) >= m.restock {
					m.groups["c"].waiting = 0
				}
				check(t, cloud, m)
			},
		})
	})
}

func drawCloud(t *rapid.T) (fake.Config, *model) {
	m := &model{
		groups:  map[string]*modelGroup{},
		quota:   rapid.IntRange(1, 20).Draw(t, "quota"),
		restock: time.Duration(rapid.IntRange(1, 200).Draw(t, "restock")) * time.Second,
	}
	config := fake.Config{
		Quotas:    []v1alpha1.ScenarioQuota{{Name: "ab", Groups: []string{"a", "b"}, Nodes: new(int64(m.quota))}},
		StockOuts: []v1alpha1.StockOut{{Zones: []string{"c"}, FaultWindow: during(0, m.restock), Mode: v1alpha1.StockOutSilent}},
	}
	seconds := rapid.IntRange(0, 30)
	for _, id := range ids {
		g := &modelGroup{min: rapid.IntRange(0, 3).Draw(t, "min")}
		g.max = g.min + rapid.IntRange(0, 12).Draw(t, "room")
		g.target = rapid.IntRange(0, 6).Draw(t, "size")
		m.groups[id] = g
		config.Groups = append(config.Groups, fake.Group{
			ID: id, MinSize: g.min, MaxSize: g.max, Size: g.target, Template: template(id),
			BootTime:          time.Duration(seconds.Draw(t, "boot")) * time.Second,
			RegistrationDelay: time.Duration(seconds.Draw(t, "registration")) * time.Second,
			ReadyDelay:        time.Duration(seconds.Draw(t, "ready")) * time.Second,
			TerminationTime:   time.Duration(seconds.Draw(t, "termination")) * time.Second,
		})
	}
	// The stock-out leaves nothing, so what group c has deleted does not come
	// back before it ends: the model needs no count of machines.
	return config, m
}

// someInstances draws instances of the group that are not leaving, as nodes.
func someInstances(t *rapid.T, cloud *fake.Cloud, id string) []*v1.Node {
	instances, err := cloud.Nodes(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*v1.Node
	for _, in := range instances {
		if in.State != cloudprovider.InstanceDeleting && rapid.IntRange(0, 3).Draw(t, "pick") == 0 {
			nodes = append(nodes, cloudprovider.FakeNode(in.ID, cloudprovider.FakeNodeUnregistered))
		}
	}
	return nodes
}

func check(t *rapid.T, cloud *fake.Cloud, m *model) {
	ctx := context.Background()
	registered := map[string]bool{}
	for _, node := range cloud.RegisteredNodes() {
		if registered[node.Spec.ProviderID] || node.Labels[v1.LabelHostname] != node.Name {
			t.Fatalf("node %s is there twice or has the hostname %s", node.Name, node.Labels[v1.LabelHostname])
		}
		registered[node.Spec.ProviderID] = true
	}
	for _, id := range ids {
		want := m.groups[id]
		target, err := cloud.TargetSize(ctx, id)
		if err != nil || target != want.target {
			t.Fatalf("target size of %s is %d (error %v), the model says %d", id, target, err, want.target)
		}
		instances, err := cloud.Nodes(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		staying := 0
		for _, in := range instances {
			if in.State != cloudprovider.InstanceDeleting {
				staying++
			}
			if in.State == cloudprovider.InstanceCreating && registered[in.ID] {
				t.Fatalf("instance %s is being created and has a node already", in.ID)
			}
			owner, ok, err := cloud.NodeGroupForNode(ctx, cloudprovider.FakeNode(in.ID, ""))
			if owner != id || !ok || err != nil {
				t.Fatalf("instance %s is of %q, %v, error %v", in.ID, owner, ok, err)
			}
			delete(registered, in.ID)
		}
		if staying+want.waiting != target {
			t.Fatalf("group %s wants %d nodes, has %d and waits for %d", id, target, staying, want.waiting)
		}
	}
	if len(registered) > 0 {
		t.Fatalf("nodes without instance: %v", registered)
	}
}

// TestSameCallsSameAnswers plays random calls on two clouds, one of which is also
// looked at every second, and compares everything that can be seen at the end.
func TestSameCallsSameAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config, _ := drawCloud(t)
		mode := rapid.SampledFrom([]string{v1alpha1.OutageUnready, v1alpha1.OutageVanish}).Draw(t, "mode")
		config.Outages = []v1alpha1.Outage{{Zones: []string{"a"}, FaultWindow: during(20*time.Second, 70*time.Second), Mode: mode}}
		type action struct {
			at, delta int
			id        string
		}
		actions := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) action {
			return action{rapid.IntRange(0, 20).Draw(t, "pause"), rapid.IntRange(-2, 4).Draw(t, "delta"), rapid.SampledFrom(ids).Draw(t, "group")}
		}), 0, 12).Draw(t, "actions")

		play := func(look bool) string {
			clock := clocktesting.NewFakeClock(epoch)
			cloud, err := fake.New(config, clock)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range actions {
				for range a.at {
					clock.Step(time.Second)
					if look {
						cloud.RegisteredNodes()
					}
				}
				_ = cloud.IncreaseSize(context.Background(), a.id, a.delta)
				_ = cloud.DecreaseTargetSize(context.Background(), a.id, a.delta)
			}
			out := fmt.Sprint(cloud.RegisteredNodes(), cloud.Calls())
			for _, id := range ids {
				instances, _ := cloud.Nodes(context.Background(), id)
				out += fmt.Sprint(instances)
			}
			return out
		}
		if busy, idle := play(true), play(false); busy != idle {
			t.Fatalf("looked at: %s\n\nleft alone: %s", busy, idle)
		}
	})
}
