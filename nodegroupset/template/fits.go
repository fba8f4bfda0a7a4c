package template

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/podfit"
)

// fits reports whether the scheduler lets a daemon set's pod run on a node made from the template,
// beside the pods that the template has. Rules that daemon sets do not need are left out, as in
// Rejection.
func fits(pod *v1.Pod, t *cloudprovider.Template) bool {
	return pod.Spec.NodeName == "" && Rejection(pod, t) == "" // a new node has another name
}

// Rejection says why the scheduler does not let a pod run on a node, beside the pods that are on
// it; it is empty if it does. It looks at the labels, taints, resources and host ports of the node.
// Affinity and spread between pods, volumes and devices are left out.
func Rejection(pod *v1.Pod, t *cloudprovider.Template) string {
	rules := podfit.RulesOf(pod)
	if !rules.Select(t.Node) {
		return "its node selector or affinity does not match"
	}
	if taint, untolerated := rules.Untolerated(t.Node); untolerated {
		return "it does not tolerate the taint " + taint.ToString()
	}
	if short := shortOf(t, pod); short != "" {
		return "insufficient " + string(short)
	}
	if !hasPorts(t, pod) {
		return "a host port is taken"
	}
	return ""
}

// shortOf returns the first resource that the pod requests more of than is left beside the pods of
// the template; empty if there is none.
func shortOf(t *cloudprovider.Template, pod *v1.Pod) v1.ResourceName {
	left := podfit.Allocatable(t.Node)
	for _, other := range t.Pods {
		left.Add(-1, podfit.Requests(other))
	}
	requests := podfit.Requests(pod)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if requests[name] > left[name] && isScheduled(name) {
			return name
		}
	}
	if left[v1.ResourcePods] < 1 {
		return v1.ResourcePods
	}
	return ""
}

// isScheduled reports whether the scheduler counts a resource at all.
func isScheduled(name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return true
	}
	return strings.Contains(string(name), "/") || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), v1.ResourceAttachableVolumesPrefix)
}

// hasPorts reports whether the host ports of the pod are free beside the pods of the template.
func hasPorts(t *cloudprovider.Template, pod *v1.Pod) bool {
	wanted := hostPorts(pod)
	return len(wanted) == 0 || !slices.ContainsFunc(t.Pods, func(other *v1.Pod) bool {
		return slices.ContainsFunc(hostPorts(other), func(used hostPort) bool {
			return slices.ContainsFunc(wanted, used.excludes)
		})
	})
}

// hostPort is a port of a node that a container listens on.
type hostPort struct {
	ip       string
	protocol v1.Protocol
	port     int32
}

// hostPorts lists those of the containers that run as long as the pod does.
func hostPorts(pod *v1.Pod) []hostPort {
	var ports []hostPort
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				ports = append(ports, hostPort{cmp.Or(p.HostIP, anyAddress), cmp.Or(p.Protocol, v1.ProtocolTCP), p.HostPort})
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return ports
}

const anyAddress = "0.0.0.0"

func (p hostPort) excludes(q hostPort) bool {
	return p.port == q.port && p.protocol == q.protocol && (p.ip == q.ip || p.ip == anyAddress || q.ip == anyAddress)
}
