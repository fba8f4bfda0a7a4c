package fakecloud

import (
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
)

// KeepCloud removes from a scenario all that is not about its cloud: what pods,
// the autoscaler and the end of the run are concerned with. It returns the paths
// of the fields that were set, in the order of the reference. Objects stay, since the
// nodes among them are the cloud's.
func KeepCloud(s *v1alpha1.Scenario) (ignored []string) {
	spec := reflect.ValueOf(&s.Spec).Elem()
	for _, name := range []string{
		"duration", "autoscaler", "options", "policies", "storageFrom", "storageClasses", "podsFrom", "daemonSetsFrom", "daemonSets",
		"workloads", "workloadSpreads", "expect",
	} {
		field := spec.FieldByName(strings.ToUpper(name[:1]) + name[1:])
		if !field.IsZero() && (field.Kind() != reflect.Slice || field.Len() > 0) {
			ignored = append(ignored, "spec."+name)
		}
		field.SetZero()
	}
	return ignored
}

// CheckNames says what an API server would not take: owner is the name that
// marks nodes, and nodes are named after their groups.
func CheckNames(owner string, groups []fake.Group) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsValidLabelValue(owner) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), owner, "nodes are marked with it: "+problem))
	}
	for _, g := range groups {
		name := g.ID + "-0001"
		problems := validation.IsDNS1123Subdomain(name)
		if len(problems) == 0 {
			problems = validation.IsValidLabelValue(name)
		}
		for _, problem := range problems {
			errs = append(errs, field.Invalid(field.NewPath("spec", "nodeGroups"), g.ID,
				fmt.Sprintf("its nodes would be named %s, which is also their label %s: %s", name, v1.LabelHostname, problem)))
		}
	}
	return errs
}
