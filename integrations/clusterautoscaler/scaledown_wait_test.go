package clusterautoscaler

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

// Above a minimum the autoscaler offers other idle nodes in every loop, as its candidates come from
// a map. With the real planner and loops of ten seconds: what a stock autoscaler removes is removed
// with evenkeel too, at most the deferral later, although the other groups stay larger.
func TestDeferralIsBoundedAboveMinimums(t *testing.T) {
	const loop = 10 * time.Second
	for name, test := range map[string]struct {
		groups   []descentGroup
		minCores int64
		end      map[string]int
	}{
		"one idle group of three": {[]descentGroup{{3, 1, 3}, {5, 0, 0}, {5, 0, 0}}, 0,
			map[string]int{"group-a": 1, "group-b": 5, "group-c": 5}},
		"one idle group of ten": {[]descentGroup{{10, 1, 10}, {15, 0, 0}, {15, 0, 0}}, 0,
			map[string]int{"group-a": 1, "group-b": 15, "group-c": 15}},
		"five idle of six": {[]descentGroup{{6, 3, 5}, {8, 0, 0}, {8, 0, 0}}, 0,
			map[string]int{"group-a": 3, "group-b": 8, "group-c": 8}},
		"a minimum of the whole cluster": {[]descentGroup{{3, 0, 3}, {5, 0, 0}, {5, 0, 0}}, 44,
			map[string]int{"group-a": 1, "group-b": 5, "group-c": 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := map[string]time.Duration{}
			deferral := DefaultMaxBalanceDeferral
			for who, wait := range map[string]*time.Duration{"stock": nil, "evenkeel": &deferral} {
				d := newIdleDescent(t, loop, test.groups, test.minCores)
				d.autoscaler(wait)
				start := d.clock.Now()
				for sizes, _ := d.sizes(); fmt.Sprint(sizes) != fmt.Sprint(test.end); sizes, _ = d.sizes() {
					if d.clock.Since(start) > time.Hour {
						t.Fatalf("%s: %v after an hour, want %v", who, sizes, test.end)
					}
					d.loop()
				}
				ended[who] = d.clock.Since(start)
			}
			t.Logf("stock %s, evenkeel %s", ended["stock"], ended["evenkeel"])
			if later := ended["evenkeel"] - ended["stock"]; later > deferral+3*loop {
				t.Errorf("evenkeel ends %s after stock, want at most %s and some loops", later, deferral)
			}
		})
	}
}

// newIdleDescent is a cluster in which the idle nodes have no pods and the others are full.
func newIdleDescent(t *testing.T, interval time.Duration, groups []descentGroup, minCores int64) *descent {
	t.Helper()
	d := startDescent(t, 1, interval, groups)
	for i, group := range groups {
		for n := group.idle; n < group.size; n++ {
			name := fmt.Sprintf("group-%c-%02d", 'a'+i, n)
			pod := test.BuildScheduledTestPod("on-"+name, 3600, 1<<30, name)
			test.SetRSPodSpec(pod, "rs")
			d.pods[pod.Name] = pod
		}
	}
	if minCores > 0 {
		d.provider.SetResourceLimiter(cloudprovider.NewResourceLimiter(map[string]int64{cloudprovider.ResourceNameCores: minCores}, nil))
	}
	return d
}
