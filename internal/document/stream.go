package document

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"

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

// limited reads at most a number of bytes, and fails with TooLarge if there are more. A text compressed with gzip is
// decompressed; the limit is for what comes out.
type limited struct {
	from  io.Reader
	plain io.Reader // of from; nil before the first read
	left  int64
	limit int64
}

func newLimited(r io.Reader, o StreamOptions) *limited {
	limit := cmp.Or(o.MaxSize, DefaultMaxStream)
	return &limited{from: r, left: limit, limit: limit}
}

func (l *limited) Read(p []byte) (int, error) {
	if l.plain == nil {
		if err := l.begin(); err != nil {
			return 0, err
		}
	}
	if l.left < 0 {
		return 0, &TooLarge{l.limit}
	}
	if int64(len(p)) > l.left+1 { // one more byte shows whether there are more
		p = p[:l.left+1]
	}
	n, err := l.plain.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n - 1, &TooLarge{l.limit}
	}
	return n, err
}

// Text reads a text, which may be compressed with gzip, of at most so many bytes. The error may be a *TooLarge.
func Text(r io.Reader, maxSize int64) ([]byte, error) {
	return io.ReadAll(newLimited(r, StreamOptions{maxSize}))
}

// begin finds out whether the text is compressed.
func (l *limited) begin() error {
	in := bufio.NewReaderSize(l.from, 64<<10)
	switch magic, err := in.Peek(2); {
	case errors.Is(err, io.EOF):
		l.plain = bytes.NewReader(magic)
	case err != nil:
		return err
	case string(magic) == "\x1f\x8b":
		text, err := gzip.NewReader(in)
		if err != nil {
			return zipError(err)
		}
		l.plain = unzipped{text}
	default:
		l.plain = in
	}
	return nil
}

// unzipped is a text that was compressed.
type unzipped struct{ *gzip.Reader }

// Read implements io.Reader.
func (u unzipped) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	return n, zipError(err)
}

// zipError gives errors of decompression a clear message.
func zipError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &syntaxError{detail: "is not a complete gzip file: " + err.Error()}
	}
	return err
}

// readFailed reports whether an input could not be read, as opposed to one that is invalid.
func readFailed(err error) bool {
	var wrongType *json.UnmarshalTypeError
	var ours *syntaxError
	var deep *tooDeep
	var large *TooLarge
	var path *field.Error
	known := errors.As(err, &wrongType) || errors.As(err, &ours) || errors.As(err, &deep) || errors.As(err, &large) || errors.As(err, &path) || errors.Is(err, ErrSnapshot)
	return !known
}

// explainJSON converts an error of the JSON decoder to a clear message.
func explainJSON(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &syntaxError{detail: "the JSON ends too early"}
	case errors.As(err, &syntax):
		return &syntaxError{detail: "not valid JSON: " + err.Error()}
	}
	return err
}

// decodeLeniently fills into from JSON. The usual way is the fast one; where that fails, could take
// forever or let an amount out of range pass, the decoder of documents finds out where the problem
// is, at a path below at.
func decodeLeniently(raw []byte, at *field.Path, into func() any) (any, error) {
	if !mayBeHuge(raw) {
		out := into()
		if kjson.UnmarshalCaseSensitivePreserveInts(raw, out) == nil {
			return out, nil
		}
	}
	values, err := parseJSON(raw, 1)
	if err != nil {
		return nil, err
	}
	return decodeValue(values[0], at, into)
}

// decodeValue fills a new value from a parsed one, or tells the first problem.
func decodeValue(v *value, at *field.Path, into func() any) (any, error) {
	out := into()
	d := decoder{lenient: true}
	d.decodeAt(v, at, out)
	if len(d.problems) > 0 {
		return nil, d.problems[0]
	}
	return out, nil
}
