package admission

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	"pgregory.net/rapid"
)

var one = resource.MustParse("1")

func TestMisspeltResourcesAreToldTheRightName(t *testing.T) {
	for _, tc := range []struct {
		of          Holder
		name, right string
	}{
		{OfPod, "cpus", "cpu"}, {OfPod, "CPU", "cpu"}, {OfPod, "Cpu", "cpu"}, {OfPod, "cores", "cpu"}, {OfPod, "vCPU", "cpu"},
		{OfPod, "milli-cpu", "cpu"},
		{OfPod, "mem", "memory"}, {OfPod, "Memory", "memory"}, {OfPod, "memroy", "memory"}, {OfPod, "ram", "memory"},
		{OfPod, "memorys", "memory"},
		{OfPod, "gpu", "nvidia.com/gpu"}, {OfPod, "GPU", "nvidia.com/gpu"}, {OfPod, "gpus", "nvidia.com/gpu"},
		{OfPod, "nvidia-gpu", "nvidia.com/gpu"}, {OfPod, "nvidia.com.gpu", "nvidia.com/gpu"},
		{OfPod, "storage", "ephemeral-storage"}, {OfPod, "ephemeralStorage", "ephemeral-storage"},
		{OfPod, "ephemeral_storage", "ephemeral-storage"}, {OfPod, "disk", "ephemeral-storage"},
		{OfPod, "hugepages", "hugepages-2Mi"}, {OfPod, "hugepages-2MB", "hugepages-2Mi"}, {OfPod, "HugePages-1Gi", "hugepages-1Gi"},
		{OfPod, "requests.cpu", "cpu"}, {OfPod, "limits.memory", "memory"}, {OfPod, "requests.nvidia.com.gpu", "nvidia.com/gpu"},
		{OfNode, "pod", "pods"}, {OfNode, "Pods", "pods"}, {OfNode, "max-pods", "pods"}, {OfNode, "gpu", "nvidia.com/gpu"},
		{OfNode, "storage", "ephemeral-storage"},
		{OfVolume, "Storage", "storage"}, {OfVolume, "cpu", "storage"}, {OfVolume, "disk", "storage"},
	} {
		errs := Amounts(field.NewPath("x"), v1.ResourceList{v1.ResourceName(tc.name): one}, tc.of)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), `(did you mean "`+tc.right+`"?)`) {
			t.Errorf("%s: got %v, want %s", tc.name, errs, tc.right)
		}
	}
	for _, name := range []string{"foo", "x", "", "pods", "attachable-volumes-aws-ebs", "hugepages-", "hugepages-x",
		strings.Repeat("é", 10_000)} {
		if errs := Amounts(field.NewPath("x"), v1.ResourceList{v1.ResourceName(name): one}, OfPod); len(errs) != 1 || len(errs[0].Error()) > 400 {
			t.Errorf("%q: got %v", Shorten(name), errs)
		}
	}
}

func TestResourcesOfRealClustersPass(t *testing.T) {
	for of, names := range map[Holder][]string{
		OfPod: {"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi", "nvidia.com/gpu", "aws.amazon.com/neuron",
			"smarter-devices/fuse"},
		OfNode: {"cpu", "memory", "ephemeral-storage", "pods", "hugepages-64Ki", "attachable-volumes-aws-ebs",
			"attachable-volumes-csi-ebs.csi.aws.com",
			"attachable-volumes-azure-disk", "vpc.amazonaws.com/pod-eni", "kubernetes.io/batch-cpu", "amd.com/gpu",
			"xilinx.com/fpga-xilinx_u250_gen3x16-0"},
		OfVolume: {"storage"},
	} {
		for _, name := range names {
			if errs := Amounts(field.NewPath("x"), v1.ResourceList{v1.ResourceName(name): one}, of); len(errs) > 0 {
				t.Errorf("%s: %v", name, errs)
			}
		}
	}
}

// TestRefusesWhatTheAPIServerRefuses compares names of resources of containers with Kubernetes' own
// rules.
func TestRefusesWhatTheAPIServerRefuses(t *testing.T) {
	name := rapid.OneOf(
		rapid.SampledFrom([]string{"cpu", "memory", "ephemeral-storage", "storage", "pods", "hugepages-2Mi", "cpus", "gpu", "nvidia.com/gpu",
			"a/b/c", "/x", "x/", "example.com/Ä", "requests.cpu", "limits.memory"}),
		rapid.StringMatching(`[a-zA-Z.\-]{1,12}`),
		rapid.StringMatching(`[a-z.\-]{1,8}/[a-zA-Z_.\-]{1,8}`),
	)
	rapid.Check(t, func(t *rapid.T) {
		name := name.Draw(t, "name")
		ours := len(Amounts(field.NewPath("x"), v1.ResourceList{v1.ResourceName(name): one}, OfPod)) > 0
		resource := core.ResourceName(name)
		theirs := !helper.IsStandardContainerResourceName(resource)
		if strings.Contains(name, "/") {
			theirs = !helper.IsNativeResource(resource) && !helper.IsExtendedResourceName(resource)
		}
		if ours && !theirs {
			t.Fatalf("%q is refused, and an API server takes it", name)
		}
		if theirs && !ours && !strings.Contains(name, "/") { // of other domains it refuses a few more
			t.Fatalf("%q is taken, and an API server refuses it", name)
		}
	})
}

func TestResourcesAreCheckedWhereverTheyStand(t *testing.T) {
	list := v1.ResourceList{"cpus": one}
	for want, s := range map[string]v1.PodSpec{
		"spec.containers[0].resources.requests":     {Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list}}}},
		"spec.containers[0].resources.limits":       {Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: list}}}},
		"spec.initContainers[0].resources.requests": {InitContainers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list}}}},
		"spec.resources.requests":                   {Resources: &v1.ResourceRequirements{Requests: list}},
		"spec.resources.limits":                     {Resources: &v1.ResourceRequirements{Limits: list}},
		"spec.overhead":                             {Overhead: list},
		"spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests": {Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{
			Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: v1.PersistentVolumeClaimSpec{
				Resources: v1.VolumeResourceRequirements{Requests: list}}}}}}}},
	} {
		if errs := Requests(field.NewPath("spec"), &s); len(errs) != 1 || errs[0].Field != want {
			t.Errorf("got %v, want one problem at %s", errs, want)
		}
	}
}

// good is a pod that passes; each case spoils it.
func good() *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
}

func TestPodsAreRefusedWithOneClearAnswer(t *testing.T) {
	named := func(spoil func(*v1.Pod)) *v1.Pod {
		p := good()
		p.Name = "a"
		spoil(p)
		return p
	}
	term := func(r v1.NodeSelectorRequirement) *v1.Pod {
		return named(func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{r}}}}}}
		})
	}
	toleration := func(x v1.Toleration) *v1.Pod {
		return named(func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{x} })
	}
	spread := func(c v1.TopologySpreadConstraint) *v1.Pod {
		return named(func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{c} })
	}
	const expression = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]."
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want string // the beginning; empty: it passes
	}{
		"good":                   {named(func(*v1.Pod) {}), ""},
		"no name":                {good(), "metadata.name: Required value"},
		"no specification":       {named(func(p *v1.Pod) { p.Spec = v1.PodSpec{} }), "spec.containers: Required value"},
		"a name of many letters": {named(func(p *v1.Pod) { p.Name = strings.Repeat("a", 10_000) }), "metadata.name: Invalid value: \"aaaa"},
		"negative": {named(func(p *v1.Pod) { p.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("-1")} }),
			`spec.overhead[cpu]: Invalid value: "-1": must not be negative`},
		"operator of a toleration": {toleration(v1.Toleration{Key: "a", Operator: "Equals"}),
			`spec.tolerations[0].operator: Unsupported value: "Equals"`},
		"operators of newer servers": {toleration(v1.Toleration{Key: "a", Operator: v1.TolerationOpGt, Value: "3"}), ""},
		"toleration of everything":   {toleration(v1.Toleration{Operator: v1.TolerationOpExists}), ""},
		"toleration without a key":   {toleration(v1.Toleration{Value: "a"}), "spec.tolerations[0].key: Required value"},
		"value where none belongs": {toleration(v1.Toleration{Key: "a", Operator: v1.TolerationOpExists, Value: "b"}),
			"spec.tolerations[0].value: Invalid value"},
		"effect": {toleration(v1.Toleration{Key: "a", Effect: "noSchedule"}),
			`spec.tolerations[0].effect: Unsupported value: "noSchedule"`},
		"operator of an expression": {term(v1.NodeSelectorRequirement{Key: "a", Operator: "in", Values: []string{"b"}}), expression +
			`operator: Unsupported value: "in"`},
		"expression without values": {term(v1.NodeSelectorRequirement{Key: "a", Operator: v1.NodeSelectorOpIn}), expression +
			"values: Required value"},
		"expression with values": {term(v1.NodeSelectorRequirement{Key: "a", Operator: v1.NodeSelectorOpExists, Values: []string{"b"}}),
			expression + "values: Forbidden"},
		"comparison of two": {term(v1.NodeSelectorRequirement{Key: "a", Operator: v1.NodeSelectorOpGt, Values: []string{"1", "2"}}),
			expression + "values: Required value"},
		"empty key": {term(v1.NodeSelectorRequirement{Operator: v1.NodeSelectorOpExists}), expression + "key: Required value"},
		"skew of nothing": {spread(v1.TopologySpreadConstraint{TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule}),
			"spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be at least 1"},
		"keys without a selector": {spread(v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule,
			MatchLabelKeys: []string{"app"}}),
			"spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"},
		"what cannot be satisfied": {spread(v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "doNotSchedule"}),
			`spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "doNotSchedule"`},
		"a selector of a newer time": {named(func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a b/c"} }),
			`spec.nodeSelector[zone]: Invalid value: "a b/c"`},
	} {
		errs := Pod(nil, tc.pod)
		if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want) ||
			len(errs[0].Error()) > 500) {
			t.Errorf("%s: got %v, want %s", name, errs, tc.want)
		}
	}
}

func TestTaintsAreRefusedWithOneAnswerEach(t *testing.T) {
	at := field.NewPath("taints")
	for name, tc := range map[string]struct {
		taints []v1.Taint
		want   string
	}{
		"empty key":    {[]v1.Taint{{Effect: v1.TaintEffectNoSchedule}}, "taints[0].key: Required value"},
		"empty effect": {[]v1.Taint{{Key: "a"}}, "taints[0].effect: Required value"},
		"twice": {[]v1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}, {Key: "a", Effect: "NoSchedule"}},
			`taints[1]: Duplicate value: "a:NoSchedule"`},
	} {
		if errs := Taints(at, tc.taints); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", name, errs, tc.want)
		}
	}
}
