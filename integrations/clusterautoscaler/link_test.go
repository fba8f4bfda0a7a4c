package clusterautoscaler

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/builder"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
)

// testCloud is registered once in this process. It notes the name it was built under, and sets its own comparator, as some clouds do.
const testCloud = "cloud-of-tests"

var builtAs []string

var registerTestCloud = sync.OnceFunc(func() {
	builder.RegisterCloudProvider(testCloud, func(o *coreoptions.AutoscalerOptions, _ cloudprovider.NodeGroupDiscoveryOptions,
		_ *cloudprovider.ResourceLimiter, _ informers.SharedInformerFactory) cloudprovider.CloudProvider {
		builtAs = append(builtAs, o.CloudProviderName)
		o.Processors.NodeGroupSetProcessor = &nodegroupset.NoOpNodeGroupSetProcessor{}
		if o.CloudConfig == "none" {
			return nil
		}
		return testprovider.NewTestCloudProviderBuilder().Build()
	})
})

// build builds the cloud provider as the autoscaler does.
func build(o config.AutoscalingOptions) *coreoptions.AutoscalerOptions {
	opts := &coreoptions.AutoscalerOptions{
		AutoscalingOptions: o, Processors: processors.DefaultProcessors(o), AutoscalingKubeClients: &ca_context.AutoscalingKubeClients{},
	}
	opts.CloudProvider = builder.NewCloudProvider(opts, nil)
	return opts
}

func linkable() config.AutoscalingOptions {
	registerTestCloud()
	return config.AutoscalingOptions{
		CloudProviderName: testCloud, BalanceSimilarNodeGroups: true, NodeGroupSetRatios: config.NewDefaultNodeGroupDifferenceRatios(),
		ExpanderNames: "least-waste",
	}
}

func TestLink(t *testing.T) {
	o := linkable()
	o.BalancingLabels = []string{"pool"}
	for range 2 { // twice is as good as once
		if err := Link(&o); err != nil {
			t.Fatal(err)
		}
	}
	builtAs = nil
	opts := build(o)
	if !slices.Equal(builtAs, []string{testCloud}) || opts.CloudProviderName != testCloud {
		t.Errorf("the provider was built as %v and is called %q afterwards", builtAs, opts.CloudProviderName)
	}
	installed, ours := opts.Processors.NodeGroupSetProcessor.(*groupSet)
	if !ours {
		t.Fatalf("the processor is a %T", opts.Processors.NodeGroupSetProcessor)
	}
	if got := installed.sets.options.Labels; !slices.Equal(got, []string{"pool"}) {
		t.Errorf("labels %v", got)
	}
	if _, learns := opts.ExpanderStrategy.(*need); !learns || installed.need == nil || opts.QuotasTrackerOptions.QuotaProvider == nil {
		t.Errorf("strategy %T, need %v, quotas %v", opts.ExpanderStrategy, installed.need, opts.QuotasTrackerOptions)
	}
}

func TestLinkWithBalancingOff(t *testing.T) {
	o := linkable()
	o.BalanceSimilarNodeGroups = false
	o.CloudProviderName = "whatever"
	if err := Link(&o); err != nil || o.CloudProviderName != "whatever" {
		t.Errorf("%v, %q", err, o.CloudProviderName)
	}
}

func TestLinkPassesOnThatThereIsNoProvider(t *testing.T) {
	o := linkable()
	o.CloudConfig = "none"
	if err := Link(&o); err != nil {
		t.Fatal(err)
	}
	if opts := build(o); opts.CloudProvider != nil {
		t.Errorf("%v", opts.CloudProvider)
	}
}

func TestAnExpanderThatCannotBeMadeIsLeftToTheAutoscaler(t *testing.T) {
	o := linkable()
	o.ExpanderNames = "no-such-expander"
	if err := Link(&o); err != nil {
		t.Fatal(err)
	}
	if opts := build(o); opts.ExpanderStrategy != nil {
		t.Errorf("%T", opts.ExpanderStrategy)
	}
}

func TestRefusedOptions(t *testing.T) {
	for _, test := range []struct {
		change func(*config.AutoscalingOptions)
		want   string
	}{
		{func(o *config.AutoscalingOptions) { o.CloudProviderName = "no-cloud" }, `"no-cloud" for --cloud-provider: is no cloud provider of this build; it has `},
		{func(o *config.AutoscalingOptions) { o.NodeGroupSetRatios.MaxCapacityMemoryDifferenceRatio = 1.5 }, `"1.5" for --memory-difference-ratio: must be between 0 and 1`},
		{func(o *config.AutoscalingOptions) { o.NodeGroupSetRatios.MaxAllocatableDifferenceRatio = -0.1 }, `"-0.1" for --max-allocatable-difference-ratio: must be between 0 and 1`},
		{func(o *config.AutoscalingOptions) { o.NodeGroupSetRatios.MaxFreeDifferenceRatio = math.NaN() }, `"NaN" for --max-free-difference-ratio: must be a decimal number between 0 and 1`},
		{func(o *config.AutoscalingOptions) { o.BalancingLabels = []string{" "} }, `" " for --balancing-label: must not be empty`},
		{func(o *config.AutoscalingOptions) { o.BalancingExtraIgnoredLabels = []string{""} }, `"" for --balancing-ignore-label: must not be empty`},
	} {
		o := linkable()
		test.change(&o)
		before := o.CloudProviderName
		if err := Link(&o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
		if o.CloudProviderName != before {
			t.Errorf("refused options were changed: %q", o.CloudProviderName)
		}
	}
}

func TestRefusedOwnOptions(t *testing.T) {
	negative := -time.Second
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{MaxBalanceDeferral: &negative}, `"-1s" for --max-balance-deferral: must not be negative; 0 defers nothing`},
		{Options{DisabledLabelPacks: []string{"awz"}}, `"awz" for --disable-label-pack: is no label pack; known are `},
	} {
		if _, err := New(linkable(), test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

func TestInstallNeedsACloudProvider(t *testing.T) {
	err := balancer(t).Install(&coreoptions.AutoscalerOptions{})
	if err == nil || !strings.Contains(err.Error(), "set AutoscalerOptions.CloudProvider before") {
		t.Errorf("%v", err)
	}
}

func TestRatiosAreExact(t *testing.T) {
	o := linkable()
	o.NodeGroupSetRatios = config.NodeGroupDifferenceRatios{MaxCapacityMemoryDifferenceRatio: 0.015, MaxAllocatableDifferenceRatio: 1e-7, MaxFreeDifferenceRatio: 0}
	got, err := comparisonOptions(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, ratio := range map[string]string{
		"0.015": got.MemoryDifferenceRatio.String(), "0.0000001": got.MaxAllocatableDifferenceRatio.String(), "0": got.MaxFreeDifferenceRatio.String(),
	} {
		if ratio != want {
			t.Errorf("%s, want %s", ratio, want)
		}
	}
}
