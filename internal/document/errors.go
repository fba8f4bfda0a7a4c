package document

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Invalid is returned for invalid input: the text cannot be parsed, or a value in it is refused. It
// is never returned for input that cannot be read, such as a missing file.
type Invalid struct {
	// Problems are in the order of the input, at least one.
	Problems []Problem
}

// Problem is one reason to refuse an input.
type Problem struct {
	// File is the name of the input, "stdin" for standard input.
	File string
	// Document is the number of the document in its file, from 1; 0 if the problem does not belong
	// to one document.
	Document int
	// Err describes the problem, beginning with the path of the field if it is about one.
	Err error
}

// Error lists the problems, one a line.
func (e *Invalid) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors of the problems, for errors.Is and errors.As.
func (e *Invalid) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p.Err
	}
	return errs
}

// String returns the problem and its place in one line.
func (p Problem) String() string { return p.File + ": " + p.InFile() }

// InFile is String without the file.
func (p Problem) InFile() string {
	if p.Document == 0 {
		return p.Err.Error()
	}
	return fmt.Sprintf("document %d: %v", p.Document, p.Err)
}

// ErrSnapshot is the problem of a debugging snapshot of Cluster Autoscaler in place of objects.
var ErrSnapshot = errors.New("is a debugging snapshot of Cluster Autoscaler, not Kubernetes objects")

// TooLarge is the problem of an input that is larger than the limit.
type TooLarge struct {
	// Limit is in bytes.
	Limit int64
	// Fixed reports whether the limit is the same for all callers.
	Fixed bool
}

func (e *TooLarge) Error() string {
	size := resource.NewQuantity(e.Limit, resource.BinarySI).String()
	if size == strconv.FormatInt(e.Limit, 10) {
		size += " bytes"
	}
	return "larger than the limit of " + size
}

// A syntaxError is the problem of text that is neither YAML nor JSON, or uses features that
// documents do not support.
type syntaxError struct {
	line   int // 0 if unknown
	detail string
}

func (e *syntaxError) Error() string {
	if e.line == 0 {
		return e.detail
	}
	return fmt.Sprintf("line %d: %s", e.line, e.detail)
}
