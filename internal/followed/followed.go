// Package followed reads a file again when it changes, such as one that Kubernetes mounts from a
// ConfigMap. It looks when it is asked to, and knows nothing about what files mean.
package followed

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
)

// File is a file whose content is a T. It is not safe for concurrent use.
type File[T any] struct {
	name    string
	parse   func(name string, content []byte) (T, error)
	content []byte // nil until it was read
	failure string // why it could not be read
}

// Open reads a file for the first time.
func Open[T any](name string, parse func(name string, content []byte) (T, error)) (*File[T], T, error) {
	f := &File[T]{name: name, parse: parse}
	value, _, err := f.Changed()
	return f, value, err
}

// Name is the name of the file.
func (f *File[T]) Name() string { return f.name }

// Changed reads the file and reports whether it has changed since the last call. An error is returned
// once for what it is about: a file that cannot be read, or content that parse refuses.
func (f *File[T]) Changed() (value T, changed bool, err error) {
	content, err := Read(f.name)
	if err != nil {
		if err.Error() == f.failure {
			return value, false, nil
		}
		f.failure = err.Error()
		return value, false, err
	}
	f.failure = ""
	if f.content != nil && bytes.Equal(content, f.content) {
		return value, false, nil
	}
	f.content = append([]byte{}, content...)
	value, err = f.parse(f.name, content)
	return value, err == nil, err
}

// Read reads a file that is read again later. The error for a named pipe, which can be read once and only while somebody
// writes to it, is an *fs.PathError.
func Read(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a pipe, but is read more than once: name a regular file")}
	}
	return os.ReadFile(name)
}
