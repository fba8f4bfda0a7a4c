package artifacts

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

// chart returns the Helm chart as helm package writes it, with the version of the release for the chart and the image. It returns no name
// if the source has no chart.
func chart(options Options) (string, []byte, error) {
	const name = "evenkeel"
	from := filepath.Join(options.Source, "configs", "charts", name)
	description, err := os.ReadFile(filepath.Join(from, "Chart.yaml"))
	if os.IsNotExist(err) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	version := semantic(options.Version)
	stamped := chartVersion.ReplaceAll(description, []byte("version: "+version[1:]))
	stamped = appVersion.ReplaceAll(stamped, []byte("appVersion: "+version))
	if !bytes.Contains(stamped, []byte("\nversion: "+version[1:]+"\n")) || !bytes.Contains(stamped, []byte("\nappVersion: "+version+"\n")) {
		return "", nil, fmt.Errorf(`%s: must have lines that begin with "version: " and "appVersion: "`, filepath.Join(from, "Chart.yaml"))
	}
	ignored, err := os.ReadFile(filepath.Join(from, ".helmignore"))
	if err != nil {
		return "", nil, err
	}
	files, err := folder(from, name)
	if err != nil {
		return "", nil, err
	}
	patterns := strings.Fields(strings.ReplaceAll(string(ignored), "/", "")) // names of files and folders, wherever they are
	files = slices.DeleteFunc(files, func(f file) bool { return matches(patterns, f.name) })
	for i, f := range files {
		if f.name == name+"/Chart.yaml" {
			files[i].content = stamped
		}
	}
	content, err := tarred(options.Date, files)
	return fmt.Sprintf("%s-%s.tgz", name, version[1:]), content, err
}

// matches reports whether a part of a path matches one of the patterns.
func matches(patterns []string, name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		for _, pattern := range patterns {
			if ok, err := path.Match(pattern, part); ok && err == nil {
				return true
			}
		}
	}
	return false
}
