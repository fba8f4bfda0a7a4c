package simulate

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
)

// AddNew adds an object that the cluster does not have yet. Of a workload these are the pods that its
// controller would create; they are pending.
func (d *Dump) AddNew(item document.Item) error {
	w := Workload{Name: item.Name, Namespace: orDefault(item.Namespace), Kind: item.Kind}
	var template *v1.PodTemplateSpec
	replicas, version := int32(1), "apps/v1"
	switch o := item.Object.(type) {
	case *appsv1.Deployment:
		w.Kind, template, replicas = v1alpha1.WorkloadReplicaSet, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1)
		set := &appsv1.ReplicaSet{ObjectMeta: o.ObjectMeta, Spec: appsv1.ReplicaSetSpec{Selector: o.Spec.Selector}}
		set.Status.Replicas = replicas
		item = document.Item{APIVersion: version, Kind: w.Kind, Namespace: item.Namespace, Name: item.Name, Object: set}
	case *appsv1.ReplicaSet:
		template, replicas = &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1)
		o.Status.Replicas = replicas
	case *appsv1.StatefulSet:
		template, replicas = &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1)
		w.StatefulSet, w.Claims = true, o.Spec.VolumeClaimTemplates
		if o.Spec.Ordinals != nil {
			w.Start = int(o.Spec.Ordinals.Start)
		}
	case *batchv1.Job:
		template, replicas, version = &o.Spec.Template, podsOfJob(&o.Spec), "batch/v1"
	case *batchv1.CronJob: // one run of it
		w.Kind, version = v1alpha1.WorkloadJob, "batch/v1"
		template, replicas = &o.Spec.JobTemplate.Spec.Template, podsOfJob(&o.Spec.JobTemplate.Spec)
	case *v1.Pod:
		withDefaults(&o.Spec)
	}
	if template == nil {
		return d.Add(item)
	}
	if replicas < 0 || replicas > MaxPods {
		return fmt.Errorf("%s %s/%s: spec.replicas is %d: it must be between 0 and %d", item.Kind, w.Namespace, w.Name, replicas, MaxPods)
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
		if w.StatefulSet {
			one.Name = w.podName(w.Start + i)
		}
		w.withClaims(&one)
		if err := d.Add(document.Item{APIVersion: "v1", Kind: "Pod", Namespace: one.Namespace, Name: one.Name, Object: &one}); err != nil {
			return err
		}
	}
	return nil
}

// podsOfJob are the pods that a job runs at a time.
func podsOfJob(j *batchv1.JobSpec) int32 {
	parallel := ptr.Deref(j.Parallelism, 1)
	return min(parallel, ptr.Deref(j.Completions, parallel))
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
