package document

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// yaml reads one YAML document. If it is a list as kubectl prints it, with items: at the begin of a
// line and one - below the other, the text is cut at the items, so that only one of them is parsed
// at a time. Anything else, flow style above all, is parsed as a whole.
func (s *objectStream) yaml() error {
	var rest bytes.Buffer // all but the items
	first := s.line
	var outer header
	isList, isFlow := false, false
	if begin, _ := s.in.Peek(1); len(begin) > 0 {
		isFlow = begin[0] == '{'
	}
	for {
		line, err := s.nextLine()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if bytes.Equal(bytes.TrimRight(stripComment(line), blanks), []byte("items:")) && !isList && !isFlow {
			isList = true
			rest.WriteByte('\n') // lines keep their numbers up to here
			outer = listHeader(rest.Bytes())
			if err := s.yamlItems(outer); err != nil {
				return err
			}
			continue
		}
		rest.Write(line)
	}
	values, err := parse(chunk{rest.Bytes(), first})
	if err != nil {
		return err
	}
	if len(values) == 0 && !isList {
		s.document-- // comments only
	}
	for _, v := range values {
		if err := s.emitDocument(v, isList); err != nil {
			return err
		}
	}
	return nil
}

// emitDocument yields what a document parsed as a whole holds. The items of a list that was cut are
// out already.
func (s *objectStream) emitDocument(v *value, cut bool) error {
	if v.kind != object {
		return &syntaxError{v.line, "must be a Kubernetes object or list"}
	}
	items := v.get("items")
	if items == nil {
		if kind := v.get("kind"); cut || kind != nil && strings.HasSuffix(kind.text, "List") {
			return nil
		}
		return s.emitValue("", header{}, v)
	}
	decoded, err := decodeValue(v, nil, func() any { return new(header) })
	if err != nil {
		return err
	}
	for i, item := range items.items {
		if err := s.emitValue(fmt.Sprintf("items[%d]", i), *decoded.(*header), item); err != nil {
			return err
		}
	}
	return nil
}

// listHeader is what stands before the items of a list: mostly its version, and its kind if that
// comes first.
func listHeader(text []byte) header {
	v, err := parseYAML(text, 1)
	if err != nil || v == nil {
		return header{} // parsed again, and reported, with the rest of the document
	}
	decoded, err := decodeValue(v, nil, func() any { return new(header) })
	if err != nil {
		return header{}
	}
	return *decoded.(*header)
}

// yamlItems yields the items of a list and stops before the line that follows them.
func (s *objectStream) yamlItems(outer header) error {
	var text bytes.Buffer
	first, indent := s.line, -1
	index := 0
	emit := func() error {
		if isBlank(text.Bytes()) {
			return nil
		}
		place := fmt.Sprintf("items[%d]", index)
		index++
		v, err := parseYAML(text.Bytes(), first)
		text.Reset()
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		if v.kind != list || len(v.items) != 1 {
			return fmt.Errorf("%s: %w", place, &syntaxError{first, "must be one item of a list"})
		}
		return s.emitValue(place, outer, v.items[0])
	}
	for {
		line, err := s.nextLine()
		if errors.Is(err, io.EOF) {
			return emit()
		}
		if err != nil {
			return err
		}
		content := bytes.TrimLeft(line, " ")
		at := len(line) - len(content)
		if isContent := len(bytes.Trim(content, blanks)) > 0 && content[0] != '#'; isContent {
			begins := isDash(content) && (indent < 0 || at == indent)
			if !begins && at <= max(indent, 0) {
				s.unread(line)
				return emit()
			}
			if begins {
				if err := emit(); err != nil {
					return err
				}
				indent, first = at, s.line-1
				text.Reset()
			}
		}
		text.Write(line)
	}
}

// isDash tells the begin of a list item.
func isDash(content []byte) bool {
	return content[0] == '-' && (len(content) == 1 || content[1] == ' ' || content[1] == '\n' || content[1] == '\r')
}

// nextLine gives the next line of the document; the error is io.EOF at its end, which a marker is
// too.
func (s *objectStream) nextLine() ([]byte, error) {
	if next, _ := s.in.Peek(4); isMarker(next) {
		return nil, io.EOF
	}
	line, err := readLine(s.in)
	if err != nil {
		return nil, err
	}
	s.line++
	return line, nil
}

// readLine reads a line of any length, with its end. The last one may have none.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if len(line) > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return line, err
}

// unread puts a line back.
func (s *objectStream) unread(line []byte) {
	s.line--
	s.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(line), s.in), 64<<10)
}

// stripComment cuts a comment at the end of a line that holds no string.
func stripComment(line []byte) []byte {
	if i := bytes.Index(line, []byte(" #")); i >= 0 {
		return line[:i]
	}
	return line
}
