package predicates

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// encoder writes canonical keys of pods: pods with equal keys are equal to the
// Filter plugins. What the plugins do not read is left out; the rest goes
// through the protobuf encoding, whose order is fixed. It reuses its buffers
// and is not safe for concurrent use.
type encoder struct {
	key   []byte
	names []string
	spec  v1.PodSpec

	containers, initContainers []v1.Container
	volumes                    []v1.Volume
	serial                     int // of what cannot be encoded
}

// pending encodes a pod to be placed, with the labels under the given keys (nil means all), and the
// node that it names: with all of its rules or with those only that Filter plugins enforce. The result
// is valid until the next call.
func (e *encoder) pending(p *v1.Pod, keys sets.Set[string], all bool, node string, c *Checker) ([]byte, error) {
	r, s := &c.rules, c.storage
	e.start(p, keys)
	if all || len(r.spread) > 0 {
		// A pod with soft constraints only gets no default ones.
		e.flag(len(p.Spec.TopologySpreadConstraints) > 0)
		e.owner(p)
	}
	for i := range p.Status.ContainerStatuses {
		if all && p.Status.ContainerStatuses[i].Resources != nil { // resized in place
			info, _ := framework.NewPodInfo(p)
			need := needOf(info)
			e.amounts(&need)
			break
		}
	}
	e.placed(p)
	e.spec.NodeName = node
	if e.spec.Affinity = p.Spec.Affinity; !all {
		e.spec.Affinity = required(p.Spec.Affinity)
	}
	e.spec.Volumes = e.checked(p, func(v *v1.Volume) bool { return !s.owns(p, v) })
	e.spec.TopologySpreadConstraints = constraintsOf(p, all)
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; s.owns(p, v) {
			e.count(i + 1)
			e.claim(s, p, v)
		}
	}
	e.count(0)
	if sharedEphemeral(p, s) {
		e.text(p.Name)
	}
	return e.finish()
}

// placed puts into the spec what decides by itself where a pod may be placed.
func (e *encoder) placed(p *v1.Pod) {
	e.spec = v1.PodSpec{
		NodeSelector:   p.Spec.NodeSelector,
		HostNetwork:    p.Spec.HostNetwork,
		HostUsers:      p.Spec.HostUsers,
		Tolerations:    p.Spec.Tolerations,
		Overhead:       p.Spec.Overhead,
		ResourceClaims: p.Spec.ResourceClaims,
	}
	if rs := p.Spec.Resources; rs != nil {
		e.spec.Resources = &v1.ResourceRequirements{Requests: rs.Requests}
	}
	e.containers = appendReduced(e.containers[:0], p.Spec.Containers)
	e.initContainers = appendReduced(e.initContainers[:0], p.Spec.InitContainers)
	e.spec.Containers, e.spec.InitContainers = e.containers, e.initContainers
}

// boundPod encodes a pod that is on a node: what it takes and repels there.
func (e *encoder) boundPod(p *v1.Pod, keys sets.Set[string], r *boundPod, own map[string]int) ([]byte, error) {
	e.start(p, keys)
	e.amounts(&r.need)
	e.own(own)
	if r.terms != nil {
		e.count(r.terms.id + 1)
	}
	e.count(0)
	e.spec = v1.PodSpec{Volumes: e.checked(p, func(*v1.Volume) bool { return true })}
	if ports := schedutil.GetHostPorts(p); len(ports) > 0 {
		e.containers = append(e.containers[:0], v1.Container{Ports: taken(ports)})
		e.spec.Containers = e.containers
	}
	if slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil }) {
		e.text(p.Name)
	}
	return e.finish()
}

func (e *encoder) start(p *v1.Pod, keys sets.Set[string]) {
	e.key = e.key[:0]
	e.text(p.Namespace)
	e.flag(p.DeletionTimestamp != nil)
	e.names = e.names[:0]
	for k := range p.Labels {
		if keys == nil || keys.Has(k) {
			e.names = append(e.names, k)
		}
	}
	slices.Sort(e.names)
	e.count(len(e.names))
	for _, k := range e.names {
		e.text(k)
		e.text(p.Labels[k])
	}
}

func (e *encoder) finish() ([]byte, error) {
	size := e.spec.Size()
	at := len(e.key)
	e.key = slices.Grow(e.key, size)[:at+size]
	if _, err := e.spec.MarshalToSizedBuffer(e.key[at:]); err != nil {
		return nil, err
	}
	return e.key, nil
}

func (e *encoder) text(s string) {
	e.count(len(s))
	e.key = append(e.key, s...)
}

func (e *encoder) count(n int) { e.key = binary.AppendUvarint(e.key, uint64(n)) }

func (e *encoder) flag(b bool) {
	if b {
		e.key = append(e.key, 1)
	} else {
		e.key = append(e.key, 0)
	}
}

func (e *encoder) amounts(a *amounts) {
	for _, n := range []int64{a.MilliCPU, a.Memory, a.EphemeralStorage, a.scoredCPU, a.scoredMemory, int64(len(a.ScalarResources))} {
		e.key = binary.AppendVarint(e.key, n)
	}
	e.names = e.names[:0]
	for name := range a.ScalarResources {
		e.names = append(e.names, string(name))
	}
	slices.Sort(e.names)
	for _, name := range e.names {
		e.text(name)
		e.key = binary.AppendVarint(e.key, a.ScalarResources[v1.ResourceName(name)])
	}
}

// labels encodes the labels of a node under the given keys.
func (e *encoder) labels(n *v1.Node, keys []string) {
	for i, name := range keys {
		if value, has := n.Labels[name]; has {
			e.count(i + 1)
			e.text(value)
		}
	}
	e.count(0)
}

// taints encodes the taints that keep pods away and, where nodes are scored, those that they would
// rather keep away from.
func (e *encoder) taints(taints []v1.Taint, scored bool) {
	for i := range taints {
		if t := &taints[i]; scored || t.Effect != v1.TaintEffectPreferNoSchedule {
			e.text(t.Key)
			e.text(t.Value)
			e.text(string(t.Effect))
		}
	}
	e.text("")
}

// owner matters where default spread constraints take the selector of the
// pod's controller.
func (e *encoder) owner(p *v1.Pod) {
	o := metav1.GetControllerOfNoCopy(p)
	e.flag(o != nil)
	if o != nil {
		e.text(o.APIVersion)
		e.text(o.Kind)
		e.text(o.Name)
	}
}

// required keeps the affinity rules that Filter plugins enforce.
func required(a *v1.Affinity) *v1.Affinity {
	if a == nil {
		return nil
	}
	kept := &v1.Affinity{}
	if n := a.NodeAffinity; n != nil && n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		kept.NodeAffinity = &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: n.RequiredDuringSchedulingIgnoredDuringExecution,
		}
	}
	if terms := fwk.GetPodAffinityTerms(a); len(terms) > 0 {
		kept.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
	if terms := fwk.GetPodAntiAffinityTerms(a); len(terms) > 0 {
		kept.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
	return kept
}

// checked keeps the volumes that a Filter plugin looks at, of those wanted.
func (e *encoder) checked(p *v1.Pod, wanted func(*v1.Volume) bool) []v1.Volume {
	e.volumes = e.volumes[:0]
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; volumeChecked(p, v) && wanted(v) {
			e.volumes = append(e.volumes, *v)
		}
	}
	return e.volumes
}

// volumeChecked reports whether a Filter plugin looks at a volume.
func volumeChecked(p *v1.Pod, v *v1.Volume) bool {
	return claimName(p, v) != "" || conflicts(v) || translator.IsInlineMigratable(v)
}

// conflicts reports whether a volume may be of one pod only on a node.
func conflicts(v *v1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil
}

// sharedEphemeral reports whether a claim named after the pod is another one's too, so that the pod
// is equal to no other.
func sharedEphemeral(p *v1.Pod, s *storage) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil && !s.owns(p, &v) })
}

// appendReduced keeps what the plugins read of containers: requests, device
// claims, host ports, and what makes a sidecar.
func appendReduced(to, from []v1.Container) []v1.Container {
	for i := range from {
		c := &from[i]
		to = append(to, v1.Container{
			Resources:          v1.ResourceRequirements{Requests: c.Resources.Requests, Claims: c.Resources.Claims},
			Ports:              hostPorts(c),
			RestartPolicy:      c.RestartPolicy,
			RestartPolicyRules: c.RestartPolicyRules,
		})
	}
	return to
}

func hostPorts(c *v1.Container) []v1.ContainerPort {
	for i := range c.Ports {
		if c.Ports[i].HostPort > 0 {
			return taken(c.Ports)
		}
	}
	return nil
}

func taken(ports []v1.ContainerPort) []v1.ContainerPort {
	var host []v1.ContainerPort
	for _, p := range ports {
		if p.HostPort > 0 {
			host = append(host, v1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
		}
	}
	return host
}
