package nodegroupset

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

func TestSimilar(t *testing.T) {
	gpu := v1.Taint{Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoSchedule}
	tests := map[string]struct {
		options Options
		a, b    []change
		want    bool
	}{
		"identical":                             {want: true},
		"cpu capacity must be equal":            {b: []change{setCapacity("cpu", "4001m")}},
		"the same cpu written differently":      {b: []change{setCapacity("cpu", "4000m")}, want: true},
		"a billionth of a core is a difference": {b: []change{setCapacity("cpu", "4000000001n")}},
		"memory capacity of 1000 and 986": {
			a: []change{setCapacity("memory", "1000")}, b: []change{setCapacity("memory", "986")}, want: true,
		},
		"memory capacity at the limit": {
			a: []change{setCapacity("memory", "1000")}, b: []change{setCapacity("memory", "985")}, want: true,
		},
		"memory capacity of 1000 and 984": {
			a: []change{setCapacity("memory", "1000")}, b: []change{setCapacity("memory", "984")},
		},
		"allocatable at the limit, measured by the larger": {
			a: []change{setAllocatable("x", "1000")}, b: []change{setAllocatable("x", "950")}, want: true,
		},
		"allocatable beyond the limit": {
			a: []change{setAllocatable("x", "1000")}, b: []change{setAllocatable("x", "949999m")},
		},
		"free amounts agree, allocatable does not": {
			a: []change{setAllocatable("cpu", "4"), requesting("cpu", "2")}, b: []change{setAllocatable("cpu", "2")},
		},
		"allocatable agrees, free does not": {a: []change{requesting("cpu", "500m")}},
		"equal negative amounts": {
			a: []change{requesting("ephemeral-storage", "1Gi")}, b: []change{requesting("ephemeral-storage", "1Gi")}, want: true,
		},
		"negative amounts within the ratio": {
			a: []change{requesting("widget", "100")}, b: []change{requesting("widget", "95")}, want: true,
		},
		"negative amounts beyond the ratio": {a: []change{requesting("widget", "100")}, b: []change{requesting("widget", "94")}},
		"listed as zero and not listed":     {b: []change{setCapacity("hugepages-1Gi", "0"), setAllocatable("hugepages-1Gi", "0")}, want: true},
		"a missing capacity is zero":        {b: []change{setCapacity("hugepages-1Gi", "1Gi")}},
		"zero and one":                      {b: []change{setAllocatable("widget", "1")}},
		"zero and one at a ratio of 1": {
			options: Options{MaxAllocatableDifferenceRatio: ratio(t, "1"), MaxFreeDifferenceRatio: ratio(t, "1")},
			b:       []change{setAllocatable("widget", "1")}, want: true,
		},
		"a petabyte more than int64 thousandths": {
			a: []change{setCapacity("memory", "8Ei")}, b: []change{setCapacity("memory", "9080000000000000001")},
		},
		"within, beyond int64 thousandths": {
			a: []change{setCapacity("memory", "9223372036854775807")}, b: []change{setCapacity("memory", "9086372036854775807")}, want: true,
		},

		"label on one side only": {b: []change{setLabels("character", "")}},
		"label value":            {b: []change{setLabels("pool", "red")}},
		"ignored label": {options: Options{IgnoreLabels: []string{"pool"}}, b: []change{setLabels("pool", "red")},
			want: true},
		"hostname and zone": {b: []change{setLabels("kubernetes.io/hostname", "b", "topology.kubernetes.io/zone", "b")},
			want: true},
		"a pack that is off": {options: Options{DisabledPacks: []string{"kops"}},
			b: []change{setLabels("kops.k8s.io/instancegroup", "b")}},
		"deprecated beside an equal current": {a: []change{setLabels("kubernetes.io/os", "linux")},
			b: []change{setLabels("kubernetes.io/os", "linux", "beta.kubernetes.io/os", "linux")}, want: true},
		"deprecated instead of current": {a: []change{setLabels("kubernetes.io/os", "linux")},
			b: []change{setLabels("beta.kubernetes.io/os", "linux")}, want: true},
		"deprecated beside another current": {a: []change{setLabels("kubernetes.io/os", "linux")},
			b: []change{setLabels("kubernetes.io/os", "linux", "beta.kubernetes.io/os", "windows")}},
		"deprecated, alone and ignored": {options: Options{IgnoreLabels: []string{"beta.kubernetes.io/os"}},
			a: []change{setLabels("beta.kubernetes.io/os", "linux")}, b: []change{setLabels("beta.kubernetes.io/os", "windows")}, want: true},
		"deprecated, its current name ignored": {options: Options{IgnoreLabels: []string{"kubernetes.io/os"}},
			a: []change{setLabels("beta.kubernetes.io/os", "linux")}, b: []change{setLabels("beta.kubernetes.io/os", "windows")}, want: true},
		"how capacity is bought": {
			a: []change{setLabels("eks.amazonaws.com/capacityType", "SPOT")}, b: []change{setLabels("eks.amazonaws.com/capacityType", "ON_DEMAND")},
		},

		"a general word on its cloud": {
			a: []change{providerID("azure:///a"), setLabels("poolName", "a")}, b: []change{providerID("azure:///b"), setLabels("poolName", "b")},
			want: true,
		},
		"a general word with a label of its cloud": {
			a: []change{setLabels("poolName", "a", "kubernetes.azure.com/role", "agent")},
			b: []change{setLabels("poolName", "b", "kubernetes.azure.com/role", "agent")}, want: true,
		},
		"a general word elsewhere": {a: []change{setLabels("poolName", "a")}, b: []change{setLabels("poolName", "b")}},
		"the providerID outweighs the labels": {
			a: []change{providerID("gce://x"), setLabels("poolName", "a", "kubernetes.azure.com/role", "agent")},
			b: []change{providerID("gce://x"), setLabels("poolName", "b", "kubernetes.azure.com/role", "agent")},
		},
		"a providerID of no known cloud leaves it to the labels": {
			a: []change{providerID("fake://x"), setLabels("poolName", "a", "kubernetes.azure.com/role", "agent")},
			b: []change{providerID("openstack:///y"), setLabels("poolName", "b", "kubernetes.azure.com/role", "agent")}, want: true,
		},
		"spot and on-demand by lifecycle": {
			a: []change{providerID("aws:///a/i-1"), setLabels("lifecycle", "Ec2Spot")},
			b: []change{providerID("aws:///b/i-2"), setLabels("lifecycle", "OnDemand")},
		},
		"lifecycle ignored as Cluster Autoscaler does": {
			options: Options{IgnoreLabels: []string{"lifecycle"}},
			a:       []change{providerID("aws:///a/i-1"), setLabels("lifecycle", "Ec2Spot")},
			b:       []change{providerID("aws:///b/i-2"), setLabels("lifecycle", "OnDemand")}, want: true,
		},
		"agentpool on azure": {
			a: []change{providerID("azure:///1"), setLabels("agentpool", "a")}, b: []change{providerID("azure:///2"), setLabels("agentpool", "b")},
			want: true,
		},

		"taint on one side": {b: []change{setTaints(gpu)}},
		"taints in another order, one twice": {
			a: []change{setTaints(gpu, v1.Taint{Key: "x", Effect: v1.TaintEffectNoExecute})},
			b: []change{setTaints(v1.Taint{Key: "x", Effect: v1.TaintEffectNoExecute}, gpu, gpu)}, want: true,
		},
		"taint effect": {a: []change{setTaints(gpu)},
			b: []change{setTaints(v1.Taint{Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoExecute})}},

		"balancing labels decide alone": {options: Options{Labels: []string{"pool"}},
			b: []change{setCapacity("cpu", "64"), setTaints(gpu), setLabels("x", "y")}, want: true},
		"balancing labels that differ":     {options: Options{Labels: []string{"pool"}}, b: []change{setLabels("pool", "red")}},
		"balancing labels missing on both": {options: Options{Labels: []string{"pool", "team"}}},
		"balancing labels that are both empty": {options: Options{Labels: []string{"x"}}, a: []change{setLabels("x", "")},
			b: []change{setLabels("x", "")}, want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := template(test.a...), template(test.b...)
			x := indexOf(t, test.options, map[string]cloudprovider.Template{"a": a, "b": b})
			if got := len(x.Similar("a")) == 1; got != test.want {
				t.Errorf("similar = %v, want %v: %+v", got, test.want, x.Differences("a", "b"))
			}
			if want := newOracle(test.options).similar(a, b); want != test.want {
				t.Errorf("the oracle says %v", want)
			}
		})
	}
}

func TestSimilarityIsNotTransitive(t *testing.T) {
	templates := map[string]cloudprovider.Template{}
	for name, amount := range map[string]string{"a": "100", "b": "95500m", "c": "91"} {
		templates[name] = template(setAllocatable("x", amount))
	}
	x := indexOf(t, Options{}, templates)
	if got := x.Similar("b"); len(got) != 2 {
		t.Errorf("b is similar to %v, want a and c", got)
	}
	if got := x.Sets(); len(got) != 2 || len(got[0]) != 2 || got[1][0] != "c" {
		t.Errorf("sets %v, want [a b] and [c]: c is not similar to a", got)
	}
}

func TestFreeFollowsTheSchedulersRequests(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	container := func(cpu string) v1.Container {
		return v1.Container{Resources: v1.ResourceRequirements{Requests: list("cpu", cpu)}}
	}
	sidecar := container("200m")
	sidecar.RestartPolicy = &always
	tests := map[string]struct {
		spec v1.PodSpec
		free string
	}{
		"containers add up": {v1.PodSpec{Containers: []v1.Container{container("100m"), container("150m")}}, "3670m"},
		"the largest init container": {v1.PodSpec{InitContainers: []v1.Container{container("1"), container("2")},
			Containers: []v1.Container{container("100m")}}, "1920m"},
		"a sidecar runs beside containers": {v1.PodSpec{InitContainers: []v1.Container{sidecar}, Containers: []v1.Container{container("100m")}},
			"3620m"},
		"overhead": {v1.PodSpec{Containers: []v1.Container{container("100m")}, Overhead: list("cpu", "20m")}, "3800m"},
		"resources of the pod": {v1.PodSpec{
			Containers: []v1.Container{container("100m")},
			Resources:  &v1.ResourceRequirements{Requests: list("cpu", "1")},
		}, "2920m"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			busy := template()
			busy.Pods = []*v1.Pod{{Spec: test.spec}}
			x := indexOf(t, Options{MaxFreeDifferenceRatio: ratio(t, "0")}, map[string]cloudprovider.Template{"a": busy, "b": template()})
			differences := x.Differences("a", "b")
			if len(differences) != 1 || differences[0].Field != "free.cpu" || *differences[0].Left != test.free {
				t.Errorf("differences %+v, want free.cpu of %s", differences, test.free)
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	tests := map[string]struct {
		change change
		path   string
	}{
		"no node":              {func(t *cloudprovider.Template) { t.Node = nil }, "node"},
		"no capacity":          {func(t *cloudprovider.Template) { t.Node.Status.Capacity = nil }, "node.status.capacity"},
		"negative capacity":    {setCapacity("cpu", "-1"), "node.status.capacity[cpu]"},
		"negative allocatable": {setAllocatable("cpu", "-1m"), "node.status.allocatable[cpu]"},
		"negative request":     {requesting("cpu", "-1"), "pods[0].requests[cpu]"},
		"beyond every machine": {setCapacity("cpu", "1e40"), "node.status.capacity[cpu]"},
		"nil pod":              {func(t *cloudprovider.Template) { t.Pods = []*v1.Pod{nil} }, "pods[0]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := indexOf(t, Options{}, map[string]cloudprovider.Template{"a": template(), "b": template()})
			wantInvalid(t, x.Set("a", template(test.change)), test.path)
			if len(x.Similar("a")) != 1 {
				t.Error("the refused template replaced the old one")
			}
		})
	}
	x := indexOf(t, Options{Labels: []string{"pool"}}, nil)
	if err := x.Set("a", template(func(t *cloudprovider.Template) { t.Node.Status.Capacity = nil })); err != nil {
		t.Errorf("only labels decide, but a missing capacity is refused: %v", err)
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]struct {
		milli string
		added int32
	}{
		"0": {"0", 0}, "1": {"1000", 0}, "1m": {"1", 0}, "1u": {"1", 999_000}, "1500u": {"2", 500_000}, "1n": {"1", 999_999},
		"9223372036854775807": {"9223372036854775807000", 0}, "8Ei": {"9223372036854775807000", 0}, "100E": {"100000000000000000000000", 0},
		"-1": {"-1000", 0}, "-1500u": {"-2", 500_000}, "-1u": {"-1", 999_000}, "0.0001Ki": {"103", 600_000},
	} {
		a, added, ok := toAmount(resource.MustParse(text))
		value := a.abs().big()
		if a.hi < 0 {
			value.Neg(value)
		}
		if !ok || value.String() != want.milli || added != want.added {
			t.Errorf("%s: %v thousandths and %d added (%v), want %s and %d", text, value, added, ok, want.milli, want.added)
		}
	}
}
