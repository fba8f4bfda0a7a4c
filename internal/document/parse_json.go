package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// parseJSON parses text that holds JSON values one after another, with nothing between them.
// firstLine is the line the text begins on.
func parseJSON(data []byte, firstLine int) ([]*value, error) {
	p := &jsonParser{data: data, line: firstLine, decoder: json.NewDecoder(bytes.NewReader(data))}
	p.decoder.UseNumber()
	var out []*value
	for {
		token, err := p.decoder.Token()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil && len(out) > 0 {
			return nil, &syntaxError{p.lineNow(), textAfterJSON}
		}
		if err != nil {
			return nil, p.explain(err)
		}
		v, err := p.value(token, 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
}

// textAfterJSON is the problem of what follows JSON and is none.
const textAfterJSON = "text follows the JSON: put --- between documents"

type jsonParser struct {
	data    []byte
	decoder *json.Decoder
	line    int   // of offset
	offset  int64 // up to where lines are counted
}

// value builds the value that begins with token.
func (p *jsonParser) value(token json.Token, depth int) (*value, error) {
	v := &value{line: p.lineNow(), size: 1}
	if depth > maxDepth {
		return nil, &tooDeep{v.line}
	}
	switch t := token.(type) {
	case nil:
	case bool:
		v.kind, v.text = boolean, fmt.Sprint(t)
	case json.Number:
		v.kind, v.text = number, t.String()
	case string:
		v.kind, v.text = text, t
	case json.Delim:
		return v, p.fill(v, t, depth)
	}
	return v, nil
}

// fill reads what a list or object holds, and its end.
func (p *jsonParser) fill(v *value, open json.Delim, depth int) error {
	v.kind = list
	if open == '{' {
		v.kind = object
	}
	for p.decoder.More() {
		token, err := p.decoder.Token()
		if err != nil {
			return p.explain(err)
		}
		m := member{}
		if v.kind == object {
			m.key, _ = token.(string) // the decoder has made sure of it
			m.line = p.lineNow()
			if token, err = p.decoder.Token(); err != nil {
				return p.explain(err)
			}
		}
		if m.value, err = p.value(token, depth+1); err != nil {
			return err
		}
		v.size += m.value.size
		if v.kind == object {
			v.members = append(v.members, m)
		} else {
			v.items = append(v.items, m.value)
		}
	}
	if _, err := p.decoder.Token(); err != nil {
		return p.explain(err)
	}
	return nil
}

// lineNow is the line of the token read last.
func (p *jsonParser) lineNow() int {
	offset := p.decoder.InputOffset()
	p.line += bytes.Count(p.data[p.offset:offset], []byte("\n"))
	p.offset = offset
	return p.line
}

// explain turns an error of the decoder into one with a line.
func (p *jsonParser) explain(err error) error {
	line := p.lineNow()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &syntaxError{line, "the JSON ends too early"}
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset >= p.offset && syntax.Offset <= int64(len(p.data)) {
		line += bytes.Count(p.data[p.offset:syntax.Offset], []byte("\n"))
	}
	return &syntaxError{line, "not valid JSON: " + err.Error()}
}
