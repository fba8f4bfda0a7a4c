package evenkeel_test

import (
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A workflow is what the rules for workflows are about.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Timeout     int               `json:"timeout-minutes"`
		Steps       []struct {
			Uses string         `json:"uses"`
			Run  string         `json:"run"`
			With map[string]any `json:"with"`
		} `json:"steps"`
	} `json:"jobs"`
}

var (
	anyAction    = regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.*)$`)
	pinnedAction = regexp.MustCompile(`^([\w./-]+@[0-9a-f]{40}) # (v\d+\.\d+\.\d+)$`)
)

// breaches returns what a workflow does against the rules: an action is pinned by the commit of a release that the line names, which
// Dependabot keeps up to date; all that a token may do is said, job by job, and at the top it may only read; credentials do not stay in the
// folder that the steps after it use; no expression about an event becomes a part of a script; no job runs for hours.
func breaches(t *testing.T, text string) []string {
	t.Helper()
	var found []string
	for _, match := range anyAction.FindAllStringSubmatch(text, -1) {
		if !pinnedAction.MatchString(match[1]) {
			found = append(found, "not pinned: "+match[1])
		}
	}
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(w.Permissions, map[string]string{"contents": "read"}) {
		found = append(found, "at the top permissions are not just contents: read")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
		job := w.Jobs[name]
		if len(job.Permissions) == 0 {
			found = append(found, name+": no permissions")
		}
		if job.Timeout == 0 || job.Timeout > 120 {
			found = append(found, name+": no timeout of two hours at the most")
		}
		for _, step := range job.Steps {
			if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
				found = append(found, name+": credentials persist")
			}
			if strings.Contains(step.Run, "${{ github.") || strings.Contains(step.Run, "${{ inputs.") {
				found = append(found, name+": an expression in a script: hand it in by env")
			}
		}
	}
	return found
}

func TestWorkflowsArePinnedAndMayDoLittle(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.y*ml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	versions := map[string]string{}
	for _, file := range append(files, "configs/workflows/linked-autoscaler.yaml") {
		text := read(t, file)
		for _, breach := range breaches(t, text) {
			t.Errorf("%s: %s", file, breach)
		}
		for _, match := range anyAction.FindAllStringSubmatch(text, -1) {
			action, commit, _ := strings.Cut(match[1], "@")
			if before, ok := versions[action]; ok && before != commit {
				t.Errorf("%s: %s is %s here and %s elsewhere", file, action, commit, before)
			}
			versions[action] = commit
		}
	}
}

// Each rule finds what it is for.
func TestBreachesOfWorkflows(t *testing.T) {
	const sound = `permissions: {contents: read}
jobs:
  a:
    timeout-minutes: 5
    permissions: {contents: read}
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with: {persist-credentials: false}
      - run: echo "$REF"
`
	if found := breaches(t, sound); len(found) > 0 {
		t.Error(found)
	}
	for from, to := range map[string]string{
		"@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1": "@v7",
		" # v7.0.1":                                    "",
		"permissions: {contents: read}\njobs":          "permissions: {contents: write}\njobs",
		"    permissions: {contents: read}\n    steps": "    steps",
		"persist-credentials: false":                   "persist-credentials: true",
		"$REF":                                         "${{ github.head_ref }}",
		"    timeout-minutes: 5\n":                     "",
	} {
		text := strings.Replace(sound, from, to, 1)
		if text == sound {
			t.Fatalf("%q is not there", from)
		}
		found := breaches(t, text)
		if len(found) != 1 {
			t.Errorf("%q for %q: found %q, want one breach", to, from, found)
		}
	}
}

// Dependabot looks at every module, at the actions and at the Dockerfile.
func TestDependabotKnowsEveryModule(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directories []string `json:"directories"`
		} `json:"updates"`
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github", "dependabot.yml")), &config); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, update := range config.Updates {
		got[update.Ecosystem] = append(got[update.Ecosystem], update.Directories...)
	}
	var modules []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"bin", "testdata", "dist", "node_modules", ".git"}, entry.Name()):
			return fs.SkipDir
		case entry.Name() == "go.mod":
			modules = append(modules, "/"+strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "."))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(modules)
	if !slices.Equal(got["gomod"], modules) {
		t.Errorf("Dependabot looks at the modules %v, want %v", got["gomod"], modules)
	}
	if !slices.Equal(got["github-actions"], []string{"/"}) || !slices.Equal(got["docker"], []string{"/"}) {
		t.Errorf("Dependabot looks at %v", got)
	}
}
