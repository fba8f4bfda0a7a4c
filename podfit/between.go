package podfit

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// HardSpread returns the topology spread constraints of a pod that must hold.
func HardSpread(pod *v1.Pod) []v1.TopologySpreadConstraint {
	all := pod.Spec.TopologySpreadConstraints
	soft := func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != v1.DoNotSchedule }
	if !slices.ContainsFunc(all, soft) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), soft)
}

// PodTerms returns the required terms of a pod's affinity to other pods, and those of its anti-affinity.
func PodTerms(pod *v1.Pod) (affinity, anti []v1.PodAffinityTerm) {
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			affinity = a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		}
		if a.PodAntiAffinity != nil {
			anti = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		}
	}
	return affinity, anti
}
