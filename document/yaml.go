package document

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ToYAML writes one JSON value as YAML, in the style of kubectl but with fields in the order of the JSON. Strings that any
// version of YAML takes for something else are in quotes.
func ToYAML(data []byte) ([]byte, error) {
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
	if err := e.Encode(toNode(values[0])); err != nil {
		return nil, err
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
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

// textNode is a string. The encoder quotes what YAML 1.2 would misread; YAML 1.1, which kubectl speaks, misreads more.
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

// digitFirst tells texts that some parser could take for a number, be it hexadecimal or to the base 60, or for a time.
var digitFirst = regexp.MustCompile(`^[-+.]?[0-9][0-9a-fA-FxoXeE_:.+-]*$`)
