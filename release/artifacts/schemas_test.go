package artifacts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkSchemas has kubeconform hold the samples against the schemas, and finds what the API server would refuse or drop.
func checkSchemas(t *testing.T, schemas map[string][]byte) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range schemas {
		to := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	location := filepath.Join(folder, "{{.Group}}", "{{.ResourceKind}}_{{.ResourceAPIVersion}}.json")
	conform := func(skip string, files ...string) (string, error) {
		args := []string{"tool", "kubeconform", "-strict", "-summary", "-verbose", "-schema-location", location, "-skip", skip}
		return run(t, nil, "go", append(args, files...)...)
	}
	samples, err := filepath.Glob(filepath.Join(root, "configs", "samples", "*.yaml"))
	if err != nil || len(samples) == 0 {
		t.Fatal(samples, err)
	}
	out, err := conform("Kustomization,Deployment,HorizontalPodAutoscaler,StatefulSet,PodDisruptionBudget,ConfigMap,Service", samples...)
	if err != nil {
		t.Error(err)
	}
	for _, kind := range []string{"Balancer", "FederatedReplicaSet", "MemberCluster", "WorkloadSpread"} {
		if name := "evenkeel.dev/" + strings.ToLower(kind) + "_v1alpha1.json"; len(schemas[name]) == 0 {
			t.Errorf("no %s", name)
		}
		if !strings.Contains(out, kind+" ") && kind != "MemberCluster" {
			t.Errorf("no sample of a %s: kubeconform says\n%s", kind, out)
		}
	}
	good := sample(t, "balancer-zones.yaml")
	for from, to := range map[string]string{
		"  replicas:": "  replica:", "kind: Balancer": "kind: Balancer\nspecs: {}", "evenkeel.dev/v1alpha1": "evenkeel.dev/v1alpha2",
		"  replicas: ": "  replicas: many #",
	} {
		bad := strings.Replace(good, from, to, 1)
		if bad == good {
			t.Fatalf("the sample has no %q", from)
		}
		file := filepath.Join(t.TempDir(), "bad.yaml")
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := conform("Deployment", file); err == nil {
			t.Errorf("%q for %q is accepted: %s", to, from, out)
		}
	}
}

// sample returns the Balancer of a sample.
func sample(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "configs", "samples", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(content), "\n---\n") {
		if strings.Contains(document, "kind: Balancer") {
			return document
		}
	}
	t.Fatalf("%s has no Balancer", name)
	return ""
}
