package sidecar_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
)

// boots sets how long machines of groups boot, and how late the cloud lists them.
func boots(groups []fake.Group, boot, list time.Duration) []fake.Group {
	for i := range groups {
		groups[i].BootTime, groups[i].ListDelay = boot, list
	}
	return groups
}

// Cluster Autoscaler is started anew in the middle of a scale-up, when the cloud has not listed the
// instances yet or its list is kept from before. It would leave a group with nodes on their way out
// until these are ready; it is not shown them until it has asked for the group, and does so at once.
// So it is where both sides start anew.
func TestANewProcessSeesGroupsWithNodesOnTheirWay(t *testing.T) {
	for _, late := range []time.Duration{0, 30 * time.Second} {
		for _, sizes := range [][]int{{0, 0, 0}, {4, 0, 2}, {0, 6, 0}} {
			for _, gap := range []time.Duration{8 * time.Second, 40 * time.Second, 70 * time.Second} {
				for _, both := range []bool{false, true} {
					s := setup{cloud: fake.Config{Groups: boots(zones(sizes...), 2*time.Minute, late)}, batches: []batch{
						{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}, {At: 3*time.Second + gap, Pods: podsOf("q", 9, 1)},
					}}
					alone := s.alone(t).observe(6 * time.Minute)
					s.fault = crashAfter(2)
					if both {
						crash := s.fault
						s.fault = func(w *harness, c caCall) callFault {
							f := crash(w, c)
							if f.Crash {
								w.restartSidecar()
							}
							return f
						}
					}
					o := newHarness(t, s).observe(6 * time.Minute)
					if o.running == 0 || o.running > alone.running+3*aLoop || total(o.sizes) > total(alone.sizes) ||
						!slices.Equal(sorted(o.sizes), exact(t, 18, s.cloud.Groups)) {
						t.Errorf("listed after %s, sizes %v, more pods after %s, both %t: %s\nCluster Autoscaler that runs on: %s\n%s", late, sizes, gap,
							both, o, alone, o.w.log())
					}
				}
			}
		}
	}
}

// A zone turns unready while Cluster Autoscaler waits for nodes of it, and more pods come. What is on
// its way there is not counted on, whatever CA does: it runs on, it is started anew, it has a request
// for the zone or none, and the zone had one node in service or several, old ones or new.
func TestNothingIsExpectedOfAZoneThatIsDown(t *testing.T) {
	for _, boot := range []time.Duration{20 * time.Second, 2 * time.Minute} {
		for _, sizes := range [][]int{{1, 1, 1}, {3, 3, 3}, {6, 2, 1}, {2, 6, 2}} {
			for _, begin := range []time.Duration{15 * time.Second, 40 * time.Second, boot + 10*time.Second} {
				for _, crash := range []bool{false, true} {
					s := setup{cloud: fake.Config{Groups: boots(zones(sizes...), boot, 0), Outages: []v1alpha1.Outage{{
						Zones: []string{"b"}, Mode: v1alpha1.OutageUnready, FaultWindow: during(begin, begin+7*time.Minute),
					}}}, batches: []batch{{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}, {At: begin + 15*time.Second, Pods: podsOf("q", 9, 1)}}}
					alone := s.alone(t).observe(12 * time.Minute)
					if crash {
						s.fault = crashAfter(3)
					}
					o := newHarness(t, s).observe(12 * time.Minute)
					if o.running == 0 || o.running > alone.running+3*aLoop || total(o.sizes) > total(alone.sizes) {
						t.Errorf("boot %s, sizes %v, from %s, crash %t: %s\nCluster Autoscaler that runs on: %s\n%s", boot, sizes, begin, crash, o, alone,
							o.w.log())
					}
				}
			}
		}
	}
}

// Pods that follow others into their zone leave the other zones without an option. Nodes that are on
// their way there are no use to them, and no sign that Cluster Autoscaler counts them not; after two
// loops its need counts, also where a new process of it does not count them indeed.
func TestPodsThatLeaveZonesOutForTheirAffinity(t *testing.T) {
	leader := pinned(podsOf("leader", 1, 1), "a")
	leader[0].Labels = map[string]string{"app": "leader"}
	followers := podsOf("follower", 6, 1)
	for _, pod := range followers {
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: zone, LabelSelector: &metav1.LabelSelector{MatchLabels: leader[0].Labels},
		}}}}
	}
	for crash := range 4 {
		t.Run(fmt.Sprint("crash at increase ", crash), func(t *testing.T) {
			s := setup{cloud: fake.Config{Groups: boots(zones(0, 0, 0), 2*time.Minute, 0)}, batches: []batch{
				{At: time.Second, Pods: leader}, {At: 4 * time.Minute, Pods: in(podsOf("p", 12, 1), "b", "c")},
				{At: 4*time.Minute + 15*time.Second, Pods: followers},
			}}
			alone := s.alone(t).observe(10 * time.Minute)
			s.fault = crashAfter(crash)
			o := newHarness(t, s).observe(10 * time.Minute)
			if o.running == 0 || o.running > alone.running+3*aLoop || !slices.Equal(o.sizes, []int{7, 6, 6}) {
				t.Errorf("%s\nCluster Autoscaler that runs on: %s\n%s", o, alone, o.w.log())
			}
		})
	}
}
