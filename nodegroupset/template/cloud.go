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
	var common *nodegroupset.CloudPack
	providerID := "" // that names it
	for _, group := range slices.Sorted(maps.Keys(templates)) {
		node := templates[group].Node
		if node == nil {
			continue
		}
		switch named := packs.NamedCloud(node.Spec.ProviderID); {
		case named == nil:
		case common == nil:
			common, providerID = named, node.Spec.ProviderID
		case named != common:
			return nil
		}
	}
	for group, t := range templates {
		if t.Node == nil || common == nil || packs.ShowsCloud(t.Node) {
			continue
		}
		node := *t.Node
		node.Spec.ProviderID = providerID
		templates[group] = cloudprovider.Template{Node: &node, Pods: t.Pods}
	}
	return nil
}
