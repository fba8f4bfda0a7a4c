package document

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// Naming is how objects of a kind are named: name or namespace/name, with or without the kind before
// them, as for kubectl.
type Naming struct {
	// Kind is the kind as it is written in errors.
	Kind string
	// Prefixes are how a name may begin, in lower case and with the slash, such as "ews/".
	Prefixes []string
	// Get is a command that prints such objects, and those that belong to them.
	Get string
}

// HasKind reports whether a name begins with the kind, as in ews/web.
func (n Naming) HasKind(name string) bool { return n.short(name) != name }

func (n Naming) short(name string) string {
	for _, prefix := range n.Prefixes {
		if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return name[len(prefix):]
		}
	}
	return name
}

// UnknownName is returned for a name that no object has.
type UnknownName struct {
	Kind, Name string
	Nearest    []string
	Among      int // how many there are
}

func (e *UnknownName) Error() string {
	text := fmt.Sprintf("no %s %q among %d", e.Kind, e.Name, e.Among)
	if len(e.Nearest) > 0 {
		text += ", did you mean " + strings.Join(e.Nearest, " or ") + "?"
	}
	return text
}

// Object is what has a name.
type Object interface {
	GetName() string
	GetNamespace() string
}

// Choose returns the objects of the names, which are names or namespace/name, in the order in which they
// are given; all without names. The error is an *UnknownName.
func Choose[T Object](n Naming, all []T, names ...string) ([]T, error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, o := range all {
		known = append(known, o.GetName(), o.GetNamespace()+"/"+o.GetName())
	}
	chosen := map[string]bool{}
	for _, name := range names {
		short := n.short(name)
		if !slices.Contains(known, short) {
			return nil, &UnknownName{Kind: n.Kind, Name: short, Nearest: spelling.Nearest(short, known), Among: len(all)}
		}
		chosen[short] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(o T) bool {
		return !chosen[o.GetName()] && !chosen[o.GetNamespace()+"/"+o.GetName()]
	}), nil
}
