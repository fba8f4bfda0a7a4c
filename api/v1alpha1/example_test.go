package v1alpha1_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

func ExampleAddToScheme() {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	kinds, _, err := scheme.ObjectKinds(&v1alpha1.Balancer{})
	fmt.Println(kinds, err)
	// Output: [evenkeel.dev/v1alpha1, Kind=Balancer] <nil>
}
