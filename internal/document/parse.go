package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxShared is how many values aliases and merges may add to those written down. Whatever needs more is a mistake or an attack.
const maxShared = 100_000

// textAfterJSON is the problem of what follows JSON and is none.
const textAfterJSON = "text follows the JSON: put --- between documents"

// treeOf is the tree of a valid JSON value that begins on a line. The trees are those of YAML's parser, for JSON too, without
// aliases and merges, with lines of the file and short tags.
func treeOf(raw []byte, line int) *yaml.Node {
	tree := jsonTree{json.NewDecoder(bytes.NewReader(raw)), raw, 0, line}
	tree.UseNumber()
	return tree.value()
}

// jsonTree makes a tree of text that is valid JSON and not nested too deeply.
type jsonTree struct {
	*json.Decoder
	text    []byte
	counted int64 // up to where line is counted
	line    int
}

// value is the next value.
func (t *jsonTree) value() *yaml.Node {
	token, _ := t.Token() // it is valid
	end := t.InputOffset()
	t.line += bytes.Count(t.text[t.counted:end], []byte("\n"))
	t.counted = end
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: t.line}
	switch token := token.(type) {
	case json.Delim:
		n.Kind, n.Tag, n.Style = yaml.SequenceNode, "!!seq", yaml.FlowStyle
		if token == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for t.More() {
			n.Content = append(n.Content, t.value()) // of an object the names, too
		}
		_, _ = t.Token()
	case string:
		n.Tag, n.Style, n.Value = "!!str", yaml.DoubleQuotedStyle, token
	case json.Number:
		n.Value = token.String()
		n.Tag = n.ShortTag()
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(token)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}

// explainJSON gives an error of the decoder a clear message.
func explainJSON(err error, line int) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &syntaxError{line, "the JSON ends too early"}
	case errors.As(err, &syntax):
		return &syntaxError{line, "not valid JSON: " + err.Error()}
	}
	return err
}

var yamlProblem = regexp.MustCompile(`(?s)^(?:yaml: )?(?:line (\d+): )?(.*)$`)

// parseYAML parses one YAML document, whose text begins on a line. A text without a value gives nil.
func parseYAML(text []byte, line int) (*yaml.Node, error) {
	var document, rest yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	err := d.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		err = d.Decode(&rest) // which only finds what is wrong
	}
	if err != nil && !errors.Is(err, io.EOF) {
		m := yamlProblem.FindStringSubmatch(err.Error())
		at, _ := strconv.Atoi(m[1]) // 0 if it tells no line
		return nil, &syntaxError{at + (line-1)*min(at, 1), "not valid YAML: " + m[2]}
	}
	return (&expander{offset: line - 1, open: map[*yaml.Node]bool{}}).value(document.Content[0], false)
}

// An expander puts the values of aliases and merges in their place, as long as they are few, and refuses what JSON does not
// have.
type expander struct {
	offset int                 // added to the parser's lines
	line   int                 // of the value that was visited last where it stands
	shared int                 // values visited elsewhere
	open   map[*yaml.Node]bool // what is being expanded
}

// value gives the value of a node; elsewhere means that it stands in another place and was visited there.
func (e *expander) value(n *yaml.Node, elsewhere bool) (*yaml.Node, error) {
	if !elsewhere {
		n.Line += e.offset
		e.line = n.Line
	}
	if n.Kind == yaml.AliasNode {
		n, elsewhere = n.Alias, true
	}
	if elsewhere {
		e.shared++
	}
	detail := ""
	n.Tag = n.ShortTag()
	switch tag := n.Tag; {
	case e.shared > maxShared:
		detail = fmt.Sprintf("anchors and aliases grow to more than %d values", maxShared)
	case e.open[n]:
		detail = fmt.Sprintf("anchor %q contains itself", n.Anchor)
	case n.Kind == yaml.MappingNode && tag == "!!map" || n.Kind == yaml.SequenceNode && tag == "!!seq":
		e.open[n] = true
		defer delete(e.open, n)
		return n, e.parts(n, elsewhere)
	case n.Kind != yaml.ScalarNode || !scalars[tag]:
		detail = fmt.Sprintf("tag %s is not supported", tag)
	case tag == "!!timestamp": // stays as it was written
		n.Tag = "!!str"
	case isNumber(n) && literal(n) == nil:
		detail = n.Value + " is not a number that JSON can carry"
	}
	if detail != "" {
		return nil, &syntaxError{e.line, detail}
	}
	return n, nil
}

var scalars = map[string]bool{"!!str": true, "!!timestamp": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true,
	"!!merge": true}

// parts expands what a list or an object holds, and adds what a << names to what an object has itself.
func (e *expander) parts(n *yaml.Node, elsewhere bool) (err error) {
	for i, part := range n.Content {
		if n.Content[i], err = e.value(part, elsewhere); err != nil {
			return err
		}
	}
	if n.Kind == yaml.SequenceNode {
		return nil
	}
	var own, merged []*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		switch key, part := n.Content[i], n.Content[i+1]; {
		case key.Tag == "!!merge" && part.Kind == yaml.SequenceNode:
			merged = append(merged, part.Content...)
		case key.Tag == "!!merge":
			merged = append(merged, part)
		case key.Kind != yaml.ScalarNode || key.Tag == "!!null":
			return &syntaxError{key.Line, "the name of a field must be a string"}
		default:
			own = append(own, key, part)
		}
	}
	has := map[string]bool{}
	for i := 0; i < len(own) && len(merged) > 0; i += 2 {
		has[own[i].Value] = true
	}
	for _, from := range merged {
		if from.Kind != yaml.MappingNode {
			return &syntaxError{n.Line, "<< must name an object or a list of objects"}
		}
		for i := 0; i < len(from.Content); i += 2 {
			key, part := from.Content[i], from.Content[i+1]
			if _, err := e.value(part, true); err != nil { // counts it
				return err
			}
			if !has[key.Value] {
				own = append(own, key, part)
				has[key.Value] = true
			}
		}
	}
	n.Content = own
	return nil
}

// member returns the last field of that name of an object, or nil.
func member(n *yaml.Node, name string) *yaml.Node {
	for i := len(n.Content) - 2; i >= 0 && n.Kind == yaml.MappingNode; i -= 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func isNumber(n *yaml.Node) bool { return n.Tag == "!!int" || n.Tag == "!!float" }

// appendJSON writes a tree as JSON, fields in their order.
func appendJSON(b []byte, n *yaml.Node) []byte {
	switch n.Tag {
	case "!!seq":
		b = append(b, '[')
		for i, part := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, part)
		}
		return append(b, ']')
	case "!!map":
		b = append(b, '{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, n.Content[i].Value), ':')
			b = appendJSON(b, n.Content[i+1])
		}
		return append(b, '}')
	case "!!str":
		return appendString(b, n.Value)
	case "!!null":
		return append(b, "null"...)
	case "!!bool":
		return append(b, strings.ToLower(n.Value)...)
	}
	return append(b, literal(n)...)
}

// appendString quotes s as JSON does.
func appendString(b []byte, s string) []byte {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return strconv.AppendQuote(b, s) // the same, and faster
	}
	quoted, _ := encode(s) // a string always encodes
	return append(b, quoted...)
}

// encode is v as JSON, with <, > and & left readable.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// literal is a number as JSON writes it: as it was written, so that no digit is lost, unless only YAML writes it so,
// hexadecimal, with underscores or a leading plus. It is nil for what JSON has no number for.
func literal(n *yaml.Node) []byte {
	if jsonNumber.MatchString(n.Value) {
		return []byte(n.Value)
	}
	var number any
	if err := n.Decode(&number); err != nil {
		return nil
	}
	text, _ := json.Marshal(number) // nil if it fails
	return text
}
