package fakecloud

import (
	"fmt"
	"reflect"

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
	spec := &s.Spec
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"duration", spec.Duration != nil},
		{"autoscaler", !reflect.ValueOf(spec.Autoscaler).IsZero()},
		{"options", !reflect.ValueOf(spec.Options).IsZero()},
		{"policies", len(spec.Policies) > 0},
		{"storageFrom", len(spec.StorageFrom) > 0},
		{"storageClasses", len(spec.StorageClasses) > 0},
		{"podsFrom", len(spec.PodsFrom) > 0},
		{"daemonSetsFrom", len(spec.DaemonSetsFrom) > 0},
		{"daemonSets", len(spec.DaemonSets) > 0},
		{"workloads", len(spec.Workloads) > 0},
		{"workloadSpreads", len(spec.WorkloadSpreads) > 0},
		{"expect", spec.Expect != nil},
	} {
		if f.set {
			ignored = append(ignored, "spec."+f.name)
		}
	}
	spec.Duration, spec.Expect = nil, nil
	spec.Autoscaler, spec.Options = v1alpha1.ScenarioAutoscaler{}, v1alpha1.ScenarioOptions{}
	spec.StorageFrom, spec.StorageClasses, spec.Policies = nil, nil, nil
	spec.PodsFrom, spec.DaemonSetsFrom, spec.DaemonSets, spec.Workloads, spec.WorkloadSpreads = nil, nil, nil, nil, nil
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
