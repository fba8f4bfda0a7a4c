package document

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

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
	return Kinds{v1alpha1.NodeGroupSplit{}, v1alpha1.NodeGroupSimilarity{}, v1alpha1.ReplicaDistribution{}, v1alpha1.SpreadSplit{},
		v1alpha1.TopologySpread{}}
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
	// MaxSize is the greatest size of one file in bytes; 0 means DefaultMaxSize.
	MaxSize int64
	// MaxDocument is the greatest size of a document in bytes; 0 means no other than MaxSize. The items of a list are documents of
	// their own.
	MaxDocument int64
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
	place  string // path of the document in its List, empty outside of one
}

// Contents are what several files hold.
type Contents struct {
	// Documents are those of the kinds that were asked for, in the order of the input.
	Documents []Document
	// Objects are all others that can be read, of kinds that Objects knows.
	Objects Packed
	// Wrong is the problem of the first of the others that cannot, an *Invalid; nil without any.
	Wrong error

	foreign []foreign
	empty   []Problem
}

// Has reports whether a document is of a kind.
func (c *Contents) Has(kind string) bool {
	return slices.ContainsFunc(c.Documents, func(d Document) bool { return d.Kind == kind })
}

// foreign are the objects of a document that are of no kind that was asked for.
type foreign struct {
	Document
	objects []foreignObject // the first
	more    int             // problems of the others
}

type foreignObject struct {
	place    string
	is       metav1.TypeMeta
	isObject bool
}

// problems says what is wrong with it where only some kinds may be.
func (f *foreignObject) problems(kinds Kinds) []error {
	if !f.isObject {
		return []error{errNoDocument}
	}
	return slices.Concat(oneOf("apiVersion", f.is.APIVersion, v1alpha1.APIVersion), oneOf("kind", f.is.Kind, kinds.names()...))
}

// Of returns the documents, all of which must be of some kinds, and so must be everything else in the files. The error is an
// *Invalid.
func (c *Contents) Of(kinds Kinds) ([]Document, error) {
	problems := slices.Clone(c.empty)
	for _, f := range c.foreign {
		var own []Problem
		for _, o := range f.objects {
			f.place = o.place
			own = append(own, f.Refuse(o.problems(kinds)...)...)
		}
		problems = append(problems, f.cut(own, f.more)...)
	}
	for i := range c.Documents {
		if d := &c.Documents[i]; kinds.new(d.Kind) == nil {
			problems = append(problems, d.Refuse(oneOf("kind", d.Kind, kinds.names()...)...)...)
		}
	}
	if len(problems) > 0 {
		return nil, &Invalid{problems}
	}
	return c.Documents, nil
}

var errNoDocument = errors.New("must be an object with apiVersion, kind and spec")

// ReadFiles reads the documents of several files in the order given; "-" stands for standard input, which
// can be named once, and a folder for the files in it, of which only documents of evenkeel.dev
// count. All files are read before it returns, so that the error, an *Invalid, has the problems of
// all.
func ReadFiles(files []string, open Open, o Options) ([]Document, error) {
	r := reader{Options: o}
	if err := r.files(files, open); err != nil {
		return nil, err
	}
	return r.documents, Check(r.documents, o.Check)
}

// Scan is ReadFiles for files that hold other things too. Each file is opened once and read as a stream: of a list, one item is
// decoded in memory at a time.
func Scan(files []string, open Open, o Options) (*Contents, error) {
	c := &Contents{}
	r := reader{Options: o, others: func(item Item, err error) error {
		c.Wrong = cmp.Or(c.Wrong, err)
		object, ok := item.Object.(metav1.Object)
		if !ok {
			return nil
		}
		object.SetManagedFields(nil)
		return c.Objects.Add(item)
	}}
	err := r.files(files, open)
	c.Documents, c.foreign, c.empty = r.documents, r.foreign, r.empty
	return c, cmp.Or(err, Check(c.Documents, o.Check))
}

// files reads the files in the order given. The error is an *Invalid with the problems of all, unless reading failed.
func (r *reader) files(files []string, open Open) error {
	if r.Kinds == nil {
		r.Kinds = Planning()
	}
	for i, file := range files {
		if file == "-" && slices.Contains(files[:i], "-") {
			return &Invalid{[]Problem{{File: "stdin", Err: errors.New("named twice, but can be read only once")}}}
		}
		before := len(r.documents) + len(r.problems)
		err := r.note(open.Each(file, func(title string, in io.Reader, inFolder bool) error {
			r.inFolder = inFolder
			return r.note(r.read(title, in, cmp.Or(r.MaxSize, DefaultMaxSize)))
		}))
		if err != nil {
			return err
		}
		if r.inFolder && len(r.documents)+len(r.problems) == before {
			r.empty = append(r.empty, Problem{File: file, Err: errors.New("is a folder without a document of " + v1alpha1.APIVersion)})
		}
	}
	if r.others == nil {
		r.problems = append(r.problems, r.empty...)
	}
	if len(r.problems) > 0 {
		return &Invalid{r.problems}
	}
	return nil
}

// Check returns an *Invalid with the errors that a function finds in documents, nil if there are none.
func Check(documents []Document, check func(*Document) field.ErrorList) error {
	var problems []Problem
	for i := range documents {
		if check != nil {
			problems = append(problems, documents[i].Refuse(plain(check(&documents[i]))...)...)
		}
	}
	if len(problems) > 0 {
		return &Invalid{problems}
	}
	return nil
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
	docs, err := Read(name, bytes.NewReader(text),
		Options{Kinds: kinds, MaxSize: maxSize, Check: func(d *Document) field.ErrorList { return check(d.Object.(*T)) }})
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, &Invalid{[]Problem{{File: name, Err: fmt.Errorf("must have one document of kind %s, not %d", kinds.names()[0], len(docs))}}}
	}
	return docs[0].Object.(*T), nil
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
		switch {
		case d.place != "" && errors.Is(err, errNoDocument):
			err = fmt.Errorf("%s: %w", d.place, err)
		case d.place != "":
			err = fmt.Errorf("%s.%w", d.place, err)
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
func (d *Document) Cut(problems []Problem) []Problem { return d.cut(problems, 0) }

func (d *Document) cut(problems []Problem, others int) []Problem {
	if more := moreProblems(len(problems) + others); more != nil {
		return append(slices.Clip(problems[:maxProblems]), Problem{d.File, d.Number, more})
	}
	return problems
}

// moreProblems has the number of those of a document that are not reported; nil if all are.
func moreProblems(all int) error {
	switch more := all - maxProblems; {
	case more <= 0:
		return nil
	case more == 1:
		return errors.New("and 1 more problem")
	default:
		return fmt.Errorf("and %d more problems", more)
	}
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
