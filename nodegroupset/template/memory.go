package template

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Memory remembers from round to round what the nodes of each group looked like and which
// providerID has shown the cloud of the group, so that a template stays the same when the group is
// empty again. It is not safe for concurrent use.
type Memory struct {
	packs     nodegroupset.LabelPacks
	templates map[string]*cloudprovider.Template
	named     map[string]string // providerIDs
}

// NewMemory returns an empty Memory. An error means that the shipped label packs cannot be read.
func NewMemory() (*Memory, error) {
	packs, err := nodegroupset.ShippedPacks()
	return &Memory{packs: packs, templates: map[string]*cloudprovider.Template{}, named: map[string]string{}}, err
}

// Template returns the template last kept for the group; ok is false if there is none.
func (m *Memory) Template(group string) (t *cloudprovider.Template, ok bool) {
	t, ok = m.templates[group]
	return t, ok
}

// Keep remembers the template of a group that was made from one of its nodes.
func (m *Memory) Keep(group string, t *cloudprovider.Template) { m.templates[group] = t }

// NamesCloud reports whether a node of the group has ever named its cloud by its providerID, one of
// the given ones included. Of these the first by name counts.
func (m *Memory) NamesCloud(group string, nodes ...*v1.Node) bool {
	if m.named[group] != "" {
		return true
	}
	var first *v1.Node
	for _, n := range nodes {
		if m.packs.NamesCloud(n) && (first == nil || n.Name < first.Name) {
			first = n
		}
	}
	if first != nil {
		m.named[group] = first.Spec.ProviderID
	}
	return first != nil
}

// ShareCloud is the function ShareCloud, with the providerIDs of all groups that have ever named
// their cloud.
func (m *Memory) ShareCloud(templates map[string]cloudprovider.Template) {
	shareCloud(m.packs, templates, m.named)
}
