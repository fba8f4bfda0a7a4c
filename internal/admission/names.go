package admission

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// longest is the number of characters of an invalid value that a message shows.
const longest = 80

// Shorten truncates a value that is too long for a message.
func Shorten(value string) string {
	if utf8.RuneCountInString(value) <= longest {
		return value
	}
	return fmt.Sprintf("%s… (%d characters)", string([]rune(value)[:longest]), utf8.RuneCountInString(value))
}

// Labels checks keys and values, in the order of the keys.
func Labels(at *field.Path, labels map[string]string) field.ErrorList {
	var c Checker
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		c.Add(LabelKey(at, key), LabelValue(at.Key(Shorten(key)), labels[key]))
	}
	return c.Errors
}

// LabelKey checks the key of a label or a taint, and returns the first problem or nil.
func LabelKey(at *field.Path, key string) *field.Error {
	if key == "" {
		return field.Required(at, "must be a key such as example.com/pool")
	}
	return first(at, key, validation.IsQualifiedName(key))
}

// LabelValue checks the value of a label or a taint, such as a zone, and returns the first problem
// or nil.
func LabelValue(at *field.Path, value string) *field.Error {
	return first(at, value, validation.IsValidLabelValue(value))
}

func first(at *field.Path, value string, problems []string) *field.Error {
	if len(problems) == 0 {
		return nil
	}
	return field.Invalid(at, Shorten(value), problems[0])
}

// A single error for a value that is not one of those allowed.
func supported[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(at, "must be one of "+list(allowed))}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(at, T(Shorten(string(value))), allowed)}
	}
	return nil
}

func list[T ~string](allowed []T) string {
	text := ""
	for i, value := range allowed {
		if i > 0 {
			text += ", "
		}
		text += string(value)
	}
	return text
}

// objectName checks the name of an object, which every object of a cluster has.
func objectName(at *field.Path, name string) field.ErrorList {
	var c Checker
	if name == "" {
		c.Add(field.Required(at, "an object of a cluster has a name"))
	} else {
		c.Add(first(at, name, validation.IsDNS1123Subdomain(name)))
	}
	return c.Errors
}

var taintEffects = []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}

// Taints checks keys, values and effects.
func Taints(at *field.Path, taints []v1.Taint) field.ErrorList {
	var c Checker
	for i := range taints {
		at := at.Index(i)
		c.Add(LabelKey(at.Child("key"), taints[i].Key), LabelValue(at.Child("value"), taints[i].Value))
		c.Add(supported(at.Child("effect"), taints[i].Effect, taintEffects...)...)
		if slices.ContainsFunc(taints[:i], func(t v1.Taint) bool { return t.MatchTaint(&taints[i]) }) {
			c.Add(field.Duplicate(at, taints[i].Key+":"+string(taints[i].Effect)))
		}
	}
	return c.Errors
}

// Node checks a node of a cluster.
func Node(at *field.Path, n *v1.Node) field.ErrorList {
	return slices.Concat(objectName(at.Child("metadata", "name"), n.Name), Template(at, n))
}

// Template checks a node that represents the nodes of a group and may have no name.
func Template(at *field.Path, n *v1.Node) field.ErrorList {
	return slices.Concat(
		Labels(at.Child("metadata", "labels"), n.Labels),
		Taints(at.Child("spec", "taints"), n.Spec.Taints),
		Amounts(at.Child("status", "capacity"), n.Status.Capacity, OfNode),
		Amounts(at.Child("status", "allocatable"), n.Status.Allocatable, OfNode),
	)
}
