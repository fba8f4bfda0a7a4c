package store_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

func ExampleStore_Update() {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	web := &v1alpha1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(web).WithStatusSubresource(web).Build()

	s := store.New(server, server, nil)
	stored, err := s.Update(context.Background(), client.ObjectKeyFromObject(web),
		func(o *v1alpha1.WorkloadSpread, _ *store.Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
			status := o.Status
			status.Replicas = 3
			return &status, status.Replicas != o.Status.Replicas, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(stored.Status.Replicas)
	// Output: 3
}
