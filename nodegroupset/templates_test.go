package nodegroupset

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// list reads resource amounts from pairs of name and quantity.
func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// template is a node of 4 cores and 16 GiB, changed by the given functions.
func template(changes ...func(*cloudprovider.Template)) cloudprovider.Template {
	t := cloudprovider.Template{Node: &v1.Node{}}
	t.Node.Labels = map[string]string{"pool": "blue"}
	t.Node.Status.Capacity = list("cpu", "4", "memory", "16Gi", "pods", "110")
	t.Node.Status.Allocatable = list("cpu", "3920m", "memory", "15Gi", "pods", "110")
	for _, change := range changes {
		change(&t)
	}
	return t
}

type change = func(*cloudprovider.Template)

func setCapacity(pairs ...string) change {
	return func(t *cloudprovider.Template) { maps.Copy(t.Node.Status.Capacity, list(pairs...)) }
}

func setAllocatable(pairs ...string) change {
	return func(t *cloudprovider.Template) { maps.Copy(t.Node.Status.Allocatable, list(pairs...)) }
}

func setLabels(pairs ...string) change {
	return func(t *cloudprovider.Template) {
		for i := 0; i < len(pairs); i += 2 {
			t.Node.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func providerID(id string) change {
	return func(t *cloudprovider.Template) { t.Node.Spec.ProviderID = id }
}

func setTaints(taints ...v1.Taint) change {
	return func(t *cloudprovider.Template) { t.Node.Spec.Taints = taints }
}

func requesting(pairs ...string) change {
	return func(t *cloudprovider.Template) { t.Pods = append(t.Pods, podOf(list(pairs...))) }
}

func podOf(requests v1.ResourceList) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}}}}
}

// ratio is ParseRatio for literals.
func ratio(t testing.TB, s string) *Ratio {
	t.Helper()
	r, err := ParseRatio(s)
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// indexOf returns an index of the templates.
func indexOf(t testing.TB, o Options, templates map[string]cloudprovider.Template) *Index {
	t.Helper()
	x, err := NewIndex(o)
	if err != nil {
		t.Fatal(err)
	}
	for name, template := range templates {
		if err := x.Set(name, template); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// readTemplates reads templates as a real cluster had them.
func readTemplates(t testing.TB, file string) map[string]cloudprovider.Template {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var templates map[string]cloudprovider.Template
	if err := json.Unmarshal(data, &templates); err != nil {
		t.Fatal(err)
	}
	return templates
}
