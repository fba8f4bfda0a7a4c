package workloadspread

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"spec.nodeSelector": "requiredNodeSelector", "spec.affinity": "requiredNodeSelector or preferredNodeSelector",
	"spec.tolerations": "tolerations",
}

// onlyPatchable refuses a patch that says something about another field than the patchable ones. Of the
// directives of a strategic merge patch, it may have those that order a list. shown is the field with the names of elements.
func onlyPatchable(shown, field string, patch any) error {
	begins := func(with string) bool {
		return slices.ContainsFunc(patchable, func(p string) bool { return strings.HasPrefix(p, with) })
	}
	fields, isMap := patch.(map[string]any)
	list, isList := patch.([]any)
	switch {
	case slices.Contains(patchable, field):
		return nil
	case isMap && begins(strings.TrimPrefix(field+".", ".")):
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if strings.HasPrefix(name, "$setElementOrder/") {
				continue
			}
			if err := onlyPatchable(strings.TrimPrefix(shown+"."+name, "."), strings.TrimPrefix(field+"."+name, "."), fields[name]); err != nil {
				return err
			}
		}
		return nil
	case isList && begins(field+"[]."):
		for _, element := range list {
			entry, _ := element.(map[string]any)
			if err := onlyPatchable(fmt.Sprintf("%s[%v]", shown, entry["name"]), field+"[]", element); err != nil {
				return err
			}
		}
		return nil
	}
	for other, use := range instead {
		if field == other || strings.HasPrefix(field, other+".") {
			return fmt.Errorf("must not change %s: use %s of the subset", shown, use)
		}
	}
	return fmt.Errorf("must not change %s", shown)
}

// revisionLabels say which controller and which revision a pod belongs to.
var revisionLabels = []string{
	"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name",
	"apps.kubernetes.io/pod-index",
	"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
	"batch.kubernetes.io/job-completion-index",
}

// safeToEvict is the only annotation of Kubernetes that a patch may set.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// metadata is that of a pod before its patch.
type metadata struct{ labels, annotations map[string]string }

// mayBecome refuses a patch that changes how a pod is found, which it must not even if its workload is not there yet, or
// annotations that mean something to Kubernetes, such as a profile of AppArmor, or to evenkeel.
func (m metadata) mayBecome(after *v1.Pod, selector labels.Selector) error {
	for key, value := range m.labels {
		if now, ok := after.Labels[key]; !ok || now != value {
			return fmt.Errorf("must not change metadata.labels[%s]: a patch adds labels only, since its workload finds a pod by "+
				"those of the template", key)
		}
	}
	for _, key := range revisionLabels {
		if has(after.Labels, key) != has(m.labels, key) {
			return fmt.Errorf("must not change metadata.labels[%s]", key)
		}
	}
	adds := len(after.Labels) > len(m.labels)
	switch {
	case adds && selector == nil:
		return errors.New("must not change metadata.labels: it is not known how the workload finds its pods")
	case adds && selector.Matches(labels.Set(m.labels)) && !selector.Matches(labels.Set(after.Labels)):
		return errors.New("must not change metadata.labels: the workload would not find its pods")
	}
	for _, all := range []map[string]string{m.annotations, after.Annotations} {
		for key := range all {
			if reserved(key) && (m.annotations[key] != after.Annotations[key] || has(m.annotations, key) != has(after.Annotations, key)) {
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
