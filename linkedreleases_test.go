package evenkeel_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// written writes the module that links a release of Cluster Autoscaler, and returns its folder.
func written(t *testing.T, release string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "not", "there", "yet")
	if out, err := exec.CommandContext(t.Context(), filepath.Join("integrations", "port", "write"), release, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The patches fit the module they are for. That the result compiles is for those to find out who have the release.
func TestTheModuleForOlderReleasesIsWritten(t *testing.T) {
	patches, err := filepath.Glob("integrations/port/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatal(patches, err)
	}
	for _, patch := range patches {
		to := written(t, strings.TrimSuffix(filepath.Base(patch), ".patch"))
		if mod := read(t, to, "go.mod"); strings.Contains(mod, "// indirect") ||
			!strings.HasPrefix(mod, "module github.com/evenkeel/evenkeel/integrations/clusterautoscaler\n") {
			t.Errorf("%s: go.mod is\n%s", patch, mod)
		}
		link := read(t, to, "link.go")
		if !strings.HasPrefix(link, "// Code generated") || strings.Contains(link, `"sigs.k8s.io/cluster-autoscaler/`) ||
			!strings.Contains(link, `"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"`) {
			t.Errorf("%s: link.go begins with\n%.1000s", patch, link)
		}
	}
}

// The workflow for users checks out the commits that are required.
func TestTheWorkflowBuildsWhatIsRequired(t *testing.T) {
	required := regexp.MustCompile(`(?m)^\t(\S+/cluster-autoscaler) v\S+-([0-9a-f]{12})$`)
	var want []string
	for _, module := range []string{filepath.Join("integrations", "clusterautoscaler"), written(t, "1.36")} {
		for _, match := range required.FindAllStringSubmatch(read(t, module, "go.mod"), -1) {
			key := "autoscaler"
			if strings.HasPrefix(match[1], "sigs.k8s.io/") {
				key = "core"
			}
			want = append(want, key+": "+match[2])
		}
	}
	workflow := read(t, "configs", "workflows", "linked-autoscaler.yaml")
	if len(want) != 3 {
		t.Errorf("required are %v, want two commits of the newest and one of 1.36", want)
	}
	for _, line := range want {
		if !strings.Contains(workflow, " "+line+"\n") {
			t.Errorf("the workflow does not say %s", line)
		}
	}
}
