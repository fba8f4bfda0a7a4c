package template

import (
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// fits reports whether the scheduler lets a daemon set's pod run on a node made from the template,
// beside the pods that the template has. It looks at the labels, taints, resources and host ports
// of the node. Rules that daemon sets do not need are left out: affinity and spread between pods,
// volumes and devices.
func fits(pod *v1.Pod, t *cloudprovider.Template) bool {
	if pod.Spec.NodeName != "" {
		return false // a new node has another name
	}
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(t.Node); !matches || err != nil {
		return false
	}
	_, repelled := corev1.FindMatchingUntoleratedTaint(logr.Discard(), t.Node.Spec.Taints, pod.Spec.Tolerations, func(taint *v1.Taint) bool {
		return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
	}, false)
	return !repelled && hasRoom(t, pod) && hasPorts(t, pod)
}

// hasRoom reports whether what the pod requests is left beside the pods of the template.
func hasRoom(t *cloudprovider.Template, pod *v1.Pod) bool {
	left := map[v1.ResourceName]int64{}
	for name, quantity := range t.Node.Status.Allocatable {
		left[name] = amount(name, quantity)
	}
	for _, other := range t.Pods {
		for name, quantity := range podresource.PodRequests(other, podresource.PodResourcesOptions{}) {
			left[name] -= amount(name, quantity)
		}
	}
	for name, quantity := range podresource.PodRequests(pod, podresource.PodResourcesOptions{}) {
		if n := amount(name, quantity); n > 0 && n > left[name] && isScheduled(name) {
			return false
		}
	}
	return left[v1.ResourcePods] > int64(len(t.Pods))
}

// amount is a quantity in the unit that the scheduler counts it in.
func amount(name v1.ResourceName, quantity resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
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
			if p.HostPort <= 0 {
				continue
			}
			port := hostPort{ip: anyAddress, protocol: v1.ProtocolTCP, port: p.HostPort}
			if p.HostIP != "" {
				port.ip = p.HostIP
			}
			if p.Protocol != "" {
				port.protocol = p.Protocol
			}
			ports = append(ports, port)
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
