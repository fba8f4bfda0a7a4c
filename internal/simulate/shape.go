package simulate

import (
	"cmp"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
)

const (
	defaultNamespace   = metav1.NamespaceDefault
	defaultPodsPerNode = 110
	appLabel           = "app"
)

// machineNode is a node of a machine type as a group in a zone creates it.
func machineNode(g *v1alpha1.ScenarioNodeGroup, m *v1alpha1.ScenarioMachine) *v1.Node {
	capacity := m.Resources.DeepCopy()
	if _, set := capacity[v1.ResourcePods]; !set {
		capacity[v1.ResourcePods] = *resource.NewQuantity(defaultPodsPerNode, resource.DecimalSI)
	}
	allocatable := capacity.DeepCopy()
	maps.Copy(allocatable, m.Allocatable.DeepCopy())
	labels := map[string]string{
		v1.LabelOSStable:           "linux",
		v1.LabelArchStable:         "amd64",
		v1.LabelInstanceTypeStable: m.Name,
	}
	maps.Copy(labels, m.Labels)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: g.Name, Labels: labels},
		Spec:       v1.NodeSpec{Taints: append([]v1.Taint(nil), m.Taints...)},
		Status:     v1.NodeStatus{Capacity: capacity, Allocatable: allocatable},
	}
}

// dress adds the group's own zone, or the first of several, labels and taints to a node, and fills in allocatable as the API
// server does.
func dress(node *v1.Node, g *v1alpha1.ScenarioNodeGroup) *v1.Node {
	node = node.DeepCopy()
	if zone := append(g.Zones, g.Zone)[0]; zone != "" {
		node = fake.InZone(node, zone)
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, g.Labels)
	node.Spec.Taints = append(node.Spec.Taints, g.Taints...)
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	return node
}

// podTemplate returns the pod of a workload or daemon set.
func podTemplate(name, namespace string, shape *v1alpha1.PodShape) v1.PodTemplateSpec {
	var t v1.PodTemplateSpec
	if shape.Template != nil {
		t = *shape.Template.DeepCopy()
	} else {
		t.Spec = v1.PodSpec{
			Containers:                []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: shape.Requests.DeepCopy()}}},
			NodeSelector:              maps.Clone(shape.NodeSelector),
			Tolerations:               append([]v1.Toleration(nil), shape.Tolerations...),
			TopologySpreadConstraints: spreadConstraints(name, shape.Spread),
		}
		if shape.OnePerNode {
			t.Spec.Affinity = onePerNode(name)
		}
	}
	labels := map[string]string{appLabel: name}
	maps.Copy(labels, t.Labels)
	maps.Copy(labels, shape.Labels)
	t.Labels = labels
	t.Namespace = namespace
	t.Spec.SchedulerName = cmp.Or(t.Spec.SchedulerName, v1.DefaultSchedulerName)
	return t
}

func ownPods(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name}}
}

func spreadConstraints(name string, given []v1alpha1.SpreadConstraint) []v1.TopologySpreadConstraint {
	var all []v1.TopologySpreadConstraint
	for _, short := range given {
		c := *short.DeepCopy()
		if c.LabelSelector == nil {
			c.LabelSelector = ownPods(name)
		}
		c.TopologyKey, c.WhenUnsatisfiable = cmp.Or(c.TopologyKey, v1.LabelTopologyZone), cmp.Or(c.WhenUnsatisfiable, v1.DoNotSchedule)
		c.MaxSkew = ptr.Deref(short.MaxSkew, 1)
		all = append(all, c)
	}
	return all
}

func onePerNode(name string) *v1.Affinity {
	return &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: ownPods(name), TopologyKey: v1.LabelHostname}},
	}}
}

// daemonSet returns the complete daemon set of a short form.
func daemonSet(d *v1alpha1.ScenarioDaemonSet) *appsv1.DaemonSet {
	namespace := orDefault(d.Namespace)
	t := podTemplate(d.Name, namespace, &d.PodShape)
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: namespace},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t},
	}
}

func orDefault(namespace string) string { return cmp.Or(namespace, defaultNamespace) }

func workload(w *v1alpha1.ScenarioWorkload) Workload {
	namespace := orDefault(w.Namespace)
	template := podTemplate(w.Name, namespace, &w.PodShape)
	out := Workload{
		Name: w.Name, Namespace: namespace, Kind: kindOfWorkload(w),
		MaxSurge: w.MaxSurge, MaxUnavailable: w.MaxUnavailable,
		Claims: w.VolumeClaimTemplates,
		Steps:  []Step{{At: w.Arrive.Duration, Replicas: int(w.Replicas)}},
	}
	version := "apps/v1"
	if out.Kind == v1alpha1.WorkloadJob {
		version = "batch/v1"
	}
	out.Pod = ownPod(&out, &template, version)
	for _, step := range w.Scale {
		out.Steps = append(out.Steps, Step{At: step.At.Duration, Replicas: int(step.Replicas)})
	}
	for _, rollout := range w.Rollouts {
		out.Rollouts = append(out.Rollouts, rollout.At.Duration)
	}
	if w.Leave != nil {
		out.Steps = append(out.Steps, Step{At: w.Leave.Duration})
	}
	return out
}

func kindOfWorkload(w *v1alpha1.ScenarioWorkload) string {
	if len(w.VolumeClaimTemplates) > 0 {
		return v1alpha1.WorkloadStatefulSet
	}
	return cmp.Or(w.Kind, v1alpha1.WorkloadDeployment)
}
