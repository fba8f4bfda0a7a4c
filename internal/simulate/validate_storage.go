package simulate

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
)

// The values that the API server accepts.
var (
	bindingModes = []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}
	accessModes  = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod}
)

// storage checks the document's own fields about storage.
func (c *checker) storage(s *v1alpha1.ScenarioSpec) {
	for i := range s.StorageFrom {
		if s.StorageFrom[i].File == "" {
			c.add(field.Required(specPath.Child("storageFrom").Index(i).Child("file"), "the name of a file with claims, volumes and the like"))
		}
	}
	names := sets.New[string]()
	for i := range s.StorageClasses {
		class, at := &s.StorageClasses[i], specPath.Child("storageClasses").Index(i)
		c.unique(at.Child("metadata", "name"), class.Name, class.Name, names)
		if class.Provisioner == "" {
			c.add(field.Required(at.Child("provisioner"), "the driver that makes volumes, or kubernetes.io/no-provisioner"))
		}
		if mode := class.VolumeBindingMode; mode != nil && !slices.Contains(bindingModes, *mode) {
			c.add(field.NotSupported(at.Child("volumeBindingMode"), *mode, bindingModes))
		}
		for j, t := range class.AllowedTopologies {
			for k, e := range t.MatchLabelExpressions {
				if err := admission.LabelKey(at.Child("allowedTopologies").Index(j).Child("matchLabelExpressions").Index(k).Child("key"), e.Key); err != nil {
					c.add(err)
				}
			}
		}
	}
}

// claimTemplates checks the templates of the claims of a workload's pods.
func (c *checker) claimTemplates(templates []v1.PersistentVolumeClaim, at *field.Path) {
	names := sets.New[string]()
	for i := range templates {
		t, at := &templates[i], at.Index(i)
		c.unique(at.Child("metadata", "name"), t.Name, t.Name, names)
		for j, mode := range t.Spec.AccessModes {
			if !slices.Contains(accessModes, mode) {
				c.add(field.NotSupported(at.Child("spec", "accessModes").Index(j), mode, accessModes))
			}
		}
		c.add(admission.Claim(at.Child("spec"), &t.Spec)...)
	}
}
