package image

import (
	"bytes"
	"cmp"
	"crypto/sha256"
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

// bill returns the SPDX document of a binary: the program, the modules it was linked from, and the Go release. They are read from the
// binary itself, so the list is what is inside rather than what go.mod would allow.
func bill(b binary, options Options) ([]byte, error) {
	sum := sha256.Sum256(b.content)
	digest := hex.EncodeToString(sum[:])
	name := fmt.Sprintf("evenkeel-%s-%s-%s", options.Version, b.platform.OS, b.platform.Architecture)

	program := component(debug.Module{Path: b.info.Main.Path, Version: options.Version})
	program.PackageFileName = Program
	program.PackageLicenseDeclared = "Apache-2.0"
	program.PrimaryPackagePurpose = "APPLICATION"
	program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}

	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      name,
		DocumentNamespace: source + "/spdx/" + url.PathEscape(name) + "-" + digest,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "evenkeel"}, {CreatorType: "Tool", Creator: "evenkeel-image"}},
			Created:  options.Date.Format(time.RFC3339),
		},
		Packages:      []*spdx.Package{program},
		Relationships: []*spdx.Relationship{related("DOCUMENT", common.TypeRelationshipDescribe, program)},
	}
	modules := []*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(b.info.GoVersion, "go")}}
	for _, m := range append(modules, b.info.Deps...) {
		p := component(*cmp.Or(m.Replace, m))
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships,
			related(program.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, p))
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
