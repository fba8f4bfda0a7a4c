// Package artifacts makes the files of a release from programs that make has built and from the source: archives with manual and
// completions, a bill of materials for each, schemas, the chart, the manifest for krew, and checksums. It needs no network. The same
// programs, source and options give the same bytes.
package artifacts

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/release/bill"
)

// Checksums is the name of the file with the checksums of all others.
const Checksums = "checksums.txt"

// Options describe what a release is made of.
type Options struct {
	Source   string   // the folder of the source
	Binaries []string // programs, one for each platform, with one for this machine among them
	Version  string   // with v, as v0.2.0, or what git describe prints for the commit
	Date     time.Time
}

// number is the version in the names of files, which have no v by custom.
func (o Options) number() string { return strings.TrimPrefix(o.Version, "v") }

// Of returns the files by name.
func Of(options Options) (map[string][]byte, error) {
	options.Date = options.Date.UTC().Truncate(time.Second)
	var programs []program
	for _, name := range options.Binaries {
		p, err := readProgram(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		programs = append(programs, p)
	}
	slices.SortFunc(programs, func(a, b program) int { return cmp.Or(cmp.Compare(a.os, b.os), cmp.Compare(a.arch, b.arch)) })

	beside, err := besideProgram(options, programs)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for i, p := range programs {
		programs[i].archive = fmt.Sprintf("evenkeel_%s_%s_%s%s", options.number(), p.os, p.arch, p.format())
		content, err := p.pack(options.Date, beside)
		if err != nil {
			return nil, err
		}
		document, err := bill.Of(bill.Program{
			Content: p.content, Info: p.info, File: p.file(), Version: options.Version, Date: options.Date, OS: p.os, Arch: p.arch,
		})
		if err != nil {
			return nil, err
		}
		programs[i].sum = sum(content)
		files[programs[i].archive] = content
		files[programs[i].archive+".spdx.json"] = document
	}
	for _, more := range []func(Options) (string, []byte, error){schemas, chart} {
		name, content, err := more(options)
		if err != nil {
			return nil, err
		}
		if name != "" {
			files[name] = content
		}
	}
	if files["evenkeel.yaml"], err = krew(options.Version, programs); err != nil {
		return nil, err
	}
	files[Checksums] = checksums(files)
	return files, nil
}

// checksums returns the list that sha256sum --check reads.
func checksums(files map[string][]byte) []byte {
	var list bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&list, "%s  %s\n", sum(files[name]), name)
	}
	return list.Bytes()
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

// A program is a binary, what it says about itself, and its archive.
type program struct {
	name         string // where it is on this machine
	content      []byte
	info         *buildinfo.BuildInfo
	os, arch     string
	archive, sum string
}

func readProgram(name string) (program, error) {
	content, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		return program{}, err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return program{}, err
	}
	p := program{name: name, content: content, info: info}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			p.os = s.Value
		case "GOARCH":
			p.arch = s.Value
		}
	}
	return p, nil
}

// file is the name of the program in its archive.
func (p program) file() string {
	if p.os == "windows" {
		return "evenkeel.exe"
	}
	return "evenkeel"
}

// format is the extension of the archive, which the platform unpacks without further tools.
func (p program) format() string {
	if p.os == "windows" {
		return ".zip"
	}
	return ".tar.gz"
}

// pack returns the archive of a program.
func (p program) pack(date time.Time, beside []file) ([]byte, error) {
	files := append([]file{{p.file(), 0o755, p.content}}, beside...)
	if p.os == "windows" {
		return zipped(date, files)
	}
	return tarred(date, files)
}
