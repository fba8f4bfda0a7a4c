// Package image writes the container image of evenkeel: an OCI layout, made from static binaries without a daemon, a base image or a
// network. The same binaries and options give the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/evenkeel/evenkeel/release/bill"
)

const (
	// Program is where the binary is in the image.
	Program = "/evenkeel"
	// User is the number of the user and group nonroot, as in the security context of the manifests.
	User = 65532

	source  = bill.Source
	bomType = types.MediaType("application/spdx+json")
)

// Options describe what the image is made of.
type Options struct {
	Binaries []string // static programs for Linux, one for each architecture
	Name     string   // with tag, as ghcr.io/evenkeel/evenkeel:v0.2.0
	Version  string
	Commit   string
	Date     time.Time // of the commit: every time in the image
}

// Write writes the layout into a folder, which must not exist or be empty. Beside the image it holds for each platform the list of
// what the binary is made of (SPDX), as an artifact that refers to the image.
func Write(folder string, options Options) error {
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", folder)
	}
	all, err := Index(options)
	if err != nil {
		return err
	}
	_, err = layout.Write(folder, all)
	return err
}

// Index returns what Write writes.
func Index(options Options) (v1.ImageIndex, error) {
	options.Date = options.Date.UTC().Truncate(time.Second)
	base, err := layer(options.Date, baseFiles())
	if err != nil {
		return nil, err
	}
	images := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var boms []mutate.IndexAddendum
	for _, name := range options.Binaries {
		b, err := readBinary(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		img, err := platformImage(base, b, options)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		bom, err := bomArtifact(img, b, options)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		images = mutate.AppendManifests(images, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &b.platform}})
		boms = append(boms, mutate.IndexAddendum{Add: bom})
	}
	annotated, ok := mutate.Annotations(images, labels(options)).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotations of %T: not an index", images)
	}
	named := mutate.IndexAddendum{Add: annotated, Descriptor: v1.Descriptor{Annotations: map[string]string{
		"org.opencontainers.image.ref.name": options.Version,
		"io.containerd.image.name":          options.Name,
	}}}
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	return mutate.AppendManifests(all, append([]mutate.IndexAddendum{named}, boms...)...), nil
}

// A binary is a program and what it says about itself.
type binary struct {
	content  []byte
	info     *buildinfo.BuildInfo
	platform v1.Platform
}

// readBinary refuses what would not run in an image that has nothing but the program.
func readBinary(name string) (binary, error) {
	content, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		return binary{}, err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return binary{}, err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != "linux" || settings["CGO_ENABLED"] != "0" {
		return binary{}, fmt.Errorf("built with GOOS=%s CGO_ENABLED=%s: must be linux and 0", settings["GOOS"], settings["CGO_ENABLED"])
	}
	return binary{content, info, v1.Platform{OS: "linux", Architecture: settings["GOARCH"]}}, nil
}

func platformImage(base v1.Layer, b binary, options Options) (v1.Image, error) {
	program, err := layer(options.Date, []file{{name: strings.TrimPrefix(Program, "/"), mode: 0o755, content: b.content}})
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: options.Date}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, History: v1.History{Created: created, CreatedBy: "certificates and users"}},
		mutate.Addendum{Layer: program, History: v1.History{Created: created, CreatedBy: "evenkeel " + options.Version}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created, config.OS, config.Architecture = created, b.platform.OS, b.platform.Architecture
	config.Config = v1.Config{
		Entrypoint: []string{Program},
		Env:        []string{"PATH=/"},
		User:       fmt.Sprintf("%d:%d", User, User),
		WorkingDir: "/",
		Labels:     labels(options),
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(img, labels(options)).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("annotations of %T: not an image", img)
	}
	return annotated, nil
}

// bomArtifact returns the artifact with the SPDX document of the image. Its type is that of its config, as for every
// manifest without artifactType.
func bomArtifact(img v1.Image, b binary, options Options) (v1.Image, error) {
	content, err := bill.Of(bill.Program{
		Content: b.content, Info: b.info, File: Program, Version: options.Version, Date: options.Date,
		OS: b.platform.OS, Arch: b.platform.Architecture,
	})
	if err != nil {
		return nil, err
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), bomType)
	if artifact, err = mutate.AppendLayers(artifact, static.NewLayer(content, bomType)); err != nil {
		return nil, err
	}
	subject, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	subject.Platform, subject.Annotations = nil, nil
	refers, ok := mutate.Subject(artifact, *subject).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("subject of %T: not an image", artifact)
	}
	return refers, nil
}

func labels(options Options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         "evenkeel",
		"org.opencontainers.image.description":   "Keeps a Kubernetes fleet balanced across its failure domains",
		"org.opencontainers.image.url":           source,
		"org.opencontainers.image.source":        source,
		"org.opencontainers.image.documentation": source + "/blob/main/docs/README.md",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.version":       options.Version,
		"org.opencontainers.image.revision":      options.Commit,
		"org.opencontainers.image.created":       options.Date.Format(time.RFC3339),
	}
}

// A file of a layer; its folders come by themselves.
type file struct {
	name    string
	mode    int64
	content []byte
}

// layer returns a layer of files that belong to root. They are all that a layer depends on.
func layer(date time.Time, files []file) (v1.Layer, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	seen := map[string]bool{}
	for _, f := range files {
		for _, folder := range parents(f.name) {
			if seen[folder] {
				continue
			}
			seen[folder] = true
			header := tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: date, Format: tar.FormatUSTAR}
			if err := w.WriteHeader(&header); err != nil {
				return nil, err
			}
		}
		header := tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: date, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// parents returns the folders above a file, outermost first.
func parents(name string) []string {
	var folders []string
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		folders = append(folders, folder)
	}
	slices.Reverse(folders)
	return folders
}
