package image_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

var repository = flag.String("repository", "", "a git repository: build the image and the release of its last commit in two clones")

// most is what an image of one platform may have, compressed.
const most = 60 << 20

// TestClones: two clones of the repository, in different folders and with different times of the files, give the same image and the same
// files of a release, which stand all checks; the image is small, and runs as the manifests ask for.
func TestClones(t *testing.T) {
	if *repository == "" {
		t.Skip("needs -repository; make image-test sets it")
	}
	first := filepath.Join(t.TempDir(), "evenkeel")
	second := filepath.Join(t.TempDir(), "another", "folder")
	for _, clone := range []string{first, second} {
		run(t, "", "git", "clone", "-q", *repository, clone)
	}
	age(t, filepath.Join(second, "cmd"))
	for _, clone := range []struct{ folder, release string }{{first, "release-test"}, {second, "release-dry-run"}} {
		// age has changed the rights of files: without this git would call the source dirty.
		run(t, clone.folder, "git", "config", "core.fileMode", "false")
		// The platforms of the image: the same programs are in both, and the others are built in the same way.
		t.Log(run(t, clone.folder, "make", "image", clone.release, "PLATFORMS=linux/amd64 linux/arm64"))
	}
	sameBytes(t, filepath.Join(first, "dist"), filepath.Join(second, "dist"))

	layout := filepath.Join(first, "dist", "image")
	_, images := read(t, layout)
	for i, arch := range architectures {
		size := compressed(t, images[i])
		t.Logf("%s: %.1f MB compressed", arch, float64(size)/1e6)
		if size > most {
			t.Errorf("%s: %d bytes compressed, at most %d are allowed", arch, size, most)
		}
	}

	commit := strings.TrimSpace(run(t, first, "git", "rev-parse", "HEAD"))
	if got := decode(t, runConfined(t, layout, "version", "-o", "json")); got["commit"] != commit || got["platform"] == "" {
		t.Errorf("the program says it is %v, want the commit %s", got, commit)
	}
	if out := runConfined(t, layout, "simulate", "zone-outage"); !strings.Contains(string(out), "nodes-lost") {
		t.Errorf("the simulation says %s", out)
	}
}

func compressed(t *testing.T, img v1.Image) int64 {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, l := range layers {
		size, err := l.Size()
		if err != nil {
			t.Fatal(err)
		}
		sum += size
	}
	return sum
}

// run runs a command in a folder and returns its output.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}
