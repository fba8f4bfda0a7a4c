package document

import (
	"bytes"
	"errors"
	"strings"
)

// A chunk is the text of one YAML document, its marker line included, or of JSON documents one
// after another.
type chunk struct {
	data []byte
	line int // of its first byte
}

// splitText cuts a text at its marker lines. Nothing else can begin with --- in the first column,
// not even inside a string.
func splitText(data []byte) []chunk {
	var out []chunk
	begin, beginLine := 0, 1
	line := 1
	for at := 0; at < len(data); line++ {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if at > begin && isMarker(data[at:end]) {
			out = append(out, chunk{data[begin:at], beginLine})
			begin, beginLine = at, line
		}
		at = end
	}
	return append(out, chunk{data[begin:], beginLine})
}

// isMarker tells the line that begins a YAML document.
func isMarker(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || strings.IndexByte(blanks, rest[0]) >= 0)
}

// blanks are the white space of YAML and JSON; other white space of Unicode is text there.
const blanks = " \t\r\n"

// isBlank tells text without a value: empty lines, comments, directives and markers.
func isBlank(data []byte) bool {
	for line := range bytes.Lines(data) {
		if isMarker(line) {
			line = line[3:]
		}
		line = bytes.Trim(line, blanks)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && string(line) != "..." {
			return false
		}
	}
	return true
}

// parse parses a chunk: none, one or, of JSON, several values. What looks like JSON may still be
// YAML in flow style.
func parse(c chunk) ([]*value, error) {
	if isBlank(c.data) {
		return nil, nil
	}
	body := c.data
	if isMarker(body) {
		body = body[3:]
	}
	trimmed := bytes.TrimLeft(body, blanks)
	if trimmed[0] != '{' && trimmed[0] != '[' {
		return one(parseYAML(c.data, c.line))
	}
	values, jsonErr := parseJSON(body, c.line)
	if jsonErr == nil {
		return values, nil
	}
	var deep *tooDeep
	if errors.As(jsonErr, &deep) {
		return nil, jsonErr
	}
	v, yamlErr := parseYAML(c.data, c.line)
	if yamlErr != nil && looksLikeJSON(trimmed) {
		return nil, jsonErr
	}
	return one(v, yamlErr)
}

// looksLikeJSON reports whether the author of {… meant JSON: the first name is in quotes.
func looksLikeJSON(trimmed []byte) bool {
	next := bytes.TrimLeft(trimmed[1:], blanks)
	return len(next) == 0 || next[0] == '"' || next[0] == '}' || next[0] == '{'
}

func one(v *value, err error) ([]*value, error) {
	if v == nil || err != nil {
		return nil, err
	}
	return []*value{v}, nil
}
