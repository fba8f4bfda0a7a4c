package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// An autoscaler reads and writes a Balancer without knowing what it is. While the replicas are
// unset it can write, but not read.
func balancerScale(ctx context.Context, t *testing.T, c client.Client, config *rest.Config) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
	getter, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(d))
	if err != nil {
		t.Fatal(err)
	}
	scales := getter.Scales(metav1.NamespaceDefault)
	resource := schema.GroupResource{Group: v1alpha1.Group, Resource: "balancers"}

	b := create(ctx, t, c, "scale", `{}`)
	b.Status = filledStatus(b)
	b.Status.Replicas = 5
	if err := c.Status().Update(ctx, b); err != nil {
		t.Fatal(err)
	}
	s, err := scales.Get(ctx, resource, b.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Spec.Replicas != 6 || s.Status.Replicas != 5 || s.Status.Selector != "app=web" {
		t.Errorf("scale says %+v and %+v", s.Spec, s.Status)
	}
	for _, replicas := range []int32{0, 9} {
		s.Spec.Replicas = replicas
		if s, err = scales.Update(ctx, resource, s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			t.Fatal(err)
		}
		if *b.Spec.Replicas != replicas {
			t.Errorf("%d replicas after scaling to %d", *b.Spec.Replicas, replicas)
		}
	}
	s.ResourceVersion = "1"
	if _, err := scales.Update(ctx, resource, s, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a write on old data: %v", err)
	}
	negative := []byte(`{"spec":{"replicas":-1}}`)
	if _, err := scales.Patch(ctx, resource.WithVersion(v1alpha1.Version), b.Name, types.MergePatchType, negative,
		metav1.PatchOptions{}); err == nil {
		t.Error("scaled to -1")
	}

	unset := create(ctx, t, c, "unset", `spec: {replicas: null}`)
	const reason = `the spec replicas field ".spec.replicas" does not exist`
	if _, err := scales.Get(ctx, resource, unset.Name, metav1.GetOptions{}); !apierrors.IsInternalError(err) ||
		!strings.Contains(err.Error(), reason) {
		t.Errorf("reading what is unset: %v", err)
	}
	four := []byte(`{"spec":{"replicas":4}}`) // as kubectl scale does
	written, err := scales.Patch(ctx, resource.WithVersion(v1alpha1.Version), unset.Name, types.MergePatchType, four, metav1.PatchOptions{})
	if err != nil || written.Spec.Replicas != 4 {
		t.Errorf("writing what is unset: %v, %v", written, err)
	}
	desired := &autoscalingv1.Scale{}
	if err := c.SubResource("scale").Get(ctx, unset, desired); err != nil || desired.Spec.Replicas != 4 {
		t.Errorf("reading it then: %v, %v", desired.Spec, err)
	}
}

// What kubectl get shows.
func balancerColumns(ctx context.Context, t *testing.T, c client.Client, config *rest.Config) {
	b := create(ctx, t, c, "columns", `{}`)
	b.Status = filledStatus(b)
	if err := c.Status().Update(ctx, b); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, c, "columns-unset", `spec: {replicas: null}`)
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url := config.Host + "/apis/" + v1alpha1.APIVersion + "/namespaces/default/balancers"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := web.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var names []string
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
	}
	if got := strings.Join(names, " "); got != "Name Desired Observed Running Balanced Fallback Age" {
		t.Errorf("columns %s", got)
	}
	rows := map[any]string{}
	for _, row := range table.Rows {
		rows[row.Cells[0]] = fmt.Sprint(row.Cells[1:5]...)
	}
	if got := rows["columns"]; got != fmt.Sprint(6, 6, 3, "False") {
		t.Errorf("shows %q", got)
	}
	if got := rows["columns-unset"]; got != fmt.Sprint(nil, nil, nil, nil) {
		t.Errorf("shows %q where nothing is known", got)
	}
}
