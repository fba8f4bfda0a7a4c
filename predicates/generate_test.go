package predicates

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// dice draws random clusters and pods, small enough for the oracle and dense
// enough that rules meet.
type dice struct {
	*rand.Rand
	serial int
	// sharedHosts lets hostnames occur twice or not at all.
	sharedHosts bool
	// spreadOnly has a replay place pods with hard spread constraints alone.
	spreadOnly bool
	// owned gives half of the pods a controller.
	owned bool
}

func newDice(seed uint64) *dice {
	return &dice{Rand: rand.New(rand.NewPCG(seed, 7)), sharedHosts: seed%8 == 0}
}

func (d *dice) one(in int) bool { return d.IntN(in) == 0 }

func (d *dice) of(choices ...string) string { return choices[d.IntN(len(choices))] }

func (d *dice) name(prefix string) string {
	d.serial++
	return fmt.Sprintf("%s-%d", prefix, d.serial)
}

func (d *dice) nodes(n int) []Node {
	var nodes []Node
	for range n {
		node := d.template()
		node.Node.Name = d.name("node")
		node.Node.Labels[v1.LabelHostname] = node.Node.Name
		if d.sharedHosts && d.one(3) {
			node.Node.Labels[v1.LabelHostname] = "shared"
		}
		if d.one(12) {
			delete(node.Node.Labels, v1.LabelHostname)
		}
		if d.one(3) {
			node.Node.Labels["serial"] = node.Node.Name
		}
		for range d.IntN(3) {
			p := d.pod()
			p.Spec.NodeName = node.Node.Name
			switch {
			case d.one(8):
				p.Status.Phase = v1.PodSucceeded
			case d.one(8):
				p.DeletionTimestamp = &metav1.Time{}
			}
			node.Pods = append(node.Pods, p)
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// fleet draws groups of equal nodes, in turn as zones would list them or one
// group after the other.
func (d *dice) fleet() []Node {
	var templates []Node
	for range 1 + d.IntN(3) {
		templates = append(templates, d.template())
	}
	var nodes []Node
	inTurn, each := d.one(2), 1+d.IntN(5)
	for i := range len(templates) * each {
		t := templates[i/each]
		if inTurn {
			t = templates[i%len(templates)]
		}
		n := t.Node.DeepCopy()
		n.Name = d.name("node")
		n.Labels[v1.LabelHostname] = n.Name
		n.Labels["serial"] = n.Name
		nodes = append(nodes, Node{Node: n, Pods: t.Pods})
	}
	return nodes
}

func (d *dice) template() Node {
	allocatable := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse(d.of("1", "2", "4")),
		v1.ResourceMemory: resource.MustParse(d.of("2Gi", "4Gi")),
		v1.ResourcePods:   resource.MustParse(d.of("3", "6", "20")),
	}
	if d.one(3) {
		allocatable["example.com/gpu"] = resource.MustParse(d.of("1", "2"))
	}
	labels := map[string]string{"pool": d.of("a", "b"), "size": d.of("1", "5")}
	if !d.one(10) {
		labels[v1.LabelTopologyZone] = d.of("z1", "z2", "z3")
	}
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: d.name("template"), Labels: labels},
		Status:     v1.NodeStatus{Capacity: allocatable, Allocatable: allocatable},
	}
	if d.one(4) {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "dedicated", Value: d.of("x", "y"),
			Effect: []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule}[d.IntN(3)]})
	}
	n.Spec.Unschedulable = d.one(12)
	t := Node{Node: n}
	if d.one(3) {
		t.Pods = append(t.Pods, d.pod())
	}
	return t
}

// relabelled returns a template like another but for one label.
func (d *dice) relabelled(t Node) Node {
	n := t.Node.DeepCopy()
	n.Name = d.name("template")
	switch d.IntN(3) {
	case 0:
		n.Labels["pool"] = d.of("a", "b")
	case 1:
		n.Labels["size"] = d.of("1", "5")
	case 2:
		n.Labels[v1.LabelTopologyZone] = d.of("z1", "z2", "z3")
	}
	return Node{Node: n, Pods: t.Pods}
}

// pod draws a pod with a unique name, UID and label.
func (d *dice) pod() *v1.Pod {
	name := d.name("pod")
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.of("default", "default", "other"), Name: name, UID: types.UID(name),
		Labels: map[string]string{"app": d.of("web", "db"), "pod-name": name},
	}}
	if d.one(2) {
		p.Labels["tier"] = d.of("front", "back")
	}
	if d.owned && d.one(2) {
		control(p)
	}
	p.Spec.Containers = []v1.Container{d.container()}
	if d.one(5) {
		p.Spec.Containers = append(p.Spec.Containers, d.container())
	}
	if d.one(5) {
		c := d.container()
		if d.one(2) {
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = []v1.Container{c}
	}
	if d.one(6) {
		p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
	}
	if d.one(6) {
		ports := []v1.ContainerPort{{HostPort: int32(8000 + d.IntN(2)), Protocol: v1.ProtocolTCP}}
		if len(p.Spec.InitContainers) > 0 && d.one(2) {
			p.Spec.InitContainers[0].Ports = ports // held by sidecars only
		} else {
			p.Spec.Containers[0].Ports = ports
		}
	}
	if d.one(3) {
		p.Spec.Tolerations = []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpExists}}
	}
	d.nodeRules(p)
	d.podRules(p)
	return p
}

func (d *dice) container() v1.Container {
	requests := v1.ResourceList{}
	if !d.one(5) {
		requests[v1.ResourceCPU] = resource.MustParse(d.of("100m", "250m", "500m", "1"))
	}
	if d.one(2) {
		requests[v1.ResourceMemory] = resource.MustParse(d.of("128Mi", "512Mi", "1Gi"))
	}
	if d.one(10) {
		requests["example.com/gpu"] = resource.MustParse("1")
	}
	return v1.Container{Name: "c", Image: d.of("i", "j"), Resources: v1.ResourceRequirements{Requests: requests}}
}

func (d *dice) nodeRules(p *v1.Pod) {
	if d.one(8) {
		p.Spec.NodeSelector = map[string]string{"pool": d.of("a", "b")}
	}
	if d.one(8) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: d.nodeAffinity()}
	}
	switch {
	case d.one(40):
		p.Spec.NodeSelector = map[string]string{v1.LabelHostname: fmt.Sprintf("node-%d", 1+d.IntN(6))}
	case d.one(60):
		p.Spec.NodeName = fmt.Sprintf("node-%d", 1+d.IntN(6))
	}
}

func (d *dice) nodeAffinity() *v1.NodeAffinity {
	term := v1.NodeSelectorTerm{}
	switch d.IntN(6) {
	case 0:
		term.MatchExpressions = []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn,
			Values: []string{"z1", "z2"}}}
	case 1:
		term.MatchExpressions = []v1.NodeSelectorRequirement{{Key: "pool", Operator: v1.NodeSelectorOpNotIn, Values: []string{"a"}}}
	case 2:
		term.MatchExpressions = []v1.NodeSelectorRequirement{{Key: "serial", Operator: v1.NodeSelectorOpDoesNotExist}}
	case 3:
		term.MatchExpressions = []v1.NodeSelectorRequirement{{Key: "size", Operator: v1.NodeSelectorOpGt, Values: []string{"3"}}}
	case 4:
		term.MatchExpressions = []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpNotIn,
			Values: []string{"node-1", "node-2"}}}
	case 5:
		term.MatchFields = []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn,
			Values: []string{fmt.Sprintf("node-%d", 1+d.IntN(6))}}}
	}
	return &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
}

func (d *dice) selector() *metav1.LabelSelector {
	if d.one(20) {
		return &metav1.LabelSelector{}
	}
	if d.one(5) {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": d.of("web", "db")}}
}

func (d *dice) key() string {
	return d.of(v1.LabelHostname, v1.LabelHostname, v1.LabelTopologyZone, v1.LabelTopologyZone, "pool")
}

func (d *dice) term() v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{LabelSelector: d.selector(), TopologyKey: d.key()}
	switch d.IntN(10) {
	case 0:
		t.Namespaces = []string{"other"}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{}
	}
	return t
}

func (d *dice) podRules(p *v1.Pod) {
	affinity := func() *v1.Affinity {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{}
		}
		return p.Spec.Affinity
	}
	if d.one(5) {
		affinity().PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{d.term()}}
	}
	if d.one(8) {
		affinity().PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{d.term()}}
	}
	if !d.one(4) {
		return
	}
	for _, key := range []string{v1.LabelHostname, v1.LabelTopologyZone, "pool"} {
		if !d.one(2) {
			continue
		}
		c := v1.TopologySpreadConstraint{MaxSkew: int32(1 + d.IntN(2)), TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: d.selector()}
		if d.one(4) {
			c.WhenUnsatisfiable = v1.ScheduleAnyway
		} else if d.one(4) {
			c.MinDomains = ptr.To(int32(1 + d.IntN(4)))
		}
		if d.one(4) {
			c.NodeTaintsPolicy = ptr.To(v1.NodeInclusionPolicyHonor)
		}
		if d.one(4) {
			c.NodeAffinityPolicy = ptr.To(v1.NodeInclusionPolicyIgnore)
		}
		if d.one(5) {
			c.MatchLabelKeys = []string{"tier"}
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}
