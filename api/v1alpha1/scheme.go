package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme registers the kinds that a cluster stores with a scheme. Planning documents are not
// among them.
func AddToScheme(s *runtime.Scheme) error {
	version := schema.GroupVersion{Group: Group, Version: Version}
	s.AddKnownTypes(version, &Balancer{}, &BalancerList{}, &FederatedReplicaSet{}, &FederatedReplicaSetList{},
		&MemberCluster{}, &MemberClusterList{}, &WorkloadSpread{}, &WorkloadSpreadList{})
	metav1.AddToGroupVersion(s, version)
	return nil
}
