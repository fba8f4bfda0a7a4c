package document

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// DefaultMaxStream is the default maximum size of a list or snapshot in bytes.
const DefaultMaxStream = 1 << 30

// StreamOptions are the options of the lenient readers.
type StreamOptions struct {
	// MaxSize is the greatest size of the input in bytes; 0 means DefaultMaxStream.
	MaxSize int64
}

// input reads at most a number of bytes, and fails with TooLarge if there are more. A text compressed with gzip is
// decompressed; the limit is for what comes out.
type input struct {
	from   *bufio.Reader
	plain  io.Reader // of from; nil before the first read
	left   int64
	limit  int64
	fixed  bool  // the limit
	ended  error // what ended the text
	failed bool  // it could not be read, as opposed to what is wrong with it
}

func newInput(r io.Reader, limit int64) *input {
	return &input{from: bufio.NewReaderSize(r, beginning), left: limit, limit: limit}
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (n int, err error) {
	if in.ended != nil {
		return 0, in.ended
	}
	if in.plain == nil {
		in.plain = in.from
		if magic, _ := in.from.Peek(2); string(magic) == "\x1f\x8b" {
			in.plain, err = gzip.NewReader(in.from)
		}
	}
	if err == nil {
		n, err = in.plain.Read(p[:min(int64(len(p)), in.left+1)]) // one more byte shows whether there are more
		in.left -= int64(n)
	}
	var corrupt flate.CorruptInputError
	switch {
	case in.left < 0:
		n, err = n-1, &TooLarge{in.limit, in.fixed}
	case errors.As(err, &corrupt) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF):
		err = &syntaxError{detail: "is not a complete gzip file: " + err.Error()}
	case err != nil && !errors.Is(err, io.EOF):
		in.failed = true
	}
	in.ended = err
	return n, err
}

// refuse is the error for the input: an *Invalid, unless it could not be read.
func (in *input) refuse(name string, document int, err error) error {
	if in.failed {
		return fmt.Errorf("%s: %w", name, in.ended)
	}
	return &Invalid{[]Problem{{File: name, Document: document, Err: explainJSON(err, 0)}}}
}

// Text reads a text, which may be compressed with gzip, of at most so many bytes, a limit that no flag raises.
func (open Open) Text(name string, maxSize int64) ([]byte, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := newInput(f, maxSize)
	in.fixed = true
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, in.refuse(Title(name), 0, err)
	}
	return text, nil
}

// blanks are the white space of YAML and JSON; other white space of Unicode is text there.
const blanks = " \t\r\n"

// beginning is how much of a document is looked at to find out what it is, in bytes.
const beginning = 64 << 10

// sections calls f with what stands between the marker lines of a text, and with the number of its first line. A section is
// one YAML document, or JSON documents one after another, and f reads all of it.
func sections(r io.Reader, f func(text *bufio.Reader, line int) error) error {
	s := &section{in: bufio.NewReaderSize(r, beginning), line: 1}
	if mark, _ := s.in.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = s.in.Discard(len(mark)) // all are there
	}
	text := bufio.NewReaderSize(s, beginning)
	for {
		next, err := s.in.Peek(4) // fewer at the end
		switch {
		case len(next) == 0 && errors.Is(err, io.EOF):
			return nil
		case len(next) == 0:
			return err
		case isMarker(next):
			_, _ = s.in.Discard(3) // the rest of the line may hold text
		}
		s.lineBegins = false
		text.Reset(s)
		if err := f(text, s.line); err != nil {
			return err
		}
	}
}

// A section reads up to the next marker line. Nothing else can begin with --- or ... in the first column, not even inside a
// string.
type section struct {
	in         *bufio.Reader
	line       int // of the file
	lineBegins bool
}

// Read implements io.Reader.
func (s *section) Read(p []byte) (int, error) {
	next, err := s.in.Peek(4) // fewer at the end
	if len(next) == 0 {
		return 0, err
	}
	if s.lineBegins && isMarker(next) {
		return 0, io.EOF
	}
	text, _ := s.in.Peek(min(len(p), s.in.Buffered())) // all are there
	for _, mark := range []string{"\n-", "\n."} {
		if i := bytes.Index(text, []byte(mark)); i >= 0 {
			text = text[:i+1]
		}
	}
	s.line += bytes.Count(text, []byte("\n"))
	s.lineBegins = text[len(text)-1] == '\n'
	return s.in.Discard(copy(p, text))
}

// isMarker tells a line that begins or ends a YAML document.
func isMarker(line []byte) bool {
	mark := string(line[:min(3, len(line))])
	return (mark == "---" || mark == "...") && (len(line) == 3 || strings.IndexByte(blanks, line[3]) >= 0)
}

// isBlank tells text without a value: empty lines, comments and directives.
func isBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.Trim(line, blanks); len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// each reads a list or an object, and calls f before each of its values with their path and name; a null has none. The error
// is wrong if the text begins otherwise.
func each(d *json.Decoder, at *field.Path, open json.Delim, wrong error, f func(at *field.Path, name string) error) error {
	var syntax *json.SyntaxError
	token, err := d.Token()
	switch {
	case err == nil && token == nil && at != nil:
		return nil
	case err != nil && !errors.As(err, &syntax):
		return err
	case token != open:
		return cmp.Or[error](wrong, field.Invalid(at, field.OmitValueType{}, "must be "+map[json.Delim]string{'[': aList, '{': anObject}[open]))
	}
	for i := 0; d.More(); i++ {
		inner, name := at.Index(i), ""
		if open == '{' {
			token, err := d.Token()
			if err != nil {
				return err
			}
			name, _ = token.(string) // the decoder has made sure of it
			if inner = at.Key(name); at == nil {
				inner = field.NewPath(name)
			}
		}
		if err := f(inner, name); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// decodeLeniently fills what into points to from JSON. The usual way is the fast one; where that
// fails, could take forever or let an amount out of range pass, the decoder of documents finds out
// where the problem is, at a path below at.
func decodeLeniently(raw []byte, at *field.Path, into any) error {
	_, isHeader := into.(*header) // which has no amounts
	if (isHeader || !mayBeHuge(raw)) && kjson.UnmarshalCaseSensitivePreserveInts(raw, into) == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero() // what the fast way has left
	return first((&decoder{lenient: true}).decode(treeOf(raw, 1), at, into))
}

// decodeNext does so for the next value of a stream.
func decodeNext(d *json.Decoder, at *field.Path, into any) error {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	return decodeLeniently(raw, at, into)
}

// first returns the first of several errors, or nil.
func first[E error](errs []E) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}
