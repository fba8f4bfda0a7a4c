package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/internal/webhooks"
	"github.com/evenkeel/evenkeel/workloadspread/admission"
)

// TestManifestsHaveFlags: the program takes the arguments that the manifests give it.
func TestManifestsHaveFlags(t *testing.T) {
	names, err := filepath.Glob("../../configs/*/*/deployment.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal("no manifests", err)
	}
	checked := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var deployment appsv1.Deployment
		if err := yaml.UnmarshalStrict(text, &deployment); err != nil {
			t.Fatal(err)
		}
		spec := deployment.Spec.Template.Spec
		for _, c := range append(spec.InitContainers, spec.Containers...) {
			if !strings.Contains(c.Image, "/evenkeel:") {
				continue
			}
			root, _ := newRoot()
			cmd, flags, err := root.Find(c.Args)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, c.Name, err)
			}
			if err := cmd.ParseFlags(flags); err != nil {
				t.Errorf("%s: %s: %v", name, c.Name, err)
				continue
			}
			if err := cmd.PreRunE(cmd, cmd.Flags().Args()); err != nil {
				t.Errorf("%s: %s: %v", name, c.Name, err)
			}
			checked++
		}
	}
	if checked < 5 {
		t.Errorf("only %d containers were found", checked)
	}
}

// TestKustomizationsAreWhole: a kustomization names every file of its folder, and of others only
// folders: kubectl refuses their files.
func TestKustomizationsAreWhole(t *testing.T) {
	names, err := filepath.Glob("../../configs/*/*/kustomization.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal("no kustomizations", err)
	}
	outside := regexp.MustCompile(`(?m)^- \.\./.*\.yaml$`)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := outside.Find(text); found != nil {
			t.Errorf("%s: kubectl refuses %q, a file outside of its folder", name, found)
		}
		beside, err := filepath.Glob(filepath.Join(filepath.Dir(name), "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range beside {
			if file != name && !strings.Contains(string(text), "\n- "+filepath.Base(file)+"\n") {
				t.Errorf("%s leaves %s out", name, filepath.Base(file))
			}
		}
	}
}

// TestDocumentedFlags: the page of a server names every flag of it.
func TestDocumentedFlags(t *testing.T) {
	inRoot(t)
	for name, cmd := range map[string]*cobra.Command{"docs/controller.md": newController(), "docs/expander.md": newExpander(),
		"docs/sidecar.md": newSidecar()} {
		text := strings.Join(readPage(t, name).lines, "\n")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			flag := "--" + f.Name
			if len(f.Name) == 1 {
				flag = "-" + f.Name
			}
			if !strings.Contains(text, "`"+flag+"`") && !strings.Contains(text, "`"+flag+" ") {
				t.Errorf("%s does not name %s", name, flag)
			}
		})
	}
}

// TestManifestsHaveWebhooks: the manifests have the webhooks that the controllers complete, with the
// paths that are served, and leave to the controllers what is theirs, except for the rules of WorkloadSpreads.
func TestManifestsHaveWebhooks(t *testing.T) {
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	for name, into := range map[string]any{"mutating": &mutating, "validating": &validating} {
		text, err := os.ReadFile("../../configs/controller/webhooks/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatal(err)
		}
	}
	paths := map[string]string{
		"create.pods.evenkeel.dev": admission.PathMutatePods, "workloadspreads.evenkeel.dev": admission.PathValidateSpreads,
	}
	found := map[string]bool{}
	check := func(name string, c admissionregistrationv1.WebhookClientConfig, own ...bool) {
		found[name] = true
		if s := c.Service; s == nil || s.Name != webhooks.DefaultName || s.Namespace != controllerNamespace || s.Path == nil ||
			*s.Path != paths[name] {
			t.Errorf("%s leads to %+v, not to %s", name, s, paths[name])
		}
		if len(c.CABundle) > 0 || slices.Contains(own, true) {
			t.Errorf("%s has caBundle, rules or namespaceSelector, which the controllers set: each time the manifest is applied they are reset",
				name)
		}
	}
	for _, w := range mutating.Webhooks {
		check(w.Name, w.ClientConfig, w.Rules != nil, w.NamespaceSelector != nil)
	}
	rules := map[string][]admissionregistrationv1.RuleWithOperations{}
	for _, w := range validating.Webhooks {
		rules[w.Name] = w.Rules
		check(w.Name, w.ClientConfig, w.NamespaceSelector != nil)
	}
	for _, w := range webhooksOfSpreads() {
		// With rules from the start, no WorkloadSpread is stored before it can be checked.
		if has := rules[w.Name]; w.Everywhere != (has != nil) || has != nil && !equality.Semantic.DeepEqual(has, w.Rules) {
			t.Errorf("%s has rules %+v, want %+v if it is for all namespaces, and none otherwise", w.Name, has, w.Rules)
		}
		if !found[w.Name] {
			t.Errorf("the manifests lack %s", w.Name)
		}
		delete(found, w.Name)
	}
	if len(found) > 0 || mutating.Name != webhooks.DefaultName || validating.Name != webhooks.DefaultName {
		t.Errorf("nobody completes %v of %s and %s", found, mutating.Name, validating.Name)
	}
}
