package clusterautoscaler

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"

	"github.com/evenkeel/evenkeel/fake"
)

func skew(n int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MaxSkew = n }
}

func minDomains(n int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &n }
}

// changed are pods after a change.
func changed(pods []*v1.Pod, change func(*v1.Pod)) []*v1.Pod {
	for _, pod := range pods {
		change(pod)
	}
	return pods
}

func inZone(zone string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: zone} }
}

func unspread(pod *v1.Pod) { pod.Spec.TopologySpreadConstraints = nil }

// overHosts adds a spread over hosts.
func overHosts(pod *v1.Pod) {
	c := pod.Spec.TopologySpreadConstraints[0]
	c.TopologyKey = v1.LabelHostname
	pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
}

func apart(pod *v1.Pod) {
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}}}
}

// TestSpreadPods: what pods that are spread over zones need is ordered at once, by the autoscaler's
// own loop, whichever zone its expander prefers. Without, it orders zone after zone.
func TestSpreadPods(t *testing.T) {
	thirty := func() []*v1.Pod { return spreadPods("web", 30, 1000) }
	for _, test := range []struct {
		name    string
		trial   func() trial
		want    outcome
		without int // loops with an increase, in the first zone's case
	}{
		{
			"maxSkew 1, a full node in each zone",
			func() trial { return trial{groups: zones(1, 20), running: full, pending: thirty()} },
			outcome{Loops: 1, Increases: 3, Sizes: "6/6/6"}, 15,
		},
		{
			"maxSkew 2, a full node in each zone",
			func() trial {
				return trial{groups: zones(1, 20), running: full, pending: spreadPods("web", 30, 1000, skew(2))}
			},
			outcome{Loops: 1, Increases: 3, Sizes: "6/6/6"}, 11,
		},
		{
			"maxSkew 1, empty zones",
			func() trial { return trial{groups: zones(0, 20), pending: thirty()} },
			outcome{Loops: 1, Increases: 3, Sizes: "5/5/5"}, 1,
		},
		{
			"minDomains 3, empty zones",
			func() trial {
				return trial{groups: zones(0, 20), pending: spreadPods("web", 30, 1000, minDomains(3))}
			},
			outcome{Loops: 1, Increases: 3, Sizes: "5/5/5"}, 15,
		},
		{
			"one zone ahead, where the next pod must not go",
			func() trial {
				return trial{groups: []fake.Group{group("a", 2, 20), group("b", 1, 20), group("c", 1, 20)}, running: full, pending: thirty()}
			},
			outcome{Loops: 1, Increases: 3, Sizes: "7/7/6"}, 16,
		},
		{
			"nine free and one pinned, one per node",
			func() trial {
				return trial{groups: zones(0, 20), pending: slices.Concat(spreadPods("web", 9, 2000),
					changed(spreadPods("pinned", 1, 2000), inZone("a")))}
			},
			outcome{Loops: 1, Increases: 3, Sizes: "4/3/3"}, 1, // and 10/0/0
		},
		{
			"over hosts too, one per host",
			func() trial {
				return trial{groups: zones(1, 20), running: full, pending: changed(spreadPods("web", 12, 500), overHosts)}
			},
			outcome{Loops: 1, Increases: 3, Sizes: "5/5/5"}, 6, // and 6/5/5
		},
		{
			"a zone at its maximum holds the others",
			func() trial {
				return trial{groups: []fake.Group{group("a", 1, 3), group("b", 1, 20), group("c", 1, 20)}, running: full, pending: thirty()}
			},
			outcome{Loops: 1, Increases: 3, Sizes: "3/4/4", Pending: 16}, 8,
		},
		{
			"--max-nodes-total",
			func() trial {
				return trial{groups: zones(1, 20), running: full, pending: thirty(), options: config.AutoscalingOptions{MaxNodesTotal: 11}}
			},
			outcome{Loops: 1, Increases: 3, Sizes: "4/3/3", Pending: 17}, 7,
		},
		{
			"--cores-total",
			func() trial {
				return trial{groups: zones(1, 20), running: full, pending: thirty(), options: config.AutoscalingOptions{MaxCoresTotal: 17}}
			},
			outcome{Loops: 1, Increases: 3, Sizes: "3/2/2", Pending: 23}, 4,
		},
		{
			"--max-nodes-per-scaleup",
			func() trial {
				return trial{groups: zones(1, 20), running: full, pending: thirty(), options: config.AutoscalingOptions{MaxNodesPerScaleUp: 9}}
			},
			outcome{Loops: 2, Increases: 6, Sizes: "6/6/6"}, 15,
		},
		{
			"anti-affinity, which no plan covers",
			func() trial {
				return trial{groups: zones(1, 20), running: full, pending: changed(spreadPods("web", 6, 1000), apart)}
			},
			outcome{Loops: 5, Increases: 5, Sizes: "3/3/3"}, 5,
		},
		{
			"--salvo-scale-up",
			func() trial {
				return trial{groups: zones(1, 20), running: full, pending: thirty(),
					options: config.AutoscalingOptions{SalvoScaleUp: true, SalvoScaleUpBudget: 10 * time.Second}}
			},
			outcome{Loops: 1, Increases: 3, Sizes: "6/6/6"}, 1, // and 8/8/8
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for chosen := range 3 {
				one := test.trial()
				one.chosen = chosen
				if got := one.play(t); got != test.want {
					t.Errorf("option %d is chosen: %+v, want %+v", chosen, got, test.want)
				}
			}
			for _, without := range []bool{true, false} {
				one := test.trial()
				one.without, one.off = without, !without
				got := one.play(t)
				if test.without > 0 && got.Loops != test.without {
					t.Errorf("without %t, --spread-aware-split=false %t: %+v, want %d loops", one.without, one.off, got, test.without)
				}
				t.Logf("without %t, --spread-aware-split=false %t: %+v", one.without, one.off, got)
			}
		})
	}
}
