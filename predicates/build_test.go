package predicates

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// amountsOf reads "cpu", "4", "memory", "8Gi", ...
func amountsOf(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

type nodeOption func(*v1.Node)

func nodeLabel(key, value string) nodeOption { return func(n *v1.Node) { n.Labels[key] = value } }
func zoned(zone string) nodeOption           { return nodeLabel(v1.LabelTopologyZone, zone) }
func tainted(key string) nodeOption {
	return func(n *v1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule})
	}
}
func cordoned(n *v1.Node) { n.Spec.Unschedulable = true }
func offering(pairs ...string) nodeOption {
	return func(n *v1.Node) {
		for name, q := range amountsOf(pairs...) {
			n.Status.Allocatable[name] = q
		}
	}
}

// aNode is a node of 4 cores, 8Gi and 10 pods.
func aNode(name string, options ...nodeOption) Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Allocatable: amountsOf("cpu", "4", "memory", "8Gi", "pods", "10")},
	}
	for _, o := range options {
		o(n)
	}
	return Node{Node: n}
}

func nodesOf(n int, options ...nodeOption) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = aNode(fmt.Sprintf("node-%d", i), options...)
	}
	return nodes
}

func (n Node) carrying(pods ...*v1.Pod) Node {
	n.Pods = append(n.Pods, pods...)
	return n
}

type podOption func(*v1.Pod)

func podLabel(key, value string) podOption { return func(p *v1.Pod) { p.Labels[key] = value } }
func asking(pairs ...string) podOption {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = amountsOf(pairs...) }
}
func selecting(key, value string) podOption {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}
func hostPort(port int32) podOption {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: port, Protocol: v1.ProtocolTCP}}
	}
}
func itself(p *v1.Pod) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}
}
func apartOver(key string) podOption {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{LabelSelector: itself(p), TopologyKey: key}}}}
	}
}
func togetherOver(key string) podOption {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{LabelSelector: itself(p), TopologyKey: key}}}}
	}
}
func spread(key string, maxSkew int32, more ...func(*v1.TopologySpreadConstraint)) podOption {
	return func(p *v1.Pod) {
		c := v1.TopologySpreadConstraint{MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: itself(p)}
		for _, m := range more {
			m(&c)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}
func called(name string) podOption { return func(p *v1.Pod) { p.Name = name } }

func claiming(claim string) podOption {
	return func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: claim, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
}

// aPod is a pod of app web that asks for one core.
func aPod(options ...podOption) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
	}
	asking("cpu", "1")(p)
	for _, o := range options {
		o(p)
	}
	return p
}
