// Package bill writes what a program is made of, as an SPDX document. The same program gives the same bytes.
package bill

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// Source is the address of the project.
const Source = "https://github.com/evenkeel/evenkeel"

// A Program is a binary whose bill is written.
type Program struct {
	Content  []byte
	Info     *buildinfo.BuildInfo
	File     string // its name where it is installed
	Version  string
	Date     time.Time
	OS, Arch string
}

// Of returns the SPDX document of a program: itself, the modules it was linked from, and the Go release. They are read from the
// binary, so the list is what is inside rather than what go.mod would allow.
func Of(p Program) ([]byte, error) {
	sum := sha256.Sum256(p.Content)
	digest := hex.EncodeToString(sum[:])
	name := fmt.Sprintf("evenkeel-%s-%s-%s", p.Version, p.OS, p.Arch)

	program := component(debug.Module{Path: p.Info.Main.Path, Version: p.Version})
	program.PackageFileName = p.File
	program.PackageLicenseDeclared = "Apache-2.0"
	program.PrimaryPackagePurpose = "APPLICATION"
	program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}

	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      name,
		DocumentNamespace: Source + "/spdx/" + url.PathEscape(name) + "-" + digest,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "evenkeel"}, {CreatorType: "Tool", Creator: "evenkeel-image"}},
			Created:  p.Date.Format(time.RFC3339),
		},
		Packages:      []*spdx.Package{program},
		Relationships: []*spdx.Relationship{related("DOCUMENT", common.TypeRelationshipDescribe, program)},
	}
	modules := []*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(p.Info.GoVersion, "go")}}
	for _, m := range append(modules, p.Info.Deps...) {
		part := component(*cmp.Or(m.Replace, m))
		doc.Packages = append(doc.Packages, part)
		doc.Relationships = append(doc.Relationships,
			related(program.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, part))
	}
	var buffer bytes.Buffer
	err := spdxjson.Write(doc, &buffer, spdxjson.Indent("  "), spdxjson.EscapeHTML(false))
	return buffer.Bytes(), err
}

var notInIdentifiers = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// component describes a module. Its licence is not guessed: scanners read that from the module.
func component(m debug.Module) *spdx.Package {
	p := &spdx.Package{
		PackageName: m.Path, PackageVersion: m.Version,
		PackageSPDXIdentifier:   common.ElementID("Module-" + notInIdentifiers.ReplaceAllString(m.Path+"-"+m.Version, "-")),
		PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
		PrimaryPackagePurpose: "LIBRARY",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + m.Path + "@" + url.QueryEscape(m.Version),
		}},
	}
	if m.Sum != "" {
		p.PackageSourceInfo = "checksum in go.sum: " + m.Sum
	}
	return p
}

func related(from common.ElementID, how string, to *spdx.Package) *spdx.Relationship {
	return &spdx.Relationship{
		RefA:         common.DocElementID{ElementRefID: from},
		RefB:         common.DocElementID{ElementRefID: to.PackageSPDXIdentifier},
		Relationship: how,
	}
}
