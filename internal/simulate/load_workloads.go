package simulate

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

func workload(w *v1alpha1.ScenarioWorkload) Workload {
	namespace := orDefault(w.Namespace)
	template := podTemplate(w.Name, namespace, &w.PodShape)
	out := Workload{
		Name: w.Name, Namespace: namespace, StatefulSet: isStatefulSet(w), Kind: kindOfWorkload(w),
		MaxSurge: w.MaxSurge, MaxUnavailable: w.MaxUnavailable,
		Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Labels: template.Labels, Annotations: template.Annotations, OwnerReferences: controller(w),
		}, Spec: template.Spec},
		Claims: w.VolumeClaimTemplates,
		Steps:  []Step{{At: w.Arrive.Duration, Replicas: int(w.Replicas)}},
	}
	for _, step := range w.Scale {
		out.Steps = append(out.Steps, Step{At: step.At.Duration, Replicas: int(step.Replicas)})
	}
	for _, rollout := range w.Rollouts {
		out.Rollouts = append(out.Rollouts, rollout.At.Duration)
	}
	if w.Leave != nil {
		out.Steps = append(out.Steps, Step{At: w.Leave.Duration})
	}
	return out
}

func kindOfWorkload(w *v1alpha1.ScenarioWorkload) string {
	if isStatefulSet(w) {
		return v1alpha1.WorkloadStatefulSet
	}
	return cmp.Or(w.Kind, v1alpha1.WorkloadDeployment)
}

func isStatefulSet(w *v1alpha1.ScenarioWorkload) bool {
	return w.Kind == v1alpha1.WorkloadStatefulSet || len(w.VolumeClaimTemplates) > 0
}

// controller is the owner of the pods of a workload, which creates them again after an eviction.
func controller(w *v1alpha1.ScenarioWorkload) []metav1.OwnerReference {
	kind, isController := "ReplicaSet", true // a Deployment's pods belong to its replica set
	version := "apps/v1"
	switch kindOfWorkload(w) {
	case v1alpha1.WorkloadStatefulSet:
		kind = v1alpha1.WorkloadStatefulSet
	case v1alpha1.WorkloadJob:
		kind, version = v1alpha1.WorkloadJob, "batch/v1"
	}
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: w.Name, Controller: &isController}}
}
