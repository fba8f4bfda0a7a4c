package autoscaler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
)

// trace writes the calls of each loop on a line of its own.
func trace(calls []caCall) string {
	short := map[string]string{fake.MethodTargetSize: "size", fake.MethodOptions: "options", fake.MethodTemplate: "template",
		fake.MethodNodeGroupForNode: "for"}
	var out strings.Builder
	for _, c := range calls {
		name, ok := short[c.Method]
		if !ok {
			name = c.Method
		}
		if c.Method == fake.MethodRefresh {
			out.WriteString("\n")
		}
		out.WriteString(name)
		if c.Group != "" {
			out.WriteString(" " + c.Group)
		}
		if c.Delta != 0 {
			fmt.Fprintf(&out, "%+d", c.Delta)
		}
		if c.Method == fake.MethodNodeGroupForNode {
			node := c.Nodes[0]
			if i := strings.Index(node, "-upcoming"); i >= 0 {
				node = node[i+1:]
			}
			out.WriteString(" " + node)
		}
		out.WriteString(", ")
	}
	return out.String()
}

// The order of calls is the one recorded of a real Cluster Autoscaler: nine pods on three empty
// groups. In the first loop the pods are too new.
func TestTheOrderOfCalls(t *testing.T) {
	x := newTrial(t, steering, fake.Config{Groups: three([3]int{}, time.Minute)}, clusterConfig{
		batches: []batch{{Pods: podsOf("web", 9, "3")}},
	})
	for range 3 {
		x.Step()
	}
	head := "Refresh, NodeGroups, template a, template b, template c, "
	want := "NodeGroups, Nodes a, Nodes b, Nodes c, \n" +
		head + "size a, size b, size c, \n" +
		head + "size a, size b, size c, " +
		"size a, options a, GPULabel, size b, options b, size c, options c, " +
		"size a, options a, size b, options b, size c, options c, BestOptions, " +
		"size a, GPUTypes, IncreaseSize a+9, options a, size a, size b, size c, \n" +
		head + "size a, size b, size c, Nodes a, " +
		"for fake://a/a-0001, options a, for fake://a/a-0002, options a, for fake://a/a-0003, options a, " +
		"options a, options a, options a, for upcoming-0, for upcoming-1, for upcoming-2, " +
		"size a, options a, size b, options b, size c, options c, " +
		"size a, options a, size b, options b, size c, options c, BestOptions, " +
		"size b, IncreaseSize b+6, options b, size a, size b, size c, "
	if got := trace(x.calls); got != want {
		t.Errorf("calls\n%s\nwant\n%s", got, want)
	}
}

// A process asks for the GPU label once, before its first question, and on a connection of its own.
func TestAProcessAndItsConnection(t *testing.T) {
	type key struct{}
	var asked []any
	var x *trial
	config := sixtyPods()
	var expander expander.Chooser = expander.ChooserFunc(func(ctx context.Context, r expander.Question) ([]string, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a call without deadline")
		}
		asked = append(asked, ctx.Value(key{}))
		return x.BestOptions(ctx, r)
	})
	config.connect = func(process int) autoscaler.Connection {
		c := autoscaler.Connection{Provider: x.baseline, Expander: expander}
		c.Intercept = func(ctx context.Context, _ autoscaler.Call, do func(context.Context) error) error {
			return do(context.WithValue(ctx, key{}, process))
		}
		return c
	}
	config.batches = append(config.batches, batch{At: 10 * time.Minute, Pods: podsOf("api", 2, "3")})
	x = makeTrial(t, steering, fake.Config{Groups: three([3]int{1, 1, 1}, time.Minute)})
	x.begin(t, config)
	x.settle(t, 9*time.Minute)
	x.Restart()
	x.settle(t, 20*time.Minute)
	if got, want := fmt.Sprint(asked[0], asked[len(asked)-1], x.labels), "1 2 2"; got != want {
		t.Errorf("first and last connection, labels asked: %s, want %s", got, want)
	}
}

// Nodes that are to come are not seen twice, and the loop puts no call into the log that a restart
// does not repeat.
func TestRestartsForgetEverything(t *testing.T) {
	x := newTrial(t, all, fake.Config{Groups: three([3]int{2, 0, 0}, time.Minute)}, sixtyPods())
	x.settle(t, 10*time.Minute)
	before := len(x.calls)
	x.Restart()
	x.Step()
	if got := trace(x.calls[before:]); !strings.HasPrefix(got, "NodeGroups, Nodes a, Nodes b, Nodes c, GPULabel, \nRefresh, ") {
		t.Errorf("calls of a new process: %s", got[:min(200, len(got))])
	}
}

func TestCapsAndMinimum(t *testing.T) {
	tests := map[string]struct {
		options autoscaler.Options
		want    []int
	}{
		"none":                {autoscaler.Options{}, []int{6, 6, 0}},
		"max nodes total":     {autoscaler.Options{MaxNodesTotal: 5}, []int{5, 0, 0}},
		"max nodes per scale": {autoscaler.Options{MaxNodesPerScale: 1}, []int{6, 6, 0}},
		"minimum":             {autoscaler.Options{EnforceMinSize: true}, []int{6, 4, 2}},
		"balanced":            {autoscaler.Options{Balance: true}, []int{4, 4, 4}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			groups := []fake.Group{groupOf("a", 0, 6, 30*time.Second), groupOf("b", 0, 6, 30*time.Second), groupOf("c", 0, 6, 30*time.Second)}
			groups[2].MinSize = 2
			x := newTrial(t, all, fake.Config{Groups: groups}, clusterConfig{
				batches: []batch{{Pods: podsOf("web", 12, "3")}}, ca: test.options,
			})
			wantSizes(t, x, x.settle(t, 10*time.Minute), test.want...)
		})
	}
}

func TestZeroOrMaxGroups(t *testing.T) {
	a := groupOf("a", 0, 5, 30*time.Second)
	a.Options = &cloudprovider.GroupOptions{ZeroOrMaxNodeScaling: true}
	x := newTrial(t, all, fake.Config{Groups: []fake.Group{a}}, clusterConfig{batches: []batch{{Pods: podsOf("web", 2, "3")}}})
	wantSizes(t, x, x.settle(t, 10*time.Minute), 5)
}

// A ProvisioningRequest gets all of its nodes from one group, or none.
func TestAtomicRequests(t *testing.T) {
	for n, want := range map[int][]int{5: {5, 0}, 8: {0, 8}, 12: {0, 0}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			x := newTrial(t, all, fake.Config{Groups: []fake.Group{groupOf("a", 0, 6, 30*time.Second), groupOf("b", 0, 9, 30*time.Second)}},
				clusterConfig{batches: []batch{{Pods: podsOf("job", n, "3"), Request: "train"}}})
			got := x.settle(t, 10*time.Minute)
			wantSizes(t, x, got, want...)
			if n < 12 && (got.Pending > 0 || got.Increases != 1) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// With --expander=random nobody is asked.
func TestRandomExpander(t *testing.T) {
	config := sixtyPods()
	var x *trial
	config.connect = func(int) autoscaler.Connection { return autoscaler.Connection{Provider: x.baseline} }
	x = makeTrial(t, all, fake.Config{Groups: three([3]int{}, time.Minute)})
	x.begin(t, config)
	if got := x.settle(t, 10*time.Minute); got.Ordered() != 30 || got.Asked != 0 {
		t.Errorf("%+v", got)
	}
}

// emptyNodes has empty nodes removed, and no others.
func emptyNodes() *removal.Options { return &removal.Options{UtilizationThreshold: new(int64)} }

// Empty nodes go after ten minutes, down to the minimum.
func TestScaleDown(t *testing.T) {
	groups := three([3]int{3, 3, 3}, time.Minute)
	groups[0].MinSize = 2
	x := newTrial(t, all, fake.Config{Groups: groups}, clusterConfig{ca: autoscaler.Options{Removal: emptyNodes()}})
	x.Run(9 * time.Minute)
	wantSizes(t, x, x.State(), 3, 3, 3)
	x.Run(12 * time.Minute)
	wantSizes(t, x, x.State(), 2, 0, 0)
}

// The cluster is unhealthy while more than three nodes and 45 % of all are unready: nothing is
// ordered.
func TestUnhealthyClusters(t *testing.T) {
	cloud := fake.Config{Groups: three([3]int{4, 4, 0}, time.Minute),
		Outages: []v1alpha1.Outage{{Zones: []string{"zone-a"}, FaultWindow: during(20*time.Minute, 30*time.Minute)}}}
	x := newTrial(t, all, cloud, clusterConfig{batches: []batch{{At: 21 * time.Minute, Pods: podsOf("web", 12, "3")}}})
	x.Run(29 * time.Minute)
	wantSizes(t, x, x.State(), 4, 4, 0)
	if got := x.settle(t, 50*time.Minute); got.Pending > 0 || got.Ordered() != 4 {
		t.Errorf("%+v", got)
	}
}

// A backoff takes five minutes, and twice as long after each failure up to half an hour.
func TestBackoffs(t *testing.T) {
	cloud := fake.Config{Groups: []fake.Group{groupOf("a", 0, 9, time.Minute)}, StockOuts: []v1alpha1.StockOut{{}}}
	x := newTrial(t, all, cloud, clusterConfig{batches: []batch{{Pods: podsOf("web", 2, "3")}}})
	x.Run(100 * time.Minute)
	var pauses []time.Duration
	var last time.Time
	for _, c := range x.changes {
		if c.Method == fake.MethodIncreaseSize && c.Err != nil {
			if !last.IsZero() {
				pauses = append(pauses, c.At.Sub(last).Truncate(time.Minute))
			}
			last = c.At
		}
	}
	if want := []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 30 * time.Minute}; !slices.Equal(pauses,
		want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
}

// Pinned and free pods together need nine nodes: Cluster Autoscaler may put free pods on nodes
// meant for the pinned, and order for those again. The slower the nodes, the more often.
func TestPinnedPods(t *testing.T) {
	run := func(s strategy, balance bool, seed uint64) int {
		pinned := podsOf("pinned", 3, "3")
		for _, pod := range pinned {
			pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "zone-b"}
		}
		x := newTrial(t, s, fake.Config{Groups: three([3]int{}, 500*time.Millisecond)}, clusterConfig{
			batches: []batch{{Pods: append(podsOf("free", 6, "3"), pinned...)}}, seed: seed, ca: autoscaler.Options{Balance: balance},
		})
		got := x.settle(t, 30*time.Minute)
		if got.Pending > 0 {
			t.Errorf("seed %d: %+v", seed, got)
		}
		return got.Ordered()
	}
	tests := map[string]struct {
		strategy strategy
		balance  bool
		seen     int // what a real one ordered
	}{"plain": {all, false, 12}, "balancing": {all, true, 12}, "steering": {steering, false, 11}}
	for name, test := range tests {
		counts := map[int]int{}
		for seed := range uint64(30) {
			counts[run(test.strategy, test.balance, seed)]++
		}
		t.Log(name, counts)
		if counts[test.seen] == 0 {
			t.Errorf("%s: nodes ordered and how often: %v, never %d", name, counts, test.seen)
		}
	}
}

// A set of twelve takes twelve loops, one after the other.
func TestTwelveMembersTakeTwelveLoops(t *testing.T) {
	var groups []fake.Group
	for i := range 12 {
		groups = append(groups, groupOf(fmt.Sprintf("g-%02d", i), 0, 100, time.Minute))
	}
	x := newTrial(t, steering, fake.Config{Groups: groups}, clusterConfig{batches: []batch{{Pods: podsOf("web", 36, "3")}}})
	got := x.settle(t, 30*time.Minute)
	var first, last time.Time
	for _, c := range x.changes {
		if c.Method == fake.MethodIncreaseSize && c.Err == nil {
			if first.IsZero() {
				first = c.At
			}
			last = c.At
		}
	}
	if got.Increases != 12 || got.Ordered() != 36 || got.Groups[0].Size != 3 || last.Sub(first) > 8*time.Second {
		t.Errorf("%+v in %v", got, last.Sub(first))
	}
}
