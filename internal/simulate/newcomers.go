package simulate

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
)

// AddNew adds an object that the cluster does not have yet. Of a workload these are the pods that its
// controller would create; they are pending.
func (d *Dump) AddNew(item document.Item) error {
	w := Workload{Name: item.Name, Namespace: orDefault(item.Namespace), Kind: item.Kind}
	named, at, counted := fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name), specPath, "replicas"
	if o, ok := item.Object.(*batchv1.CronJob); ok { // one run of it
		at = at.Child("jobTemplate", "spec")
		w.Kind, item.Object = v1alpha1.WorkloadJob, &batchv1.Job{Spec: o.Spec.JobTemplate.Spec}
	}
	template, given, version := podsOf(item.Object)
	replicas := ptr.Deref(given, 1)
	switch o := item.Object.(type) {
	case *appsv1.Deployment:
		w.Kind = v1alpha1.WorkloadReplicaSet
		set := &appsv1.ReplicaSet{ObjectMeta: o.ObjectMeta, Spec: appsv1.ReplicaSetSpec{Selector: o.Spec.Selector}}
		set.Status.Replicas = replicas
		item = document.Item{APIVersion: version, Kind: w.Kind, Namespace: item.Namespace, Name: item.Name, Object: set}
	case *appsv1.ReplicaSet:
		o.Status.Replicas = replicas
	case *appsv1.StatefulSet:
		w.Claims = o.Spec.VolumeClaimTemplates
		if o.Spec.Ordinals != nil {
			w.Start = int(o.Spec.Ordinals.Start)
		}
	case *batchv1.Job:
		counted = "parallelism"
		if completions := ptr.Deref(o.Spec.Completions, replicas); completions < replicas {
			replicas, counted = completions, "completions"
		}
	case *v1.Pod:
		withDefaults(&o.Spec)
	}
	if template == nil {
		return d.Add(item)
	}
	if replicas < 0 || replicas > MaxPods {
		return fmt.Errorf("%s: %w", named, field.Invalid(at.Child(counted), replicas, fmt.Sprintf("must be between 0 and %d", MaxPods)))
	}
	if version == "apps/v1" { // it selects pods, and has claims
		if err := d.Add(item); err != nil {
			return err
		}
	}
	pod := ownPod(&w, template, version)
	withDefaults(&pod.Spec)
	for i := range int(replicas) {
		one := *pod
		one.Name = fmt.Sprintf("%s-added-%d", w.Name, i+1)
		if w.isStatefulSet() {
			one.Name = w.podName(w.Start + i)
		}
		w.withClaims(&one)
		if err := d.Add(document.Item{APIVersion: "v1", Kind: "Pod", Namespace: one.Namespace, Name: one.Name, Object: &one}); err != nil {
			return err
		}
	}
	return nil
}

// withDefaults sets what the API server would: a limit without a request is the request, too.
func withDefaults(s *v1.PodSpec) {
	s.SchedulerName = cmp.Or(s.SchedulerName, v1.DefaultSchedulerName)
	for _, containers := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for name, limit := range r.Limits {
				if _, requested := r.Requests[name]; !requested {
					if r.Requests == nil {
						r.Requests = v1.ResourceList{}
					}
					r.Requests[name] = limit
				}
			}
		}
	}
}
