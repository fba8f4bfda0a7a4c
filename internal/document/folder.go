package document

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Open opens an input by name; "-" is standard input.
type Open func(name string) (io.ReadCloser, error)

// Stdin returns an Open of files that reads standard input from r.
func Stdin(r io.Reader) Open {
	return func(name string) (io.ReadCloser, error) {
		if name == "-" {
			return io.NopCloser(r), nil
		}
		return os.Open(name)
	}
}

// Title is the name of an input in messages.
func Title(name string) string {
	if name == "-" {
		return "stdin"
	}
	return name
}

// Each opens the files of a name, and calls read with the title of each: the file itself, which is opened once as it
// may be a pipe, or, for a folder, the .json, .yaml and .yml files in it by name, compressed ones too, without
// subfolders. The error for a folder without such files is an *Invalid; other errors are those of opening it and of
// read.
func (open Open) Each(name string, read func(title string, r io.Reader, inFolder bool) error) error {
	f, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	folder, ok := f.(fs.ReadDirFile)
	if ok {
		info, err := folder.Stat()
		if err != nil {
			return err
		}
		ok = info.IsDir()
	}
	if !ok {
		return read(Title(name), f, false)
	}
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		plain := strings.TrimSuffix(strings.ToLower(e.Name()), ".gz")
		return e.IsDir() || !slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(plain))
	})
	if len(entries) == 0 {
		return &Invalid{[]Problem{{File: name, Err: errors.New("is a folder without files that end in .json, .yaml or .yml")}}}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		f, err := open(path.Join(name, entry.Name()))
		if err != nil {
			return err
		}
		err = read(path.Join(name, entry.Name()), f, true)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Objects reads the objects of a name, as Objects does, and calls visit with each and the title of its file. Snapshots in a folder
// are passed over. An empty list, which kubectl prints where there is nothing, is no error; errors are those of Each and of visit.
func (open Open) Objects(name string, o StreamOptions, visit func(title string, item Item) error) error {
	return open.Each(name, func(title string, r io.Reader, inFolder bool) error {
		for item, err := range Objects(title, r, o) {
			if inFolder && errors.Is(err, ErrSnapshot) {
				return nil
			}
			if err == nil {
				err = visit(title, item)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
