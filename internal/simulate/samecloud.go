package simulate

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// shareCloud makes all nodes and the template of a group be of one cloud, as in life, and groups that
// show none be of the one that all others show. Which labels are compared depends on it, so it must not
// change between a template, the nodes of files and those that are made from the template.
func (s *Setup) shareCloud(packs nodegroupset.LabelPacks) {
	shown := make([]string, len(s.Cloud.Groups)) // a providerID that names a cloud
	common, several := "", false
	for i := range s.Cloud.Groups {
		for _, n := range nodesOf(&s.Cloud.Groups[i]) {
			if shown[i] == "" && packs.NamesCloud(n) {
				shown[i] = n.Spec.ProviderID
			}
		}
		several = several || common != "" && shown[i] != "" && !packs.SameCloud(common, shown[i])
		if common == "" {
			common = shown[i]
		}
	}
	for i := range s.Cloud.Groups {
		g, of := &s.Cloud.Groups[i], shown[i]
		if of == "" && !several && !packs.ShowsCloud(g.Template.Node) {
			of = common
		}
		scheme, _, found := strings.Cut(of, ":")
		if !found {
			continue
		}
		ofCloud := func(n *v1.Node) *v1.Node {
			if packs.NamesCloud(n) {
				return n
			}
			out := *n // it may be the template of others
			_, rest, _ := strings.Cut(n.Spec.ProviderID, "://")
			out.Spec.ProviderID = scheme + "://" + g.ID + "/" + n.Name + rest
			return &out
		}
		g.Template.Node = ofCloud(g.Template.Node)
		for at, n := range g.Nodes {
			g.Nodes[at] = ofCloud(n)
		}
	}
}

// nodesOf are the template of a group and its nodes at the start.
func nodesOf(g *fake.Group) []*v1.Node {
	return append([]*v1.Node{g.Template.Node}, g.Nodes...)
}
