package fake_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

func TestBadConfigurations(t *testing.T) {
	named := func(name string) *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	for _, test := range []struct {
		name   string
		change func(*fake.Config)
		want   []string // one error each, by its beginning
	}{
		{"no id", func(c *fake.Config) { c.Groups[1].ID = "" }, []string{`groups[1].id: Required value`}},
		{"same id", func(c *fake.Config) { c.Groups[2].ID = "a" }, []string{`groups[2].id: Duplicate value: "a"`}},
		{"max below min", func(c *fake.Config) { c.Groups[0].MinSize = 11 },
			[]string{`groups[0].maxSize: Invalid value: 10: must not be below minSize 11`}},
		{"negative sizes", func(c *fake.Config) { g := &c.Groups[0]; g.MinSize, g.MaxSize, g.Size = -3, -2, -1 }, []string{
			`groups[0].minSize: Invalid value: -3: must not be negative`,
			`groups[0].maxSize: Invalid value: -2: must not be negative`,
			`groups[0].size: Invalid value: -1: must not be negative`,
		}},
		{"negative times", func(c *fake.Config) {
			g := &c.Groups[0]
			g.BootTime, g.RegistrationDelay, g.ReadyDelay, g.TerminationTime, g.ListDelay = -1, -1, -1, -1, -1
		}, []string{
			`groups[0].bootTime: Invalid value: "-1ns"`, `groups[0].registrationDelay: Invalid value`,
			`groups[0].listDelay: Invalid value`, `groups[0].readyDelay: Invalid value`, `groups[0].terminationTime: Invalid value`,
		}},
		{"negative prices", func(c *fake.Config) { c.Groups[0].PricePerHour, c.PodPrices = -1, fake.PodPrices{Core: -1, GiB: -1} }, []string{
			`groups[0].pricePerHour: Invalid value`, `podPrices.core: Invalid value`, `podPrices.gib: Invalid value`,
		}},
		{"no template", func(c *fake.Config) { c.Groups[0].Template.Node = nil }, []string{`groups[0].template.node: Required value`}},
		{"no pod", func(c *fake.Config) { c.Groups[0].Template.Pods = []*v1.Pod{nil} }, []string{`groups[0].template.pods[0]: Required value`}},
		{"template without capacity", func(c *fake.Config) { c.Groups[0].Template.Node.Status.Capacity = nil }, []string{
			`groups[0].template.node.status.capacity[cpu]: Required value`,
			`groups[0].template.node.status.capacity[memory]: Required value`,
			`groups[0].template.node.status.capacity[pods]: Required value`,
		}},
		{"negative resources", func(c *fake.Config) {
			c.Groups[0].Template.Node.Status.Capacity["x/a"] = resource.MustParse("-1")
			c.Groups[0].Template.Node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("-1m")}
		}, []string{
			`groups[0].template.node.status.capacity[x/a]: Invalid value: "-1"`,
			`groups[0].template.node.status.allocatable[cpu]: Invalid value: "-1m"`,
		}},
		{"more nodes than the size", func(c *fake.Config) { c.Groups[0].Size, c.Groups[0].Nodes = 1, []*v1.Node{named("x"), named("y")} },
			[]string{
				`groups[0].size: Invalid value: 1: must not be below the number of nodes given, 2`,
			}},
		{"nodes twice", func(c *fake.Config) {
			c.Groups[0].Nodes = []*v1.Node{named("x"), nil, named("")}
			c.Groups[1].Nodes = []*v1.Node{named("x"), {ObjectMeta: metav1.ObjectMeta{Name: "y"}, Spec: v1.NodeSpec{ProviderID: "fake://a/x"}}}
		}, []string{
			`groups[0].nodes[1]: Required value`, `groups[0].nodes[2].metadata.name: Required value`,
			`groups[1].nodes[0].metadata.name: Duplicate value: "x"`, `groups[1].nodes[1].spec.providerID: Duplicate value: "fake://a/x"`,
		}},
		{"too many nodes", func(c *fake.Config) { c.Groups[0].Size, c.Groups[1].Size = fake.MaxNodes/2, fake.MaxNodes/2+1 },
			[]string{`groups: Too many`}},
		{"quotas", func(c *fake.Config) {
			c.Quotas = []v1alpha1.ScenarioQuota{
				{Name: "q", Nodes: new(int64(1)), Groups: []string{"a", "d"}, Zones: []string{"z"}},
				{Name: "q", Cores: new(int64(-1)), Memory: resource.NewQuantity(-1, resource.BinarySI), Nodes: new(int64(-1))}, {},
			}
		}, []string{
			`quotas[0].groups[1]: Not found: "d"`, `quotas[0].zones[0]: Not found: "z"`,
			`quotas[1].name: Duplicate value: "q"`, `quotas[1].nodes: Invalid`, `quotas[1].cores: Invalid`, `quotas[1].memory: Invalid`,
			`quotas[2].name: Required value`, `quotas[2]: Required value: limits nothing`,
		}},
		{"stock-outs", func(c *fake.Config) {
			c.StockOuts = []v1alpha1.StockOut{
				{Groups: []string{"d"}, FaultWindow: during(2, 1), Left: -1, Mode: "Later", FailAfter: after(-1)},
				{FailAfter: after(time.Second), FaultWindow: during(-1, 0)},
			}
		}, []string{
			`faults.stockOuts[0].groups[0]: Not found: "d"`, `faults.stockOuts[0].until: Invalid value: "1ns": must be after from`,
			`faults.stockOuts[0].mode: Unsupported value: "Later": supported values: "Refuse", "Fail", "Silent"`,
			`faults.stockOuts[0].left: Invalid`,
			`faults.stockOuts[0].failAfter: Invalid`, `faults.stockOuts[0].failAfter: Forbidden: only with mode Fail`,
			`faults.stockOuts[1].from: Invalid`, `faults.stockOuts[1].failAfter: Forbidden: only with mode Fail`,
		}},
		{"outages", func(c *fake.Config) { c.Outages = []v1alpha1.Outage{{}, {Zones: []string{"z"}, Mode: "Gone"}} }, []string{
			`faults.outages[0].zones: Required value`, `faults.outages[1].zones[0]: Not found: "z"`,
			`faults.outages[1].mode: Unsupported value: "Gone"`,
		}},
		{"calls", func(c *fake.Config) {
			c.Calls = []v1alpha1.CallFault{{Methods: []string{"Grow"}, Groups: []string{"d"}, First: -1, Delay: after(-1)}, {}}
		}, []string{
			`faults.calls[0].methods[0]: Unsupported value: "Grow"`, `faults.calls[0].groups[0]: Not found`, `faults.calls[0].first: Invalid`,
			`faults.calls[0].delay: Invalid`, `faults.calls[1]: Required value: does nothing`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := abc(0, 0, 0)
			test.change(&config)
			errs := config.Validate(nil)
			if len(errs) != len(test.want) {
				t.Errorf("%d errors, want %d: %v", len(errs), len(test.want), errs)
			}
			for i := range min(len(errs), len(test.want)) {
				if got := errs[i].Error(); !strings.HasPrefix(got, test.want[i]) {
					t.Errorf("error %d is %q, want %q", i, got, test.want[i])
				}
			}
			if _, err := fake.New(config, clocktesting.NewFakeClock(epoch)); err == nil {
				t.Error("New took it")
			}
		})
	}
}

func TestPathsStartWhereTheDocumentSays(t *testing.T) {
	config := abc(0, 0, 0)
	config.Groups[0].MaxSize = -1
	errs := config.Validate(field.NewPath("spec", "cloud"))
	if len(errs) == 0 || errs[0].Field != "spec.cloud.groups[0].maxSize" {
		t.Errorf("errors %v", errs)
	}
	var typed *field.Error
	if _, err := fake.New(config, clocktesting.NewFakeClock(epoch)); !errors.As(errs[0], &typed) || err == nil {
		t.Errorf("error %v", err)
	}
}

func TestEmptyCloud(t *testing.T) {
	cloud, _ := start(t, fake.Config{})
	groups, err := cloud.NodeGroups(t.Context())
	if len(groups) != 0 || err != nil || len(cloud.RegisteredNodes()) != 0 {
		t.Errorf("groups %v, error %v", groups, err)
	}
	if at, ok := cloud.NextEvent(); ok {
		t.Errorf("something happens at %v", at)
	}
}

func TestZonesComeFromEitherLabel(t *testing.T) {
	config := abc(0, 0, 0)
	config.Groups[0].Template.Node.Labels = map[string]string{v1.LabelFailureDomainBetaZone: "old"}
	config.Groups[1].Template.Node.Labels = nil
	config.Outages = []v1alpha1.Outage{{Zones: []string{"old"}}}
	cloud, _ := start(t, config)
	if err := increase("a", 1)(cloud); !errors.Is(err, cloudprovider.ErrOutOfResources) {
		t.Errorf("increase in the zone that is down: %v", err)
	}
	if err := increase("b", 1)(cloud); err != nil {
		t.Errorf("increase of a group without zone: %v", err)
	}
}
