package fake_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

// everything is a configuration that uses each of its fields.
func everything() fake.Config {
	config := abc(2, 1, 0)
	config.Groups[0].Nodes = []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{"k": "v"}}}}
	config.Groups[0].Options = &cloudprovider.GroupOptions{ZeroOrMaxNodeScaling: true}
	config.Groups[0].Template.Pods = []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}}
	config.Quotas = []v1alpha1.ScenarioQuota{{Name: "q", Nodes: new(int64(9)), Groups: []string{"a"}, Zones: []string{"b"}}}
	config.StockOuts = []v1alpha1.StockOut{{Groups: []string{"b"}, Left: 2}}
	config.Outages = []v1alpha1.Outage{{Zones: []string{"c"}}}
	config.Calls = []v1alpha1.CallFault{{Methods: []string{fake.MethodCleanup}, Groups: []string{"c"}, Error: "no"}}
	return config
}

func TestConfigurationIsCopied(t *testing.T) {
	config := everything()
	cloud, _ := start(t, config)
	if !reflect.DeepEqual(config, everything()) {
		t.Error("New changed the configuration")
	}
	before := cloud.RegisteredNodes()
	config.Groups[0].Nodes[0].Labels["k"] = "changed"
	config.Groups[0].Template.Node.Labels["k"] = "changed"
	config.Groups[0].Template.Node.Status.Capacity[v1.ResourceCPU] = resource.MustParse("1")
	config.Groups[0].Template.Pods[0].Name = "changed"
	config.Groups[0].Options.ZeroOrMaxNodeScaling = false
	config.Quotas[0].Groups[0] = "c"
	config.StockOuts[0].Groups[0] = "c"
	config.Outages[0].Zones[0] = "a"
	config.Calls[0].Methods[0], config.Calls[0].Groups[0] = fake.MethodTemplate, "a"
	if !reflect.DeepEqual(before, cloud.RegisteredNodes()) {
		t.Error("a change of the configuration shows in the nodes")
	}
	template, err := cloud.Template(t.Context(), "a")
	if err != nil || template.Node.Labels["k"] == "changed" || template.Pods[0].Name == "changed" {
		t.Errorf("a change of the configuration shows in the template: %v, error %v", template, err)
	}
	options, err := cloud.Options(t.Context(), "a", cloudprovider.GroupOptions{})
	if err != nil || !options.ZeroOrMaxNodeScaling {
		t.Errorf("a change of the configuration shows in the options: %v, error %v", options, err)
	}
}

func TestNodesAreCopies(t *testing.T) {
	cloud, _ := start(t, everything())
	for i, node := range cloud.RegisteredNodes() {
		node.Labels[v1.LabelTopologyZone] = "changed"
		node.Status.Conditions = nil
		node.Spec.ProviderID = "changed"
		if again := cloud.RegisteredNodes()[i]; again.Labels[v1.LabelTopologyZone] == "changed" || again.Spec.ProviderID == "changed" {
			t.Errorf("node %s is the cloud's own", again.Name)
		}
	}
}

func TestTemplatesAreCleaned(t *testing.T) {
	config := abc(0, 0, 0)
	node := config.Groups[0].Template.Node
	node.Name, node.UID, node.ResourceVersion = "ip-10-0-0-1", "uid", "12"
	node.Labels[v1.LabelHostname] = "ip-10-0-0-1"
	node.Spec.ProviderID = "aws:///a/i-1"
	node.Spec.Taints = []v1.Taint{
		{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule},
		{Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoSchedule},
		{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute},
	}
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}
	node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}
	cloud, _ := start(t, config)
	template, err := cloud.Template(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	got := template.Node
	if got.Name != "a-template" || got.Labels[v1.LabelHostname] != "a-template" || got.UID != "" || got.ResourceVersion != "" ||
		got.Spec.ProviderID != "aws://a/a-template" {
		t.Errorf("identity of the template: %+v", got.ObjectMeta)
	}
	if len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "dedicated" || len(got.Status.Addresses) != 0 {
		t.Errorf("state of the template: %+v", got)
	}
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Status != v1.ConditionTrue {
		t.Errorf("conditions of the template: %v", got.Status.Conditions)
	}
	if got.Status.Allocatable.Memory().Cmp(*got.Status.Capacity.Memory()) != 0 {
		t.Errorf("allocatable of the template: %v", got.Status.Allocatable)
	}
}

func TestOptionsKeepDefaults(t *testing.T) {
	config := abc(0, 0, 0)
	config.Groups[0].Options = &cloudprovider.GroupOptions{MaxNodeProvisionTime: time.Hour, ZeroOrMaxNodeScaling: true}
	cloud, _ := start(t, config)
	defaults := cloudprovider.GroupOptions{MaxNodeProvisionTime: time.Minute, MaxNodeStartupTime: 2 * time.Minute,
		ScaleDownUtilizationThreshold: 0.5}
	got, err := cloud.Options(t.Context(), "a", defaults)
	want := cloudprovider.GroupOptions{
		MaxNodeProvisionTime: time.Hour, ZeroOrMaxNodeScaling: true,
		MaxNodeStartupTime: 2 * time.Minute, ScaleDownUtilizationThreshold: 0.5,
	}
	if got != want || err != nil {
		t.Errorf("options %+v, error %v; want %+v", got, err, want)
	}
	if _, err := cloud.Options(t.Context(), "b", defaults); err != cloudprovider.ErrNotImplemented {
		t.Errorf("options of a group without: %v", err)
	}
}

func TestPrices(t *testing.T) {
	config := abc(1, 1, 0)
	config.Groups[0].PricePerHour = 96_000
	config.PodPrices = fake.PodPrices{Core: 40_000, GiB: 4_000}
	cloud, _ := start(t, config)
	ctx := context.Background()
	template, err := cloud.Template(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	end := epoch.Add(30 * time.Minute)
	for name, node := range map[string]*v1.Node{
		"node": cloud.RegisteredNodes()[0], "template": template.Node, "fake node": cloudprovider.FakeNode("fake://a/a-0001", ""),
	} {
		if price, err := cloud.NodePrice(ctx, node, epoch, end); price != 48_000 || err != nil {
			t.Errorf("price of the %s: %v, error %v", name, price, err)
		}
	}
	for name, node := range map[string]*v1.Node{"node without price": cloud.RegisteredNodes()[1], "foreign node": {}} {
		if _, err := cloud.NodePrice(ctx, node, epoch, end); !errors.Is(err, cloudprovider.ErrNotImplemented) {
			t.Errorf("price of the %s: error %v", name, err)
		}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("2560Mi"),
	}}}}}}
	if price, err := cloud.PodPrice(ctx, pod, epoch, end); price != (20_000+10_000)/2 || err != nil {
		t.Errorf("price of the pod: %v, error %v", price, err)
	}
	free, _ := start(t, abc(0, 0, 0))
	if _, err := free.PodPrice(ctx, pod, epoch, end); !errors.Is(err, cloudprovider.ErrNotImplemented) {
		t.Errorf("price of a pod where pods have none: error %v", err)
	}
}

func TestNextEvent(t *testing.T) {
	config := abc(1, 0, 0)
	config.Groups[0].BootTime, config.Groups[0].RegistrationDelay, config.Groups[0].ReadyDelay = 10*second, 5*second, 5*second
	config.Groups[0].TerminationTime = 7 * second
	config.StockOuts = []v1alpha1.StockOut{{
		Groups: []string{"b"}, FaultWindow: during(30*second, 50*second),
		Mode: v1alpha1.StockOutFail, FailAfter: after(8 * second),
	}}
	config.Outages = []v1alpha1.Outage{{Zones: []string{"c"}, FaultWindow: during(60*second, 0)}}
	config.Calls = []v1alpha1.CallFault{{Error: "no", Methods: []string{fake.MethodCleanup}, FaultWindow: during(4*second, 60*second)}}
	cloud, clock := start(t, config)
	todo := map[time.Duration]func(*fake.Cloud) error{
		0: increase("a", 1), 30 * second: increase("b", 1), 50 * second: remove("a", "a-0001"),
	}
	var got []time.Duration
	for {
		if do := todo[clock.Since(epoch)]; do != nil {
			if err := do(cloud); err != nil {
				t.Fatal(err)
			}
		}
		at, ok := cloud.NextEvent()
		if !ok {
			break
		}
		got = append(got, at.Sub(epoch))
		clock.SetTime(at)
	}
	want := []time.Duration{4 * second, 10 * second, 15 * second, 20 * second, 30 * second, 38 * second, 50 * second, 57 * second, 60 * second}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("events at %v, want %v", got, want)
	}
}

func TestTimeDoesNotRunBackwards(t *testing.T) {
	config := abc(0, 0, 0)
	config.Groups[0].BootTime = 10 * second
	cloud, clock := start(t, config)
	if err := increase("a", 1)(cloud); err != nil {
		t.Fatal(err)
	}
	clock.Step(10 * second)
	if got := show(t, cloud, "a"); got != "1 R 1/1" {
		t.Fatalf("booted: %s", got)
	}
	clock.SetTime(epoch)
	if got := show(t, cloud, "a"); got != "1 R 1/1" {
		t.Errorf("after the clock was put back: %s", got)
	}
}
