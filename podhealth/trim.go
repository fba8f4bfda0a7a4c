package podhealth

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Trim is a transform for a cache of pods. It keeps the identity, the labels and what [Assess]
// reads, which is a small part of a pod, and drops the rest for everyone who shares the cache.
// Objects other than pods stay as they are.
func Trim(object any) (any, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return object, nil
	}
	return &v1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Status: v1.PodStatus{
			Phase:                 pod.Status.Phase,
			Conditions:            trimConditions(pod.Status.Conditions),
			InitContainerStatuses: trimContainers(pod.Status.InitContainerStatuses),
			ContainerStatuses:     trimContainers(pod.Status.ContainerStatuses),
		},
	}, nil
}

// trimConditions keeps the condition Ready.
func trimConditions(all []v1.PodCondition) []v1.PodCondition {
	for _, c := range all {
		if c.Type == v1.PodReady {
			return []v1.PodCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	return nil
}

// trimContainers keeps when containers started and ended, and why they wait.
func trimContainers(all []v1.ContainerStatus) []v1.ContainerStatus {
	if len(all) == 0 {
		return nil
	}
	kept := make([]v1.ContainerStatus, len(all))
	for i, s := range all {
		kept[i] = v1.ContainerStatus{
			RestartCount: s.RestartCount, State: trimState(s.State), LastTerminationState: trimState(s.LastTerminationState),
		}
	}
	return kept
}

func trimState(s v1.ContainerState) (kept v1.ContainerState) {
	kept.Running = s.Running
	if s.Waiting != nil {
		kept.Waiting = &v1.ContainerStateWaiting{Reason: s.Waiting.Reason}
	}
	if t := s.Terminated; t != nil {
		kept.Terminated = &v1.ContainerStateTerminated{ExitCode: t.ExitCode, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt}
	}
	return kept
}
