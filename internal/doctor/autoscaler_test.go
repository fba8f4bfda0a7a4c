package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestAutoscalersAreFound(t *testing.T) {
	pod := func(name string, c v1.Container) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{c}}}
	}
	owned := func(p *v1.Pod) *v1.Pod {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "x", Controller: ptr.To(true)}}
		return p
	}
	for name, c := range map[string]struct {
		objects  []any
		want     []string // names with versions
		provider string
		balances bool
	}{
		"a Deployment": {[]any{deployment(current, "--cloud-provider=aws", balanced)}, []string{"cluster-autoscaler 1.36"}, "aws",
			true},
		"and its pods": {[]any{deployment(current), owned(pod("cluster-autoscaler-x", v1.Container{Image: current}))},
			[]string{"cluster-autoscaler 1.36"}, "", false},
		"one that an operator makes, and its pods": {[]any{func() any {
			d := deployment(current, "--cloud-provider=clusterapi", balanced)
			d.OwnerReferences = []metav1.OwnerReference{{Kind: "ClusterAutoscaler", Name: "default", Controller: ptr.To(true)}}
			return d
		}(), owned(pod("cluster-autoscaler-x", v1.Container{Image: current}))}, []string{"cluster-autoscaler 1.36"}, "clusterapi", true},
		"a StatefulSet": {[]any{&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Spec: appsv1.StatefulSetSpec{Template: v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{Image: current,
				Args: []string{"--cloud-provider=oci"}}}}}}}}, []string{"s 1.36"}, "oci", false},
		"a static pod beside it": {[]any{deployment(current), pod("z", v1.Container{Image: "x/cluster-autoscaler:1.35"})},
			[]string{"cluster-autoscaler 1.36", "z 1.35"}, "", false},
		"the one that runs": {[]any{func() any {
			d := deployment("x/cluster-autoscaler:1.20")
			d.Name, d.Status.ReadyReplicas = "a", 0
			return d
		}(), deployment(current)}, []string{"cluster-autoscaler 1.36", "a 1.20"}, "", false},
		"the last of two values": {[]any{pod("a", v1.Container{Image: current,
			Args: []string{"--cloud-provider=gce", "--balance-similar-node-groups=false", "--cloud-provider", "aws", balanced}})},
			[]string{"a 1.36"}, "aws", true},
		"quotes in a shell": {[]any{pod("a", v1.Container{Image: current,
			Command: []string{"/bin/sh", "-ec", "exec \"/cluster-autoscaler\" \"--cloud-provider=aws\"\n  '--balance-similar-node-groups'"}})},
			[]string{"a 1.36"}, "aws", true},
		"pods alone": {[]any{pod("b", v1.Container{Image: current}), pod("a", v1.Container{Image: current})}, []string{"a 1.36"}, "",
			false},
		"the image's own entry": {[]any{pod("a", v1.Container{Image: "r:5000/x/cluster-autoscaler-arm64:v1.30.0",
			Args: []string{"--cloud-provider", "gce", "--balance-similar-node-groups"}})}, []string{"a 1.30"}, "gce", true},
		"a shell": {[]any{pod("a", v1.Container{Image: "mirror/tools:1", Command: []string{"sh", "-c"},
			Args: []string{"exec ./cluster-autoscaler --v=4 \\\n --cloud-provider='azure' --balance-similar-node-groups=true 2>&1"}})},
			[]string{"a "}, "azure", true},
		"a build of one's own": {[]any{pod("a", v1.Container{Image: "own/ca@sha256:0011",
			Command: []string{"/usr/bin/cluster-autoscaler", "--balance_similar_node_groups=false"}})}, []string{"a "}, "", false},
		"given twice": {[]any{deployment(current), deployment(current)}, []string{"cluster-autoscaler 1.36"}, "", false},
		"linked":      {[]any{pod("a", v1.Container{Image: "x/cluster-autoscaler-evenkeel:1.36"})}, []string{"a 1.36"}, "", false},
		"programs about it": {[]any{pod("a", v1.Container{Image: "x/cluster-autoscaler-exporter:1"}),
			pod("b", v1.Container{Image: "x/cluster-autoscaler-operator:1"})}, nil, "", false},
		"another autoscaler": {[]any{pod("a", v1.Container{Image: "registry.k8s.io/cpa/cluster-proportional-autoscaler:1.8"})}, nil, "",
			false},
		"a tag of a vendor":      {[]any{pod("a", v1.Container{Image: "x/cluster-autoscaler:eks-v1.33.2-r4"})}, []string{"a 1.33"}, "", false},
		"a tag without a number": {[]any{pod("a", v1.Container{Image: "x/cluster-autoscaler:latest"})}, []string{"a "}, "", false},
	} {
		o := &Observation{}
		for _, object := range c.objects {
			o.AddWorkload(object)
		}
		var got []string
		for _, a := range o.Autoscalers() {
			got = append(got, a.Name+" "+a.Version())
			if a.Flags.Get("cloud-provider", "") != c.provider || a.Flags.Is("balance-similar-node-groups", false) != c.balances {
				t.Errorf("%s: flags %+v", name, a.Flags)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOneThatIsScaledToZeroIsScaledUp(t *testing.T) {
	stopped := deployment(current, balanced)
	stopped.Spec.Replicas, stopped.Status.ReadyReplicas = ptr.To[int32](0), 0
	d, err := Diagnose(cluster(map[string]int{"a": 2, "b": 2}, stopped))
	if err != nil {
		t.Fatal(err)
	}
	const want = "kubectl -n kube-system scale deployment cluster-autoscaler --replicas=1"
	if f := d.Status.Findings; len(f) != 1 || f[0].Reason != AutoscalerDown || f[0].Remedy != want {
		t.Errorf("%+v, want the remedy %q", f, want)
	}
}

// The command is a JSON patch of the container's own list, and there is none where a person has to look.
func TestCommands(t *testing.T) {
	args := deployment(current)
	args.Spec.Template.Spec.Containers[0].Command = nil
	args.Spec.Template.Spec.Containers[0].Args = []string{"--cloud-provider=aws", "--balance-similar-node-groups=false"}
	args.Spec.Template.Spec.Containers = append([]v1.Container{{Name: "first"}}, args.Spec.Template.Spec.Containers...)
	twice := deployment(current, balanced, "--cloud-provider=aws", "--balance-similar-node-groups=false")
	shell := deployment(current)
	shell.Spec.Template.Spec.Containers[0].Command = []string{"sh", "-c", "cluster-autoscaler --cloud-provider=aws"}
	const patch = `kubectl -n kube-system patch deployment cluster-autoscaler --type=json -p '[{"op":"%s","path":"/spec/template/spec/containers/%s","value":"--balance-similar-node-groups=true"}]'`
	operated := deployment(current, "--cloud-provider=clusterapi")
	operated.OwnerReferences = []metav1.OwnerReference{{APIVersion: "autoscaling.openshift.io/v1", Kind: "ClusterAutoscaler", Name: "default",
		Controller: ptr.To(true)}}
	bare := deployment(current)
	bare.Spec.Template.Spec.Containers[0].Command = nil
	for name, c := range map[string]struct {
		by   any
		want string
	}{
		"without a command": {bare, ""},
		"added":             {deployment(current, "--cloud-provider=aws"), fmt.Sprintf(patch, "add", "0/command/-")},
		"given twice":       {twice, fmt.Sprintf(patch, "replace", "0/command/3")},
		"replaced":          {args, fmt.Sprintf(patch, "replace", "1/args/1")},
		"in a shell":        {shell, ""},
		"of an operator":    {operated, ""},
		"in a pod": {&v1.Pod{Spec: args.Spec.Template.Spec,
			Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}}, ""},
		"not visible": {nil, ""},
	} {
		d, err := Diagnose(cluster(uneven, c.by))
		if err != nil {
			t.Fatal(err)
		}
		if r := d.Status.Recommendation; r.Command != c.want || r.Way != WayAutoscaler {
			t.Errorf("%s: %+v, want %s", name, r, c.want)
		}
		if told := slices.ContainsFunc(d.Status.Notes, func(n string) bool {
			return strings.Contains(n, "is made by ClusterAutoscaler default") && strings.Contains(n, "spec.balanceSimilarNodeGroups")
		}); told != (c.by == any(operated)) {
			t.Errorf("%s: notes %q", name, d.Status.Notes)
		}
	}
}
