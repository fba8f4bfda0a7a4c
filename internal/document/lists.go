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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lines counts the lines of what is read through it.
type lines struct {
	from io.Reader
	line int     // at the offset that was asked for last
	ends []int64 // of the lines after it
	read int64
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

// at is the line of an offset, which must not be before the one that was asked for last.
func (l *lines) at(offset int64) int {
	passed := 0
	for passed < len(l.ends) && l.ends[passed] < offset {
		passed++
	}
	l.ends, l.line = l.ends[passed:], l.line+passed
	return l.line
}

// listBegins is how much of a JSON value after another shows whether it is a list, in bytes.
const listBegins = 4 << 10

// json reads JSON values one after another. Comments may follow.
func (r *reader) json(in *bufio.Reader, line int) error {
	next, _ := in.Peek(beginning) // it worked before
	text := &lines{from: in, line: line}
	d := json.NewDecoder(text)
	buffer := make([]byte, listBegins)
	var raw json.RawMessage
	for first := true; ; first = false {
		d.More() // skips blanks
		if !first {
			n, _ := io.ReadFull(d.Buffered(), buffer) // fewer at the end
			next = bytes.TrimLeft(buffer[:n], blanks) // blanks are left at the end only
		}
		begin := text.at(d.InputOffset())
		switch {
		case len(next) == 0:
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case !first && next[0] != '{' && onlyComments(io.MultiReader(d.Buffered(), text)):
			return nil
		case !first && next[0] != '{' && r.isStrict():
			return &syntaxError{begin, textAfterJSON}
		}
		r.next()
		if !first && next[0] != '{' {
			return &syntaxError{detail: textAfterJSON}
		}
		var err error
		if isList(next, !r.isStrict()) {
			err = r.list(d, text)
		} else if err = d.Decode(&raw); err == nil {
			if err := r.checkSize(len(raw)); err != nil {
				return err
			}
			err = r.visit(element{line: begin, raw: raw})
		}
		if err != nil {
			return r.explain(err, d, text)
		}
	}
}

// explain gives an error of a JSON decoder its line, where documents are read.
func (r *reader) explain(err error, d *json.Decoder, text *lines) error {
	if !r.isStrict() {
		return err
	}
	rest, _ := io.ReadAll(d.Buffered()) // the value that failed, as far as it was read
	line := text.at(d.InputOffset())
	var again *json.SyntaxError
	var value json.RawMessage
	if errors.As(json.NewDecoder(bytes.NewReader(rest)).Decode(&value), &again) {
		rest = rest[:again.Offset-1]
	}
	return explainJSON(err, line+bytes.Count(bytes.TrimRight(rest, blanks), []byte("\n")))
}

// isList reports whether JSON begins like a list whose items can be read one by one or, if that is asked for, like a debugging
// snapshot.
func isList(begin []byte, orSnapshot bool) bool {
	kind, skipped := "", json.RawMessage(nil)
	d := json.NewDecoder(bytes.NewReader(begin))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return false
	}
	for d.More() {
		name, err := d.Token()
		switch {
		case err != nil:
			return false
		case name == "items":
			return kind == "" || strings.HasSuffix(kind, "List")
		case kind == "" && (name == "NodeList" || name == "TemplateNodes"):
			return orSnapshot
		case name == "kind":
			err = d.Decode(&kind)
		default:
			err = d.Decode(&skipped)
		}
		if err != nil {
			return false
		}
	}
	return false
}

// list reads a list, whose items go out as they come.
func (r *reader) list(d *json.Decoder, text *lines) error {
	var outer metav1.TypeMeta
	var raw json.RawMessage
	begin, rest := text.at(d.InputOffset()), []byte(`{"items":null`)
	err := each(d, nil, '{', noObject(0), func(at *field.Path, name string) error {
		switch {
		case name == "items":
			return each(d, at, '[', nil, func(at *field.Path, _ string) error {
				if err := d.Decode(&raw); err != nil {
					return fmt.Errorf("%s: %w", at, err)
				}
				return r.visit(element{place: at.String(), outer: outer, line: text.at(d.InputOffset()) - bytes.Count(raw, []byte("\n")), raw: raw})
			})
		case outer.Kind == "" && (name == "NodeList" || name == "TemplateNodes"):
			return ErrSnapshot
		}
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if r.others == nil { // else nobody asks what is beside the items
			quoted, err := json.Marshal(name)
			if err != nil {
				return err
			}
			rest = slices.Concat(rest, []byte(","), quoted, []byte(":"), raw)
		}
		if into := map[string]*string{"kind": &outer.Kind, "apiVersion": &outer.APIVersion}[name]; into != nil {
			return decodeLeniently(raw, at, into)
		}
		return nil
	})
	if err == nil {
		r.around(&element{line: begin, raw: append(rest, '}')})
	}
	return err
}

func noObject(line int) error {
	return &syntaxError{line, "must be a Kubernetes object or list, as kubectl get -o json or -o yaml prints it"}
}

func onlyComments(r io.Reader) bool {
	rest, err := io.ReadAll(r)
	return err == nil && isBlank(rest)
}

// blockYAML reads one YAML document. A list as kubectl prints it, in block style with items: at the begin of a line and one -
// below the other, is cut at the items, so that only one of them is parsed at a time. Anything else is parsed as a whole.
func (r *reader) blockYAML(in *bufio.Reader, first int) error {
	r.next()
	var rest bytes.Buffer // all but the items
	var items *yamlItems
	for line := first; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(text) == 0 {
			break
		}
		consumed := false
		if items != nil {
			if consumed, err = items.consume(text, line); err != nil {
				return err
			}
		} else if begin, ok := bytes.CutPrefix(text, []byte("items:")); ok && isBlank(begin) {
			if outer := listHeader(rest.Bytes()); outer.Kind == "" || strings.HasSuffix(outer.Kind, "List") {
				items = &yamlItems{reader: r, outer: outer, indent: -1}
				text = []byte("\n") // lines keep their numbers up to here
			}
		}
		if !consumed {
			rest.Write(text)
		}
		if err := r.checkSize(rest.Len()); err != nil {
			return err
		}
	}
	if items == nil {
		return r.wholeYAML(rest.Bytes(), first, nil)
	}
	if err := items.emit(); err != nil {
		return err
	}
	left, err := parseYAML(rest.Bytes(), first)
	if err == nil {
		err = ended(left)
	}
	switch {
	case err != nil:
		return err
	case member(left, "items") == nil:
		r.around(&element{line: left.Line, node: left})
		return nil
	}
	return r.visit(element{line: left.Line, node: left})
}

// ended checks that a list, of which this is left without its items, was read to its end: kubectl prints the kind there.
func ended(list *yaml.Node) error {
	kind := (*yaml.Node)(nil)
	if list != nil {
		kind = member(list, "kind")
	}
	const remedy = "must end with List: kubectl prints it behind the items, so the file may be cut off"
	switch {
	case kind == nil:
		return field.Required(field.NewPath("kind"), remedy)
	case !strings.HasSuffix(kind.Value, "List"):
		return field.Invalid(field.NewPath("kind"), kind.Value, remedy)
	}
	return nil
}

// wholeYAML reads a document that is not cut. If it is no YAML, the author may have meant something else.
func (r *reader) wholeYAML(text []byte, first int, meant error) error {
	if isBlank(text) {
		r.number--
		return nil
	}
	value, err := parseYAML(text, first)
	switch {
	case err != nil:
		return cmp.Or(meant, err)
	case value == nil:
		r.number--
		return nil
	}
	return r.visit(element{line: value.Line, node: value})
}

// listHeader is what stands before the items of a list: mostly its version, and its kind if that comes first. What is wrong
// with it is found with the rest of the document.
func listHeader(text []byte) (is metav1.TypeMeta) {
	if value, err := parseYAML(text, 1); err == nil && value != nil {
		_ = decodeLeniently(appendJSON(nil, value), nil, &is)
	}
	return is
}

// yamlItems are the items of a list.
type yamlItems struct {
	reader *reader
	outer  metav1.TypeMeta
	text   bytes.Buffer // of one item
	line   int          // its first
	indent int          // of the items; negative before the first
	index  int
	ended  bool
}

// consume adds a line to the item that is read, and reports whether it is part of the items.
func (l *yamlItems) consume(line []byte, number int) (bool, error) {
	content := bytes.TrimLeft(line, " ")
	if indent := len(line) - len(content); !l.ended && !isBlank(content) {
		begins := (bytes.HasPrefix(content, []byte("- ")) || content[0] == '-' && isBlank(content[1:])) && (l.indent < 0 || indent == l.indent)
		if l.ended = !begins && indent <= max(l.indent, 0); begins || l.ended {
			if err := l.emit(); err != nil {
				return true, err
			}
		}
		if begins {
			l.indent, l.line = indent, number
		}
	}
	if !l.ended {
		l.text.Write(line)
	}
	return !l.ended, nil
}

// emit visits the item whose lines have been consumed.
func (l *yamlItems) emit() error {
	defer l.text.Reset()
	list, err := parseYAML(l.text.Bytes(), l.line)
	if err == nil && list == nil {
		return nil // comments before the first
	}
	place := fmt.Sprintf("items[%d]", l.index)
	l.index++
	if err == nil && (list.Kind != yaml.SequenceNode || len(list.Content) != 1) {
		err = &syntaxError{l.line, "must be one item of a list"}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return l.reader.visit(element{place: place, outer: l.outer, line: l.line, node: list.Content[0]})
}
