package join_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/join"
)

// A member that cannot be reached any more is taken back in the host alone.
func ExampleLeave() {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = v1alpha1.AddToScheme(scheme)
	paris := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}
	paris.Spec.KubeconfigSecretRef.Name = "member-paris"
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "evenkeel-system", Name: "member-paris", Labels: map[string]string{"evenkeel.dev/member-cluster": "paris"},
	}}
	host := join.Cluster{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(paris, secret).Build()}

	steps, err := join.Leave(context.Background(), host, join.Cluster{}, "paris", join.LeaveOptions{})
	for _, s := range steps {
		fmt.Println(s.Where, s.What, s.Result)
	}
	fmt.Println(err)
	// Output:
	// host membercluster/paris deleted
	// host secret/member-paris deleted
	// <nil>
}
