package document

import v1 "k8s.io/api/core/v1"

// Lean drops what no decision reads of a pod or node of a cluster, so that very many take little memory: how containers are
// started and probed, and what they have been through.
func Lean(object any) {
	switch o := object.(type) {
	case *v1.Pod:
		o.ManagedFields = nil
		delete(o.Annotations, v1.LastAppliedConfigAnnotation)
		lean := func(containers []v1.Container) {
			for i := range containers {
				c := &containers[i]
				containers[i] = v1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
			}
		}
		lean(o.Spec.InitContainers)
		lean(o.Spec.Containers)
		o.Spec.EphemeralContainers = nil
		for _, statuses := range [][]v1.ContainerStatus{o.Status.InitContainerStatuses, o.Status.ContainerStatuses} {
			for i := range statuses {
				s := &statuses[i]
				statuses[i] = v1.ContainerStatus{Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources}
			}
		}
	case *v1.Node:
		o.ManagedFields, o.Status.Images = nil, nil
	}
}
