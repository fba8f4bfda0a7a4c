package fake_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

const second = time.Second

func TestStockOuts(t *testing.T) {
	from10to60 := during(10*second, 60*second)
	onA := []string{"a"}
	for _, test := range []struct {
		name   string
		stocks []v1alpha1.StockOut
		steps  []step
	}{
		{"refused while the window is open", []v1alpha1.StockOut{{Groups: onA, FaultWindow: from10to60}}, []step{
			{9 * second, increase("a", 1), nil, "2 RR 2/2"},
			{10 * second, increase("a", 1), cloudprovider.ErrOutOfResources, "2 RR 2/2"},
			{10 * second, increase("b", 1), nil, "2 RR 2/2"},
			{59 * second, increase("a", 1), cloudprovider.ErrOutOfResources, "2 RR 2/2"},
			{60 * second, increase("a", 1), nil, "3 RRR 3/3"},
		}},
		{"a whole zone", []v1alpha1.StockOut{{Zones: []string{"a"}}}, []step{
			{0, increase("a", 1), cloudprovider.ErrOutOfResources, "1 R 1/1"},
			{time.Hour, increase("a", 1), cloudprovider.ErrOutOfResources, "1 R 1/1"},
			{time.Hour, increase("b", 1), nil, "1 R 1/1"},
		}},
		{"everywhere", []v1alpha1.StockOut{{}}, []step{
			{0, increase("a", 1), cloudprovider.ErrOutOfResources, "1 R 1/1"},
			{0, increase("b", 1), cloudprovider.ErrOutOfResources, "1 R 1/1"},
		}},
		{"beyond three machines: all or nothing", []v1alpha1.StockOut{{Groups: onA, Left: 3}}, []step{
			{0, increase("a", 3), cloudprovider.ErrOutOfResources, "1 R 1/1"},
			{0, increase("a", 2), nil, "3 RRR 3/3"},
			{0, increase("a", 1), cloudprovider.ErrOutOfResources, "3 RRR 3/3"},
			{0, remove("a", "a-0001"), nil, "2 RR 2/2"},
			{0, increase("a", 1), nil, "3 RRR 3/3"},
		}},
		{"late: an instance with an error", []v1alpha1.StockOut{{Groups: onA, FaultWindow: from10to60, Mode: v1alpha1.StockOutFail,
			FailAfter: after(5 * second), Left: 2}}, []step{
			{20 * second, increase("a", 3), nil, "4 RRCC 2/2"},
			{24 * second, nil, nil, "4 RRCC 2/2"},
			{25 * second, nil, nil, "4 RRFF 2/2"},
			{90 * second, nil, nil, "4 RRFF 2/2"},
			{90 * second, remove("a", "a-0003", "a-0004"), nil, "2 RR 2/2"},
			{90 * second, increase("a", 1), nil, "3 RRR 3/3"},
		}},
		{"silent: the order waits for the end of the window",
			[]v1alpha1.StockOut{{Groups: onA, FaultWindow: from10to60, Mode: v1alpha1.StockOutSilent, Left: 2}}, []step{
				{20 * second, increase("a", 4), nil, "5 RR 2/2"},
				{30 * second, decrease("a", -4), cloudprovider.ErrInvalidDelta, "5 RR 2/2"},
				{30 * second, decrease("a", -2), nil, "3 RR 2/2"},
				{59 * second, nil, nil, "3 RR 2/2"},
				{60 * second, nil, nil, "3 RRR 3/3"},
				{60 * second, decrease("a", -1), cloudprovider.ErrInvalidDelta, "3 RRR 3/3"},
			}},
		{"silent: a deleted machine makes room for a waiting order", []v1alpha1.StockOut{{Groups: onA, Mode: v1alpha1.StockOutSilent, Left: 2}},
			[]step{
				{0, increase("a", 2), nil, "3 RR 2/2"},
				{5 * second, remove("a", "a-0001"), nil, "2 RR 2/2"},
			}},
		{"silent, then late", []v1alpha1.StockOut{
			{Groups: onA, FaultWindow: during(0, 10*second), Mode: v1alpha1.StockOutSilent},
			{Groups: onA, FaultWindow: from10to60, Mode: v1alpha1.StockOutFail},
		}, []step{
			{5 * second, increase("a", 1), nil, "2 R 1/1"},
			{10 * second, nil, nil, "2 RF 1/1"},
		}},
		{"machines that never register", []v1alpha1.StockOut{{Groups: onA, FaultWindow: from10to60, Mode: fake.NeverRegisters, Left: 2}}, []step{
			{10 * second, increase("a", 2), nil, "3 RRR 2/2"},
			{100 * second, increase("a", 1), nil, "4 RRRR 3/3"},
			{100 * second, remove("a", "a-0003"), nil, "3 RRR 3/3"},
		}},
		{"nodes that are never ready", []v1alpha1.StockOut{{Groups: onA, FaultWindow: from10to60, Mode: fake.NeverReady, Left: 2}}, []step{
			{10 * second, increase("a", 2), nil, "3 RRR 2/3"},
			{100 * second, increase("a", 1), nil, "4 RRRR 3/4"},
		}},
		{"silent, then refusing: waits on", []v1alpha1.StockOut{
			{Groups: onA, FaultWindow: during(0, 10*second), Mode: v1alpha1.StockOutSilent},
			{Groups: onA, FaultWindow: from10to60},
		}, []step{
			{5 * second, increase("a", 1), nil, "2 R 1/1"},
			{10 * second, nil, nil, "2 R 1/1"},
			{60 * second, nil, nil, "2 RR 2/2"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := abc(1, 1, 1)
			config.StockOuts = test.stocks
			play(t, config, test.steps)
		})
	}
}

func TestFailedInstanceTellsWhy(t *testing.T) {
	config := abc(0, 0, 0)
	config.Groups[0].MinSize = 2
	config.StockOuts = []v1alpha1.StockOut{{Groups: []string{"a"}, Mode: v1alpha1.StockOutFail}}
	cloud, _ := start(t, config)
	if err := increase("a", 1)(cloud); err != nil {
		t.Fatal(err)
	}
	instances, err := cloud.Nodes(context.Background(), "a")
	if err != nil || len(instances) != 1 {
		t.Fatalf("instances %v, error %v", instances, err)
	}
	want := cloudprovider.InstanceError{
		Class:   cloudprovider.OutOfResourcesErrorClass,
		Code:    "OUT_OF_STOCK",
		Message: `no more machines of this type in zone "a"`,
	}
	if got := instances[0]; got.State != cloudprovider.InstanceCreating || got.Error == nil || *got.Error != want {
		t.Errorf("failed instance is %+v with error %+v, want %+v", got, got.Error, want)
	}
	// The group is below its minimum, and what never existed can go all the same.
	if err := remove("a", "a-0001")(cloud); err != nil {
		t.Errorf("deleting a failed instance: %v", err)
	}
}

func TestOutages(t *testing.T) {
	from10to60 := during(10*second, 60*second)
	for _, test := range []struct {
		name   string
		outage v1alpha1.Outage
		change func(*fake.Group)
		steps  []step
	}{
		{"unready", v1alpha1.Outage{Zones: []string{"a"}, FaultWindow: from10to60}, nil, []step{
			{9 * second, nil, nil, "2 RR 2/2"},
			{10 * second, nil, nil, "2 RR 0/2"},
			{10 * second, increase("a", 1), cloudprovider.ErrOutOfResources, "2 RR 0/2"},
			{10 * second, increase("b", 1), nil, "2 RR 0/2"},
			{60 * second, nil, nil, "2 RR 2/2"},
			{60 * second, increase("a", 1), nil, "3 RRR 3/3"},
		}},
		{"vanish", v1alpha1.Outage{Zones: []string{"a"}, FaultWindow: from10to60, Mode: v1alpha1.OutageVanish},
			func(g *fake.Group) { g.BootTime = 5 * second }, []step{
				{9 * second, increase("a", 1), nil, "3 RRC 2/2"},
				{9 * second, remove("a", "a-0001"), nil, "2 RC 1/1"},
				{10 * second, nil, nil, "2  0/0"},
				{10 * second, increase("a", 1), cloudprovider.ErrOutOfResources, "2  0/0"},
				{59 * second, nil, nil, "2  0/0"},
				{60 * second, nil, nil, "2 CC 0/0"},
				{65 * second, nil, nil, "2 RR 2/2"},
			}},
		{"vanish, and given up meanwhile", v1alpha1.Outage{Zones: []string{"a"}, FaultWindow: from10to60, Mode: v1alpha1.OutageVanish}, nil,
			[]step{
				{20 * second, decrease("a", -1), nil, "1  0/0"},
				{60 * second, nil, nil, "1 R 1/1"},
			}},
		{"vanish while nodes are leaving", v1alpha1.Outage{Zones: []string{"a"}, FaultWindow: from10to60, Mode: v1alpha1.OutageVanish},
			func(g *fake.Group) { g.TerminationTime = 5 * second }, []step{
				{9 * second, remove("a", "a-0001"), nil, "1 DR 2/2"},
				{10 * second, nil, nil, "1  0/0"},
				{70 * second, nil, nil, "1 R 1/1"},
			}},
		{"elsewhere", v1alpha1.Outage{Zones: []string{"b", "c"}, Mode: v1alpha1.OutageVanish}, nil, []step{
			{0, increase("a", 1), nil, "3 RRR 3/3"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := abc(2, 1, 1)
			config.Outages = []v1alpha1.Outage{test.outage}
			if test.change != nil {
				test.change(&config.Groups[0])
			}
			play(t, config, test.steps)
		})
	}
}

func TestNodesInAnOutageAreUnreachable(t *testing.T) {
	config := abc(1, 0, 0)
	config.Outages = []v1alpha1.Outage{{Zones: []string{"a"}}}
	cloud, _ := start(t, config)
	node := cloud.RegisteredNodes()[0]
	var ready []v1.NodeCondition
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			ready = append(ready, condition)
		}
	}
	if len(ready) != 1 || ready[0].Status != v1.ConditionUnknown {
		t.Errorf("Ready is %v, want one of status Unknown", ready)
	}
	if len(node.Spec.Taints) != 2 || node.Spec.Taints[0].Key != v1.TaintNodeUnreachable {
		t.Errorf("taints are %v, want unreachable", node.Spec.Taints)
	}
}

func TestQuotas(t *testing.T) {
	ab := []string{"a", "b"}
	for _, test := range []struct {
		name  string
		quota v1alpha1.ScenarioQuota
		steps []step
	}{
		{"nodes", v1alpha1.ScenarioQuota{Groups: ab, Nodes: new(int64(4))}, []step{
			{0, increase("a", 3), cloudprovider.ErrQuotaExceeded, "1 R 1/1"},
			{0, increase("b", 1), nil, "1 R 1/1"},
			{0, increase("a", 2), cloudprovider.ErrQuotaExceeded, "1 R 1/1"},
			{0, increase("a", 1), nil, "2 RR 2/2"},
			{0, increase("c", 5), nil, "2 RR 2/2"},
			{0, remove("b", "b-0001"), nil, "2 RR 2/2"},
			{0, increase("a", 1), nil, "3 RRR 3/3"},
		}},
		{"cores, 4 a node", v1alpha1.ScenarioQuota{Groups: ab, Cores: new(int64(15))}, []step{
			{0, increase("a", 2), cloudprovider.ErrQuotaExceeded, "1 R 1/1"},
			{0, increase("a", 1), nil, "2 RR 2/2"},
		}},
		{"memory, 16 GiB a node", v1alpha1.ScenarioQuota{Groups: ab, Memory: resource.NewQuantity(48<<30, resource.BinarySI)}, []step{
			{0, increase("a", 2), cloudprovider.ErrQuotaExceeded, "1 R 1/1"},
			{0, increase("b", 1), nil, "1 R 1/1"},
			{0, increase("a", 1), cloudprovider.ErrQuotaExceeded, "1 R 1/1"},
		}},
		{"by zone", v1alpha1.ScenarioQuota{Zones: []string{"a", "c"}, Nodes: new(int64(3))}, []step{
			{0, increase("b", 9), nil, "1 R 1/1"},
			{0, increase("a", 2), cloudprovider.ErrQuotaExceeded, "1 R 1/1"},
			{0, increase("a", 1), nil, "2 RR 2/2"},
		}},
		{"over everything", v1alpha1.ScenarioQuota{Nodes: new(int64(4))}, []step{
			{0, increase("c", 1), nil, "1 R 1/1"},
			{0, increase("a", 1), cloudprovider.ErrQuotaExceeded, "1 R 1/1"},
		}},
		{"exceeded from the start", v1alpha1.ScenarioQuota{Nodes: new(int64(2))}, []step{
			{0, increase("a", 1), cloudprovider.ErrQuotaExceeded, "1 R 1/1"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := abc(1, 1, 1)
			test.quota.Name = "shared"
			config.Quotas = []v1alpha1.ScenarioQuota{test.quota}
			play(t, config, test.steps)
		})
	}
}

func TestHugeNodesDoNotOverflowQuotas(t *testing.T) {
	config := abc(3, 0, 0)
	capacity := config.Groups[0].Template.Node.Status.Capacity
	huge := capacity[v1.ResourceMemory]
	huge.Set(1 << 62)
	capacity[v1.ResourceMemory] = huge
	config.Quotas = []v1alpha1.ScenarioQuota{{Name: "memory", Memory: resource.NewQuantity(1<<63-1, resource.BinarySI),
		Cores: new(int64(1 << 62))}}
	play(t, config, []step{{0, increase("a", 1), cloudprovider.ErrQuotaExceeded, "3 RRR 3/3"}})
}

func TestACloudHoldsAMillionNodes(t *testing.T) {
	config := abc(1, 0, 0)
	config.Groups[0].MaxSize = 1<<31 - 1
	play(t, config, []step{{0, increase("a", fake.MaxNodes), cloudprovider.ErrOutOfResources, "1 R 1/1"}})
}

// after is a time of a fault; nil for none.
func after(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}

// during is when a fault lasts; until 0 is forever.
func during(from, until time.Duration) v1alpha1.FaultWindow {
	return v1alpha1.FaultWindow{From: metav1.Duration{Duration: from}, Until: after(until)}
}
