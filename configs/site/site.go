// Package site makes web pages of the manual, with hugo, which is a tool of this module: a folder for each version, and one for the latest.
package site

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Options say which version of the site is made.
type Options struct {
	Version  string   // the name of its folder
	Ref      string   // what links to files of the repository name: a commit or a tag
	Versions []string // all that are published, newest first; Version is added if it is missing
}

// named is what a version may be called: it is the name of a folder and a part of links.
var named = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]*$`)

// Build writes the site of a version to the folder output/VERSION. If no release among the versions is newer, it
// writes the same to output/latest, and a page at the top that leads there. Folder is that of this module. The same
// commit and options give the same bytes.
func Build(ctx context.Context, folder, output string, o Options) error {
	versions := o.Versions
	if !slices.Contains(versions, o.Version) {
		versions = append([]string{o.Version}, versions...)
	}
	for _, v := range append([]string{o.Ref}, versions...) {
		if !named.MatchString(v) || v == latest {
			return fmt.Errorf("%q cannot be the name of a version", v)
		}
	}
	to, err := filepath.Abs(filepath.Join(output, o.Version))
	if err != nil {
		return err
	}
	hugo := exec.CommandContext(ctx, "go", "tool", "hugo", "--quiet", "--panicOnWarning", "--noBuildLock", "--cleanDestinationDir",
		"--destination", to)
	hugo.Dir = folder
	hugo.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "HUGO_ENVIRONMENT=production",
		"HUGO_PARAMS_VERSION="+o.Version, "HUGO_PARAMS_REF="+o.Ref, "HUGO_PARAMS_VERSIONS="+strings.Join(versions, " "))
	if out, err := hugo.CombinedOutput(); err != nil {
		return fmt.Errorf("hugo: %w\n%s", err, out)
	}
	if newest(versions) != o.Version {
		return nil
	}
	return alias(to, output)
}

const latest = "latest"

// newest is the first version that is not a pre-release, or the first of all if there is none.
func newest(versions []string) string {
	if i := slices.IndexFunc(versions, func(v string) bool { return !strings.Contains(v, "-") }); i >= 0 {
		return versions[i]
	}
	return versions[0]
}

// alias makes a site the latest one.
func alias(site, output string) error {
	to := filepath.Join(output, latest)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.CopyFS(to, os.DirFS(site)); err != nil {
		return err
	}
	const page = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=latest/index.html">
<title>evenkeel</title>
</head>
<body><p><a href="latest/index.html">The evenkeel manual</a></p></body>
</html>
`
	return os.WriteFile(filepath.Join(output, "index.html"), []byte(page), 0o644)
}
