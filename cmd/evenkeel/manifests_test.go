package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// TestManifestsHaveFlags: the program takes the arguments that the manifests give it.
func TestManifestsHaveFlags(t *testing.T) {
	names, err := filepath.Glob("../../configs/sidecar/*/deployment.yaml")
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
	if checked < 3 {
		t.Errorf("only %d containers were found", checked)
	}
}

// TestKustomizationsStayInside: a kustomization may name a folder beside it, and no file there.
func TestKustomizationsStayInside(t *testing.T) {
	names, err := filepath.Glob("../../configs/sidecar/*/kustomization.yaml")
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
	}
}

// TestDocumentedSidecarFlags: docs/sidecar.md names every flag of the sidecar.
func TestDocumentedSidecarFlags(t *testing.T) {
	inRoot(t)
	text := strings.Join(readPage(t, "docs/sidecar.md").lines, "\n")
	newSidecar().Flags().VisitAll(func(f *pflag.Flag) {
		name := "--" + f.Name
		if len(f.Name) == 1 {
			name = "-" + f.Name
		}
		if !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "`"+name+" ") {
			t.Errorf("docs/sidecar.md does not name %s", name)
		}
	})
}
