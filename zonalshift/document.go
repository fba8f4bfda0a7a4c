package zonalshift

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// Marks reads a document. The errors have the paths of the fields; with any there are no marks.
func Marks(doc *v1alpha1.ZonalShift) ([]Mark, field.ErrorList) {
	var marks []Mark
	var errs field.ErrorList
	seen := map[Domain]bool{}
	for i := range doc.Spec.Shifts {
		shift, at := &doc.Spec.Shifts[i], field.NewPath("spec", "shifts").Index(i)
		m := Mark{Domain: DomainOf(shift.TopologyKey, shift.Name), Reason: shift.Reason}
		for _, problem := range validation.IsQualifiedName(m.Key) {
			errs = append(errs, field.Invalid(at.Child("topologyKey"), m.Key, problem))
		}
		switch problems := validation.IsValidLabelValue(m.Value); {
		case m.Value == "":
			errs = append(errs, field.Required(at.Child("name"), "needs the name of a zone, or the value of topologyKey"))
		case len(problems) > 0:
			errs = append(errs, field.Invalid(at.Child("name"), m.Value, strings.Join(problems, "; ")))
		case seen[m.Domain]:
			errs = append(errs, field.Duplicate(at.Child("name"), m.Value))
		}
		seen[m.Domain] = true
		if shift.Since != nil {
			m.Since = shift.Since.Time
		}
		if shift.Until != nil {
			m.Until = shift.Until.Time
		}
		if shift.Until != nil && !m.Until.After(m.Since) {
			errs = append(errs, field.Invalid(at.Child("until"), m.Until, "must be after since"))
		}
		marks = append(marks, m)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return marks, nil
}

// UnknownError is returned for a mark of a domain in which no node group is.
type UnknownError struct {
	Domain Domain
	// Known are the domains of that label that exist, sorted.
	Known []string
}

func (e *UnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("unknown %s: nothing has the label %s", e.Domain, e.Domain.Key)
	}
	text := fmt.Sprintf("unknown %s: known are %s", e.Domain, strings.Join(e.Known, ", "))
	if near := spelling.Nearest(e.Domain.Value, e.Known); len(near) > 0 {
		text += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
	}
	return text
}

// Check returns an *UnknownError for the first mark of a domain that is not among those of its
// label; known returns them.
func Check(marks []Mark, known func(key string) []string) error {
	for _, m := range marks {
		if all := known(m.Key); !slices.Contains(all, m.Value) {
			return &UnknownError{m.Domain, all}
		}
	}
	return nil
}
