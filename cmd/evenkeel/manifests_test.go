package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
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
	if checked < 4 {
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
	for name, cmd := range map[string]*cobra.Command{"docs/controller.md": newController(), "docs/sidecar.md": newSidecar()} {
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
