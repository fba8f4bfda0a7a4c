package admission_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/internal/admission"
)

// A resource that is misspelt.
func ExampleAmounts() {
	requests := v1.ResourceList{"cpus": resource.MustParse("64")}
	for _, err := range admission.Amounts(field.NewPath("requests"), requests, admission.OfPod) {
		fmt.Println(err)
	}
	// Output:
	// requests: Invalid value: "cpus": is not a resource of Kubernetes (did you mean "cpu"?)
}
