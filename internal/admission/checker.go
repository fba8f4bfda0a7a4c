package admission

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Checker collects the errors in an object.
type Checker struct{ Errors field.ErrorList }

// Add adds errors that are not nil.
func (c *Checker) Add(errs ...*field.Error) {
	for _, err := range errs {
		if err != nil {
			c.Errors = append(c.Errors, err)
		}
	}
}

// NotNegative checks a number that may be missing.
func (c *Checker) NotNegative(at *field.Path, n *int32) {
	if n != nil && *n < 0 {
		c.Add(field.Invalid(at, *n, "must not be negative"))
	}
}

// AtLeastOne checks a number that may be missing.
func (c *Checker) AtLeastOne(at *field.Path, n *int32) {
	if n != nil && *n < 1 {
		c.Add(field.Invalid(at, *n, "must be 1 or more"))
	}
}

// Within checks a number that may be missing.
func (c *Checker) Within(at *field.Path, n *int32, low, high int32) {
	if n != nil && *n < low {
		c.Add(field.Invalid(at, *n, fmt.Sprintf("must be greater than or equal to %d", low)))
	}
	if n != nil && *n > high {
		c.Add(field.Invalid(at, *n, fmt.Sprintf("must be less than or equal to %d", high)))
	}
}

// Selector checks a label selector that must not be empty, and reports whether it can be used.
func (c *Checker) Selector(at *field.Path, s *metav1.LabelSelector) (ok bool) {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		c.Add(field.Required(at, "must not be empty"))
		return false
	}
	errs := validation.ValidateLabelSelector(s, validation.LabelSelectorValidationOptions{}, at)
	c.Errors = append(c.Errors, errs...)
	return len(errs) == 0
}

// Duration checks a time that may be missing.
func (c *Checker) Duration(at *field.Path, d *metav1.Duration) {
	if d != nil && d.Duration < 0 {
		c.Add(field.Invalid(at, d.Duration.String(), "must not be negative"))
	}
}

// Period checks a time from which on something is so, and until when if that is not forever.
func (c *Checker) Period(at *field.Path, from metav1.Duration, until *metav1.Duration) {
	c.Duration(at.Child("from"), &from)
	if until != nil && until.Duration <= from.Duration {
		c.Add(field.Invalid(at.Child("until"), until.Duration.String(), "must be after from"))
	}
}

// Named records a name by its key, and reports an error if it is missing or taken.
func (c *Checker) Named(at *field.Path, name, key string, seen sets.Set[string]) (ok bool) {
	switch {
	case name == "":
		c.Add(field.Required(at, "needs a name"))
	case seen.Has(key):
		c.Add(field.Duplicate(at, name))
	default:
		ok = true
	}
	seen.Insert(key)
	return ok
}

// Bounds checks that a minReplicas is not greater than the maxReplicas beside it.
func (c *Checker) Bounds(at *field.Path, least, most *int32) {
	if least != nil && most != nil && *least > *most {
		c.Add(field.Invalid(at.Child("minReplicas"), *least, "must not be greater than maxReplicas"))
	}
}

// Time checks a time that is needed for something to happen.
func (c *Checker) Time(at *field.Path, d metav1.Duration) {
	if d.Seconds() < 1 {
		c.Add(field.Invalid(at, d.Duration.String(), "must be 1s or more"))
	}
}

// Each checks the items of a list.
func Each[T any](at *field.Path, list []T, check func(*T, *field.Path)) {
	for i := range list {
		check(&list[i], at.Index(i))
	}
}

// Option checks an option; the empty value is its default.
func Option[T ~string](c *Checker, at *field.Path, value T, known ...T) {
	if value != "" && !slices.Contains(known, value) {
		c.Add(field.NotSupported(at, value, known))
	}
}
