package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// ToYAML writes one JSON value as YAML, in the style of kubectl but with fields in the order of the
// JSON. Strings that any version of YAML takes for something else are in quotes.
func ToYAML(data []byte) ([]byte, error) {
	if !json.Valid(data) {
		return nil, errors.New("not one JSON value")
	}
	tree := treeOf(data, 1)
	restyle(tree)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(tree); err != nil {
		return nil, err
	}
	err := e.Close()
	return b.Bytes(), err
}

// ambiguous tells texts that YAML 1.1, which kubectl speaks, could take for something else than a string: the words, and any
// that begin with a digit and some parser could take for a number, be it hexadecimal or to the base 60, or for a time. The
// encoder quotes what YAML 1.2 would misread.
var ambiguous = regexp.MustCompile(`^((?i:y|yes|on|n|no|off|true|false|null|~|<<|=|)|[-+.]?[0-9][0-9a-fA-FxoXeE_:.+-]*)$`)

// restyle takes the quotes and brackets of JSON away where they are not needed.
func restyle(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode && !ambiguous.MatchString(n.Value) {
		n.Style = 0
	}
	for _, part := range n.Content {
		restyle(part)
	}
}
