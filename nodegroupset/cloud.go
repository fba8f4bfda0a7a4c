package nodegroupset

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// clouds are all clouds that the packs know, also those of packs that are off.
type clouds []*CloudPack

func (l LabelPacks) clouds() clouds {
	var all clouds
	for _, pack := range l.Packs {
		if pack.Cloud != nil {
			all = append(all, pack.Cloud)
		}
	}
	return all
}

// byScheme finds the cloud whose scheme a providerID has; nil if there is none.
func (c clouds) byScheme(providerID string) *CloudPack {
	scheme, _, found := strings.Cut(providerID, ":")
	if !found {
		return nil
	}
	i := slices.IndexFunc(c, func(cloud *CloudPack) bool { return slices.Contains(cloud.Schemes, scheme) })
	if i < 0 {
		return nil
	}
	return c[i]
}

// show reports whether a node is one of a cloud. Its providerID decides if it
// names any cloud. Ids such as fake://, kwok:// and openstack:// name none; they
// must not make a node differ from a template that has no id yet.
func (c clouds) show(cloud *CloudPack, f *facts) bool {
	if own := c.byScheme(f.providerID); own != nil {
		return own == cloud
	}
	return slices.ContainsFunc(f.labels, func(l label) bool { return cloud.hasPrefix(l.key) })
}

func (c *CloudPack) hasPrefix(key string) bool {
	return slices.ContainsFunc(c.Prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// NamedCloud returns the cloud whose scheme a providerID has, and so which labels are compared; nil if the packs
// know none.
func (l LabelPacks) NamedCloud(providerID string) *CloudPack { return l.clouds().byScheme(providerID) }

// NamesCloud reports whether the node's providerID has the scheme of a cloud.
func (l LabelPacks) NamesCloud(node *v1.Node) bool { return l.NamedCloud(node.Spec.ProviderID) != nil }

// ShowsCloud reports whether the node shows by its providerID or by any label of
// which cloud it is.
func (l LabelPacks) ShowsCloud(node *v1.Node) bool {
	return l.NamesCloud(node) || slices.ContainsFunc(l.clouds(), func(c *CloudPack) bool {
		for key := range node.Labels {
			if c.hasPrefix(key) {
				return true
			}
		}
		return false
	})
}
