package template_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// A template that does not show its cloud is of the one that the others name, unless they name several.
func TestShareCloud(t *testing.T) {
	for name, test := range map[string]struct {
		ids  map[string]string // of the groups
		want string            // the providerID of group "c"
	}{
		"the first that is named":  {map[string]string{"b": "aws:///b/i-2", "a": "aws:///a/i-1", "c": ""}, "aws:///a/i-1"},
		"an id that names none":    {map[string]string{"a": "aws:///a/i-1", "c": "kwok://c"}, "aws:///a/i-1"},
		"two clouds":               {map[string]string{"a": "aws:///a/i-1", "b": "gce://p/z/b", "c": ""}, ""},
		"none that is named":       {map[string]string{"a": "kwok://a", "c": ""}, ""},
		"a template shows its own": {map[string]string{"a": "aws:///a/i-1", "c": "aws:///c/i-3"}, "aws:///c/i-3"},
	} {
		templates := map[string]cloudprovider.Template{"without a node": {}}
		for group, id := range test.ids {
			templates[group] = cloudprovider.Template{Node: &v1.Node{Spec: v1.NodeSpec{ProviderID: id}}}
		}
		given := templates["c"].Node
		if err := template.ShareCloud(templates); err != nil {
			t.Fatal(err)
		}
		if got := templates["c"].Node.Spec.ProviderID; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		if given.Spec.ProviderID != test.ids["c"] {
			t.Errorf("%s: the template that was given became %q", name, given.Spec.ProviderID)
		}
	}
}
