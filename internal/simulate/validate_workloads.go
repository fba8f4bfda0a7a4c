package simulate

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// accessModes are those that the API server accepts.
var accessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod}

// storage checks the document's own fields about storage.
func (c *checker) storage(s *v1alpha1.ScenarioSpec) {
	for i := range s.StorageFrom {
		if s.StorageFrom[i].File == "" {
			c.Add(field.Required(specPath.Child("storageFrom").Index(i).Child("file"), "the name of a file with claims, volumes and the like"))
		}
	}
	names := sets.New[string]()
	admission.Each(specPath.Child("storageClasses"), s.StorageClasses, func(class *storagev1.StorageClass, at *field.Path) {
		c.unique(at.Child("metadata", "name"), class.Name, class.Name, names)
		if class.Provisioner == "" {
			c.Add(field.Required(at.Child("provisioner"), "the driver that makes volumes, or kubernetes.io/no-provisioner"))
		}
		admission.Option(&c.Checker, at.Child("volumeBindingMode"), ptr.Deref(class.VolumeBindingMode, ""), storagev1.VolumeBindingImmediate,
			storagev1.VolumeBindingWaitForFirstConsumer)
		admission.Each(at.Child("allowedTopologies"), class.AllowedTopologies, func(t *v1.TopologySelectorTerm, at *field.Path) {
			admission.Each(at.Child("matchLabelExpressions"), t.MatchLabelExpressions, func(e *v1.TopologySelectorLabelRequirement, at *field.Path) {
				c.Add(admission.LabelKey(at.Child("key"), e.Key))
			})
		})
	})
}

// claimTemplates checks the templates of the claims of a workload's pods.
func (c *checker) claimTemplates(templates []v1.PersistentVolumeClaim, at *field.Path) {
	names := sets.New[string]()
	admission.Each(at, templates, func(t *v1.PersistentVolumeClaim, at *field.Path) {
		c.unique(at.Child("metadata", "name"), t.Name, t.Name, names)
		for j, mode := range t.Spec.AccessModes {
			if !slices.Contains(accessModes, mode) {
				c.Add(field.NotSupported(at.Child("spec", "accessModes").Index(j), mode, accessModes))
			}
		}
		c.Add(admission.Claim(at.Child("spec"), &t.Spec)...)
	})
}

func (c *checker) podShape(p *v1alpha1.PodShape, at *field.Path) {
	c.Add(admission.Labels(at.Child("labels"), p.Labels)...)
	if p.Template == nil {
		c.amounts(at.Child("requests"), p.Requests, admission.OfPod)
		c.Add(admission.Labels(at.Child("nodeSelector"), p.NodeSelector)...)
		c.Add(admission.Tolerations(at.Child("tolerations"), p.Tolerations)...)
		c.Add(admission.Spread(at.Child("spread"), spreadConstraints("", p.Spread))...)
		return
	}
	if p.Requests != nil || p.NodeSelector != nil || p.Tolerations != nil || p.Spread != nil || p.OnePerNode {
		c.Add(field.Forbidden(at.Child("template"), "not together with requests, nodeSelector, tolerations, spread or onePerNode"))
	}
	c.Add(admission.Labels(at.Child("template", "metadata", "labels"), p.Template.Labels)...)
	c.Add(admission.PodSpec(at.Child("template", "spec"), &p.Template.Spec)...)
}

// workloadSpreads checks the WorkloadSpreads of a document.
func (c *checker) workloadSpreads(s *v1alpha1.ScenarioSpec) {
	names := sets.New[string]()
	for i := range s.WorkloadSpreads {
		w, at := &s.WorkloadSpreads[i], specPath.Child("workloadSpreads").Index(i)
		admission.Option(&c.Checker, at.Child("apiVersion"), w.APIVersion, v1alpha1.APIVersion)
		admission.Option(&c.Checker, at.Child("kind"), w.Kind, v1alpha1.KindWorkloadSpread)
		c.unique(at.Child("metadata", "name"), w.Name, orDefault(w.Namespace)+"/"+w.Name, names)
		object := *w
		object.Namespace = orDefault(w.Namespace)
		var others []v1alpha1.WorkloadSpread
		for _, other := range s.WorkloadSpreads[:i] {
			if orDefault(other.Namespace) == object.Namespace && other.Name != object.Name {
				other.Namespace = object.Namespace
				others = append(others, other)
			}
		}
		for _, err := range append(workloadspread.Validate(&w.Spec, nil), workloadspread.ValidateTarget(&object, others)...) {
			err.Field = at.String() + "." + err.Field
			c.Add(err)
		}
	}
}

// notBefore checks that a time is not before the last one, and returns the later of them.
func (c *checker) notBefore(at *field.Path, d, last time.Duration) time.Duration {
	if d < last {
		c.Add(field.Invalid(at, d.String(), fmt.Sprintf("must not be before %v", last)))
	}
	return max(last, d)
}

// rollouts checks when a workload begins new revisions, and how many pods these may have.
func (c *checker) rollouts(w *v1alpha1.ScenarioWorkload, at *field.Path) {
	last := w.Arrive.Duration
	for i, rollout := range w.Rollouts {
		last = c.notBefore(at.Child("rollouts").Index(i).Child("at"), rollout.At.Duration, last)
	}
	kind := kindOfWorkload(w)
	for _, f := range []struct {
		name  string
		given bool
		value *intstr.IntOrString
	}{
		{"rollouts", len(w.Rollouts) > 0, nil},
		{"maxSurge", w.MaxSurge != nil, w.MaxSurge},
		{"maxUnavailable", w.MaxUnavailable != nil, w.MaxUnavailable},
	} {
		if f.given && kind != v1alpha1.WorkloadDeployment {
			c.Add(field.Forbidden(at.Child(f.name), "is for kind Deployment, not for "+kind))
		} else if f.value != nil {
			if n, err := intstr.GetScaledValueFromIntOrPercent(f.value, 100, true); err != nil || n < 0 {
				c.Add(field.Invalid(at.Child(f.name), f.value.String(), "must be a number or a percentage, 0 or more"))
			}
		}
	}
}
