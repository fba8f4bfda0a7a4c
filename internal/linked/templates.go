package linked

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// compared is the template the index compares. It shares the node and the pods with the
// autoscaler's.
func (t Template) compared() cloudprovider.Template {
	return cloudprovider.Template{Node: t.Node, Pods: t.Pods()}
}

// same reports whether two templates of one group are alike in all that is compared. The autoscaler
// makes new ones in every loop, which differ in their random names and therefore in the hostname
// label.
func (t Template) same(other Template) bool {
	if t.Node == nil || other.Node == nil {
		return false
	}
	return sameNode(t.Node, other.Node) && maps.Equal(t.Requested, other.Requested)
}

func sameNode(a, b *v1.Node) bool {
	return sameLabels(a.Labels, b.Labels) && slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, sameTaint) &&
		sameAmounts(a.Status.Capacity, b.Status.Capacity) && sameAmounts(a.Status.Allocatable, b.Status.Allocatable) &&
		scheme(a) == scheme(b) && a.Status.NodeInfo.KubeletVersion == b.Status.NodeInfo.KubeletVersion
}

func sameTaint(a, b v1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }

// scheme is the part of the provider id that names the cloud.
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
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
