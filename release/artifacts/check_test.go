package artifacts_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/release/artifacts"
)

// check checks the files of a release of a version, as somebody who has downloaded them can.
func check(t *testing.T, folder, version string) {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("checksums", func(t *testing.T) { checkSums(t, folder, files) })
	here := ""
	for name := range files {
		switch platform := "_" + runtime.GOOS + "_" + runtime.GOARCH; {
		case strings.HasSuffix(name, ".spdx.json"):
			checkBill(t, name, files[name], strings.TrimSuffix(name, ".spdx.json"))
		case strings.HasSuffix(name, platform+".tar.gz") || strings.HasSuffix(name, platform+".zip"):
			here = name
			fallthrough
		case strings.Contains(name, "64."):
			checkArchive(t, name, unpacked(t, files[name]))
		}
	}
	if here == "" {
		t.Fatalf("no archive for this machine in %q", slices.Sorted(maps.Keys(files)))
	}
	t.Run("program", func(t *testing.T) { checkProgram(t, unpacked(t, files[here]), version) })
	t.Run("krew", func(t *testing.T) { checkKrew(t, folder, here, files, version) })
	t.Run("schemas", func(t *testing.T) {
		checkSchemas(t, unpacked(t, files["evenkeel_"+strings.TrimPrefix(version, "v")+"_schemas.tar.gz"]))
	})
}

// checkSums has sha256sum check the files, and expects that the list has all of them.
func checkSums(t *testing.T, folder string, files map[string][]byte) {
	t.Helper()
	list := strings.Fields(string(files[artifacts.Checksums]))
	if len(list) != 2*(len(files)-1) {
		t.Errorf("%d files and a list of %d", len(files), len(list)/2)
	}
	if _, err := run(t, nil, "env", "-C", folder, "sha256sum", "--check", "--strict", artifacts.Checksums); err != nil {
		t.Error(err)
	}
}

// checkArchive expects what an archive has beside the program.
func checkArchive(t *testing.T, name string, got map[string][]byte) {
	t.Helper()
	program := "evenkeel"
	if strings.Contains(name, "windows") {
		program += ".exe"
	}
	for _, want := range []string{
		program, "LICENSE", "README.md", "man/man1/evenkeel.1",
		"completions/evenkeel.bash", "completions/evenkeel.fish", "completions/evenkeel.ps1", "completions/_evenkeel",
	} {
		if len(got[want]) == 0 {
			t.Errorf("%s: no %s in %q", name, want, slices.Sorted(maps.Keys(got)))
		}
		if strings.HasPrefix(want, "completions/") && !bytes.Contains(got[want], []byte("completion")) {
			t.Errorf("%s: %s is %.100q", name, want, got[want])
		}
	}
}

// checkBill expects a valid SPDX document about the program of an archive.
func checkBill(t *testing.T, name string, content []byte, archive string) {
	t.Helper()
	doc, err := spdxjson.Read(bytes.NewReader(content))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	parts := strings.Split(strings.NewReplacer(".tar.gz", "", ".zip", "").Replace(archive), "_")
	if !strings.HasSuffix(doc.DocumentName, "-"+strings.Join(parts[len(parts)-2:], "-")) || len(doc.Packages) < 2 {
		t.Errorf("%s: the document is about %s and has %d packages", name, doc.DocumentName, len(doc.Packages))
	}
}

// checkProgram runs the program of the archive.
func checkProgram(t *testing.T, files map[string][]byte, version string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "evenkeel")
	if err := os.WriteFile(program, files["evenkeel"], 0o700); err != nil {
		t.Fatal(err)
	}
	checkVersion(t, program, version)
}

func checkVersion(t *testing.T, program, version string) {
	t.Helper()
	out, err := run(t, nil, program, "version", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Version != version {
		t.Errorf("the program says %s, want version %s", out, version)
	}
}

// checkKrew has krew install the archive by the manifest, and runs the plugin; and compares what the manifest says of other platforms.
func checkKrew(t *testing.T, folder, here string, files map[string][]byte, version string) {
	t.Helper()
	var manifest struct {
		Spec struct {
			Version   string `json:"version"`
			Platforms []struct {
				URI, Sha256, Bin string
			} `json:"platforms"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(files["evenkeel.yaml"], &manifest); err != nil {
		t.Fatal(err)
	}
	archives := 0
	for name := range files {
		if bills := name + ".spdx.json"; files[bills] != nil {
			archives++
		}
	}
	if len(manifest.Spec.Platforms) != archives {
		t.Errorf("%d platforms for %d archives", len(manifest.Spec.Platforms), archives)
	}
	for _, p := range manifest.Spec.Platforms {
		name := strings.TrimPrefix(p.URI, "https://github.com/evenkeel/evenkeel/releases/download/"+version+"/")
		if content, ok := files[name]; !ok || !strings.Contains(string(files[artifacts.Checksums]), p.Sha256+"  "+name+"\n") {
			t.Errorf("%s with %s and %d bytes", p.URI, p.Sha256, len(content))
		} else if len(unpacked(t, content)[p.Bin]) == 0 {
			t.Errorf("%s has no %s", name, p.Bin)
		}
	}
	home := []string{"KREW_ROOT=" + t.TempDir(), "KREW_NO_UPGRADE_CHECK=1"}
	_, err := run(t, home, "go", "tool", "krew", "install",
		"--manifest", filepath.Join(folder, "evenkeel.yaml"), "--archive", filepath.Join(folder, here))
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(strings.TrimPrefix(home[0], "KREW_ROOT="), "bin", "kubectl-evenkeel")
	checkVersion(t, plugin, version)
	help, err := run(t, nil, plugin, "help")
	if err != nil || *made != "" && !strings.Contains(help, "kubectl evenkeel [command]") {
		t.Errorf("%v: the help of the plugin is\n%s", err, help)
	}
}

// unpacked returns the files of an archive, by name.
func unpacked(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	if bytes.HasPrefix(archive, []byte("PK")) {
		r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.File {
			content, err := r.Open(f.Name)
			if err != nil {
				t.Fatal(err)
			}
			if files[f.Name], err = io.ReadAll(content); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
