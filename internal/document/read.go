package document

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// DefaultMaxSize is the default maximum size of a file of documents in bytes.
const DefaultMaxSize = 64 << 20

// maxProblems is the maximum number of reported problems of one document.
const maxProblems = 20

// Kinds are kinds of documents or objects: structs, whose types have the names of the kinds.
type Kinds []any

// Planning are the kinds of planning documents.
func Planning() Kinds {
	return Kinds{v1alpha1.NodeGroupSplit{}, v1alpha1.NodeGroupSimilarity{}, v1alpha1.ReplicaDistribution{}, v1alpha1.SpreadSplit{}, v1alpha1.TopologySpread{}}
}

// new returns a pointer to a new value of a kind, or nil.
func (k Kinds) new(kind string) any {
	for _, object := range k {
		if t := reflect.TypeOf(object); t.Name() == kind {
			return reflect.New(t).Interface()
		}
	}
	return nil
}

func (k Kinds) names() (names []string) {
	for _, object := range k {
		names = append(names, reflect.TypeOf(object).Name())
	}
	return slices.Sorted(slices.Values(names))
}

// Options are the options of Read.
type Options struct {
	// Kinds are the accepted kinds, all of apiVersion evenkeel.dev/v1alpha1; nil means Planning.
	Kinds Kinds
	// AmongOthers passes over documents of other kinds, such as those of a dump.
	AmongOthers bool
	// MaxSize is the greatest size of one file in bytes; 0 means DefaultMaxSize.
	MaxSize int64
	// Check returns the errors in a document, once all could be decoded; nil means that there are none.
	Check func(*Document) field.ErrorList
}

// Document is a document that was read.
type Document struct {
	// File is the name of the input, "stdin" for standard input.
	File string
	// Number counts the documents of the file, from 1. Empty ones do not count, and a List with its
	// items is one.
	Number int
	// Kind and Name are the document's kind and metadata.name; the name may be empty.
	Kind, Name string
	// Object is a value of the kind's type, as Kinds made it.
	Object any

	source *yaml.Node
	item   string // path of the document in its List with a point, empty outside of one
}

// ReadFiles reads the documents of several files in the order given; "-" stands for standard input, which
// can be named once, and a folder for the files in it, of which only documents of evenkeel.dev
// count. All files are read before it returns, so that the error, an *Invalid, has the problems of
// all.
func ReadFiles(files []string, open Open, o Options) ([]Document, error) {
	r := reader{Options: o}
	if r.Kinds == nil {
		r.Kinds = Planning()
	}
	for i, file := range files {
		if file == "-" && slices.Contains(files[:i], "-") {
			return nil, &Invalid{[]Problem{{File: "stdin", Err: errors.New("named twice, but can be read only once")}}}
		}
		before := len(r.documents) + len(r.problems)
		err := r.note(open.Each(file, func(title string, in io.Reader, inFolder bool) error {
			r.inFolder = inFolder
			return r.note(r.read(title, in))
		}))
		if err != nil {
			return nil, err
		}
		if r.inFolder && len(r.documents)+len(r.problems) == before && !o.AmongOthers {
			r.problems = append(r.problems, Problem{File: file, Err: errors.New("is a folder without a document of " + v1alpha1.APIVersion)})
		}
	}
	if len(r.problems) == 0 && r.Check != nil { // types before meanings
		for i := range r.documents {
			r.problems = append(r.problems, r.documents[i].Refuse(plain(r.Check(&r.documents[i]))...)...)
		}
	}
	if len(r.problems) > 0 {
		return nil, &Invalid{r.problems}
	}
	return r.documents, nil
}

// Read reads the documents of one input. The name is for messages. A List of apiVersion v1 stands
// for its items. The error is an *Invalid with every problem found, unless reading itself failed.
func Read(name string, r io.Reader, o Options) ([]Document, error) {
	return ReadFiles([]string{name}, func(string) (io.ReadCloser, error) { return io.NopCloser(r), nil }, o)
}

// Only reads a text that must have one document, of the kind that T is named after, and checks it. The
// error is an *Invalid with every problem found.
func Only[T any](name string, text []byte, maxSize int64, check func(*T) field.ErrorList) (*T, error) {
	kinds := Kinds{*new(T)}
	docs, err := Read(name, bytes.NewReader(text), Options{Kinds: kinds, MaxSize: maxSize, Check: func(d *Document) field.ErrorList { return check(d.Object.(*T)) }})
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, &Invalid{[]Problem{{File: name, Err: fmt.Errorf("must have one document of kind %s, not %d", kinds.names()[0], len(docs))}}}
	}
	return docs[0].Object.(*T), nil
}

// A reader collects documents and problems.
type reader struct {
	Options
	inFolder  bool // documents of other versions are passed over
	documents []Document
	problems  []Problem
}

// note collects the problems of an invalid input, and returns any other error.
func (r *reader) note(err error) error {
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	r.problems = append(r.problems, invalid.Problems...)
	return nil
}

// read reads the documents of an input. A problem in one does not hide those of the others.
func (r *reader) read(name string, in io.Reader) error {
	limited := newInput(in, cmp.Or(r.MaxSize, DefaultMaxSize))
	data, err := io.ReadAll(limited)
	if err == nil && !utf8.Valid(data) {
		err = errors.New("is not UTF-8 text")
	}
	if err != nil {
		return limited.refuse(name, 0, err)
	}
	number := 0
	_ = sections(bytes.NewReader(data), func(in *bufio.Reader, line int) error { // neither can fail
		text, _ := io.ReadAll(in)
		values, err := parse(text, line)
		if err != nil {
			number++
			r.problems = append(r.problems, Problem{name, number, err})
		}
		for _, v := range values {
			number++
			r.take(Document{File: name, Number: number, source: v})
		}
		return nil
	})
	if number == 0 && !r.inFolder {
		return limited.refuse(name, 0, errors.New("holds no document"))
	}
	return nil
}

// take decodes a document, or the items of a List, unless it is passed over.
func (r *reader) take(d Document) {
	var is metav1.TypeMeta
	problems := (&decoder{lenient: true}).decode(d.source, nil, &is)
	if items := member(d.source, "items"); is.Kind == "List" && is.APIVersion == "v1" && items != nil && items.Kind == yaml.SequenceNode {
		for i, item := range items.Content {
			r.take(Document{File: d.File, Number: d.Number, source: item, item: fmt.Sprintf("%sitems[%d].", d.item, i)})
		}
		return
	}
	isOther := is.APIVersion != "" && !strings.HasPrefix(is.APIVersion, v1alpha1.Group+"/")
	d.Object = r.Kinds.new(is.Kind)
	if r.inFolder && isOther || r.AmongOthers && d.Object == nil {
		return
	}
	if len(problems) == 0 {
		problems = slices.Concat(oneOf("apiVersion", is.APIVersion, v1alpha1.APIVersion), oneOf("kind", is.Kind, r.Kinds.names()...))
	}
	switch {
	case d.source.Kind != yaml.MappingNode:
		problems = []error{errors.New("must be an object with apiVersion, kind and spec")}
	case len(problems) == 0:
		var h header
		_ = (&decoder{lenient: true}).decode(d.source, nil, &h) // what is wrong is found again
		d.Kind, d.Name = is.Kind, h.Metadata.Name
		problems = new(decoder).decode(d.source, nil, d.Object)
	}
	r.problems = append(r.problems, d.Refuse(problems...)...)
	r.documents = append(r.documents, d)
}

// oneOf returns the problem of a field that must have one of some values.
func oneOf(name, value string, allowed ...string) []error {
	switch at, detail := field.NewPath(name), strings.Join(allowed, ", "); {
	case value == "" && len(allowed) > 1:
		return []error{field.Required(at, "must be one of "+detail)}
	case value == "":
		return []error{field.Required(at, "must be "+detail)}
	case !slices.Contains(allowed, value):
		return []error{field.NotSupported(at, value, allowed)}
	}
	return nil
}

// Refuse converts errors of the document to problems, at most as many as are reported. Paths in
// errs are from the document's own root.
func (d *Document) Refuse(errs ...error) []Problem {
	problems := make([]Problem, 0, len(errs))
	for _, err := range errs {
		if d.item != "" {
			err = fmt.Errorf("%s%w", d.item, err)
		}
		problems = append(problems, Problem{d.File, d.Number, err})
	}
	return d.Cut(problems)
}

// Invalid is the error of a document with these errors; nil if there are none.
func (d *Document) Invalid(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return &Invalid{d.Refuse(plain(errs)...)}
}

func plain(errs field.ErrorList) []error {
	all := make([]error, len(errs))
	for i, err := range errs {
		all[i] = err
	}
	return all
}

// Cut returns the problems that are reported. The last one has the number of the others.
func (d *Document) Cut(problems []Problem) []Problem {
	more := len(problems) - maxProblems
	if more <= 0 {
		return problems
	}
	last := fmt.Errorf("and %d more problems", more)
	if more == 1 {
		last = errors.New("and 1 more problem")
	}
	return append(slices.Clip(problems[:maxProblems]), Problem{d.File, d.Number, last})
}

// WithStatus returns the document as written, in JSON, with its status replaced or added.
func (d *Document) WithStatus(status any) (json.RawMessage, error) {
	encoded, err := encode(status)
	if err != nil {
		return nil, fmt.Errorf("status of %s %s: %w", d.Kind, d.Name, err)
	}
	root := yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i, part := range d.source.Content {
		if i%2 == 0 && part.Value != "status" {
			root.Content = append(root.Content, part, d.source.Content[i+1])
		}
	}
	b := bytes.TrimSuffix(appendJSON(nil, &root), []byte("}"))
	return slices.Concat(b, []byte(`,"status":`), encoded, []byte("}")), nil
}
