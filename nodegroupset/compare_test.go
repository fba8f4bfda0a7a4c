package nodegroupset

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

func TestCompareAnyTwoGroups(t *testing.T) {
	x := indexOf(t, Options{}, readTemplates(t, "snapshot-templates.json"))
	for _, miss := range x.Explain().Misses {
		if diff := cmp.Diff(miss, x.Compare(miss.Left, miss.Right)); diff != "" {
			t.Errorf("differs from the report (-want +got):\n%s", diff)
		}
	}
	far := x.Compare("m5-large-b", "m5-xlarge-c")
	if len(far.Differences) <= missFields || len(far.Remedy.Obstacles) == 0 || len(far.Stock.Obstacles) == 0 {
		t.Errorf("groups that no flag joins: %+v", far)
	}
	alike := x.Compare("m5-large-b", "m5-large-c")
	if len(alike.Differences) > 0 || !reflect.DeepEqual(alike.Remedy, Remedy{}) || len(alike.Stock.Flags) != 6 {
		t.Errorf("similar groups: %+v", alike)
	}
	want := Miss{Pair: Pair{Left: "m5-large-b", Right: "nobody"}}
	if diff := cmp.Diff(want, x.Compare("m5-large-b", "nobody")); diff != "" {
		t.Errorf("an unknown group (-want +got):\n%s", diff)
	}
}

func TestCompareByBalancingLabels(t *testing.T) {
	x := indexOf(t, Options{Labels: []string{"pool", "team"}}, map[string]cloudprovider.Template{
		"a": template(setLabels("pool", "red", "team", "x")), "b": template(setLabels("pool", "red", "team", "x")),
		"c": template(setLabels("pool", "red", "team", "y")),
	})
	alike := x.Compare("a", "b")
	if diff := cmp.Diff([]string{"--balancing-label=pool", "--balancing-label=team"}, alike.Stock.Flags); diff != "" ||
		len(alike.Remedy.Flags) > 0 {
		t.Errorf("similar groups: %+v", alike)
	}
	if diff := cmp.Diff([]string{"--balancing-label=pool"}, x.Compare("a", "c").Remedy.Flags); diff != "" {
		t.Errorf("remedy (-want +got):\n%s", diff)
	}
}
