package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

const (
	charts = "../configs/charts"
	// release is the name and the namespace of what these tests install.
	release = "elsewhere"
)

// previous is the chart that users upgrade from: what helm package makes of the version before this one.
const previous = charts + "/testdata/previous/evenkeel-0.1.0.tgz"

// buildHelm builds the Helm that the module of the chart names, once in a test run.
var buildHelm = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs(filepath.Join("bin", "helm"))
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", path, "helm.sh/helm/v3/cmd/helm")
	build.Dir, build.Env = charts, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building helm: %w\n%s", err, out)
	}
	return path, nil
})

// helm runs Helm on a control plane.
type helm struct {
	path, namespace string
	plane           *controlplane.ControlPlane
	home            string
}

func newHelm(t *testing.T, plane *controlplane.ControlPlane) *helm {
	t.Helper()
	path, err := buildHelm()
	if err != nil {
		t.Fatal(err)
	}
	return &helm{path: path, namespace: release, plane: plane, home: t.TempDir()}
}

// run runs a command line in the namespace of the release, and returns what it prints.
func (h *helm) run(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// try is run for a command that may fail. The error has what Helm says about it.
func (h *helm) try(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, h.path, append(args, "--namespace="+h.namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.plane.Kubeconfig, "HELM_CACHE_HOME="+h.home, "HELM_CONFIG_HOME="+h.home, "HELM_DATA_HOME="+h.home)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return out.String(), nil
}

// inShort are the files of values that the short form of the test installs; of the others it asks the server alone.
var inShort = []string{"default", "everything", "sidecar"}

// The chart is installed as the previous version, upgraded, rolled back and uninstalled on a real API server, with each file of
// values. Helm waits until the pods are ready, which kwok plays.
func TestChartIsInstalled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{})
	prepareForCharts(ctx, t, plane)
	h := newHelm(t, plane)
	files, err := filepath.Glob(charts + "/evenkeel/ci/*-values.yaml")
	if err != nil || len(files) < 12 {
		t.Fatalf("there are %d files of values, want 12: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			h.run(ctx, t, "upgrade", "--install", release, charts+"/evenkeel", "--values="+file, "--dry-run=server", "--hide-notes")
			if testing.Short() && !slices.Contains(inShort, name) {
				return
			}
			from := previous
			if _, err := h.try(ctx, "template", release, previous, "--values="+file); err != nil && strings.Contains(err.Error(), "additional properties") {
				from = charts + "/evenkeel" // it has a value that the previous version does not know
			}
			h.run(ctx, t, "install", release, from, "--values="+file, "--wait", "--timeout=5m")
			completed := completeWebhooks(ctx, t, plane)
			h.applied(ctx, t)
			h.run(ctx, t, "upgrade", release, charts+"/evenkeel", "--values="+file, "--wait", "--timeout=5m")
			h.applied(ctx, t)
			stayComplete(ctx, t, plane, completed)
			argumentsAreFlags(t, h.manifest(ctx, t))
			h.run(ctx, t, "rollback", release, "1", "--wait", "--timeout=5m")
			h.applied(ctx, t)
			stayComplete(ctx, t, plane, completed)
			h.uninstall(ctx, t)
		})
	}
	var definitions unstructured.UnstructuredList
	definitions.SetAPIVersion("apiextensions.k8s.io/v1")
	definitions.SetKind("CustomResourceDefinitionList")
	if err := plane.Client.List(ctx, &definitions, client.MatchingLabels{"app.kubernetes.io/name": "evenkeel"}); err != nil || len(definitions.Items) != 4 {
		t.Errorf("%d definitions stay when the chart is uninstalled, want 4: %v", len(definitions.Items), err)
	}
}

// prepareForCharts makes what the files of values expect: nodes in three zones, namespaces, and the kinds of other projects.
func prepareForCharts(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	for i := range 6 {
		n := roomy(fmt.Sprintf("node-%d", i))
		n.Labels = map[string]string{v1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3), v1.LabelHostname: n.Name, "node-role.kubernetes.io/infra": ""}
		if err := plane.AddNodes(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{release, "team-a", "autoscaling"} {
		if err := plane.Client.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for kind, group := range map[string]string{"ServiceMonitor": "monitoring.coreos.com/v1", "PrometheusRule": "monitoring.coreos.com/v1",
		"Certificate": "cert-manager.io/v1", "Issuer": "cert-manager.io/v1"} {
		defineKind(ctx, t, plane, kind, group)
	}
}

// defineKind defines a kind of another project, with any fields.
func defineKind(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, kind, apiVersion string) {
	t.Helper()
	group, version, _ := strings.Cut(apiVersion, "/")
	plural := strings.ToLower(kind) + "s"
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group, "annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, a stand-in"}},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural, "singular": strings.ToLower(kind)},
			"versions": []any{map[string]any{"name": version, "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}}
	if err := plane.Client.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, kind+" is served", func() bool {
		var list unstructured.UnstructuredList
		list.SetAPIVersion(apiVersion)
		list.SetKind(kind + "List")
		return plane.Client.List(ctx, &list) == nil
	})
}

// manifest returns the objects of the release as it is now.
func (h *helm) manifest(ctx context.Context, t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	reader := yaml.NewYAMLOrJSONDecoder(strings.NewReader(h.run(ctx, t, "get", "manifest", release)), 4096)
	var out []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := reader.Decode(&o.Object)
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if o.Object != nil {
			out = append(out, o)
		}
	}
}

// applied checks that the API server has every object of the release as its manifest says: applying it again changes nothing.
func (h *helm) applied(ctx context.Context, t *testing.T) {
	t.Helper()
	objects := h.manifest(ctx, t)
	if len(objects) < 8 {
		t.Errorf("the release has %d objects", len(objects))
	}
	for _, o := range objects {
		there := &unstructured.Unstructured{}
		there.SetGroupVersionKind(o.GroupVersionKind())
		if err := h.plane.Client.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			continue
		}
		if err := h.plane.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.DryRunAll, client.FieldOwner("e2e"),
			client.ForceOwnership); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			continue
		}
		for _, x := range []*unstructured.Unstructured{o, there} {
			x.SetManagedFields(nil)
			x.SetResourceVersion("")
			x.SetGeneration(0)
			delete(x.Object, "status")
		}
		if !reflect.DeepEqual(o.Object, there.Object) {
			a, _ := json.MarshalIndent(o.Object, "", " ")
			b, _ := json.MarshalIndent(there.Object, "", " ")
			t.Errorf("%s %s is not as the chart has it:\n%s\nit is\n%s", o.GetKind(), o.GetName(), a, b)
		}
	}
}

// uninstall deletes the release, and waits until its objects are gone, but for the definitions. Kubernetes may restore the aggregated role,
// empty, when the roles that it aggregates are deleted a moment after it: the page of the chart says so.
func (h *helm) uninstall(ctx context.Context, t *testing.T) {
	t.Helper()
	objects := h.manifest(ctx, t)
	h.run(ctx, t, "uninstall", release)
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		until(ctx, t, o.GetKind()+" "+o.GetName()+" is gone", func() bool {
			if o.GetName() == "evenkeel-controller-kinds" && o.GetKind() == "ClusterRole" {
				_ = h.plane.Client.Delete(ctx, o.DeepCopy())
			}
			return apierrors.IsNotFound(h.plane.Client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()))
		})
	}
}

// completed are the webhooks as the controllers have completed them.
type completed struct {
	mutating   admissionv1.MutatingWebhookConfiguration
	validating admissionv1.ValidatingWebhookConfiguration
}

// completeWebhooks does to the webhooks, if there are any, what the controllers do: it sets caBundle, rules and namespaceSelector.
func completeWebhooks(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) *completed {
	t.Helper()
	c := &completed{}
	if err := plane.Client.Get(ctx, client.ObjectKey{Name: webhooksName}, &c.mutating); err != nil {
		return nil
	}
	if err := plane.Client.Get(ctx, client.ObjectKey{Name: webhooksName}, &c.validating); err != nil {
		t.Fatal(err)
	}
	nowhere := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: v1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{"nowhere"}}}}
	m, v := &c.mutating.Webhooks[0], &c.validating.Webhooks[0]
	m.ClientConfig.CABundle, v.ClientConfig.CABundle = plane.Config.CAData, plane.Config.CAData
	m.NamespaceSelector = nowhere
	m.Rules = []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}
	for _, o := range []client.Object{&c.mutating, &c.validating} {
		if err := plane.Client.Update(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// stayComplete checks that an upgrade has left to the controllers what is theirs.
func stayComplete(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, want *completed) {
	t.Helper()
	if want == nil {
		return
	}
	var got completed
	for _, o := range []client.Object{&got.mutating, &got.validating} {
		if err := plane.Client.Get(ctx, client.ObjectKey{Name: webhooksName}, o); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got.mutating.Webhooks, want.mutating.Webhooks) || !reflect.DeepEqual(got.validating.Webhooks, want.validating.Webhooks) {
		t.Errorf("the webhooks are %+v and %+v,\nwant %+v and %+v", got.mutating.Webhooks, got.validating.Webhooks, want.mutating.Webhooks,
			want.validating.Webhooks)
	}
}

// argumentsAreFlags checks that evenkeel takes the arguments that the chart gives it.
func argumentsAreFlags(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		spec := d.Spec.Template.Spec
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			if !strings.Contains(c.Image, "/evenkeel") {
				continue
			}
			// Flags are parsed up to --help, which does nothing more.
			if out, err := exec.Command(filepath.Join(evenkeel.Folder(t), "evenkeel"), append(c.Args, "--help")...).CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", d.Name, c.Name, err, out)
			}
		}
	}
}
