package steering

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
)

// Workload is what the API server knows of pods and of the nodes that they run on. Nothing of it is
// changed.
type Workload struct {
	Pods  []*v1.Pod // finished ones may be left out
	Nodes []*v1.Node
}

// amounts are resources; cpu is in thousandths of a core.
type amounts map[v1.ResourceName]int64

// requestsOf returns what a pod takes of a node.
func requestsOf(pod *v1.Pod) amounts {
	r := expander.RequestsOf(pod)
	out := amounts{v1.ResourcePods: 1, v1.ResourceCPU: r.MilliCPU, v1.ResourceMemory: r.Memory}
	for _, other := range r.Others {
		out[other.Name] = other.Value
	}
	return out
}

func allocatable(node *v1.Node) amounts {
	list := node.Status.Allocatable
	if len(list) == 0 {
		list = node.Status.Capacity
	}
	out := make(amounts, len(list))
	for name, q := range list {
		if out[name] = q.Value(); name == v1.ResourceCPU {
			out[name] = q.MilliValue()
		}
	}
	return out
}

func (a amounts) take(n int64, r amounts) {
	for name, value := range r {
		a[name] -= n * value
	}
}

// fits returns how often the requests fit.
func (a amounts) fits(r amounts) int64 {
	n := max(0, a[v1.ResourcePods])
	for name, value := range r {
		if value > 0 {
			n = min(n, max(0, a[name])/value)
		}
	}
	return n
}

// machine is a node, or one to come, as pods see it.
type machine struct {
	node   *v1.Node
	free   amounts
	usable bool // takes pods; those on others are counted all the same
	fresh  bool // on its way, or planned
	pods   []*v1.Pod
	placed map[*kind]int64 // by the plan
}

// admits reports whether a pod may run on the node, however full it is and however pods are spread.
func admits(pod *v1.Pod, node *v1.Node) bool {
	if !accepts(pod, node) {
		return false
	}
	_, untolerated := corev1.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations, func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}, false)
	return !untolerated
}

// fleet are the machines of the cluster, those on their way included.
type fleet struct {
	*choice
	machines []*machine
	overhead map[string]amounts // of daemons on a node, by group
}

// newFleet puts the pods on their nodes. A node on its way is a copy of its group's template. The
// reading of pods may be ahead of that of nodes; ok is false then.
func (c *choice) newFleet() (f *fleet, ok bool) {
	f = &fleet{choice: c, overhead: map[string]amounts{}}
	pods := map[string][]*v1.Pod{}
	for _, pod := range c.request.Workload.Pods {
		if pod.Spec.NodeName != "" && !finished(pod) {
			pods[pod.Spec.NodeName] = append(pods[pod.Spec.NodeName], pod)
		}
	}
	nodes := make(map[string]*v1.Node, len(c.request.Workload.Nodes))
	for _, node := range c.request.Workload.Nodes {
		nodes[node.Spec.ProviderID] = node
	}
	names := slices.Sorted(maps.Keys(c.view.Groups))
	for _, name := range names {
		f.findDaemons(c.view.Groups[name], nodes, pods)
	}
	for _, name := range names {
		f.addGroup(c.view.Groups[name], nodes, pods)
	}
	for _, node := range c.request.Workload.Nodes {
		if id := node.Spec.ProviderID; id == "" || nodes[id] == node { // of no group
			state, known := c.at.nodes[id]
			f.add(node, pods, state.Ready || !known)
		}
	}
	for _, left := range pods {
		if slices.ContainsFunc(left, func(pod *v1.Pod) bool { return pod.DeletionTimestamp == nil }) {
			return nil, false
		}
	}
	return f, true
}

// findDaemons finds the node of a group on which daemons take most.
func (f *fleet) findDaemons(g *Group, nodes map[string]*v1.Node, pods map[string][]*v1.Pod) {
	for i := range g.Instances {
		node := nodes[g.Instances[i].ID]
		if node == nil {
			continue
		}
		daemons := amounts{}
		for _, pod := range pods[node.Name] {
			if daemon(pod) {
				daemons.take(-1, requestsOf(pod))
			}
		}
		if f.overhead[g.ID] == nil || daemons[v1.ResourcePods] > f.overhead[g.ID][v1.ResourcePods] {
			f.overhead[g.ID] = daemons
		}
	}
}

// addGroup adds the nodes of a group, and takes them out of those that are left.
func (f *fleet) addGroup(g *Group, nodes map[string]*v1.Node, pods map[string][]*v1.Pod) {
	coming := f.at.count(g, f.state(g.ID)).inFlight
	var late []*v1.Node
	for i := range g.Instances {
		id := g.Instances[i].ID
		node := nodes[id]
		if node == nil {
			continue
		}
		delete(nodes, id)
		state := f.at.nodes[id]
		if !state.Ready && !state.Lost && g.Instances[i].State != cloudprovider.InstanceDeleting {
			late = append(late, node)
			continue
		}
		f.add(node, pods, state.Ready)
	}
	for _, node := range late {
		m := f.copyOf(g.ID)
		if m == nil || coming == 0 {
			f.add(node, pods, false)
			continue
		}
		coming--
		for _, pod := range pods[node.Name] {
			if m.pods = append(m.pods, pod); !daemon(pod) {
				m.free.take(1, requestsOf(pod))
			}
		}
		delete(pods, node.Name)
		f.machines = append(f.machines, m)
	}
	for ; coming > 0; coming-- {
		if m := f.copyOf(g.ID); m != nil {
			f.machines = append(f.machines, m)
		}
	}
}

// add adds a node with its pods.
func (f *fleet) add(node *v1.Node, pods map[string][]*v1.Pod, ready bool) {
	m := &machine{node: node, free: allocatable(node), usable: ready && !node.Spec.Unschedulable, pods: pods[node.Name]}
	for _, pod := range m.pods {
		m.free.take(1, requestsOf(pod))
	}
	delete(pods, node.Name)
	f.machines = append(f.machines, m)
}

// copyOf returns a new node of a group; nil if nobody knows what one looks like. Daemons take as
// much of it as of a node that is there, in this group or one similar to it.
func (f *fleet) copyOf(name string) *machine {
	template := f.template(name)
	if template == nil {
		return nil
	}
	free := allocatable(template)
	for _, other := range append([]string{name}, f.similarTo(name)...) {
		if daemons := f.overhead[other]; daemons != nil {
			free.take(1, daemons)
			break
		}
	}
	return &machine{node: template, free: free, usable: true, fresh: true}
}

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// daemon reports whether a pod comes with its node.
func daemon(pod *v1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}
