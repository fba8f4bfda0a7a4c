package charts

import (
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// releases are those of Kubernetes whose schemas are in testdata: see cmd/schemas.
var releases = []string{"1.33", "1.34", "1.35", "1.36"}

// foreign are kinds that Kubernetes does not define.
var foreign = map[string]struct{}{"Certificate": {}, "Issuer": {}, "PrometheusRule": {}, "ServiceMonitor": {}}

var packed = flag.String("packed", "", "a packed chart: compare what it makes")

func loaded(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := Load("evenkeel")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// valueFiles are those in evenkeel/ci, by their names.
func valueFiles(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("evenkeel/ci/*-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 12 {
		t.Fatalf("there are %d files of values, want 12", len(names))
	}
	out := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(name), "-values.yaml")] = string(text)
	}
	return out
}

// rendered is a release with these values, without its notes.
func rendered(t *testing.T, c *chart.Chart, namespace, values string) map[string]string {
	t.Helper()
	texts, err := Render(c, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	delete(texts, "NOTES.txt")
	return texts
}

// TestLint: helm lint has nothing to say about the chart, with values that turn on much.
func TestLint(t *testing.T) {
	files := valueFiles(t)
	for _, name := range []string{"everything", "expander-counts", "monitored"} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(files[name]), &values); err != nil {
			t.Fatal(name, err)
		}
		for _, m := range lint.All("evenkeel", values, "elsewhere", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// TestPacked: the chart of a release makes the same as that in the source, but for the version.
func TestPacked(t *testing.T) {
	if *packed == "" {
		t.Skip("needs -packed; make release-test sets it")
	}
	source := loaded(t)
	got, err := Load(*packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil || "v"+got.Metadata.Version != got.Metadata.AppVersion {
		t.Errorf("%v: version %s for evenkeel %s", err, got.Metadata.Version, got.Metadata.AppVersion)
	}
	for _, file := range got.Raw {
		if strings.HasPrefix(file.Name, "ci/") || strings.HasPrefix(file.Name, "tests/") {
			t.Errorf("%s is in it", file.Name)
		}
	}
	got.Metadata = source.Metadata
	for name, values := range valueFiles(t) {
		if !reflect.DeepEqual(rendered(t, got, "elsewhere", values), rendered(t, source, "elsewhere", values)) {
			t.Errorf("%s: what the packed chart makes differs", name)
		}
	}
}

// TestKubernetesKnowsWhatIsMade: kubeconform accepts all objects strictly, with the schemas of each release.
func TestKubernetesKnowsWhatIsMade(t *testing.T) {
	texts := map[string]string{} // with the template and the file of values that first made it
	c := loaded(t)
	for name, values := range valueFiles(t) {
		for template, text := range rendered(t, c, "elsewhere", values) {
			texts[text] = template + " with " + name
		}
	}
	kinds := map[string]bool{}
	for _, release := range releases {
		v, err := validator.New([]string{"testdata/schemas/v{{ slice .NormalizedKubernetesVersion 1 }}/{{ .ResourceKind }}{{ .KindSuffix }}.json"},
			validator.Opts{KubernetesVersion: release, Strict: true, SkipKinds: foreign})
		if err != nil {
			t.Fatal(err)
		}
		for text, from := range texts {
			for _, r := range v.Validate(from, io.NopCloser(strings.NewReader(text))) {
				if signature, err := r.Resource.Signature(); err == nil {
					kinds[signature.Kind] = true
				}
				if r.Status != validator.Valid && r.Status != validator.Skipped {
					t.Errorf("%s, %s: %v %v", release, from, r.Err, r.ValidationErrors)
				}
			}
		}
	}
	schemas, err := filepath.Glob("testdata/schemas/v1.36/*.json")
	if err != nil || len(kinds) != len(schemas)+len(foreign) {
		t.Errorf("objects of %d kinds were looked at, and there are %d schemas: %v", len(kinds), len(schemas), err)
	}
}

// TestKubeconformRefuses: what is wrong with an object is found.
func TestKubeconformRefuses(t *testing.T) {
	text := rendered(t, loaded(t), "elsewhere", "")["controller/deploy/deployment.yaml"]
	for name, change := range map[string][2]string{
		"a field that there is not": {"replicas: 2", "replica: 2"},
		"another type":              {"replicas: 2", "replicas: two"},
		"one deep within":           {"containerPort: 8443", "containerport: 8443"},
	} {
		for _, release := range releases {
			v, err := validator.New([]string{"testdata/schemas/v{{ slice .NormalizedKubernetesVersion 1 }}/{{ .ResourceKind }}{{ .KindSuffix }}.json"},
				validator.Opts{KubernetesVersion: release, Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text, change[0]) {
				t.Fatalf("no %q in\n%s", change[0], text)
			}
			if r := v.Validate(name, io.NopCloser(strings.NewReader(strings.Replace(text, change[0], change[1], 1))))[0]; r.Status != validator.Invalid {
				t.Errorf("%s: %s is accepted: %v", release, name, r)
			}
		}
	}
}

// TestNamespaces: in another namespace nothing refers to the one in which others install it. The status of Cluster Autoscaler is where
// that keeps it by default.
func TestNamespaces(t *testing.T) {
	c := loaded(t)
	comment := regexp.MustCompile(`(?m)^\s*#.*$`)
	for name, values := range valueFiles(t) {
		if strings.Contains(values, "namespace: evenkeel-system") {
			continue
		}
		for template, text := range rendered(t, c, "elsewhere", values) {
			text = comment.ReplaceAllString(text, "")
			if strings.Contains(text, "evenkeel-system") {
				t.Errorf("%s: %s names evenkeel-system:\n%s", name, template, text)
			}
			if template != "controller/rbac/autoscaler.yaml" && template != "controller/rbac/members.yaml" && template != "definitions.yaml" &&
				!strings.Contains(values, "kube-system") && strings.Contains(text, "kube-system") {
				t.Errorf("%s: %s names kube-system:\n%s", name, template, text)
			}
		}
	}
}

// TestOneNameIsOneObject: no two templates make the same object, so that nothing is overwritten.
func TestOneNameIsOneObject(t *testing.T) {
	c := loaded(t)
	for name, values := range valueFiles(t) {
		if _, err := objects(slices.Collect(maps.Values(rendered(t, c, "elsewhere", values)))...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// objects are those in documents, by kind, namespace and name.
func objects(texts ...string) (map[string]map[string]any, error) {
	out := map[string]map[string]any{}
	for _, text := range texts {
		for document := range strings.SplitSeq("\n"+text, "\n---\n") {
			var o map[string]any
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				return nil, err
			}
			if o == nil {
				continue
			}
			metadata := o["metadata"].(map[string]any)
			namespace, _ := metadata["namespace"].(string)
			key := o["kind"].(string) + " " + namespace + "/" + metadata["name"].(string)
			if out[key] != nil {
				return nil, errors.New("two templates have " + key)
			}
			out[key] = o
		}
	}
	return out, nil
}

// TestOverlays: what a kustomization builds is what the chart makes with the values that mean the same.
func TestOverlays(t *testing.T) {
	c := loaded(t)
	controller := func(more string) string {
		return "crds: {keep: false}\ncontroller: {namespace: evenkeel-system, createNamespace: true" + more + "}"
	}
	for folder, values := range map[string]string{
		"controller/deploy":       controller(""),
		"controller/ignore":       controller(", webhooks: {failurePolicy: Ignore}"),
		"controller/namespaced":   controller(", namespaces: [default]"),
		"controller/certificates": controller(", certManager: true"),
		"expander/deploy":         "controller: {enabled: false}\ncrds: {install: false}\nexpander: {enabled: true}",
		"sidecar/deploy": "controller: {enabled: false}\ncrds: {install: false}\n" +
			`sidecar: {enabled: true, backend: {address: "my-provider.kube-system.svc:8086"}}`,
	} {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("..", folder))
		if err != nil {
			t.Fatal(err)
		}
		text, err := built.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		want, err := objects(string(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := objects(slices.Collect(maps.Values(rendered(t, c, "kube-system", values)))...)
		if err != nil {
			t.Fatal(err)
		}
		for key, o := range got {
			if o["kind"] == "CustomResourceDefinition" {
				delete(o["metadata"].(map[string]any), "labels") // the chart adds its own
			}
			if !reflect.DeepEqual(o, want[key]) {
				a, _ := yaml.Marshal(o)
				b, _ := yaml.Marshal(want[key])
				t.Errorf("%s: %s\nof the chart:\n%s\nof kustomize:\n%s", folder, key, a, b)
			}
			delete(want, key)
		}
		for key := range want {
			t.Errorf("%s: the chart lacks %s", folder, key)
		}
	}
}

// TestNotesHaveTheValuesOfTheOtherChart: what the notes give to the chart of Cluster Autoscaler is the sidecar of the chart itself.
func TestNotesHaveTheValuesOfTheOtherChart(t *testing.T) {
	c := loaded(t)
	beside, err := Render(c, "kube-system", valueFiles(t)["sidecar-beside"])
	if err != nil {
		t.Fatal(err)
	}
	_, notes, found := strings.Cut(beside["NOTES.txt"], "\n---\n")
	if !found {
		t.Fatalf("the notes have no values:\n%s", beside["NOTES.txt"])
	}
	var given struct {
		InitContainers, ExtraVolumes, ExtraVolumeMounts []any
		ExtraArgs                                       map[string]any
	}
	if err := yaml.Unmarshal([]byte(notes), &given); err != nil {
		t.Fatal(err)
	}
	own, err := objects(rendered(t, c, "kube-system", "sidecar: {enabled: true, backend: {address: 'my-provider:8086'}}")["sidecar/deploy/deployment.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	spec := own["Deployment kube-system/cluster-autoscaler"]["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	autoscaler := spec["containers"].([]any)[0].(map[string]any)
	for what, pair := range map[string][2]any{
		"containers": {given.InitContainers, spec["initContainers"]},
		"volumes":    {given.ExtraVolumes, spec["volumes"]},
		"mounts":     {given.ExtraVolumeMounts, autoscaler["volumeMounts"]},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("the %s of the notes differ:\n%v\n%v", what, pair[0], pair[1])
		}
	}
	for _, flag := range []string{"cloud-config", "expander", "grpc-expander-url", "grpc-expander-cert"} {
		if arg := "--" + flag + "=" + given.ExtraArgs[flag].(string); !slices.Contains(autoscaler["args"].([]any), any(arg)) {
			t.Errorf("the notes give %s, and the chart %v", arg, autoscaler["args"])
		}
	}
}
