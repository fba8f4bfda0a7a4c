package sidecar_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// spotFirst is spot and what spot does not bring within five minutes on demand.
func spotFirst() []nodegroupset.SetPolicy {
	policies := spotAfterBase()
	policies[0].Policy, policies[0].StartupDeadline = nodegroupset.Priority, 5*time.Minute
	slices.Reverse(policies[0].Portions)
	policies[0].Portions[1].Base = 0
	return policies
}

// without makes spot, or other groups, not deliver.
func without(mode string, from, until time.Duration, groups ...string) fake.Config {
	return fake.Config{StockOuts: []v1alpha1.StockOut{{Groups: groups, Mode: mode, FaultWindow: during(from, until)}}}
}

// TestStartupDeadlineThroughTheSidecar: what does not come in time is ordered elsewhere, and taken
// back where it was.
func TestStartupDeadlineThroughTheSidecar(t *testing.T) {
	slow := bought(0, 0, 0, 0)
	slow[2].BootTime, slow[3].BootTime = 8*time.Minute, 8*time.Minute
	oneSlow := bought(0, 0, 0, 0)
	oneSlow[2].BootTime = 8 * time.Minute
	allSlow := bought(0, 0, 0, 0)
	for i := range allSlow {
		allSlow[i].BootTime = 8 * time.Minute
	}
	onSpot := podsOf("p", 8, 1)
	for _, pod := range onSpot {
		pod.Spec.NodeSelector = map[string]string{"bought": "spot"}
	}
	even := spotFirst()
	even[0].Policy = nodegroupset.Even
	for name, test := range map[string]struct {
		policies []nodegroupset.SetPolicy
		groups   []fake.Group
		cloud    fake.Config
		pods     []*v1.Pod
		fault    func(*harness, caCall) callFault
		want     []int
		by       time.Duration // all pods run
	}{
		"no machine comes":         {cloud: without(v1alpha1.StockOutSilent, 0, 0, "c", "d"), want: []int{4, 4, 0, 0}, by: 7 * time.Minute},
		"machines do not register": {cloud: without(fake.NeverRegisters, 0, 0, "c", "d"), want: []int{4, 4, 0, 0}, by: 7 * time.Minute},
		"nodes do not get ready":   {cloud: without(fake.NeverReady, 0, 0, "c", "d"), want: []int{4, 4, 0, 0}, by: 7 * time.Minute},
		"machines are slow":        {groups: slow, want: []int{4, 4, 0, 0}, by: 7 * time.Minute},
		"one zone is slow":         {groups: oneSlow, want: []int{0, 0, 0, 8}, by: 7 * time.Minute},
		"of equal members one":     {policies: even, groups: oneSlow, want: []int{3, 3, 0, 2}, by: 7 * time.Minute},
		"every member is slow":     {groups: allSlow, want: []int{4, 4, 0, 0}, by: 14 * time.Minute},
		"the pods run on spot only, and all of it is slow": {
			groups: slow, pods: onSpot, want: []int{0, 0, 4, 4}, by: 9 * time.Minute,
		},
		"the sidecar restarts": {
			cloud: without(v1alpha1.StockOutSilent, 0, 0, "c", "d"), want: []int{4, 4, 0, 0}, by: 8 * time.Minute,
			fault: restartAfter(2, (*harness).restartSidecar),
		},
		"Cluster Autoscaler restarts": {
			cloud: without(v1alpha1.StockOutSilent, 0, 0, "c", "d"), want: []int{4, 4, 0, 0}, by: 8 * time.Minute,
			fault: func() func(*harness, caCall) callFault {
				calls := 0
				return func(*harness, caCall) callFault {
					calls++
					return callFault{Crash: calls == 200}
				}
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.policies == nil {
				test.policies = spotFirst()
			}
			if test.groups == nil {
				test.groups = bought(0, 0, 0, 0)
			}
			if test.pods == nil {
				test.pods = podsOf("p", 8, 1)
			}
			test.cloud.Groups = test.groups
			w := newHarness(t, setup{cloud: test.cloud, batches: []batch{{Pods: test.pods}}, fault: test.fault,
				sidecar: underPolicies(test.policies)})
			took := w.untilAllRun(t, 40*time.Minute)
			if got := w.sizes(); !slices.Equal(got, test.want) || took > test.by {
				t.Errorf("sizes %v after %s, want %v after %s\n%s", got, took, test.want, test.by, w.log())
			}
			w.settle(time.Hour)
			if got := w.sizes(); !slices.Equal(got, test.want) {
				t.Errorf("sizes %v in the end, want %v\n%s", got, test.want, w.log())
			}
		})
	}
}

// untilAllRun runs loops until no pod is pending, and returns when that was.
func (w *harness) untilAllRun(t testing.TB, limit time.Duration) time.Duration {
	t.Helper()
	for w.clock.Since(start) < limit {
		w.ca.Step()
		state := w.ca.State()
		if state.Pending == 0 && w.clock.Since(start) > 10*time.Second {
			return w.clock.Since(start)
		}
	}
	t.Fatalf("pods are still pending\n%s", w.log())
	return 0
}

// TestLateCapacityThroughTheSidecarInRandomWorlds: whatever comes late or never on spot, all pods run
// soon after the deadlines of two members and of one of them that is tried again, no node is ordered
// twice at any time, and a member that is late gets few orders.
func TestLateCapacityThroughTheSidecarInRandomWorlds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		groups := bought(0, 0, 0, 0)
		var cloud fake.Config
		for i := 2; i < 4; i++ {
			name := groups[i].ID
			minutes := func(what string, least, most int) time.Duration {
				return time.Duration(rapid.IntRange(least, most).Draw(r, name+" "+what)) * time.Minute
			}
			switch rapid.SampledFrom([]string{"well", "slow", "not at all", "for a while"}).Draw(r, name) {
			case "slow":
				groups[i].BootTime = minutes("boots", 4, 20)
			case "not at all":
				mode := rapid.SampledFrom([]string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent, fake.NeverRegisters,
					fake.NeverReady}).Draw(r, name+" fails")
				cloud.StockOuts = append(cloud.StockOuts, without(mode, 0, 0, name).StockOuts...)
			case "for a while":
				from := minutes("from", 0, 30)
				cloud.StockOuts = append(cloud.StockOuts, without(v1alpha1.StockOutSilent, from, from+minutes("for", 1, 60), name).StockOuts...)
			}
		}
		cloud.Groups = groups
		policies := spotFirst()
		policies[0].Policy = rapid.SampledFrom([]nodegroupset.Policy{nodegroupset.Priority, nodegroupset.Proportional}).Draw(r, "policy")
		var batches []batch
		arrived := func(at time.Duration) (pods int) {
			for _, b := range batches {
				if b.At <= at {
					pods += len(b.Pods)
				}
			}
			return pods
		}
		at := time.Duration(0)
		for i := range rapid.IntRange(1, 3).Draw(r, "batches") {
			at += time.Duration(rapid.IntRange(0, 30).Draw(r, "pause")) * time.Minute
			batches = append(batches, batch{At: at, Pods: podsOf(fmt.Sprint("p", i), rapid.IntRange(1, 6).Draw(r, "pods"), 1)})
		}
		w := newHarness(t, setup{cloud: cloud, batches: batches, sidecar: underPolicies(policies)})
		ordered, before, since := 0, 0, time.Duration(0)
		for now := time.Duration(0); now < at+30*time.Minute; now = w.clock.Since(start) {
			w.ca.Step()
			state := w.ca.State()
			now = w.clock.Since(start)
			if state.Pending == 0 || slices.ContainsFunc(batches, func(b batch) bool { return b.At > since && b.At <= now }) {
				since = now
			}
			size := total(w.sizes())
			ordered, before = ordered+max(0, size-before), size
			if size > arrived(now) || now-since > 18*time.Minute {
				r.Fatalf("%d nodes for %d pods, pods are pending since %s\n%s", size, arrived(now), since, w.log())
			}
		}
		if pods := arrived(at); ordered > 3*pods+2*len(batches) {
			r.Fatalf("%d nodes ordered for %d pods\n%s", ordered, pods, w.log())
		}
	})
}

// TestLateCapacityIsGivenBack: a member that was late is tried with one node after its backoff, at a
// scale-up that comes anyway, and gets its whole share once that has come.
func TestLateCapacityIsGivenBack(t *testing.T) {
	options := underPolicies(spotFirst())
	events := told{}
	registry, metrics := metered(t)
	options.Recorder, options.Metrics = events, metrics
	var batches []batch
	for i, at := range []time.Duration{0, 12, 30, 45} {
		batches = append(batches, batch{At: at * time.Minute, Pods: podsOf(fmt.Sprint("p", i), 8, 1)})
	}
	cloud := without(v1alpha1.StockOutSilent, 0, 20*time.Minute, "c", "d")
	cloud.Groups = bought(0, 0, 0, 0)
	w := newHarness(t, setup{cloud: cloud, batches: batches, sidecar: options})
	for _, step := range []struct {
		until time.Duration
		want  []int
		why   string
	}{
		{4 * time.Minute, []int{0, 0, 4, 4}, "spot is ordered"},
		{7 * time.Minute, []int{4, 4, 0, 0}, "it does not come"},
		{14 * time.Minute, []int{7, 7, 1, 1}, "it is tried with a node of each"},
		{19 * time.Minute, []int{8, 8, 0, 0}, "that does not come"},
		{34 * time.Minute, []int{11, 11, 1, 1}, "it is tried again"},
		{50 * time.Minute, []int{11, 11, 5, 5}, "it has come, and spot gets all"},
	} {
		for w.clock.Since(start) < step.until {
			w.ca.Step()
		}
		if got := w.sizes(); !slices.Equal(got, step.want) {
			t.Fatalf("%s at %s: sizes %v, want %v\n%s", step.why, step.until, got, step.want, w.log())
		}
	}
	if events["MemberBackedOff"] != 4 {
		t.Errorf("events: %v", events)
	}
	want := "# HELP evenkeel_sidecar_late_nodes_total Nodes taken back because they were not ready by the start-up deadline of their set.\n" +
		"# TYPE evenkeel_sidecar_late_nodes_total counter\nevenkeel_sidecar_late_nodes_total 10\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "evenkeel_sidecar_late_nodes_total"); err != nil {
		t.Error(err)
	}
}

// TestLateNodesStayWhereNodesAreUnknown: a sidecar that may not read nodes takes back what has no
// instance, and no machine, which may be a node.
func TestLateNodesStayWhereNodesAreUnknown(t *testing.T) {
	for mode, want := range map[string][]int{v1alpha1.StockOutSilent: {4, 4, 0, 0}, fake.NeverRegisters: {0, 0, 4, 4}} {
		cloud := without(mode, 0, 0, "c", "d")
		cloud.Groups = bought(0, 0, 0, 0)
		w := newHarness(t, setup{cloud: cloud, batches: []batch{{Pods: podsOf("p", 8, 1)}}, sidecar: underPolicies(spotFirst())})
		w.options.Nodes = nil
		w.restartSidecar()
		for w.clock.Since(start) < 8*time.Minute {
			w.ca.Step()
		}
		if got := w.sizes(); !slices.Equal(got, want) {
			t.Errorf("%s: sizes %v, want %v\n%s", mode, got, want, w.log())
		}
	}
}
