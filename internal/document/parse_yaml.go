package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseYAML parses one YAML document. firstLine is the line the text begins on. A text without a
// value gives nil.
func parseYAML(data []byte, firstLine int) (*value, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root, rest yaml.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, explainYAML(err, firstLine)
	}
	if err := decoder.Decode(&rest); err == nil {
		return nil, &syntaxError{firstLine + rest.Line - 1, "a second document begins without --- before it"}
	} else if !errors.Is(err, io.EOF) {
		return nil, explainYAML(err, firstLine)
	}
	c := &yamlConverter{offset: firstLine - 1, done: map[*yaml.Node]*value{}, budget: maxShared}
	v, err := c.value(root.Content[0], 1)
	if err != nil {
		return nil, err
	}
	if v.size-c.nodes > maxShared {
		return nil, c.tooManyAliases(root.Line)
	}
	return v, nil
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// explainYAML gives an error of the parser the line in the file.
func explainYAML(err error, firstLine int) error {
	detail := err.Error()
	if m := yamlLine.FindStringSubmatch(detail); m != nil {
		line, _ := strconv.Atoi(m[1])
		return &syntaxError{firstLine + line - 1, "not valid YAML: " + detail[len(m[0]):]}
	}
	return &syntaxError{0, "not valid YAML: " + strings.TrimPrefix(detail, "yaml: ")}
}

// A yamlConverter turns the parser's nodes into values. An alias is the same value again, not a
// copy: what it would cost to write it out is only counted.
type yamlConverter struct {
	offset int // added to the parser's lines
	nodes  int // values made so far
	budget int // members that merges may still copy
	done   map[*yaml.Node]*value
}

func (c *yamlConverter) fail(n *yaml.Node, format string, args ...any) error {
	return &syntaxError{c.offset + n.Line, fmt.Sprintf(format, args...)}
}

func (c *yamlConverter) tooManyAliases(line int) error {
	return &syntaxError{c.offset + line, fmt.Sprintf("anchors and aliases grow to more than %d values", maxShared)}
}

func (c *yamlConverter) value(n *yaml.Node, depth int) (*value, error) {
	if depth > maxDepth {
		return nil, &tooDeep{c.offset + n.Line}
	}
	if n.Kind == yaml.AliasNode {
		return c.alias(n, depth)
	}
	c.nodes++
	v := &value{line: c.offset + n.Line, size: 1}
	var err error
	switch n.Kind {
	case yaml.ScalarNode:
		err = c.scalar(v, n)
	case yaml.SequenceNode:
		v.kind = list
		err = c.sequence(v, n, depth)
	case yaml.MappingNode:
		v.kind = object
		err = c.mapping(v, n, depth)
	default:
		err = c.fail(n, "not a value")
	}
	if err != nil {
		return nil, err
	}
	if n.Anchor != "" {
		c.done[n] = v
	}
	return v, nil
}

// alias gives the value of an anchor. What stands inside its own anchor is not done yet, so it is
// refused.
func (c *yamlConverter) alias(n *yaml.Node, depth int) (*value, error) {
	v, ok := c.done[n.Alias]
	if !ok {
		return nil, c.fail(n, "anchor %q contains itself", n.Value)
	}
	if depth+v.height > maxDepth {
		return nil, &tooDeep{c.offset + n.Line}
	}
	return v, nil
}

// grow takes the measures of a part in, and stops early where aliases have made it absurd: sizes
// double with every level.
func (c *yamlConverter) grow(v, part *value, n *yaml.Node) error {
	v.size += part.size
	v.height = max(v.height, part.height+1)
	if v.size-c.nodes > maxShared {
		return c.tooManyAliases(n.Line)
	}
	return nil
}

func (c *yamlConverter) sequence(v *value, n *yaml.Node, depth int) error {
	if tag := n.ShortTag(); tag != "!!seq" {
		return c.fail(n, "tag %s is not supported", tag)
	}
	v.items = make([]*value, 0, len(n.Content))
	for _, part := range n.Content {
		item, err := c.value(part, depth+1)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
		if err := c.grow(v, item, part); err != nil {
			return err
		}
	}
	return nil
}

func (c *yamlConverter) mapping(v *value, n *yaml.Node, depth int) error {
	if tag := n.ShortTag(); tag != "!!map" {
		return c.fail(n, "tag %s is not supported", tag)
	}
	v.members = make([]member, 0, len(n.Content)/2)
	var merged []*value
	for i := 0; i+1 < len(n.Content); i += 2 {
		keyNode, part := n.Content[i], n.Content[i+1]
		item, err := c.value(part, depth+1)
		if err != nil {
			return err
		}
		if keyNode.Kind == yaml.ScalarNode && keyNode.ShortTag() == "!!merge" {
			merged = append(merged, item)
			continue
		}
		key, err := c.key(keyNode)
		if err != nil {
			return err
		}
		v.members = append(v.members, member{key, c.offset + keyNode.Line, item})
		if err := c.grow(v, item, part); err != nil {
			return err
		}
	}
	for _, from := range merged {
		if err := c.merge(v, from, n); err != nil {
			return err
		}
	}
	return nil
}

// key gives the text of an object's key. Numbers and booleans count as text there, as in kubectl.
func (c *yamlConverter) key(n *yaml.Node) (string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return "", c.fail(n, "the name of a field must be a string")
	}
	return n.Value, nil
}

// merge adds the members of a << that the object does not have itself.
func (c *yamlConverter) merge(v, from *value, n *yaml.Node) error {
	sources := []*value{from}
	if from.kind == list {
		sources = from.items
	}
	has := make(map[string]bool, len(v.members))
	for _, m := range v.members {
		has[m.key] = true
	}
	for _, s := range sources {
		if s.kind != object {
			return c.fail(n, "<< must name an object or a list of objects")
		}
		if c.budget -= len(s.members); c.budget < 0 {
			return c.tooManyAliases(n.Line)
		}
		for _, m := range s.members {
			if has[m.key] {
				continue
			}
			has[m.key] = true
			v.members = append(v.members, m)
			if err := c.grow(v, m.value, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *yamlConverter) scalar(v *value, n *yaml.Node) error {
	v.text, v.kind = n.Value, text
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp": // a time stays as it was written
		v.plain = n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
	case "!!null":
		v.kind, v.text, v.written = null, "", n.Value
	case "!!bool":
		v.kind, v.text, v.written = boolean, strings.ToLower(n.Value), n.Value
		if v.text != "true" && v.text != "false" {
			return c.fail(n, "%s is not a boolean", n.Value)
		}
	case "!!int", "!!float":
		l, err := literal(n.Value)
		if err != nil {
			return c.fail(n, "%v", err)
		}
		v.kind, v.text, v.written = number, l, n.Value
	default:
		return c.fail(n, "tag %s is not supported", tag)
	}
	return nil
}
