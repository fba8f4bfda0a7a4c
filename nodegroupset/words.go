package nodegroupset

import (
	"fmt"
	"strings"
)

// words names the field of a difference as a person would.
func (d Difference) words() string {
	for prefix, noun := range map[string]string{"labels[": "label ", "taints[": "taint "} {
		if key, found := strings.CutPrefix(d.Field, prefix); found {
			return noun + strings.TrimSuffix(key, "]")
		}
	}
	return strings.Replace(d.Field, ".", " ", 1)
}

// String describes a difference: "label team-pool: a against b".
func (d Difference) String() string {
	text := d.words() + ": " + d.Values()
	if d.Ratio != "" {
		text += fmt.Sprintf(" (ratio %s, limit %s)", d.Ratio, d.Limit)
	}
	return text
}

// Values describes both values: "a against b", with "none" for one that is missing.
func (d Difference) Values() string {
	return side(d.Left) + " against " + side(d.Right)
}

func side(value *string) string {
	switch {
	case value == nil:
		return "none"
	case *value == "":
		return `""`
	}
	return *value
}

// DiffersBy describes two differences, or of more the first and how many
// there are besides. It is empty if there is none.
func DiffersBy(differences []Difference) string {
	switch len(differences) {
	case 0:
		return ""
	case 1:
		return "differs by " + differences[0].String()
	case 2:
		return "differs by " + differences[0].String() + " and " + differences[1].String()
	}
	return fmt.Sprintf("differs by %s and %d more", differences[0], len(differences)-1)
}
