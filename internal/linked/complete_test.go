package linked

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// kubelet is what a node says of itself that a cloud does not know.
func kubelet(n *v1.Node) {
	n.Labels["example.com/rack"] = "r"
	n.Status.Capacity["hugepages-2Mi"] = resource.MustParse("64Mi")
	n.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("64Mi")
}

func nobodySaw(n *v1.Node) { n.Status.NodeInfo.KubeletVersion = "" }

func TestEmptyGroupsAreSimilarToPopulatedOnes(t *testing.T) {
	f, s := newCloud(), newSets(t)
	f.group("populated", "one", kubelet)
	f.group("populated-too", "one", kubelet)
	f.group("empty", "one", nobodySaw)
	f.group("another-pool", "two", nobodySaw)
	wantNames(t, f.similar(s, "empty"), "populated", "populated-too")
	wantNames(t, f.similar(s, "populated"), "empty", "populated-too")
	wantNames(t, f.similar(s, "another-pool"))

	f.next() // the model changes, and so does what it completes
	f.template("populated", "one", kubelet, func(n *v1.Node) { n.Labels["example.com/rack"] = "other" })
	delete(f.templates, "populated-too")
	wantNames(t, f.similar(s, "empty"), "populated")

	f.next() // without a model nothing is completed any more
	delete(f.templates, "populated")
	f.group("empty-too", "one", nobodySaw)
	wantNames(t, f.similar(s, "empty"), "empty-too")
}

func TestWhatIsNotGuessed(t *testing.T) {
	gpu := func(n *v1.Node) {
		n.Status.Capacity["example.com/gpu"] = resource.MustParse("1")
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
	}
	for _, test := range []struct {
		name            string
		populated, bare func(*v1.Node)
		options         func(*Flags)
	}{
		{"an extended resource", gpu, nobodySaw, nil},
		{"anything beside another difference", kubelet, func(n *v1.Node) { nobodySaw(n); n.Labels["example.com/team"] = "t" }, nil},
		{"a label that the user chose", kubelet, nobodySaw, func(o *Flags) { o.Labels = []string{"pool", "example.com/rack"} }},
		{"the templates of nodes", kubelet, func(*v1.Node) {}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.options == nil {
				test.options = func(*Flags) {}
			}
			f, s := newCloud(), newSets(t, test.options)
			f.group("populated", "one", test.populated)
			f.group("empty", "one", test.bare)
			wantNames(t, f.similar(s, "empty"))
		})
	}
}

func TestATellingLabelRulesModelsOut(t *testing.T) {
	f, s := newCloud(), newSets(t)
	for _, pool := range []string{"one", "two", "three"} {
		f.group("populated-"+pool, pool, kubelet)
		f.group("empty-"+pool, pool, nobodySaw)
	}
	// One that has no such label keeps being possible for all, and fits none here.
	f.group("without", "", kubelet, func(n *v1.Node) { delete(n.Labels, "pool") })
	for _, pool := range []string{"one", "two", "three"} {
		wantNames(t, f.similar(s, "empty-"+pool), "populated-"+pool)
	}
	wantNames(t, f.similar(s, "without"))
}
