package podfit

import (
	"maps"
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const gib = 1 << 30

func TestRequestsCountInitContainersAndOverhead(t *testing.T) {
	list := func(cpu, memory, disk string) v1.ResourceList {
		return v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory),
			v1.ResourceEphemeralStorage: resource.MustParse(disk), "example.com/gpu": resource.MustParse("2"),
		}
	}
	container := func(l v1.ResourceList) v1.Container {
		return v1.Container{Resources: v1.ResourceRequirements{Requests: l}}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers:     []v1.Container{container(list("100m", "1Gi", "0")), container(list("100m", "1Gi", "0"))},
		InitContainers: []v1.Container{container(list("2", "1Mi", "0"))},
		Overhead:       v1.ResourceList{v1.ResourceCPU: resource.MustParse("5m")},
	}}
	want := Resources{v1.ResourceCPU: 2005, v1.ResourceMemory: 2 * gib, "example.com/gpu": 4, v1.ResourcePods: 1}
	if got := Requests(pod); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPlus(t *testing.T) {
	a := Resources{v1.ResourceCPU: 1, "a": 1, "c": 3}
	b := Resources{v1.ResourceCPU: 10, "b": 5, "c": 7, "d": 1 << 62}
	for n, want := range map[int64]Resources{
		2:  {v1.ResourceCPU: 21, "a": 1, "b": 10, "c": 17, "d": math.MaxInt64},
		0:  a,
		-1: {v1.ResourceCPU: -9, "a": 1, "b": -5, "c": -4, "d": -1 << 62},
	} {
		if got := a.Plus(n, b); !maps.Equal(got, want) {
			t.Errorf("%d times: got %v, want %v", n, got, want)
		}
	}
	if got := a.Plus(-1, a); len(got) != 0 {
		t.Errorf("nothing is left, got %v", got)
	}
}

func TestTakes(t *testing.T) {
	request := Resources{v1.ResourceCPU: 500, v1.ResourcePods: 1, "example.com/none": 0}
	for _, test := range []struct {
		free Resources
		want int64
	}{
		{Resources{v1.ResourceCPU: 2400, v1.ResourcePods: 10}, 4},
		{Resources{v1.ResourceCPU: 2400, v1.ResourcePods: 3}, 3},
		{Resources{v1.ResourceCPU: -1, v1.ResourcePods: 3}, 0},
		{Resources{v1.ResourceCPU: 2400}, 0},
	} {
		if got := test.free.Takes(request); got != test.want {
			t.Errorf("%v take %d, want %d", test.free, got, test.want)
		}
	}
}

// An affinity that cannot be read selects nothing, as in the scheduler.
func TestRules(t *testing.T) {
	zone := func(operator v1.NodeSelectorOperator, values ...string) *v1.Affinity {
		return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: operator, Values: values}}},
		}}}}
	}
	node := &v1.Node{}
	node.Labels = map[string]string{"zone": "a"}
	node.Spec.Taints = []v1.Taint{{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule}, {Key: "hard", Effect: v1.TaintEffectNoSchedule}}
	tolerant := []v1.Toleration{{Key: "hard", Operator: v1.TolerationOpExists}}
	for name, test := range map[string]struct {
		spec           v1.PodSpec
		selects, admit bool
	}{
		"no rules":                        {v1.PodSpec{}, true, false},
		"a toleration":                    {v1.PodSpec{Tolerations: tolerant}, true, true},
		"a selector that matches":         {v1.PodSpec{Tolerations: tolerant, NodeSelector: map[string]string{"zone": "a"}}, true, true},
		"a selector that does not match":  {v1.PodSpec{Tolerations: tolerant, NodeSelector: map[string]string{"zone": "b"}}, false, false},
		"an affinity that matches":        {v1.PodSpec{Affinity: zone(v1.NodeSelectorOpIn, "a")}, true, false},
		"an affinity that cannot be read": {v1.PodSpec{Tolerations: tolerant, Affinity: zone("Like", "a")}, false, false},
	} {
		rules := RulesOf(&v1.Pod{Spec: test.spec})
		if selects, admit := rules.Select(node), rules.Admit(node); selects != test.selects || admit != test.admit {
			t.Errorf("%s: selects %v, admits %v", name, selects, admit)
		}
	}
}

func TestSumsBeyondAllNumbersStayAtTheLargest(t *testing.T) {
	for name, got := range map[string]int64{
		"a sum": AddSaturated(math.MaxInt64, 1, 1), "a product": AddSaturated(0, math.MaxInt64, 2),
		"a product of large ones": AddSaturated(0, 1<<40, 1<<40),
	} {
		if got != math.MaxInt64 {
			t.Errorf("%s is %d", name, got)
		}
	}
	if got := AddSaturated(2, 3, 4); got != 14 {
		t.Errorf("2 + 3*4 is %d", got)
	}
}
