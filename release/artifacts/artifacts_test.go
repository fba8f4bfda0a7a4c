package artifacts_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/release/artifacts"
)

var (
	made    = flag.String("made", "", "a folder that make release-dry-run has written: check it, too")
	version = flag.String("version", "", "the version that the files of -made are of")
)

var platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64"}

const root = "../.."

// TestFiles: a release has an archive and an SPDX document for each platform, and each is what it says.
func TestFiles(t *testing.T) {
	options := probeOptions(t, "testdata/probe")
	files, err := artifacts.Of(options)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"checksums.txt", "evenkeel.yaml", "evenkeel_1.2.3_schemas.tar.gz"}
	for _, p := range platforms {
		name := "evenkeel_1.2.3_" + strings.ReplaceAll(p, "/", "_") + ".tar.gz"
		if strings.HasPrefix(p, "windows") {
			name = strings.Replace(name, ".tar.gz", ".zip", 1)
		}
		want = append(want, name, name+".spdx.json")
	}
	if _, err := os.Stat(filepath.Join(root, "configs", "charts", "evenkeel")); err == nil {
		want = append(want, "evenkeel-1.2.3.tgz")
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Fatalf("the files are\n%q, want\n%q", got, want)
	}
	check(t, written(t, files), options.Version)
}

// TestMade checks what make has written from the real programs.
func TestMade(t *testing.T) {
	if *made == "" {
		t.Skip("needs -made; make release-test sets it")
	}
	check(t, *made, *version)
}

// TestSameBytes: the same source in another folder, with other times and rights of its files, gives the same bytes, in whatever order the
// programs are named.
func TestSameBytes(t *testing.T) {
	first, err := artifacts.Of(probeOptions(t, "testdata/probe"))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "elsewhere", "probe")
	if err := os.CopyFS(copied, os.DirFS("testdata/probe")); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	if err := os.Chtimes(filepath.Join(copied, "main.go"), old, old); err != nil {
		t.Fatal(err)
	}
	options := probeOptions(t, copied)
	slices.Reverse(options.Binaries)
	options.Date = options.Date.In(time.FixedZone("elsewhere", 3600))
	second, err := artifacts.Of(options)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// TestRefuses: completions and manual come from a program that runs here, and everything else from a checkout.
func TestRefuses(t *testing.T) {
	options := probeOptions(t, "testdata/probe")
	elsewhere := options
	elsewhere.Binaries = options.Binaries[4:] // windows
	empty := options
	empty.Source = t.TempDir()
	text := options
	text.Binaries = []string{"artifacts_test.go"}
	for want, options := range map[string]artifacts.Options{
		"add one, as it writes completions and manual": elsewhere, "LICENSE": empty, "unrecognized file format": text,
	} {
		if _, err := artifacts.Of(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestNotes: a release has a section of its own in the changelog; what comes before has that of what is not released yet.
func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\nText.\n\n## Unreleased\n\n- Next.\n\n## v0.2.0 (2026-12-01)\n\n### Added\n\n- Two, see [a](docs/a.md#b), [c](https://c.example).\n\n## v0.1.0\n\n- One.\n"
	for version, want := range map[string]string{
		"v0.2.0": "### Added\n\n- Two, see [a](https://github.com/evenkeel/evenkeel/blob/v0.2.0/docs/a.md#b), [c](https://c.example).\n", "v0.1.0": "- One.\n", "v0.3.0-rc.1": "- Next.\n", "0a1b2c3d": "- Next.\n", "v0.1.0-4-g0a1b2c3d": "- Next.\n",
		"v0.3.0": "", "v1.0.0": "",
	} {
		got, err := artifacts.Notes(changelog, version)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", version, got, err, want)
		}
	}
	if _, err := artifacts.Notes("# Changelog\n", "0a1b2c3d"); err == nil {
		t.Error("a changelog without sections is accepted")
	}
}

// TestChart: the chart is packed with the version of the release, for itself and for the image.
func TestChart(t *testing.T) {
	options := probeOptions(t, "testdata/probe")
	options.Source = t.TempDir()
	if err := os.CopyFS(filepath.Join(options.Source, "configs", "crd"), os.DirFS(filepath.Join(root, "configs", "crd"))); err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join("configs", "charts", "evenkeel")
	for name, content := range map[string]string{
		"LICENSE": "", "README.md": "", filepath.Join(chart, "values.yaml"): "a: 1\n",
		filepath.Join(chart, ".helmignore"): "*.swp\ntests/\n", filepath.Join(chart, "tests", "a.yaml"): "", filepath.Join(chart, "b.swp"): "",
		filepath.Join(chart, "Chart.yaml"): "apiVersion: v2\nname: evenkeel\nversion: 0.1.0\nappVersion: v0.1.0\n",
	} {
		to := filepath.Join(options.Source, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for version, want := range map[string]string{"v0.4.0": "0.4.0", "0a1b2c3d": "0.0.0-g0a1b2c3d"} {
		options.Version = version
		files, err := artifacts.Of(options)
		if err != nil {
			t.Fatal(err)
		}
		got := unpacked(t, files["evenkeel-"+want+".tgz"])
		if text := string(got["evenkeel/Chart.yaml"]); text != "apiVersion: v2\nname: evenkeel\nversion: "+want+"\nappVersion: v"+want+"\n" {
			t.Errorf("%s: the chart is %q in %q", version, text, slices.Sorted(maps.Keys(got)))
		}
		if string(got["evenkeel/values.yaml"]) != "a: 1\n" || len(got) != 3 { // the third is .helmignore
			t.Errorf("%s: the chart has %q", version, slices.Sorted(maps.Keys(got)))
		}
	}
}

// probeOptions returns the options of a release of the program in a folder.
func probeOptions(t *testing.T, folder string) artifacts.Options {
	t.Helper()
	options := artifacts.Options{Source: root, Version: "v1.2.3", Date: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)}
	for _, p := range platforms {
		system, arch, _ := strings.Cut(p, "/")
		binary := filepath.Join(t.TempDir(), "probe")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.version="+options.Version,
			"-o", binary, "main.go")
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		options.Binaries = append(options.Binaries, binary)
	}
	return options
}

// written writes files into a folder, as the command does.
func written(t *testing.T, files map[string][]byte) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// run runs a command, and returns what it prints.
func run(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %q: %w: %s", name, args, err, out)
	}
	return string(out), err
}
