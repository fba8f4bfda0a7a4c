package document_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/evenkeel/evenkeel/internal/document"
)

// pack packs items, and checks that they come out as they were.
func pack(t testing.TB, items []document.Item) *document.Packed {
	t.Helper()
	packed := new(document.Packed)
	for _, item := range items {
		if err := packed.Add(item); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // each time anew
		again, _, err := collect(packed.All(nil))
		if err != nil || !apiequality.Semantic.DeepEqual(again, items) {
			t.Fatalf("%+v became %+v, %v", items, again, err)
		}
	}
	return packed
}

// TestPackedObjectsAreAsTheyWere: with an encoding of their own or without, with the kind in an item or only in its list.
func TestPackedObjectsAreAsTheyWere(t *testing.T) {
	var all []document.Item
	for _, text := range []string{
		testdata(t, "pods.json"), testdata(t, "nodes.json"), testdata(t, "daemonsets.json"),
		`{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a", "labels": {}}, "spec": {"containers": [{"name": "c"}], "volumes": []}}]}`,
		`{"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "b"}, "spec": {"limits": {"cpu": "1500m"}}}`,
	} {
		items, _, err := collect(objects(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, items...)
	}
	packed := pack(t, all)
	if err := packed.Add(all[0]); err != nil { // after it was read
		t.Fatal(err)
	}
	_, names, err := collect(packed.All(func(kind string) bool { return kind == "Pod" }))
	if err != nil || slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, "Pod ") }) || names[0] != names[len(names)-1] {
		t.Errorf("pods: %v, %v", names, err)
	}
}

// TestScanHoldsEqualObjectsSmall: a dump may have a million pods that differ in their names alone.
func TestScanHoldsEqualObjectsSmall(t *testing.T) {
	pod := aPod(t, "json")
	var list strings.Builder
	for i := range 2000 {
		fmt.Fprintln(&list, strings.Replace(pod, `"name":`, fmt.Sprintf(`"generateName": "p%d", "name":`, i), 1))
	}
	contents, err := document.Scan([]string{"-"}, document.Stdin(strings.NewReader(list.String())), document.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if held := contents.Objects.Size(); held > list.Len()/20 {
		t.Errorf("%d bytes are held of %d", held, list.Len())
	}
}
