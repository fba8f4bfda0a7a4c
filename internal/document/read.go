package document

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// DefaultMaxSize is the default maximum size of a file of documents in bytes.
const DefaultMaxSize = 64 << 20

// maxProblems is the maximum number of reported problems of one document.
const maxProblems = 20

// Kinds are the kinds of documents a reader accepts, all of apiVersion evenkeel.dev/v1alpha1, each
// with a function that makes a new value to decode into, a pointer to a struct.
type Kinds map[string]func() any

// Planning are the kinds of planning documents.
func Planning() Kinds {
	return Kinds{
		v1alpha1.KindNodeGroupSplit:      func() any { return new(v1alpha1.NodeGroupSplit) },
		v1alpha1.KindNodeGroupSimilarity: func() any { return new(v1alpha1.NodeGroupSimilarity) },
		v1alpha1.KindReplicaDistribution: func() any { return new(v1alpha1.ReplicaDistribution) },
		v1alpha1.KindSpreadSplit:         func() any { return new(v1alpha1.SpreadSplit) },
		v1alpha1.KindTopologySpread:      func() any { return new(v1alpha1.TopologySpread) },
	}
}

// Options are the options of Read.
type Options struct {
	// Kinds are the accepted kinds; nil means Planning.
	Kinds Kinds
	// AmongOthers passes over documents of other kinds, such as those of a dump.
	AmongOthers bool
	// MaxSize is the greatest size of one file in bytes; 0 means DefaultMaxSize.
	MaxSize int64
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

	source *value
	item   string // path of the document in its List, empty outside of one
}

// ReadFiles reads the documents of several files in the order given; "-" stands for standard input, which
// can be named once, and a folder for the files in it, of which only documents of evenkeel.dev
// count. All files are read before it returns, so that the error, an *Invalid, has the problems of
// all.
func ReadFiles(files []string, open Open, o Options) ([]Document, error) {
	var all []Document
	var problems []Problem
	for i, file := range files {
		if file == "-" && slices.Contains(files[:i], "-") {
			return nil, &Invalid{[]Problem{{File: "stdin", Err: errors.New("named twice, but can be read only once")}}}
		}
		before, folder := len(all)+len(problems), false
		err := open.Each(file, func(title string, r io.Reader, inFolder bool) error {
			folder = inFolder
			docs, err := read(title, r, o, inFolder)
			var invalid *Invalid
			if errors.As(err, &invalid) {
				problems = append(problems, invalid.Problems...)
				return nil
			}
			all = append(all, docs...)
			return err
		})
		var invalid *Invalid
		switch {
		case errors.As(err, &invalid):
			problems = append(problems, invalid.Problems...)
		case err != nil:
			return nil, err
		case folder && len(all)+len(problems) == before && !o.AmongOthers:
			problems = append(problems, Problem{File: file, Err: errors.New("is a folder without a document of " + v1alpha1.APIVersion)})
		}
	}
	if len(problems) > 0 {
		return nil, &Invalid{problems}
	}
	return all, nil
}

// Read reads the documents of one input. The name is for messages. A List of apiVersion v1 stands
// for its items. The error is an *Invalid with every problem found, unless reading itself failed.
func Read(name string, r io.Reader, o Options) ([]Document, error) { return read(name, r, o, false) }

// read is Read; among others, documents of other versions are passed over.
func read(name string, r io.Reader, o Options, amongOthers bool) ([]Document, error) {
	if o.Kinds == nil {
		o.Kinds = Planning()
	}
	if o.MaxSize == 0 {
		o.MaxSize = DefaultMaxSize
	}
	data, err := Text(r, o.MaxSize)
	switch {
	case err != nil && readFailed(err):
		return nil, fmt.Errorf("%s: %w", name, err)
	case err != nil:
		return nil, &Invalid{[]Problem{{File: name, Err: err}}}
	}
	docs, problems := parseAll(name, data)
	if amongOthers {
		docs = slices.DeleteFunc(docs, func(d Document) bool { return !d.isOurs() })
	}
	if len(docs) == 0 && len(problems) == 0 && !amongOthers {
		problems = []Problem{{File: name, Err: errors.New("holds no document")}}
	}
	var out []Document
	for _, d := range docs {
		for _, one := range d.flatten() {
			if o.AmongOthers && !one.isOf(o.Kinds) {
				continue
			}
			if errs := one.decode(o.Kinds); len(errs) > 0 {
				problems = append(problems, one.Refuse(errs...)...)
			}
			out = append(out, one)
		}
	}
	if len(problems) > 0 {
		slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Document, b.Document) })
		return nil, &Invalid{problems}
	}
	return out, nil
}

// parseAll parses every document of a text. A problem in one does not hide those of the others.
func parseAll(name string, data []byte) ([]Document, []Problem) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, []Problem{{File: name, Err: errors.New("is not UTF-8 text")}}
	}
	var docs []Document
	var problems []Problem
	number := 0
	for _, c := range splitText(data) {
		values, err := parse(c)
		if err != nil {
			number++
			problems = append(problems, Problem{File: name, Document: number, Err: err})
		}
		for _, v := range values {
			number++
			docs = append(docs, Document{File: name, Number: number, source: v})
		}
	}
	return docs, problems
}

// Refuse converts errors of the document to problems, at most as many as are reported. Paths in
// errs are from the document's own root.
func (d *Document) Refuse(errs ...error) []Problem {
	problems := make([]Problem, 0, len(errs))
	for _, err := range errs {
		if d.item != "" {
			err = fmt.Errorf("%s.%w", d.item, err)
		}
		problems = append(problems, Problem{d.File, d.Number, err})
	}
	return d.Cut(problems)
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

// WithStatus returns the document as written, in JSON, with its status replaced. It adds no other
// fields.
func (d *Document) WithStatus(status any) (json.RawMessage, error) {
	encoded, err := encode(status)
	if err != nil {
		return nil, fmt.Errorf("status of %s %s: %w", d.Kind, d.Name, err)
	}
	b := []byte{'{'}
	for _, m := range d.source.members {
		if m.key != "status" {
			b = append(appendString(b, m.key), ':')
			b = append(m.value.appendJSON(b), ',')
		}
	}
	b = append(b, `"status":`...)
	return append(append(b, encoded...), '}'), nil
}

// flatten gives the items of a List, and any other document itself.
func (d Document) flatten() []Document {
	if d.source.kind != object || !isText(d.source.get("kind"), "List") || !isText(d.source.get("apiVersion"), "v1") {
		return []Document{d}
	}
	items := d.source.get("items")
	if items == nil || items.kind != list {
		return []Document{d}
	}
	out := make([]Document, len(items.items))
	for i, item := range items.items {
		out[i] = Document{File: d.File, Number: d.Number, source: item, item: fmt.Sprintf("items[%d]", i)}
	}
	return out
}

// isOurs reports whether a document is, or contains, one of evenkeel.dev.
func (d Document) isOurs() bool {
	return slices.ContainsFunc(d.flatten(), func(one Document) bool {
		version := one.source.get("apiVersion")
		return version == nil || version.kind != text || strings.HasPrefix(version.text, v1alpha1.Group+"/")
	})
}

// isOf reports whether a document says that it is of one of the kinds.
func (d Document) isOf(kinds Kinds) bool {
	kind := d.source.get("kind")
	return kind != nil && kind.kind == text && kinds[kind.text] != nil
}

func isText(v *value, s string) bool { return v != nil && v.kind == text && v.text == s }

// decode fills the document from its source, and returns its errors.
func (d *Document) decode(kinds Kinds) []error {
	if d.source.kind != object {
		return []error{errors.New("must be an object with apiVersion, kind and spec")}
	}
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	var errs []error
	if _, err := d.header("apiVersion", []string{v1alpha1.APIVersion}); err != nil {
		errs = append(errs, err)
	}
	kind, err := d.header("kind", names)
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return errs
	}
	d.Kind, d.Object = kind, kinds[kind]()
	if meta := d.source.get("metadata"); meta != nil && meta.kind == object {
		if name := meta.get("name"); name != nil && name.kind == text {
			d.Name = name.text
		}
	}
	var dec decoder
	dec.decode(d.source, d.Object)
	return dec.problems
}

// header gives a field that every document begins with and that must be one of the allowed texts.
func (d *Document) header(name string, allowed []string) (string, error) {
	at, v := field.NewPath(name), d.source.get(name)
	switch {
	case v == nil || v.kind == null:
		detail := "must be " + allowed[0]
		if len(allowed) > 1 {
			detail = "must be one of " + strings.Join(allowed, ", ")
		}
		return "", field.Required(at, detail)
	case v.kind != text:
		var dec decoder
		dec.wrongType(v, at, "a string")
		return "", dec.problems[0]
	case !slices.Contains(allowed, v.text):
		return "", field.NotSupported(at, v.text, allowed)
	}
	return v.text, nil
}
