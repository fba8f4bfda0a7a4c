package scaleup

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Some labels make no difference on the nodes of one cloud. The cloud is found out
// from all that is known of a group, so that it is the same for a template of the
// catalogue, for the first node, and when the group is empty again.

// ShareCloud lets templates that show no cloud be of the one that the providerIDs
// of the others name, as an autoscaler works with one cloud. Where they name
// several it changes nothing. The templates, by group, are replaced, not changed.
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
	id := commonCloud(packs, named)
	for group, t := range templates {
		if id != "" && t.Node != nil && !packs.ShowsCloud(t.Node) {
			t.Node = withProviderID(t.Node, id)
			templates[group] = t
		}
	}
	return nil
}

// commonCloud is a providerID of the cloud that all given ones name, empty where
// they name none or several.
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

func withProviderID(n *v1.Node, id string) *v1.Node {
	changed := *n
	changed.Spec.ProviderID = id
	return &changed
}

// showClouds puts on every template the providerID that has shown the cloud of its
// group: now or in any earlier round, on any of its nodes or in the catalogue.
func (o *observer) showClouds(ctx context.Context, groups []Group) error {
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		return err
	}
	for i := range groups {
		if g := &groups[i]; g.Template != nil && o.named[g.ID] == "" {
			o.named[g.ID] = o.namesCloud(ctx, packs, g)
		}
	}
	named := maps.Clone(o.named)
	maps.DeleteFunc(named, func(_, id string) bool { return id == "" })
	common := commonCloud(packs, named)
	for i := range groups {
		g := &groups[i]
		if g.Template == nil {
			continue
		}
		id := o.named[g.ID]
		if id == "" && !packs.ShowsCloud(g.Template.Node) {
			id = common
		}
		if id != "" {
			g.Template = &cloudprovider.Template{Node: withProviderID(g.Template.Node, id), Pods: g.Template.Pods}
		}
	}
	return nil
}

// namesCloud finds a providerID that names the cloud of a group: of its template,
// of its nodes by name, or, asked once only, of the catalogue. Without any it is
// empty.
func (o *observer) namesCloud(ctx context.Context, packs nodegroupset.LabelPacks, g *Group) string {
	if packs.NamesCloud(g.Template.Node) {
		return g.Template.Node.Spec.ProviderID
	}
	var best *v1.Node
	for _, n := range o.members[g.ID] {
		if packs.NamesCloud(n.Node) && (best == nil || n.Node.Name < best.Name) {
			best = n.Node
		}
	}
	if best != nil {
		return best.Spec.ProviderID
	}
	if o.askedCloud[g.ID] || g.TemplateFrom == fromCloud {
		return ""
	}
	o.askedCloud[g.ID] = true
	if t, err := o.provider.Template(ctx, g.ID); err == nil && t.Node != nil && packs.NamesCloud(t.Node) {
		return t.Node.Spec.ProviderID
	}
	return ""
}
