package document

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Comment is text for the reader of a YAML document.
type Comment struct {
	// Before is the path of the field it stands before, such as "spec.groupLabel".
	Before string
	// Text has a line for each line of the comment, without #.
	Text string
}

// ToYAML writes one JSON value as YAML, in the style of kubectl but with fields in the order of the
// JSON. Strings that any version of YAML takes for something else are in quotes. A comment before a
// field that is not there is an error.
func ToYAML(data []byte, comments ...Comment) ([]byte, error) {
	values, err := parseJSON(data, 1)
	if err != nil {
		return nil, err
	}
	if len(values) != 1 {
		return nil, errors.New("not one JSON value")
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	root := toNode(values[0])
	for _, c := range comments {
		field := findKey(root, strings.Split(c.Before, "."))
		if field == nil {
			return nil, fmt.Errorf("no field %s to put a comment before", c.Before)
		}
		field.HeadComment = c.Text
	}
	if err := e.Encode(root); err != nil {
		return nil, err
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// findKey finds the key of a field in objects within objects; nil if there is none.
func findKey(n *yaml.Node, path []string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		switch {
		case n.Content[i].Value != path[0]:
		case len(path) == 1:
			return n.Content[i]
		default:
			return findKey(n.Content[i+1], path[1:])
		}
	}
	return nil
}

func toNode(v *value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: v.text}
	switch v.kind {
	case null:
		n.Tag, n.Value = "!!null", "null"
	case boolean:
		n.Tag = "!!bool"
	case number:
		n.Tag = "!!float"
		if isInteger(v.text) {
			n.Tag = "!!int"
		}
	case text:
		*n = *textNode(v.text)
	case list:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		for _, item := range v.items {
			n.Content = append(n.Content, toNode(item))
		}
		n.Style = flowIfEmpty(n)
	default:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		for _, m := range v.members {
			n.Content = append(n.Content, textNode(m.key), toNode(m.value))
		}
		n.Style = flowIfEmpty(n)
	}
	return n
}

func flowIfEmpty(n *yaml.Node) yaml.Style {
	if len(n.Content) == 0 {
		return yaml.FlowStyle
	}
	return 0
}

// textNode is a string. The encoder quotes what YAML 1.2 would misread; YAML 1.1, which kubectl
// speaks, misreads more.
func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch strings.ToLower(s) {
	case "y", "yes", "on", "n", "no", "off", "true", "false", "null", "~", "<<", "=", "":
		n.Style = yaml.DoubleQuotedStyle
	}
	if digitFirst.MatchString(s) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// digitFirst tells texts that some parser could take for a number, be it hexadecimal or to the base
// 60, or for a time.
var digitFirst = regexp.MustCompile(`^[-+.]?[0-9][0-9a-fA-FxoXeE_:.+-]*$`)
