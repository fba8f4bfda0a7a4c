package template

import (
	"maps"
	"slices"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Some labels make no difference on the nodes of one cloud. The cloud is found out from all that is
// known of a group, so that it is the same for the cloud's template, for the first node, and when
// the group is empty again.

// ShareCloud takes templates that do not show their cloud to be of the one that the providerIDs of
// the others name, as an autoscaler works with one cloud. If they name several, it changes nothing.
// The templates, by group, are replaced in the map and not changed.
func ShareCloud(templates map[string]cloudprovider.Template) error {
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		return err
	}
	named := map[string]string{}
	for group, t := range templates {
		if t.Node != nil && packs.NamesCloud(t.Node) {
			named[group] = t.Node.Spec.ProviderID
		}
	}
	common := commonCloud(packs, named)
	for group, t := range templates {
		if t.Node == nil || common == "" || packs.ShowsCloud(t.Node) {
			continue
		}
		node := *t.Node
		node.Spec.ProviderID = common
		templates[group] = cloudprovider.Template{Node: &node, Pods: t.Pods}
	}
	return nil
}

// commonCloud is a providerID of the cloud that all given ones name. It is empty if they name none
// or several.
func commonCloud(packs nodegroupset.LabelPacks, named map[string]string) string {
	first := ""
	for _, group := range slices.Sorted(maps.Keys(named)) {
		if id := named[group]; first == "" {
			first = id
		} else if !packs.SameCloud(first, id) {
			return ""
		}
	}
	return first
}
