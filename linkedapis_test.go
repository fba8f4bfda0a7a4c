package evenkeel_test

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// builtIn are the packages that a Cluster Autoscaler with evenkeel is built from. They are of another module.
var builtIn = append([]string{"integrations/clusterautoscaler/cmd/cluster-autoscaler"}, linked...)

// Cluster Autoscaler brings a Kubernetes of its own, of another release than go.mod names. From
// release to release alpha versions of APIs disappear, so nothing that is linked into it uses one.
func TestLinkedCodeUsesNoAlphaAPI(t *testing.T) {
	packages, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	tree := treeOf(packages)
	apis := map[string]bool{}
	for _, dir := range builtIn {
		p, ok, err := loadPackage(dir)
		if err != nil || !ok {
			t.Fatalf("%s: %v", dir, err)
		}
		tree[p.path] = p.imports
		for _, api := range tree.apis(p.path) {
			apis[api] = true
			if strings.Contains(path.Base(api), "alpha") {
				t.Errorf("%s: the next release of Kubernetes may not have this version of the API any more",
					strings.Join(tree.chain(p.path, api), " imports "))
			}
		}
	}
	t.Logf("the APIs that are used: %s", strings.Join(slices.Sorted(maps.Keys(apis)), " "))
	for _, api := range []string{"k8s.io/api/apps/v1", "k8s.io/api/core/v1"} {
		if !apis[api] {
			t.Errorf("%s is not found among the APIs that are used", api)
		}
	}
}

var versioned = regexp.MustCompile(`k8s\.io/[^/]+/.+/v[0-9]+((alpha|beta)[0-9]+)?$`)

// apis returns the versions of APIs of other modules that a package imports itself or through
// packages of the module.
func (tree importTree) apis(from string) []string {
	found, seen := map[string]bool{}, map[string]bool{from: true}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, imported := range tree[queue[0]] {
			inside, own := insideModule(imported)
			switch {
			case own && !seen[inside]:
				seen[inside] = true
				queue = append(queue, inside)
			case !own && versioned.MatchString(imported):
				found[imported] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestAPIsThatAreUsed(t *testing.T) {
	tree := treeOf([]source{
		{path: "a", imports: []string{"k8s.io/api/core/v1", module + "/b", module + "/api/v1alpha1"}},
		{path: "b", imports: []string{"k8s.io/api/scheduling/v1alpha2", "k8s.io/kubernetes/pkg/scheduler", "k8s.io/klog/v2", module + "/a"}},
		{path: "c", imports: []string{"k8s.io/api/apps/v1beta1"}},
	})
	if got, want := strings.Join(tree.apis("a"), " "), "k8s.io/api/core/v1 k8s.io/api/scheduling/v1alpha2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
