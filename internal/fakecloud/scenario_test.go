package fakecloud_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/fakecloud"
)

// Every field of a scenario is the cloud's, or is removed and told.
func TestKeepCloudKnowsEveryField(t *testing.T) {
	clouds := []string{"description", "now", "machines", "nodeGroups", "nodeGroupsFrom", "groupLabel", "nodesFrom", "objects", "quotas",
		"faults"}
	typ := reflect.TypeFor[v1alpha1.ScenarioSpec]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		var s v1alpha1.Scenario
		field := reflect.ValueOf(&s.Spec).Elem().Field(i)
		set(field)
		if field.IsZero() {
			t.Fatalf("the test does not set %s", name)
		}
		ignored := fakecloud.KeepCloud(&s)
		if slices.Contains(clouds, name) {
			if len(ignored) > 0 || field.IsZero() {
				t.Errorf("%s is the cloud's, but was removed: %v", name, ignored)
			}
			continue
		}
		if diff := cmp.Diff([]string{"spec." + name}, ignored); diff != "" || !field.IsZero() {
			t.Errorf("%s is not the cloud's, but was kept or not told: %s", name, diff)
		}
	}
}

// set gives a field some value.
func set(field reflect.Value) {
	switch field.Kind() { //nolint:exhaustive // a scenario has no others
	case reflect.String:
		field.SetString("x")
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Struct:
		set(field.Field(0))
	}
}

func TestCheckNames(t *testing.T) {
	for _, tc := range []struct {
		owner, group string
		want         string // "" for none
	}{
		{"three-zones", "zone-a", ""},
		{"three zones", "zone-a", "metadata.name"},
		{strings.Repeat("x", 64), "zone-a", "metadata.name"},
		{"f", "Zone_A", "spec.nodeGroups"},
		{"f", strings.Repeat("z", 59), "spec.nodeGroups"},
		{"f", strings.Repeat("z", 58), ""},
	} {
		errs := fakecloud.CheckNames(tc.owner, []fake.Group{{ID: tc.group}})
		if (len(errs) == 0) != (tc.want == "") || len(errs) > 0 && errs[0].Field != tc.want {
			t.Errorf("%q, %q: %v, want %q", tc.owner, tc.group, errs, tc.want)
		}
	}
}

func ExampleKeepCloud() {
	s := &v1alpha1.Scenario{}
	s.Spec.Duration = &metav1.Duration{Duration: time.Hour}
	s.Spec.Workloads = []v1alpha1.ScenarioWorkload{{Name: "web", Replicas: 3}}
	fmt.Println(fakecloud.KeepCloud(s))
	// Output: [spec.duration spec.workloads]
}
