package plan

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
)

// checks collects errors.
type checks struct{ admission.Checker }

// required checks a count that must be given.
func (c *checks) required(at *field.Path, n *int64) {
	if n == nil {
		c.Add(field.Required(at, "must be an integer"))
	}
	c.count(at, n)
}

// count checks a number of nodes or replicas, if it is given.
func (c *checks) count(at *field.Path, n *int64) {
	if c.weight(at, n); n != nil && *n > v1alpha1.MaxCount {
		c.Add(field.Invalid(at, *n, "must be at most 2147483647"))
	}
}

// weight checks a number without an upper bound, if it is given.
func (c *checks) weight(at *field.Path, n *int64) {
	if n != nil && *n < 0 {
		c.Add(field.Invalid(at, *n, "must not be negative"))
	}
}

// absent checks that a number is not given.
func (c *checks) absent(at *field.Path, n *int64, why string) {
	if n != nil {
		c.Add(field.Forbidden(at, why))
	}
}

// bounds checks that min is not greater than max. The error is reported at min.
func (c *checks) bounds(at *field.Path, least, most *int64) {
	if least != nil && most != nil && *most >= 0 && *least > *most {
		c.Add(field.Invalid(at, *least, "must not be greater than max"))
	}
}

// maxName is the maximum length of the name of a group or target in characters, as for any object.
const maxName = 253

// names checks that names are given, unique and printable.
type names map[string]bool

func (seen names) check(c *checks, at *field.Path, name string) {
	switch {
	case name == "":
		c.Add(field.Required(at, "must be a name"))
	case seen[name]:
		c.Add(field.Duplicate(at, admission.Shorten(name)))
	case utf8.RuneCountInString(name) > maxName:
		c.Add(field.Invalid(at, admission.Shorten(name), fmt.Sprintf("must be at most %d characters", maxName)))
	case strings.ContainsFunc(name, unicode.IsControl):
		c.Add(field.Invalid(at, name, "must have no control characters"))
	}
	seen[name] = true
}

var spec = field.NewPath("spec")
