package document

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// extensions are the extensions of the files that are read from a folder.
var extensions = []string{".json", ".yaml", ".yml"}

// Expand returns the files of a name: the file itself or, for a folder, the .json, .yaml and .yml
// files in it by name, without subfolders. The error for a folder without such files is an
// *Invalid; other errors are those of opening it.
func Expand(name string, open func(string) (io.ReadCloser, error)) (files []string, isFolder bool, err error) {
	f, err := open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	folder, ok := f.(fs.ReadDirFile)
	if !ok {
		return []string{name}, false, nil
	}
	if info, err := folder.Stat(); err != nil || !info.IsDir() {
		return []string{name}, false, err
	}
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return nil, true, err
	}
	for _, entry := range entries {
		if slices.Contains(extensions, strings.ToLower(path.Ext(entry.Name()))) && !entry.IsDir() {
			files = append(files, path.Join(name, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, true, &Invalid{[]Problem{{File: name, Err: errors.New("is a folder without files that end in .json, .yaml or .yml")}}}
	}
	slices.Sort(files)
	return files, true, nil
}

// EmptyList is the problem of an empty list if objects are required.
func EmptyList(name string) error { return fmt.Errorf("the list in %s has no items", name) }
