package clusterautoscaler

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/builder"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/expander"
	cametrics "sigs.k8s.io/cluster-autoscaler/pkg/metrics"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas"
)

// testCloud is registered once in this process. It notes the name it was built under, and sets its
// own comparator, as some clouds do.
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
	f := newCloud() // in which the label of --balancing-label decides alone
	f.group("a", "one")
	f.group("b", "one", func(n *v1.Node) { n.Labels["else"] = "other" })
	if got := installed.sets.Similar("a", f.templates, cloudOf(f.ctx)); len(got) != 1 {
		t.Errorf("%d groups are similar", len(got))
	}
}

// What the autoscaler makes by default, and what a fork adds there, is left to it.
func TestLinkFillsNoDefaults(t *testing.T) {
	o := linkable()
	if err := Link(&o); err != nil {
		t.Fatal(err)
	}
	opts := build(o)
	if q := opts.QuotasTrackerOptions; opts.ExpanderStrategy != nil || q.QuotaProvider != nil || q.NodeFilter != nil ||
		q.CustomResourcesProcessor != nil {
		t.Errorf("strategy %T, quotas %+v", opts.ExpanderStrategy, q)
	}
	// The autoscaler sets them afterwards, and evenkeel sees them.
	fork := resourcequotas.NewFakeProvider(nil)
	opts.QuotasTrackerOptions.QuotaProvider = fork
	ours := opts.Processors.NodeGroupSetProcessor.(*groupSet)
	if got := ours.quotas.from().QuotaProvider; got != fork {
		t.Errorf("quotas of a %T", got)
	}
	ctx := &ca_context.AutoscalingContext{ExpanderStrategy: choice("a")}
	for range 2 {
		if _, err := ours.FindSimilarNodeGroups(ctx, testprovider.NewTestNodeGroup("a", 1, 0, 0, true, false, "", nil, nil), nil); err == nil {
			t.Fatal("a group without a template has similar ones")
		}
	}
	if learns, is := ctx.ExpanderStrategy.(*need); !is || learns.strategy != expander.Strategy(choice("a")) {
		t.Errorf("strategy %+v", ctx.ExpanderStrategy)
	}
}

// A cloud provider that is made by hand is handed to evenkeel, not to the builder.
func TestLinkProvider(t *testing.T) {
	for _, balanced := range []bool{true, false} {
		o := linkable()
		o.BalanceSimilarNodeGroups = balanced
		o.CloudProviderName = "whatever"
		provider := testprovider.NewTestCloudProviderBuilder().Build()
		if err := LinkProvider(&o, provider); err != nil {
			t.Fatal(err)
		}
		opts := build(o)
		if opts.CloudProvider != cloudprovider.CloudProvider(provider) || opts.CloudProviderName != provider.Name() {
			t.Errorf("the provider is %v and is called %q", opts.CloudProvider, opts.CloudProviderName)
		}
		if _, ours := opts.Processors.NodeGroupSetProcessor.(*groupSet); ours != balanced {
			t.Errorf("balanced %t: the processor is a %T", balanced, opts.Processors.NodeGroupSetProcessor)
		}
	}
	o := linkable()
	if err := LinkProvider(&o, nil); err == nil {
		t.Error("no provider is linked")
	}
}

func TestAnAutoscalerWithoutTheBalancerIsWarnedOf(t *testing.T) {
	ticks := func(n int) <-chan time.Time {
		out := make(chan time.Time, n)
		for range n {
			out <- time.Time{}
		}
		close(out)
		return out
	}
	runsAfter := func(n int) func() bool {
		return func() bool { n--; return n < 0 }
	}
	o := linkable()
	if err := Link(&o); err != nil {
		t.Fatal(err)
	}
	if warnUnlessInstalled(runsAfter(3), ticks(3)) {
		t.Error("warns before the first loop")
	}
	if !warnUnlessInstalled(runsAfter(3), ticks(4)) {
		t.Error("does not warn after the first loop")
	}
	build(o)
	if warnUnlessInstalled(runsAfter(0), ticks(1)) {
		t.Error("warns although the balancer is installed")
	}
}

func TestALoopIsSeenInTheMetrics(t *testing.T) {
	if loopHasRun() {
		t.Skip("another test has run one")
	}
	cametrics.RegisterAll(false)
	cametrics.UpdateLastTime(cametrics.Main, time.Now())
	if !loopHasRun() {
		t.Error("no loop is seen")
	}
}

// A wrong flag ends a replica before it waits to be the leader.
func TestValidate(t *testing.T) {
	o := linkable()
	o.NodeGroupSetRatios.MaxFreeDifferenceRatio = -1
	linkErr := Link(new(o))
	if err := Validate(o); err == nil || linkErr == nil || err.Error() != linkErr.Error() {
		t.Errorf("%v, want %v", err, linkErr)
	}
	o.BalanceSimilarNodeGroups = false
	if err := Validate(o); err != nil {
		t.Error(err)
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

func TestRefusedOptions(t *testing.T) {
	for _, test := range []struct {
		change func(*config.AutoscalingOptions)
		want   string
	}{
		{func(o *config.AutoscalingOptions) { o.CloudProviderName = "no-cloud" },
			`"no-cloud" for --cloud-provider: is no cloud provider of this build; it has `},
		{func(o *config.AutoscalingOptions) { o.NodeGroupSetRatios.MaxAllocatableDifferenceRatio = -0.1 },
			`"-0.1" for --max-allocatable-difference-ratio: must be between 0 and 1`},
		{func(o *config.AutoscalingOptions) { o.NodeGroupSetRatios.MaxFreeDifferenceRatio = math.NaN() },
			`"NaN" for --max-free-difference-ratio: must be a decimal number between 0 and 1`},
		{func(o *config.AutoscalingOptions) { o.CloudProviderName = "by-hand" }, `One that is made by hand is linked by LinkProvider`},
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
