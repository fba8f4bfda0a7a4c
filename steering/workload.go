package steering

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// Workload is what the API server knows of pods and of the nodes that they run on. Nothing of it is
// changed.
type Workload struct {
	Pods  []*v1.Pod // finished ones may be left out
	Nodes []*v1.Node
}

// fleet are the machines of the cluster, those on their way included.
type fleet struct {
	*choice
	machines []*spreadplan.Machine
	overhead map[string]spreadplan.Amounts // of daemons on a node, by group
}

// newFleet puts the pods on their nodes. A node on its way is a copy of its group's template. The
// reading of pods may be ahead of that of nodes; ok is false then.
func (c *choice) newFleet() (f *fleet, ok bool) {
	f = &fleet{choice: c, overhead: map[string]spreadplan.Amounts{}}
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
		daemons := spreadplan.Amounts{}
		for _, pod := range pods[node.Name] {
			if daemon(pod) {
				daemons.Take(-1, spreadplan.Requests(pod))
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
			if m.Pods = append(m.Pods, pod); !daemon(pod) {
				m.Free.Take(1, spreadplan.Requests(pod))
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
	m := &spreadplan.Machine{Node: node, Free: spreadplan.Allocatable(node), Usable: ready && !node.Spec.Unschedulable, Pods: pods[node.Name]}
	for _, pod := range m.Pods {
		m.Free.Take(1, spreadplan.Requests(pod))
	}
	delete(pods, node.Name)
	f.machines = append(f.machines, m)
}

// copyOf returns a new node of a group; nil if nobody knows what one looks like. Daemons take as
// much of it as of a node that is there, in this group or one similar to it.
func (f *fleet) copyOf(name string) *spreadplan.Machine {
	template := f.template(name)
	if template == nil {
		return nil
	}
	free := spreadplan.Allocatable(template)
	for _, other := range append([]string{name}, f.similarTo(name)...) {
		if daemons := f.overhead[other]; daemons != nil {
			free.Take(1, daemons)
			break
		}
	}
	return &spreadplan.Machine{Node: template, Free: free, Usable: true, Fresh: true}
}

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// daemon reports whether a pod comes with its node.
func daemon(pod *v1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}
