package image_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/evenkeel/evenkeel/release/image"
)

var architectures = []string{"amd64", "arm64"}

// TestLayout: the layout is valid, has an image for each architecture with user, entry point and labels, and an SPDX document
// that refers to each.
func TestLayout(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "layout")
	options := probeOptions(t, "testdata/probe")
	if err := image.Write(folder, options); err != nil {
		t.Fatal(err)
	}
	all, images := read(t, folder)
	if err := validate.Index(all); err != nil {
		t.Error(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; got != options.Version {
		t.Errorf("the index has the reference %q, want %q", got, options.Version)
	}
	if len(images) != len(architectures) || len(manifest.Manifests) != 1+len(architectures) {
		t.Fatalf("%d images and %d manifests for %d architectures", len(images), len(manifest.Manifests), len(architectures))
	}
	for i, arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			config, err := images[i].ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			c := config.Config
			if config.Architecture != arch || config.OS != "linux" || c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/evenkeel"}) {
				t.Errorf("the configuration is %+v", config)
			}
			if !config.Created.Equal(options.Date) || c.Labels["org.opencontainers.image.revision"] != options.Commit {
				t.Errorf("created %s with the labels %v", config.Created, c.Labels)
			}
			checkBill(t, all, manifest.Manifests[1+i], images[i])
		})
	}
}

// checkBill checks the artifact at a descriptor: it refers to the image, and its document is valid and names the program.
func checkBill(t *testing.T, all v1.ImageIndex, at v1.Descriptor, img v1.Image) {
	t.Helper()
	artifact, err := all.Image(at.Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := artifact.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Subject == nil || manifest.Subject.Digest != digest || manifest.Config.MediaType != "application/spdx+json" {
		t.Errorf("the artifact has the subject %+v and the config %+v; the image is %s", manifest.Subject, manifest.Config, digest)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers: %v", len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := spdxjson.Read(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Error(err)
	}
	ids := map[string]bool{}
	for _, p := range doc.Packages {
		ids[string(p.PackageSPDXIdentifier)] = true
	}
	if len(ids) != len(doc.Packages) || len(ids) < 2 || doc.Packages[1].PackageName != "stdlib" {
		t.Errorf("%d packages with %d identifiers", len(doc.Packages), len(ids))
	}
}

// TestSameBytes: the same source in another folder, with other times and rights of its files, gives the same bytes.
func TestSameBytes(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "the", "second")
	if err := image.Write(first, probeOptions(t, "testdata/probe")); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "elsewhere", "probe")
	if err := os.CopyFS(copied, os.DirFS("testdata/probe")); err != nil {
		t.Fatal(err)
	}
	age(t, copied)
	if err := image.Write(second, probeOptions(t, copied)); err != nil {
		t.Fatal(err)
	}
	sameBytes(t, first, second)
}

// TestRefuses: what cannot run in the image is not put into it.
func TestRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	dynamic := build(t, "testdata/probe", "CGO_ENABLED=1", "GOARCH=amd64")
	for name, want := range map[string]string{text: "unrecognized file format", dynamic: "must be linux and 0"} {
		folder := filepath.Join(t.TempDir(), "layout")
		err := image.Write(folder, image.Options{Binaries: []string{name}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s: a layout was written", name)
		}
	}
	if err := image.Write(filepath.Dir(text), image.Options{}); err == nil {
		t.Error("files of somebody else are no obstacle")
	}
}

// TestDockerfile: an image of the Dockerfile has the same user, entry point, path and files.
func TestDockerfile(t *testing.T) {
	content, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`USER 65532:65532`, `ENTRYPOINT ["/evenkeel"]`, `ENV PATH=/`, `FROM scratch`,
		`COPY --from=build /source/bin/evenkeel /evenkeel`,
		`COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/`,
	} {
		if !strings.Contains(string(content), "\n"+line+"\n") {
			t.Errorf("the Dockerfile lacks %q", line)
		}
	}
}

// probeOptions returns the options of an image of the program in a folder.
func probeOptions(t *testing.T, folder string) image.Options {
	t.Helper()
	options := image.Options{
		Name: "registry.example.com/evenkeel:v1.2.3", Version: "v1.2.3", Commit: strings.Repeat("0a", 20),
		Date: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC),
	}
	for _, arch := range architectures {
		options.Binaries = append(options.Binaries, build(t, folder, "CGO_ENABLED=0", "GOARCH="+arch))
	}
	return options
}

// build builds the one file of a program, and returns the name of the binary.
func build(t *testing.T, folder string, env ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "probe")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "main.go")
	cmd.Dir = folder
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOOS=linux"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// age gives every file below a folder another time and other rights.
func age(t *testing.T, folder string) {
	t.Helper()
	old := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if err := os.Chmod(name, info.Mode()&0o700); err != nil {
			return err
		}
		return os.Chtimes(name, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sameBytes expects the same files in two folders.
func sameBytes(t *testing.T, first, second string) {
	t.Helper()
	names := func(folder string) (files []string) {
		err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				name, err = filepath.Rel(folder, name)
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	files := names(first)
	if others := names(second); !slices.Equal(files, others) || len(files) < 3 {
		t.Fatalf("the files are\n%q, and\n%q", files, others)
	}
	for _, name := range files {
		a, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs", name)
		}
	}
}

// read returns the index of a layout and the images in it, by architecture.
func read(t *testing.T, folder string) (v1.ImageIndex, []v1.Image) {
	t.Helper()
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	var images []v1.Image
	for _, d := range manifest.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, img)
	}
	return all, images
}

// decode reads a JSON document.
func decode(t *testing.T, content []byte) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(content, &value); err != nil {
		t.Fatalf("%v: %s", err, content)
	}
	return value
}
