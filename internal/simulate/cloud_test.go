package simulate

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// TestNodeTimesReachTheCloud: every time of a node group that a scenario can set is one of the
// cloud's, under the same name.
func TestNodeTimesReachTheCloud(t *testing.T) {
	times := v1alpha1.NodeTimes{}
	given := reflect.ValueOf(&times).Elem()
	for i := range given.NumField() {
		given.Field(i).Set(reflect.ValueOf(&metav1.Duration{Duration: time.Duration(i+1) * time.Hour}))
	}
	group := reflect.ValueOf(cloudGroup("a", nil, &times))
	for i := range given.NumField() {
		name := given.Type().Field(i).Name
		if got, want := group.FieldByName(name), time.Duration(i+1)*time.Hour; !got.IsValid() || got.Interface() != want {
			t.Errorf("%s of the cloud is %v, want %v", name, got, want)
		}
	}
}
