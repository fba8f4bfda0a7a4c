package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A value is an entry of values.yaml, with what the comment above it says: its description and, after @schema, further rules of JSON
// Schema for it.
type value struct {
	name        string
	description string
	rules       map[string]any
	node        *yaml.Node // what it is by default
	fields      []value    // of a mapping that is not open
}

// marker precedes the rules in a comment.
const marker = "@schema "

// parse reads values.yaml.
func parse(text []byte) ([]value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the values must be a mapping")
	}
	return fields(document.Content[0], "")
}

func fields(mapping *yaml.Node, under string) ([]value, error) {
	var out []value
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		v := value{name: key.Value, node: node}
		for line := range strings.Lines(key.HeadComment) {
			line = strings.TrimSpace(strings.TrimLeft(line, "# "))
			rules, found := strings.CutPrefix(line, marker)
			if !found {
				v.description = strings.TrimSpace(v.description + " " + line)
				continue
			}
			if err := yaml.Unmarshal([]byte(rules), &v.rules); err != nil {
				return nil, fmt.Errorf("%s%s: the rules: %w", under, v.name, err)
			}
		}
		if v.closed() {
			var err error
			if v.fields, err = fields(node, under+v.name+"."); err != nil {
				return nil, err
			}
		} else if v.description == "" {
			return nil, fmt.Errorf("%s%s: a comment must say what it is", under, v.name)
		}
		out = append(out, v)
	}
	return out, nil
}

// closed reports whether a value has the fields of values.yaml and no others. One with rules about its fields has others.
func (v value) closed() bool {
	return v.node.Kind == yaml.MappingNode && v.rules["additionalProperties"] == nil && v.rules["properties"] == nil && len(v.node.Content) > 0
}

// Schema returns values.schema.json for a values.yaml: the types are those of the defaults, and nothing else may be set.
func Schema(values []byte) ([]byte, error) {
	all, err := parse(values)
	if err != nil {
		return nil, err
	}
	root := object(all)
	root["$schema"] = "https://json-schema.org/draft-07/schema#"
	root["title"] = "Values of the chart evenkeel"
	// Helm adds these itself.
	root["properties"].(map[string]any)["global"] = map[string]any{"type": "object"}
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

func object(values []value) map[string]any {
	properties := map[string]any{}
	for _, v := range values {
		properties[v.name] = v.schema()
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

func (v value) schema() map[string]any {
	out := map[string]any{"type": v.kind()}
	if v.closed() {
		out = object(v.fields)
	} else if out["type"] == "object" {
		out["additionalProperties"] = false
	}
	if v.description != "" {
		out["description"] = v.description
	}
	for name, rule := range v.rules {
		out[name] = rule
	}
	return out
}

// kind is the type in JSON Schema.
func (v value) kind() string {
	switch v.node.Tag {
	case "!!map":
		return "object"
	case "!!seq":
		return "array"
	case "!!bool":
		return "boolean"
	case "!!int":
		return "integer"
	}
	return "string"
}
