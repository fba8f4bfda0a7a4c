package workloads_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

var web = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
	"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
	"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "web:1"}}},
	},
}}}

// spread has a subset for each patch, and one without any.
func spread(patches ...string) *v1alpha1.WorkloadSpread {
	o := &v1alpha1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for i, p := range patches {
		o.Spec.Subsets = append(o.Spec.Subsets, v1alpha1.WorkloadSubset{Name: fmt.Sprint("s", i), Patch: &runtime.RawExtension{Raw: []byte(p)}})
	}
	o.Spec.Subsets = append(o.Spec.Subsets, v1alpha1.WorkloadSubset{Name: "plain"})
	return o
}

// server answers to pods by their first image, and keeps none.
func server(answers map[string]error) client.Client {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if !slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
				return errors.New("it is created in earnest")
			}
			return answers[o.(*v1.Pod).Spec.Containers[0].Image]
		},
	}).Build()
}

func image(name string) string {
	return `{"spec":{"containers":[{"name":"main","image":"` + name + `"}]}}`
}

func Example() {
	refuses := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil)
	problems := workloads.Problems(context.Background(), server(map[string]error{"bad": refuses}), spread(image("good"), image("bad")), web)
	for _, subset := range slices.Sorted(maps.Keys(problems)) {
		fmt.Printf("%s: %q\n", subset, problems[subset])
	}
	// Output:
	// s0: ""
	// s1: "the API server refuses a pod with the patch: Pod \"x\" is invalid"
}

// A patch is to blame only if the pod would be created without it.
func TestWhatAPatchIsToBlameFor(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		plain, patched error
		problem        string
		known          bool
	}{
		"fits":             {nil, nil, "", true},
		"invalid":          {nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil), "is invalid", true},
		"a policy":         {nil, apierrors.NewForbidden(pods, "x", errors.New("violates PodSecurity")), "violates PodSecurity", true},
		"the quota is out": {nil, apierrors.NewForbidden(pods, "x", errors.New("exceeded quota: all")), "", false},
		"no answer":        {nil, errors.New("no route to host"), "", false},
		"no right":         {apierrors.NewForbidden(pods, "", errors.New("no")), apierrors.NewForbidden(pods, "", errors.New("no")), "", false},
	} {
		problem, known := workloads.Problems(t.Context(), server(map[string]error{"web:1": c.plain, "new": c.patched}), spread(image("new")),
			web)["s0"]
		if known != c.known || !strings.Contains(problem, c.problem) || c.problem == "" && problem != "" {
			t.Errorf("%s: %q, %v", name, problem, known)
		}
	}
	if p := workloads.Problems(t.Context(), server(nil), spread(`{"spec":{"nodeName":"n"}}`), web)["s0"]; !strings.Contains(p,
		"must not change spec.nodeName") {
		t.Errorf("a patch that must not be: %q", p)
	}
	if p := workloads.Problems(t.Context(), server(nil), spread(image("x")), nil); len(p) > 0 {
		t.Errorf("without a workload: %v", p)
	}
}
