// Package scenarios holds the scenarios that come with the program, and the files they name. It
// does not interpret them.
package scenarios

import (
	"embed"
	"io/fs"
	"strings"
)

// Files are the scenarios, NAME.yaml, and under data the files they name.
//
//go:embed *.yaml data
var Files embed.FS

const suffix = ".yaml"

// Names lists the scenarios in alphabetical order.
func Names() []string {
	entries, err := fs.ReadDir(Files, ".")
	if err != nil {
		return nil // the folder is embedded in the program
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), suffix); ok {
			names = append(names, name)
		}
	}
	return names
}

// Read returns the text of a scenario.
func Read(name string) ([]byte, error) { return Files.ReadFile(name + suffix) }
