package workloadspread

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// patchable are the fields that a patch may change, with all that is below them. [] stands for any element of a
// list that has names. What is not here belongs to the workload or has a field of the subset: a new field
// of Kubernetes is refused until it is here.
var patchable = append([]string{
	"metadata.labels", "metadata.annotations",
	"spec.affinity.podAffinity", "spec.affinity.podAntiAffinity", "spec.topologySpreadConstraints",
	"spec.priorityClassName", "spec.terminationGracePeriodSeconds",
	"spec.volumes[].name", "spec.volumes[].configMap", "spec.volumes[].downwardAPI", "spec.volumes[].emptyDir",
}, slices.Concat(ofContainers("spec.containers[]."), ofContainers("spec.initContainers[]."))...)

func ofContainers(at string) []string {
	fields := []string{
		"name", "image", "imagePullPolicy", "command", "args", "workingDir", "resources.requests", "resources.limits", "volumeMounts",
		"env[].name", "env[].value", "env[].valueFrom.configMapKeyRef", "env[].valueFrom.fieldRef", "env[].valueFrom.resourceFieldRef",
		"livenessProbe", "readinessProbe", "startupProbe",
	}
	for i := range fields {
		fields[i] = at + fields[i]
	}
	return fields
}

// instead are the fields of a subset for what its patch must not change.
var instead = map[string]string{
	"spec.nodeSelector": "requiredNodeSelector", "spec.affinity.nodeAffinity": "requiredNodeSelector or preferredNodeSelector", "spec.tolerations": "tolerations",
}

// onlyPatchable refuses a change of any other field than the patchable ones, and the removal of a container or
// volume.
func onlyPatchable(before, after []byte) error {
	var from, to map[string]any
	if err := errors.Join(json.Unmarshal(before, &from), json.Unmarshal(after, &to)); err != nil {
		return err
	}
	for _, m := range []map[string]any{from, to} {
		for key, value := range map[string]any{"apiVersion": "v1", "kind": "Pod"} {
			if m[key] == nil {
				m[key] = value
			}
		}
	}
	for _, c := range changes(change{}, from, to) {
		within := func(field string) bool {
			rest, is := strings.CutPrefix(c.field, field)
			return is && (rest == "" || rest[0] == '.')
		}
		if slices.ContainsFunc(patchable, within) {
			continue
		}
		for field, use := range instead {
			if within(field) {
				return fmt.Errorf("must not change %s: use %s of the subset", field, use)
			}
		}
		return fmt.Errorf("must not change %s", c.shown)
	}
	return nil
}

// change is a field that differs, with the names of elements and without.
type change struct{ shown, field string }

func (c change) at(name string) change {
	return change{strings.TrimPrefix(c.shown+"."+name, "."), strings.TrimPrefix(c.field+"."+name, ".")}
}

func (c change) element(name string) change {
	return change{c.shown + "[" + name + "]", c.field + "[]"}
}

// changes are the fields in which two values differ, in the order of their names.
func changes(at change, before, after any) (found []change) {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	from, ok := before.(map[string]any)
	to, okay := after.(map[string]any)
	if from, to, isNamed := named(at.field, before, after); isNamed {
		for name := range from {
			if to[name] == nil {
				return []change{at.element(name)} // it is removed
			}
		}
		return fieldsOf(at.element, from, to)
	}
	if (!ok && before != nil) || (!okay && after != nil) || len(from)+len(to) == 0 {
		return []change{at}
	}
	return fieldsOf(at.at, from, to)
}

func fieldsOf(step func(string) change, from, to map[string]any) (found []change) {
	all := maps.Clone(from)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, to)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		found = append(found, changes(step(name), from[name], to[name])...)
	}
	return found
}

// named are the elements of two lists by their names, where Kubernetes merges a list by name. It is false for other values, and
// if a name is missing or is there twice.
func named(field string, before, after any) (from, to map[string]any, ok bool) {
	if !slices.ContainsFunc([]string{"spec.containers", "spec.initContainers", "spec.volumes"}, func(list string) bool { return field == list || field == list+"[].env" }) {
		return nil, nil, false
	}
	elements := func(list any) (map[string]any, bool) {
		all, isList := list.([]any)
		out := map[string]any{}
		for _, element := range all {
			fields, _ := element.(map[string]any)
			if name, _ := fields["name"].(string); name != "" {
				out[name] = element
			}
		}
		return out, (isList || list == nil) && len(out) == len(all)
	}
	from, ok = elements(before)
	to, okay := elements(after)
	return from, to, ok && okay
}

// revisionLabels say which controller and which revision a pod belongs to.
var revisionLabels = []string{
	"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
	"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index",
}

// safeToEvict is the only annotation of Kubernetes that a patch may set.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// keepsMetadata refuses a patch that changes how a pod is found, which it must not even if its workload is not there yet, or
// annotations that mean something to Kubernetes, such as a profile of AppArmor, or to evenkeel.
func keepsMetadata(before, after *v1.Pod, selector labels.Selector) error {
	for key, value := range before.Labels {
		if now, ok := after.Labels[key]; !ok || now != value {
			return fmt.Errorf("must not change metadata.labels[%s]: a patch adds labels only, since its workload finds a pod by those of the template", key)
		}
	}
	for _, key := range revisionLabels {
		if has(after.Labels, key) != has(before.Labels, key) {
			return fmt.Errorf("must not change metadata.labels[%s]", key)
		}
	}
	added := len(after.Labels) > len(before.Labels)
	switch {
	case added && selector == nil:
		return errors.New("must not change metadata.labels: it is not known how the workload finds its pods")
	case added && selector.Matches(labels.Set(before.Labels)) && !selector.Matches(labels.Set(after.Labels)):
		return errors.New("must not change metadata.labels: the workload would not find its pods")
	}
	for _, m := range []map[string]string{before.Annotations, after.Annotations} {
		for key := range m {
			if reserved(key) && (before.Annotations[key] != after.Annotations[key] || has(before.Annotations, key) != has(after.Annotations, key)) {
				return fmt.Errorf("must not change metadata.annotations[%s]", key)
			}
		}
	}
	return nil
}

// reserved reports whether an annotation is not for patches.
func reserved(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return key != safeToEvict && slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "evenkeel.dev"}, func(of string) bool {
		return domain == of || strings.HasSuffix(domain, "."+of)
	})
}

func has(m map[string]string, key string) bool { _, ok := m[key]; return ok }

// patches says of each subset with a patch whether pods are refused with it.
func (p *pass) patches() {
	for i := range p.Spec.Subsets {
		s := p.subsetStatus(i)
		problem, known := p.Patches[s.Name]
		switch {
		case p.Spec.Subsets[i].Patch == nil:
			meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionPatchFits)
		case known && problem == "":
			meta.SetStatusCondition(&s.Conditions, p.newCondition(v1alpha1.ConditionPatchFits, true, ReasonFits, "pods are created with the patch"))
		case known && meta.SetStatusCondition(&s.Conditions, p.newCondition(v1alpha1.ConditionPatchFits, false, ReasonPatchRefused, problem)):
			p.decision.Events.Add(v1.EventTypeWarning, ReasonPatchRefused, "", "subset %s: %s", s.Name, problem)
		}
	}
}

// Fitting is a subset as its pods get it: without its patch if that is refused and pods do without it then. The pod is a new
// one, the status that which was stored last.
func Fitting(o *v1alpha1.WorkloadSpread, i int, pod *v1.Pod, selector labels.Selector) *v1alpha1.WorkloadSubset {
	s := &o.Spec.Subsets[i]
	if s.Patch == nil || o.Spec.WhenPatchFails != v1alpha1.WhenPatchFailsAdmit {
		return s
	}
	refused := slices.ContainsFunc(o.Status.SubsetStatuses, func(status v1alpha1.WorkloadSubsetStatus) bool {
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPatchFits)
		return status.Name == s.Name && c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == o.Generation
	})
	if !refused {
		if _, err := Inject(pod, s, Assignment{}, selector); err == nil {
			return s
		}
	}
	without := *s
	without.Patch = nil
	return &without
}
