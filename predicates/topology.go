package predicates

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// volumeZoneLabels are the labels of volumes that VolumeZone looks at.
var volumeZoneLabels = []string{
	v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion,
}

const azureDiskZone = "topology.disk.csi.azure.com/zone"

// zoneKeys are the node labels by which storage drivers name a node's zone. The driver's pod sets
// them once it runs on the node, so templates mostly lack them.
var zoneKeys = []string{
	"topology.ebs.csi.aws.com/zone",
	"topology.gke.io/zone",
	azureDiskZone,
	"topology.cinder.csi.openstack.org/zone",
	"topology.diskplugin.csi.alibabacloud.com/zone",
	v1.LabelFailureDomainBetaZone,
}

// watchTopology notes which labels of drivers matter.
func (s *storage) watchTopology(keys []string) {
	for _, key := range keys {
		if slices.Contains(zoneKeys, key) {
			s.topologyKeys.Insert(key)
		}
	}
}

// withDriverLabels returns the node with the zone labels of storage drivers that volumes and classes look at
// and that it lacks. What a driver has said of the very node is left as it is.
func (s *storage) withDriverLabels(n *v1.Node) *v1.Node {
	if s.topologyKeys.Len() == 0 {
		return n
	}
	var labels map[string]string
	for _, key := range zoneKeys {
		if _, there := n.Labels[key]; there || !s.topologyKeys.Has(key) || s.driverSets(n, key) {
			continue
		}
		value, follows := labelOf(n, key)
		if !follows {
			continue
		}
		if labels == nil {
			labels = maps.Clone(n.Labels)
		}
		labels[key] = value
	}
	if labels == nil {
		return n
	}
	c := *n
	c.Labels = labels
	return &c
}

// driverSets reports whether a driver on the node knows the label key.
func (s *storage) driverSets(n *v1.Node, key string) bool {
	own, found := stored[*storagev1.CSINode](s.csiNodes, n.Name)
	return found && slices.ContainsFunc(own.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return slices.Contains(d.TopologyKeys, key) })
}

// labelOf is a label of a node, or what a driver sets there for its zone.
func labelOf(n *v1.Node, key string) (string, bool) {
	if value, there := n.Labels[key]; there {
		return value, true
	}
	zone := n.Labels[v1.LabelTopologyZone]
	if zone == "" {
		zone = n.Labels[v1.LabelFailureDomainBetaZone]
	}
	if zone == "" || !slices.Contains(zoneKeys, key) {
		return "", false
	}
	if key == azureDiskZone && zone == "0" {
		return "", true // a node outside of zones
	}
	return zone, true
}
