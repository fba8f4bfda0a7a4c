package podcache

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Trim returns a transform for a cache of pods. Of the annotations it keeps those that are named, of
// the conditions the named ones besides those of the scheduler and of readiness. Objects other than
// pods stay as they are. What is kept must not be changed: pods share it.
func Trim(annotations []string, conditions ...v1.PodConditionType) func(any) (any, error) {
	specs := &specs{known: map[[sha256.Size]byte]*v1.PodSpec{}}
	conditions = append([]v1.PodConditionType{v1.PodReady, v1.PodScheduled}, conditions...)
	return func(object any) (any, error) {
		pod, ok := object.(*v1.Pod)
		if !ok {
			return object, nil
		}
		out := &v1.Pod{
			TypeMeta: pod.TypeMeta, Spec: *specs.shared(&pod.Spec),
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels,
				CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, OwnerReferences: pod.OwnerReferences,
			},
			Status: v1.PodStatus{
				Phase: pod.Status.Phase, NominatedNodeName: pod.Status.NominatedNodeName,
				InitContainerStatuses: statuses(pod.Status.InitContainerStatuses), ContainerStatuses: statuses(pod.Status.ContainerStatuses),
			},
		}
		out.Spec.NodeName = pod.Spec.NodeName
		for _, key := range annotations {
			if value, ok := pod.Annotations[key]; ok {
				if out.Annotations == nil {
					out.Annotations = map[string]string{}
				}
				out.Annotations[key] = value
			}
		}
		for _, c := range pod.Status.Conditions {
			if slices.Contains(conditions, c.Type) {
				out.Status.Conditions = append(out.Status.Conditions, v1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason,
					LastTransitionTime: c.LastTransitionTime})
			}
		}
		return out, nil
	}
}

// Differ reports whether a pod has changed for decisions that rest on what a cache keeps, besides the state
// of its containers.
func Differ(before, after *v1.Pod) bool {
	owner := func(pod *v1.Pod) (uid types.UID) {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			uid = ref.UID
		}
		return uid
	}
	return before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName || before.Status.Phase != after.Status.Phase ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() || owner(before) != owner(after) ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, func(a, b v1.PodCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.LastTransitionTime.Equal(&b.LastTransitionTime)
		})
}

// mostSpecs is how many specs are known before they are collected anew: some megabytes.
const mostSpecs = 4096

// specs holds trimmed specs, so that new pods share them.
type specs struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*v1.PodSpec
}

// shared is what is kept of a spec, without its node. Equal ones share their parts.
func (s *specs) shared(spec *v1.PodSpec) *v1.PodSpec {
	trimmed := trim(spec)
	text, err := trimmed.Marshal()
	if err != nil {
		return trimmed
	}
	key := sha256.Sum256(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if is := s.known[key]; is != nil {
		return is
	}
	if len(s.known) >= mostSpecs {
		clear(s.known)
	}
	s.known[key] = trimmed
	return trimmed
}

// trim keeps what the scheduler's filters read.
func trim(spec *v1.PodSpec) *v1.PodSpec {
	out := &v1.PodSpec{
		NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
		TopologySpreadConstraints: spec.TopologySpreadConstraints,
		Overhead:                  spec.Overhead, Resources: spec.Resources, ResourceClaims: spec.ResourceClaims,
		SchedulingGates: spec.SchedulingGates,
		Priority:        spec.Priority, PreemptionPolicy: spec.PreemptionPolicy, SchedulerName: spec.SchedulerName, HostNetwork: spec.HostNetwork,
		OS:         spec.OS,
		Containers: containers(spec.Containers), InitContainers: containers(spec.InitContainers),
	}
	for i := range spec.Volumes {
		switch v := &spec.Volumes[i].VolumeSource; {
		case v.ConfigMap != nil, v.Secret != nil, v.Projected != nil, v.DownwardAPI != nil, v.EmptyDir != nil,
			v.HostPath != nil: // are on any node
		default:
			out.Volumes = append(out.Volumes, spec.Volumes[i])
		}
	}
	return out
}

func containers(all []v1.Container) []v1.Container {
	if len(all) == 0 {
		return nil
	}
	kept := make([]v1.Container, len(all))
	for i := range all {
		c := &all[i]
		kept[i] = v1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				kept[i].Ports = append(kept[i].Ports, p)
			}
		}
	}
	return kept
}

// statuses keeps when containers started and ended, and why they wait: what package podhealth reads.
func statuses(all []v1.ContainerStatus) []v1.ContainerStatus {
	if len(all) == 0 {
		return nil
	}
	kept := make([]v1.ContainerStatus, len(all))
	for i, s := range all {
		kept[i] = v1.ContainerStatus{RestartCount: s.RestartCount, State: state(s.State), LastTerminationState: state(s.LastTerminationState)}
	}
	return kept
}

func state(s v1.ContainerState) (kept v1.ContainerState) {
	kept.Running = s.Running
	if s.Waiting != nil {
		kept.Waiting = &v1.ContainerStateWaiting{Reason: s.Waiting.Reason}
	}
	if t := s.Terminated; t != nil {
		kept.Terminated = &v1.ContainerStateTerminated{ExitCode: t.ExitCode, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt}
	}
	return kept
}

// TrimNode is a transform for a cache of nodes. It drops annotations, images and addresses, which are
// most of a node, and keeps what the scheduler reads. Other objects stay as they are.
func TrimNode(object any) (any, error) {
	node, ok := object.(*v1.Node)
	if !ok {
		return object, nil
	}
	out := &v1.Node{TypeMeta: node.TypeMeta, Spec: node.Spec}
	out.Name, out.UID, out.ResourceVersion, out.Labels = node.Name, node.UID, node.ResourceVersion, node.Labels
	out.CreationTimestamp, out.DeletionTimestamp = node.CreationTimestamp, node.DeletionTimestamp
	out.Status = v1.NodeStatus{
		Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable, VolumesAttached: node.Status.VolumesAttached,
		DeclaredFeatures: node.Status.DeclaredFeatures,
	}
	for _, c := range node.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, v1.NodeCondition{Type: c.Type, Status: c.Status, Reason: c.Reason,
			LastTransitionTime: c.LastTransitionTime})
	}
	return out, nil
}
