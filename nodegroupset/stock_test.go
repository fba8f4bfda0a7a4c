package nodegroupset

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

func stockTemplate(labels map[string]string, extra v1.ResourceName) cloudprovider.Template {
	resources := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi")}
	if extra != "" {
		resources[extra] = resource.MustParse("0")
	}
	return cloudprovider.Template{Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Status: v1.NodeStatus{Capacity: resources, Allocatable: resources}}}
}

// What Cluster Autoscaler compares depends on the cloud that it is built for.
func TestStockIndex(t *testing.T) {
	for _, test := range []struct {
		name        string
		cloud       string
		options     Options
		left, right cloudprovider.Template
		want        bool
	}{
		{"an AWS label, AWS", "aws", Options{}, stockTemplate(map[string]string{"eks.amazonaws.com/nodegroup": "a"}, ""),
			stockTemplate(map[string]string{"eks.amazonaws.com/nodegroup": "b"}, ""), true},
		{"an AWS label, elsewhere", "kwok", Options{}, stockTemplate(map[string]string{"eks.amazonaws.com/nodegroup": "a"}, ""),
			stockTemplate(map[string]string{"eks.amazonaws.com/nodegroup": "b"}, ""), false},
		{"a label that only evenkeel ignores", "aws", Options{}, stockTemplate(map[string]string{"eks.amazonaws.com/sourceLaunchTemplateId": "a"},
			""), stockTemplate(nil, ""), false},
		{
			"a label that is ignored by flag", "gce", Options{IgnoreLabels: []string{"pool"}},
			stockTemplate(map[string]string{"pool": "a"}, ""), stockTemplate(map[string]string{"pool": "b"}, ""), true,
		},
		{"the zone", "", Options{}, stockTemplate(map[string]string{v1.LabelTopologyZone: "a"}, ""),
			stockTemplate(map[string]string{v1.LabelTopologyZone: "b"}, ""), true},
		{"a resource that one side does not list", "", Options{}, stockTemplate(nil, "hugepages-1Gi"), stockTemplate(nil, ""), false},
		{
			"labels that decide alone", "", Options{Labels: []string{"set"}},
			stockTemplate(map[string]string{"set": "x", "pool": "a"}, "hugepages-1Gi"), stockTemplate(map[string]string{"set": "x", "pool": "b"},
				""), true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			index, err := NewStockIndex(test.cloud, test.options)
			if err != nil {
				t.Fatal(err)
			}
			for name, template := range map[string]cloudprovider.Template{"left": test.left, "right": test.right} {
				if err := index.Set(name, template); err != nil {
					t.Fatal(err)
				}
			}
			if got := slices.Contains(index.Similar("left"), "right"); got != test.want {
				t.Errorf("similar: %t, want %t", got, test.want)
			}
			if differences := index.Differences("left", "right"); (len(differences) == 0) != test.want {
				t.Errorf("differences %v, similar %t", differences, test.want)
			}
		})
	}
}

// Old releases compare labels of places and of node pools that later ones ignore.
func TestLabelsThatOldReleasesCompare(t *testing.T) {
	const zone, pool = "topology.k8s.aws/zone-id", "kubernetes.azure.com/node-image-version"
	for _, test := range []struct {
		cloud        string
		minor, patch int
		label        string // empty if there are none
		fixed        int
	}{
		{"aws", 31, 5, zone, 0}, {"aws", 33, 3, zone, 4}, {"aws", 33, 4, "", 0}, {"aws", 33, -1, "", 0}, {"aws", 35, 0, "", 0},
		{"gce", 30, 0, "", 0},
		{"azure", 30, 2, pool, 3}, {"azure", 30, 3, "", 0}, {"azure", 31, 0, "", 0},
	} {
		labels, fixed := StockLate(test.cloud, test.minor, test.patch)
		if (test.label == "") != (labels == nil) || test.label != "" && !slices.Contains(labels, test.label) || fixed != test.fixed {
			t.Errorf("%s, 1.%d.%d: %v, fixed in %d", test.cloud, test.minor, test.patch, labels, fixed)
		}
		index, err := NewStockIndex(test.cloud, Options{}, labels...)
		if err != nil {
			t.Fatal(err)
		}
		key := zone
		if test.cloud == "azure" {
			key = pool
		}
		for _, name := range []string{"a", "b"} {
			if err := index.Set(name, stockTemplate(map[string]string{key: name}, "")); err != nil {
				t.Fatal(err)
			}
		}
		if similar := index.AreSimilar("a", "b"); similar != (test.label == "" && test.cloud != "gce") {
			t.Errorf("%s, 1.%d.%d: similar %t", test.cloud, test.minor, test.patch, similar)
		}
	}
}

func TestStockCloud(t *testing.T) {
	node := func(id string, annotations map[string]string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: v1.NodeSpec{ProviderID: id}}
	}
	plain := node("aws:///us-east-1a/i-1", nil)
	for _, test := range []struct {
		name  string
		nodes []*v1.Node
		want  string
	}{
		{"nothing is known", []*v1.Node{node("", nil)}, ""},
		{"the first that has one", []*v1.Node{node("", nil), plain, node("kwok://n", nil)}, "aws"},
		{"a machine of the Cluster API", []*v1.Node{plain, node("aws:///us-east-1a/i-2", map[string]string{ownerOfMachine: "md-0-x5k2q"})},
			"clusterapi"},
		{"a machine of OpenShift", []*v1.Node{node("gce://p/z/n", map[string]string{openShiftMachine: "openshift-machine-api/w-7h2ds"})},
			"clusterapi"},
	} {
		if got := StockCloud(slices.Values(test.nodes)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
