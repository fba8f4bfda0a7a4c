package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Validate returns all errors of a planning document, a pointer to one of the kinds of v1alpha1.
// A document without errors has an answer.
func Validate(document any) field.ErrorList {
	errs, _ := ask(document)
	return errs
}

// Answer returns the status of a planning document, a pointer to the status type of its kind. The
// document is not changed, and its current status is ignored. The error has the errors of Validate.
func Answer(document any) (any, error) {
	errs, answer := ask(document)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return answer()
}

// ask returns the errors of a document, and what answers one without errors.
func ask(document any) (errs field.ErrorList, answer func() (any, error)) {
	switch d := document.(type) {
	case *v1alpha1.NodeGroupSplit:
		return validateSplit(&d.Spec), func() (any, error) { return split(&d.Spec) }
	case *v1alpha1.NodeGroupSimilarity:
		return validateSimilarity(&d.Spec), func() (any, error) { return similarity(&d.Spec) }
	case *v1alpha1.ReplicaDistribution:
		return validateDistribution(&d.Spec), func() (any, error) { return distribution(&d.Spec) }
	case *v1alpha1.SpreadSplit:
		return validateSpreadSplit(&d.Spec), func() (any, error) { return spreadSplit(&d.Spec) }
	case *v1alpha1.TopologySpread:
		return validateSpread(&d.Spec), func() (any, error) { return spread(&d.Spec) }
	}
	return nil, func() (any, error) { return nil, fmt.Errorf("%T is not a planning document", document) }
}

// Idle returns the paths of those options of a planning document that have no effect on its answer.
// They are not errors.
func Idle(document any) []error {
	var all []error
	idle := func(given bool, path, detail string) {
		if given {
			all = append(all, fmt.Errorf("%s: has no effect %s", spec.Child(path), detail))
		}
	}
	if d, ok := document.(*v1alpha1.ReplicaDistribution); ok {
		s := &d.Spec
		ordered := s.Policy == v1alpha1.DistributePriority
		idle(ordered && s.Rounding != "", "rounding", "under policy Priority")
		idle(ordered && s.MinMode != "", "minMode", "under policy Priority")
		idle(ordered && s.TieBreak != "", "tieBreak", "under policy Priority")
		idle(s.Key != "" && (ordered || s.TieBreak != v1alpha1.TieByHash), "key", "without tieBreak Hash and policy Proportional")
	}
	return all
}
