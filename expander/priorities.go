package expander

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PrioritiesKey is the key of a ConfigMap that holds the priorities.
const PrioritiesKey = "priorities"

// maxPrioritiesSize bounds the text in bytes, as the API server does, and once
// more the expressions in it, which YAML aliases can multiply.
const maxPrioritiesSize = 1 << 20

// Priorities maps priorities to regular expressions over group names. The zero
// value is empty.
type Priorities struct {
	levels []level // highest first
}

type level struct {
	priority int64
	rules    []*regexp.Regexp
}

// Match is the priority of a group and the regular expression that gave it.
type Match struct {
	Priority int64
	Rule     string
}

// Empty reports whether there is no priority at all.
func (p Priorities) Empty() bool { return len(p.levels) == 0 }

// Match finds the highest priority with an expression that matches part of the name.
func (p Priorities) Match(group string) (Match, bool) {
	for _, l := range p.levels {
		for _, rule := range l.rules {
			if rule.MatchString(group) {
				return Match{Priority: l.priority, Rule: rule.String()}, true
			}
		}
	}
	return Match{}, false
}

// ParsePriorities reads priorities from YAML or JSON: either a whole ConfigMap
// or the bare text of its key priorities, a map from a number >= 0 to a list of
// regular expressions (RE2 syntax). It refuses empty text, a number given
// twice, and anything else that is not of this form, naming the place.
func ParsePriorities(data []byte) (Priorities, error) {
	path := field.NewPath(PrioritiesKey)
	root, err := parseYAML(data, path)
	if err != nil {
		return Priorities{}, err
	}
	if !isObject(root) {
		return readLevels(root, path)
	}
	if kind := child(root, "kind"); kind == nil || kind.Value != "ConfigMap" {
		return Priorities{}, field.Invalid(field.NewPath("kind"), scalar(kind), "must be ConfigMap")
	}
	path = field.NewPath("data").Child(PrioritiesKey)
	text := child(child(root, "data"), PrioritiesKey)
	if text == nil || text.Kind != yaml.ScalarNode || text.Tag != "!!str" {
		return Priorities{}, field.Required(path, "the priorities, as YAML text")
	}
	return parsePriorities([]byte(text.Value), path)
}

func parsePriorities(text []byte, path *field.Path) (Priorities, error) {
	root, err := parseYAML(text, path)
	if err != nil {
		return Priorities{}, err
	}
	return readLevels(root, path)
}

// parseYAML answers the root of the only document in data.
func parseYAML(data []byte, path *field.Path) (*yaml.Node, error) {
	if len(data) > maxPrioritiesSize {
		return nil, field.TooLong(path, "", maxPrioritiesSize)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF) || err == nil && len(document.Content) == 0:
		return nil, field.Required(path, "must not be empty")
	case err != nil:
		return nil, field.Invalid(path, "", err.Error())
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, field.Invalid(path, "", "must be a single YAML document")
	}
	return document.Content[0], nil
}

// readLevels reads the map from priorities to regular expressions, gathering
// every mistake in it.
func readLevels(root *yaml.Node, path *field.Path) (Priorities, error) {
	root = resolved(root)
	if root.Kind != yaml.MappingNode {
		return Priorities{}, field.TypeInvalid(path, scalar(root), "must be a map from priorities to lists of regular expressions")
	}
	if len(root.Content) == 0 {
		return Priorities{}, field.Required(path, "must not be empty")
	}
	if textSize(root) > maxPrioritiesSize {
		return Priorities{}, field.TooLong(path, "", maxPrioritiesSize)
	}
	var p Priorities
	var problems field.ErrorList
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := resolved(root.Content[i]), resolved(root.Content[i+1])
		at := path.Key(key.Value)
		number, err := readPriority(key, at)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if slices.ContainsFunc(p.levels, func(l level) bool { return l.priority == number }) {
			problems = append(problems, field.Duplicate(at, number))
			continue
		}
		l, errs := readLevel(number, value, at)
		problems = append(problems, errs...)
		p.levels = append(p.levels, l)
	}
	if err := problems.ToAggregate(); err != nil {
		return Priorities{}, err
	}
	slices.SortFunc(p.levels, func(a, b level) int {
		if a.priority > b.priority {
			return -1
		}
		return 1
	})
	return p, nil
}

// readPriority accepts what YAML calls an integer and, because JSON has no
// other keys, a decimal number in quotes.
func readPriority(key *yaml.Node, path *field.Path) (int64, *field.Error) {
	var number int64
	err := errors.New("not a number")
	if key.Kind == yaml.ScalarNode {
		switch key.Tag {
		case "!!int":
			err = key.Decode(&number)
		case "!!str":
			number, err = strconv.ParseInt(key.Value, 10, 64)
		}
	}
	if err != nil {
		return 0, field.TypeInvalid(path, scalar(key), "a priority must be a whole number")
	}
	if number < 0 {
		return 0, field.Invalid(path, number, "a priority must not be negative")
	}
	return number, nil
}

func readLevel(number int64, list *yaml.Node, path *field.Path) (level, field.ErrorList) {
	if list.Kind != yaml.SequenceNode {
		return level{}, field.ErrorList{field.TypeInvalid(path, scalar(list), "must be a list of regular expressions")}
	}
	l := level{priority: number}
	var problems field.ErrorList
	for i, item := range list.Content {
		item = resolved(item)
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			problems = append(problems, field.TypeInvalid(path.Index(i), scalar(item), "must be a regular expression"))
			continue
		}
		rule, err := regexp.Compile(item.Value)
		if err != nil {
			problems = append(problems, field.Invalid(path.Index(i), item.Value, err.Error()))
			continue
		}
		l.rules = append(l.rules, rule)
	}
	return l, problems
}

// textSize is the length of all expressions as if each had its own line, an
// alias counting as what it stands for.
func textSize(root *yaml.Node) int {
	n := 0
	for _, list := range root.Content {
		for _, item := range resolved(list).Content {
			n += len(resolved(item).Value) + 1
		}
	}
	return n
}

// isObject reports whether it is a Kubernetes object, and not the bare map, whose keys are numbers.
func isObject(n *yaml.Node) bool {
	return child(n, "kind") != nil || child(n, "apiVersion") != nil || child(n, "data") != nil
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil {
		return nil
	}
	n = resolved(n)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolved(n.Content[i+1])
		}
	}
	return nil
}

// resolved follows an alias to the node it stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// scalar is how an error message shows a node.
func scalar(n *yaml.Node) string {
	switch {
	case n == nil:
		return ""
	case n.Kind == yaml.ScalarNode:
		return n.Value
	case n.Kind == yaml.SequenceNode:
		return fmt.Sprintf("a list of %d", len(n.Content))
	default:
		return "a map"
	}
}
