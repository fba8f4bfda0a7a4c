package clusterautoscaler

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"

	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
)

// templateOf is the template the engine compares. It shares the node and the pods with the autoscaler's.
func templateOf(info *framework.NodeInfo) cloudprovider.Template {
	t := cloudprovider.Template{Node: info.Node()}
	for _, pod := range info.GetPods() {
		t.Pods = append(t.Pods, pod.GetPod())
	}
	return t
}

// sameTemplate says whether two templates of one group are alike in all that is compared. The autoscaler makes new ones in every
// loop, which differ in their random names and therefore in the hostname label.
func sameTemplate(a, b *framework.NodeInfo) bool {
	switch {
	case a == b:
		return true
	case a == nil || b == nil || a.Node() == nil || b.Node() == nil:
		return false
	}
	return sameNode(a.Node(), b.Node()) && sameRequests(a, b)
}

func sameNode(a, b *v1.Node) bool {
	return sameLabels(a.Labels, b.Labels) && slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, sameTaint) &&
		sameAmounts(a.Status.Capacity, b.Status.Capacity) && sameAmounts(a.Status.Allocatable, b.Status.Allocatable) &&
		scheme(a) == scheme(b) && a.Status.NodeInfo.KubeletVersion == b.Status.NodeInfo.KubeletVersion
}

func sameTaint(a, b v1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }

// scheme is the part of the provider id that tells the cloud.
func scheme(node *v1.Node) string {
	scheme, _, _ := strings.Cut(node.Spec.ProviderID, "://")
	return scheme
}

func sameLabels(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, found := b[key]; !found || (other != value && key != v1.LabelHostname) {
			return false
		}
	}
	return true
}

func sameAmounts(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, amount := range a {
		if other, found := b[name]; !found || amount.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// sameRequests compares what the pods of the templates request.
func sameRequests(a, b *framework.NodeInfo) bool {
	if a.Requested == b.Requested {
		return true
	}
	if a.Requested.MilliCPU != b.Requested.MilliCPU || a.Requested.Memory != b.Requested.Memory ||
		a.Requested.EphemeralStorage != b.Requested.EphemeralStorage || len(a.GetPods()) != len(b.GetPods()) ||
		len(a.Requested.ScalarResources) != len(b.Requested.ScalarResources) {
		return false
	}
	for name, amount := range a.Requested.ScalarResources {
		if other, found := b.Requested.ScalarResources[name]; !found || other != amount {
			return false
		}
	}
	return true
}
