package document

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kjson "sigs.k8s.io/json"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A reader reads inputs as streams: a value, or an item of a list, at a time.
type reader struct {
	Options
	// others takes what is of no kind that is asked for, or why it cannot be read. An error from it ends the read. Without it, that is a
	// problem.
	others func(Item, error) error

	file     string
	number   int             // of the document being read, from 1
	inFolder bool            // documents of other versions are passed over
	before   metav1.TypeMeta // of the object of another kind that was read last

	documents []Document
	problems  []Problem
	wrong     int  // problems of the document being read
	mixed     bool // an item of it is of another version, and reported
	foreign   []foreign
	empty     []Problem // of folders without a document
}

// isStrict reports whether documents are asked for: then all problems are collected, while a stream of objects ends with the
// first.
func (r *reader) isStrict() bool { return len(r.Kinds) > 0 }

// note collects the problems of an invalid input, and returns any other error.
func (r *reader) note(err error) error {
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	r.problems = append(r.problems, invalid.Problems...)
	return nil
}

// errStopped ends a stream whose reader has stopped.
var errStopped = errors.New("stopped")

// read reads an input. A problem in one document does not hide those of the others.
func (r *reader) read(name string, in io.Reader, maxSize int64) error {
	r.file, r.number = name, 0
	limited := newInput(in, maxSize)
	documents, problems := len(r.documents), len(r.problems)
	text := io.Reader(limited)
	if r.isStrict() {
		text = transform.NewReader(limited, encoding.UTF8Validator)
	}
	err := sections(text, func(text *bufio.Reader, line int) error {
		err := r.section(text, line)
		if err == nil || !r.isStrict() || limited.ended != nil && !errors.Is(limited.ended, io.EOF) || errors.Is(err, encoding.ErrInvalidUTF8) {
			return err
		}
		r.problems = append(r.problems, Problem{name, r.number, explainJSON(err, 0)})
		_, err = io.Copy(io.Discard, text)
		return err
	})
	last := r.number
	r.next()
	r.number = last
	switch {
	case errors.Is(err, errStopped) || errors.As(err, new(*Invalid)):
		return err
	case err != nil && r.isStrict(): // what was read until then may be anything
		r.documents, r.problems, r.number = r.documents[:documents], r.problems[:problems], 0
		if errors.Is(err, encoding.ErrInvalidUTF8) {
			err = errors.New("is not UTF-8 text")
		}
	case err == nil && r.number == 0 && !r.isStrict():
		err = &syntaxError{detail: "holds no object"}
	case err == nil && r.number == 0 && !r.inFolder:
		err = errors.New("holds no document")
	}
	if err != nil {
		return limited.refuse(name, r.number, err)
	}
	return nil
}

// next begins the next document.
func (r *reader) next() {
	if more := moreProblems(r.wrong); more != nil {
		r.problems = append(r.problems, Problem{r.file, r.number, more})
	}
	r.wrong, r.mixed = 0, false
	r.number++
}

// checkSize refuses a document that is too large to be read as a whole.
func (r *reader) checkSize(bytes int) error {
	if r.MaxDocument > 0 && int64(bytes) > r.MaxDocument {
		return &TooLarge{Limit: r.MaxDocument}
	}
	return nil
}

// section reads what stands between two marker lines. Text that begins like JSON but is none is YAML in flow style.
func (r *reader) section(in *bufio.Reader, line int) error {
	begin, err := in.Peek(beginning) // fewer at the end
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.HasPrefix(begin, []byte("\xff\xfe")) || bytes.HasPrefix(begin, []byte("\xfe\xff")) {
		return &syntaxError{detail: "is UTF-16 text, as some shells of Windows write: save it as UTF-8"}
	}
	text := bytes.TrimLeft(begin, blanks)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return r.blockYAML(in, line)
	}
	var value json.RawMessage
	var syntax *json.SyntaxError
	err = json.NewDecoder(bytes.NewReader(begin)).Decode(&value)
	if !errors.As(err, &syntax) {
		return r.json(in, line)
	}
	var meant error // if the text is no YAML either
	if next := bytes.TrimLeft(text[1:], blanks); len(next) == 0 || strings.IndexByte(`"}{`, next[0]) >= 0 {
		meant = explainJSON(err, line+bytes.Count(bytes.TrimRight(begin[:syntax.Offset-1], blanks), []byte("\n")))
	}
	whole, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	r.next()
	return r.wholeYAML(whole, line, meant)
}

// An element is a document or object: a value of an input, or an item of its list.
type element struct {
	place string          // in its list, such as items[3]; empty outside of one
	outer metav1.TypeMeta // of its list
	line  int
	// One of these is how it was written.
	raw  []byte // JSON
	node *yaml.Node
}

// json is the element as JSON.
func (e *element) json() []byte {
	if e.raw == nil {
		e.raw = appendJSON(nil, e.node)
	}
	return e.raw
}

// tree is the element as a tree.
func (e *element) tree() *yaml.Node {
	if e.node == nil {
		e.node = treeOf(e.raw, e.line)
	}
	return e.node
}

// items are what a list holds that was not read item by item; ok is false if the element is none.
func (e *element) items(kind string) (items []element, ok bool, err error) {
	if isItem := e.place != ""; isItem && kind != "List" || kind != "" && !strings.HasSuffix(kind, "List") {
		return nil, false, nil
	}
	held := member(e.tree(), "items")
	switch {
	case held == nil || held.Tag == "!!null":
		return nil, held != nil || kind != "", nil
	case held.Kind != yaml.SequenceNode:
		return nil, false, field.Invalid(field.NewPath("items"), field.OmitValueType{}, "must be "+aList)
	}
	outer := metav1.TypeMeta{Kind: kind}
	if version := member(e.node, "apiVersion"); version != nil {
		outer.APIVersion = version.Value
	}
	for i, item := range held.Content {
		place := fmt.Sprintf("items[%d]", i)
		if e.place != "" {
			place = e.place + "." + place
		}
		items = append(items, element{place: place, outer: outer, line: item.Line, node: item})
	}
	return items, true, nil
}

// visit calls back with an element, or with the objects in it.
func (r *reader) visit(e element) error {
	if r.others == nil {
		return r.document(&e)
	}
	return r.object(&e)
}

// document decodes a document strictly.
func (r *reader) document(e *element) error {
	d := Document{File: r.file, Number: r.number, place: e.place, source: e.tree()}
	var is metav1.TypeMeta
	problems := (&decoder{lenient: true}).decode(d.source, nil, &is)
	if is.Kind == "List" && is.APIVersion == "v1" {
		items, ok, err := e.items(is.Kind)
		switch {
		case err != nil:
			r.refuse(&d, err)
			return nil
		case member(d.source, "items") == nil:
			r.refuse(&d, field.Required(field.NewPath("items"), "a List has items"))
		}
		if r.around(e); ok {
			return r.all(items)
		}
	}
	d.Object = r.Kinds.new(is.Kind)
	if r.passesOver(e, is) {
		return nil
	}
	if len(problems) == 0 {
		problems = slices.Concat(oneOf("apiVersion", is.APIVersion, v1alpha1.APIVersion), oneOf("kind", is.Kind, r.Kinds.names()...))
	}
	switch {
	case d.source.Kind != yaml.MappingNode:
		problems = []error{errNoDocument}
	case len(problems) == 0:
		var h header
		_ = (&decoder{lenient: true}).decode(d.source, nil, &h) // what is wrong is found again
		d.Kind, d.Name = is.Kind, h.Metadata.Name
		problems = new(decoder).decode(d.source, nil, d.Object)
	}
	r.refuse(&d, problems...)
	if len(r.problems) == 0 { // else nobody reads them
		r.documents = append(r.documents, d)
	}
	return nil
}

// passesOver reports whether nothing is said of an object because it is of another version: in folders, and of the items of a list
// after the first, which says it all.
func (r *reader) passesOver(e *element, is metav1.TypeMeta) bool {
	if is.APIVersion == "" || strings.HasPrefix(is.APIVersion, v1alpha1.Group+"/") {
		return false
	}
	again := r.mixed && e.place != ""
	r.mixed = r.mixed || e.place != ""
	return r.inFolder || again
}

// refuse collects the problems of a document, as many as are reported.
func (r *reader) refuse(d *Document, problems ...error) {
	for _, err := range problems {
		if r.wrong++; r.wrong <= maxProblems {
			r.problems = append(r.problems, d.Refuse(err)...)
		}
	}
}

// around checks what a list of documents has beside its items: a misspelled word there would hide them all.
func (r *reader) around(e *element) {
	if r.others != nil {
		return
	}
	var list struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   metav1.ListMeta `json:"metadata"`
		Items      json.RawMessage `json:"items"`
	}
	r.refuse(&Document{File: r.file, Number: r.number, place: e.place}, new(decoder).decode(e.tree(), nil, &list)...)
}

func (r *reader) all(items []element) error {
	for _, item := range items {
		if err := r.visit(item); err != nil {
			return err
		}
	}
	return nil
}

// object decodes an object leniently, unless it is a document of one of the kinds that are asked for.
func (r *reader) object(e *element) error {
	own, object := r.guess(e.json())
	var err error
	switch {
	case e.place == "" && e.raw[0] != '{':
		err = noObject(e.line)
	case object == nil:
		err = decodeLeniently(e.raw, nil, &own)
	}
	if err == nil {
		items, ok, wrong := e.items(own.Kind)
		if ok {
			return r.all(items)
		}
		err = wrong
	}
	if r.Kinds.new(own.Kind) != nil && (own.APIVersion == "" || strings.HasPrefix(own.APIVersion, v1alpha1.Group+"/")) {
		return r.document(e)
	}
	if of, ok := strings.CutSuffix(e.outer.Kind, "List"); ok && own.Kind == "" { // lists of one kind leave it out of their items
		own.Kind, own.APIVersion = of, cmp.Or(own.APIVersion, e.outer.APIVersion)
	}
	is := metav1.TypeMeta{APIVersion: own.APIVersion, Kind: own.Kind}
	if err == nil && (object == nil || is != r.before) {
		if object = supported[own.APIVersion].new(own.Kind); object != nil {
			err = decodeLeniently(e.raw, nil, object)
		}
	}
	switch r.before = is; {
	case err != nil:
	case own.Kind == "":
		err = field.Required(field.NewPath("kind"), "must be the kind of a Kubernetes object")
	case own.APIVersion == "":
		err = field.Required(field.NewPath("apiVersion"), "must be the version of a Kubernetes object, such as v1")
	default:
		err = refused(object)
	}
	if r.isStrict() {
		r.addForeign(e, is)
	}
	if err != nil {
		return r.others(Item{}, &Invalid{[]Problem{{File: r.file, Document: r.number, Err: own.in(e.place, err)}}})
	}
	return r.others(Item{own.APIVersion, own.Kind, own.Metadata.Namespace, own.Metadata.Name, object}, nil)
}

// addForeign notes what is of no kind that is asked for: of a document no more than is reported.
func (r *reader) addForeign(e *element, is metav1.TypeMeta) {
	if r.passesOver(e, is) {
		return
	}
	if last := len(r.foreign) - 1; last < 0 || r.foreign[last].File != r.file || r.foreign[last].Number != r.number {
		r.foreign = append(r.foreign, foreign{Document: Document{File: r.file, Number: r.number}})
	}
	f := &r.foreign[len(r.foreign)-1]
	if len(f.objects) < maxProblems {
		f.objects = append(f.objects, foreignObject{e.place, is, e.raw[0] == '{'})
	} else {
		f.more += len(f.objects[0].problems(r.Kinds)) // the others are like the first
	}
}

// guess decodes an object as one of the same kind as the one before, which saves reading it once more to find the kind: lists
// are long and mostly of one kind. Whether it is one, its header tells; nil if it cannot be.
func (r *reader) guess(raw []byte) (own header, object any) {
	object = supported[r.before.APIVersion].new(r.before.Kind)
	typed, ok := object.(metav1.ObjectMetaAccessor)
	if !ok || mayBeHuge(raw) || kjson.UnmarshalCaseSensitivePreserveInts(raw, object) != nil {
		return own, nil
	}
	own.APIVersion, own.Kind = object.(kinded).GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	own.Metadata.Namespace, own.Metadata.Name = typed.GetObjectMeta().GetNamespace(), typed.GetObjectMeta().GetName()
	return own, object
}
