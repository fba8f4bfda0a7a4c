package autoscaler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
)

// Groups are left out of the questions while Cluster Autoscaler takes them to be unhealthy. Group a
// gets nodes at the first question, and more pods come half a minute later.
func TestWhichGroupsAreLeftOut(t *testing.T) {
	const boot, later = time.Minute, 30 * time.Second
	down := []v1alpha1.Outage{{Zones: []string{"zone-a"}, Mode: v1alpha1.OutageUnready, FaultWindow: during(10*time.Second, 0)}}
	tests := map[string]struct {
		sizes   [3]int
		outages []v1alpha1.Outage
		pods    int // one per node, shared by three groups
		listed  time.Duration
		restart bool
		out     bool
	}{
		"a third of what was asked for is on its way":                       {pods: 9},
		"and not listed: fewer than none may be missing, which is not none": {pods: 9, listed: time.Minute, out: true},
		"and not listed, where there was a node before":                     {sizes: [3]int{1, 1, 1}, pods: 9, listed: time.Minute},
		"three missing nodes of a request that a new process does not know": {sizes: [3]int{1, 1, 1}, pods: 9, restart: true},
		"four":         {sizes: [3]int{1, 1, 1}, pods: 12, restart: true, out: true},
		"four of many": {sizes: [3]int{12, 12, 12}, pods: 12, restart: true},
		"three nodes that are not ready any more": {sizes: [3]int{3, 6, 6}, outages: down},
		"four nodes that are not ready any more":  {sizes: [3]int{4, 6, 6}, outages: down, out: true},
		"four nodes that are not ready any more, with a request for as many nodes": {sizes: [3]int{4, 4, 4},
			outages: []v1alpha1.Outage{{Zones: []string{"zone-a"}, Mode: v1alpha1.OutageUnready, FaultWindow: during(25*time.Second, 0)}}, pods: 12},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			groups := three(test.sizes, boot)
			n := 0
			for i := range groups {
				groups[i].ListDelay = test.listed
				n += groups[i].Size
			}
			config := clusterConfig{batches: []batch{{Pods: podsOf("old", n, "3")}, {At: later, Pods: podsOf("more", 20, "3")}}}
			if test.pods > 0 {
				config.batches = append(config.batches, batch{At: 3 * time.Second, Pods: podsOf("web", test.pods, "3")})
			}
			x := newTrial(t, steering, fake.Config{Groups: groups, Outages: test.outages}, config)
			x.stepUntil(t, func(clusterState) bool { return x.clock.Since(epoch) >= later-5*time.Second })
			if test.restart {
				x.Restart()
			}
			x.members = nil
			x.stepUntil(t, func(clusterState) bool {
				if x.clock.Since(epoch) < later {
					x.members = nil
				}
				return x.members != nil || x.clock.Since(epoch) >= later+20*time.Second // all groups are left out
			})
			if out := !slices.Contains(x.members, "a"); out != test.out {
				t.Errorf("asked was %v: a is left out: %t, want %t", x.members, out, test.out)
				x.dump(t)
			}
		})
	}
}
