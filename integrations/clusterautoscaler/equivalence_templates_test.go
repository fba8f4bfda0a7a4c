package clusterautoscaler_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
)

// fleetMaker makes fleets of templates that are alike but for what comparisons turn on: amounts at
// the limit of a ratio and a thousandth beyond, labels of packs and of none, taints, and pods of
// every shape. The same number makes the same fleet.
type fleetMaker struct {
	r       *rand.Rand
	options similarityOptions
}

func newFleetMaker(number uint64) *fleetMaker {
	m := &fleetMaker{r: rand.New(rand.NewPCG(2017, number))}
	m.options = m.randomOptions()
	return m
}

var extendedResources = []v1.ResourceName{"nvidia.com/gpu", "example.com/fpga"}

// keys of labels, by what happens to them.
var (
	packKeys = []string{
		"kubernetes.io/hostname", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", "kops.k8s.io/instancegroup",
		"eks.amazonaws.com/nodegroup", "eks.amazonaws.com/sourceLaunchTemplateId", "topology.k8s.aws/zone-id",
		"kubernetes.azure.com/agentpool", "kubernetes.azure.com/node-image-version", "topology.gke.io/zone",
		"cloud.google.com/gke-nodepool", "worker.gardener.cloud/pool", "cluster.x-k8s.io/set-name", "kwok-nodegroup",
	}
	generalKeys    = []string{"lifecycle", "agentpool", "poolName", "creationSource"}
	deprecatedKeys = []string{"beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type"}
	currentKeys    = []string{"kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type"}
	ownKeys        = []string{"team", "example.com/stage", "eks.amazonaws.com/capacityType"}
	ignoredKeys    = []string{"example.com/ready", "team", "beta.kubernetes.io/arch", "node.kubernetes.io/instance-type", "lifecycle"}
)

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func (m *fleetMaker) oneIn(n int) bool { return m.r.IntN(n) == 0 }

func (m *fleetMaker) randomOptions() similarityOptions {
	o := similarityOptions{comparator: pick(m.r, "generic", "generic", "aws", "azure", "gce"),
		ratios: config.NewDefaultNodeGroupDifferenceRatios()}
	if m.oneIn(2) {
		o.ratios = config.NodeGroupDifferenceRatios{
			MaxCapacityMemoryDifferenceRatio: m.randomRatio(),
			MaxAllocatableDifferenceRatio:    m.randomRatio(),
			MaxFreeDifferenceRatio:           m.randomRatio(),
		}
	}
	for _, key := range ignoredKeys {
		if m.oneIn(8) {
			o.ignore = append(o.ignore, key)
		}
	}
	if m.oneIn(10) {
		o.ignore = nil
		for range 1 + m.r.IntN(3) {
			o.labels = append(o.labels, pick(m.r, append(append(ownKeys, currentKeys...), packKeys[0], packKeys[1])...))
		}
	}
	return o
}

func (m *fleetMaker) randomRatio() float64 {
	switch m.r.IntN(4) {
	case 0:
		return pick(m.r, 0, 0.015, 0.05, 0.1, 0.29, 0.57, 1.0)
	case 1:
		return float64(m.r.IntN(101)) / 100
	}
	return float64(m.r.IntN(300)) / 1000
}

// template is a node with its pods before they become a NodeInfo.
type template struct {
	node *v1.Node
	pods []*v1.Pod
}

func (t template) copy() template {
	out := template{node: t.node.DeepCopy()}
	for _, pod := range t.pods {
		out.pods = append(out.pods, pod.DeepCopy())
	}
	return out
}

func (t template) nodeInfo() *framework.NodeInfo {
	pods := make([]*framework.PodInfo, len(t.pods))
	for i, pod := range t.pods {
		pods[i] = framework.NewPodInfo(pod, nil)
	}
	return framework.NewNodeInfo(t.node, nil, pods...)
}

// fleet makes templates that are each a few changes away from a common one.
func (m *fleetMaker) fleet(size int) []template {
	base := m.base()
	out := make([]template, size)
	for i := range out {
		t := base.copy()
		t.node.Name = fmt.Sprintf("node-%02d", i)
		for range pick(m.r, 0, 0, 1, 1, 1, 2, 3) {
			m.change(&t)
		}
		out[i] = t
	}
	return out
}

// nextLoop makes the templates of the next loop: all of them anew, some changed.
func (m *fleetMaker) nextLoop(fleet []template) []template {
	out := make([]template, len(fleet))
	for i, one := range fleet {
		out[i] = one.copy()
		if m.oneIn(3) {
			m.change(&out[i])
		}
	}
	return out
}

func (m *fleetMaker) base() template {
	node := &v1.Node{}
	// A node that runs: evenkeel completes templates nobody has seen yet, which is not what is
	// compared here.
	node.Status.NodeInfo.KubeletVersion = "v1.36.0"
	node.Spec.ProviderID = pick(m.r, "", "", "aws:///zone/i-1", "azure:///one", "gce://one")
	// Amounts are multiples of a thousand units, so that decimal ratios have their limit on a whole
	// number.
	node.Status.Capacity = v1.ResourceList{
		v1.ResourceCPU:              *resource.NewQuantity(1+m.r.Int64N(128), resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(1000*(1+m.r.Int64N(500_000_000)), resource.BinarySI),
		v1.ResourcePods:             *resource.NewQuantity(110, resource.DecimalSI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(1000*(1+m.r.Int64N(1_000_000_000)), resource.BinarySI),
	}
	if m.oneIn(4) {
		node.Status.Capacity[pick(m.r, extendedResources...)] = *resource.NewQuantity(1+m.r.Int64N(8), resource.DecimalSI)
	}
	if m.oneIn(4) {
		node.Status.Capacity["hugepages-1Gi"] = *resource.NewQuantity(m.r.Int64N(3)<<30, resource.BinarySI)
	}
	if m.oneIn(40) { // thousandths of more than 9.2 PB do not fit 64 bits
		node.Status.Capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(1000*(8_000_000_000_000+m.r.Int64N(4_000_000_000_000)),
			resource.BinarySI)
	}
	node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	if m.oneIn(60) {
		node.Status.Capacity = nil
	}
	node.Labels = map[string]string{}
	t := template{node: node}
	for range m.r.IntN(6) {
		m.changeLabel(&t)
	}
	for range m.r.IntN(3) {
		m.addPod(&t)
	}
	if m.oneIn(4) {
		m.changeTaints(&t)
	}
	return t
}

func (m *fleetMaker) change(t *template) {
	switch m.r.IntN(16) {
	case 0, 1, 2:
		m.shift(t.node.Status.Allocatable, m.options.ratios.MaxAllocatableDifferenceRatio)
	case 3, 4:
		m.shiftOne(t.node.Status.Capacity, v1.ResourceMemory, m.options.ratios.MaxCapacityMemoryDifferenceRatio)
	case 5, 6:
		m.shiftFree(t)
	case 7:
		m.shift(t.node.Status.Capacity, 0.001)
	case 8:
		if list := pick(m.r, t.node.Status.Capacity, t.node.Status.Allocatable); list != nil {
			m.changePresence(list)
		}
	case 9, 10, 11, 12:
		m.changeLabel(t)
	case 13:
		m.changeTaints(t)
	case 14:
		m.addPod(t)
	case 15:
		m.changePods(t)
	}
}

// shift takes an amount of one resource to the limit of a ratio, or to its neighbourhood.
func (m *fleetMaker) shift(list v1.ResourceList, ratio float64) {
	if len(list) > 0 {
		m.shiftOne(list, pick(m.r, names(list)...), ratio)
	}
}

func (m *fleetMaker) shiftOne(list v1.ResourceList, name v1.ResourceName, ratio float64) {
	if before, listed := list[name]; listed {
		list[name] = m.atTheLimit(before, ratio)
	}
}

// atTheLimit is the amount that differs from a larger one by exactly the ratio, where there is one,
// give or take little.
func (m *fleetMaker) atTheLimit(larger resource.Quantity, ratio float64) resource.Quantity {
	exact, _ := new(big.Rat).SetString(strconv.FormatFloat(ratio, 'f', -1, 64))
	limit := new(big.Rat).Mul(thousandths(larger), exact.Sub(big.NewRat(1, 1), exact))
	rounded := new(big.Int).Quo(limit.Num(), limit.Denom())
	rounded.Add(rounded, big.NewInt(pick[int64](m.r, 0, 0, 0, 1, -1, 1000, -1000, 1_000_000, -1_000_000)))
	if rounded.Sign() < 0 {
		rounded.SetInt64(0)
	}
	if !rounded.IsInt64() || rounded.Int64() == math.MaxInt64 {
		return *resource.NewQuantity(new(big.Int).Quo(rounded, big.NewInt(1000)).Int64(), larger.Format)
	}
	return *resource.NewMilliQuantity(rounded.Int64(), larger.Format)
}

// shiftFree takes what is free of a resource to the limit of its ratio, by a pod's requests.
func (m *fleetMaker) shiftFree(t *template) {
	name := pick(m.r, names(t.node.Status.Allocatable)...)
	list := t.node.Status.Allocatable
	left := m.atTheLimit(list[name], m.options.ratios.MaxFreeDifferenceRatio)
	request := list[name].DeepCopy()
	request.Sub(left)
	if request.Sign() < 0 || name == v1.ResourcePods {
		return
	}
	if m.oneIn(3) && name != v1.ResourceCPU { // in two parts that are no whole numbers but for their sum
		part := *resource.NewMilliQuantity(m.r.Int64N(1_000_000), request.Format)
		if request.Sub(part); request.Sign() >= 0 {
			t.pods = append(t.pods, podRequesting(v1.ResourceList{name: part}))
		}
	}
	t.pods = append(t.pods, podRequesting(v1.ResourceList{name: request}))
}

// changePresence removes a resource, or adds one with an amount of zero or more.
func (m *fleetMaker) changePresence(list v1.ResourceList) {
	if m.oneIn(2) && len(list) > 1 {
		delete(list, pick(m.r, names(list)...))
		return
	}
	if m.oneIn(12) { // what is reserved for the system may be more than a small machine has
		list[v1.ResourceMemory] = *resource.NewQuantity(-m.r.Int64N(1<<30), resource.BinarySI)
		return
	}
	name := pick(m.r, append(extendedResources, "hugepages-2Mi", v1.ResourceEphemeralStorage, v1.ResourceCPU)...)
	list[name] = *resource.NewQuantity(pick[int64](m.r, 0, 0, 1, 8), resource.DecimalSI)
}

func (m *fleetMaker) changeLabel(t *template) {
	keys := pick(m.r, packKeys, packKeys, generalKeys, deprecatedKeys, currentKeys, ownKeys, ignoredKeys)
	key := pick(m.r, keys...)
	switch m.r.IntN(6) {
	case 0:
		delete(t.node.Labels, key)
	case 1:
		t.node.Labels[key] = ""
	default:
		t.node.Labels[key] = pick(m.r, "one", "one", "two")
	}
	if m.oneIn(20) {
		t.node.Spec.ProviderID = pick(m.r, "", "aws:///zone/i-2", "azure:///two", "gce://two", "aws")
	}
}

func (m *fleetMaker) changeTaints(t *template) {
	taints := t.node.Spec.Taints
	switch {
	case len(taints) > 0 && m.oneIn(3):
		t.node.Spec.Taints = taints[1:]
	case len(taints) > 1 && m.oneIn(2):
		taints[0], taints[1] = taints[1], taints[0]
	default:
		t.node.Spec.Taints = append(taints, v1.Taint{
			Key: pick(m.r, "dedicated", "gpu"), Value: pick(m.r, "", "batch"), Effect: pick(m.r, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute),
		})
	}
}

// Pods.

func podRequesting(requests v1.ResourceList) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name = "daemon"
	pod.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: requests}}}
	return pod
}

// randomRequests are small but for a few, which ask for more than any template has.
func (m *fleetMaker) randomRequests() v1.ResourceList {
	out := v1.ResourceList{}
	for range m.r.IntN(3) {
		switch m.r.IntN(6) {
		case 0, 1:
			out[v1.ResourceCPU] = *resource.NewMilliQuantity(m.r.Int64N(500), resource.DecimalSI)
		case 2, 3:
			out[v1.ResourceMemory] = *resource.NewQuantity(m.r.Int64N(1<<28), resource.BinarySI)
		case 4:
			out[v1.ResourceEphemeralStorage] = *resource.NewQuantity(m.r.Int64N(1<<30), resource.BinarySI)
		case 5:
			out[pick(m.r, append(extendedResources, "hugepages-1Gi")...)] = *resource.NewQuantity(m.r.Int64N(3), resource.DecimalSI)
		}
	}
	if m.oneIn(12) { // the API server lets fractions of a byte in, with a warning
		out[v1.ResourceMemory] = *resource.NewMilliQuantity(m.r.Int64N(1_000_000_000), resource.DecimalSI)
	}
	if m.oneIn(30) {
		out[pick(m.r, v1.ResourceEphemeralStorage, v1.ResourceCPU)] = *resource.NewQuantity(pick[int64](m.r, 200, 1<<45), resource.DecimalSI)
	}
	return out
}

func (m *fleetMaker) container(name string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: m.randomRequests()}}
}

func (m *fleetMaker) addPod(t *template) {
	pod := podRequesting(m.randomRequests())
	pod.Name = fmt.Sprintf("daemon-%d", len(t.pods))
	if m.oneIn(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, m.container("second"))
	}
	for i := range m.r.IntN(3) {
		initial := m.container(fmt.Sprintf("init-%d", i))
		if m.oneIn(2) { // a sidecar
			always := v1.ContainerRestartPolicyAlways
			initial.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, initial)
	}
	if m.oneIn(4) {
		pod.Spec.Overhead = m.randomRequests()
	}
	if m.oneIn(8) {
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU:    *resource.NewMilliQuantity(500+m.r.Int64N(500), resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(1<<28+m.r.Int64N(1<<28), resource.BinarySI),
		}}
	}
	if m.oneIn(8) {
		m.resize(pod)
	}
	t.pods = append(t.pods, pod)
}

// resize leaves a pod in the middle of an in-place resize: what it got is not what its spec asks
// for now.
func (m *fleetMaker) resize(pod *v1.Pod) {
	got := m.randomRequests()
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "main", AllocatedResources: got, Resources: &v1.ResourceRequirements{Requests: got},
	}}
}

func (m *fleetMaker) changePods(t *template) {
	if len(t.pods) == 0 {
		return
	}
	i := m.r.IntN(len(t.pods))
	if m.oneIn(2) {
		t.pods = append(t.pods[:i:i], t.pods[i+1:]...)
		return
	}
	t.pods[i].Spec.Containers[0] = m.container("main")
}
