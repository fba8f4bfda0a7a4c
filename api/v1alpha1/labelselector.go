package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// LabelSelector selects objects by their labels. In JSON it is the LabelSelector of Kubernetes, but
// its schema refuses invalid selectors. The type that uses it defines what an empty selector means.
//
// +kubebuilder:object:generate=true
// +structType=atomic
type LabelSelector struct {
	// MatchLabels are labels that an object must have with these values.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && !format.qualifiedName().validate(k).hasValue())",message="every key must be a label key",messageExpression="self.filter(k, size(k) > 317 || format.qualifiedName().validate(k).hasValue())[0] + ' is not a label key'"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// MatchExpressions are further requirements on the labels of an object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelSelectorRequirement is a requirement on the labels of an object.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || has(self.values) && size(self.values) > 0",message="are required when operator is In or NotIn",fieldPath=".values",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",message="are for operator In or NotIn only",fieldPath=".values",reason=FieldValueForbidden
type LabelSelectorRequirement struct {
	// Key of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a label key",messageExpression="'is not a label key: ' + format.qualifiedName().validate(self).value()[0]"
	Key string `json:"key"`

	// Operator is In, NotIn, Exists or DoesNotExist.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`

	// Values are the values of the operators In and NotIn; the other operators have none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Values []LabelValue `json:"values,omitempty"`
}

// LabelValue is the value of a label: empty, or up to 63 letters, digits, '-', '_' and '.',
// beginning and ending with a letter or digit.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// Meta returns the selector as the type of package metav1.
func (s *LabelSelector) Meta() *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	if s.MatchLabels != nil {
		out.MatchLabels = make(map[string]string, len(s.MatchLabels))
	}
	for key, value := range s.MatchLabels {
		out.MatchLabels[key] = string(value)
	}
	for _, e := range s.MatchExpressions {
		requirement := metav1.LabelSelectorRequirement{Key: e.Key, Operator: e.Operator}
		for _, value := range e.Values {
			requirement.Values = append(requirement.Values, string(value))
		}
		out.MatchExpressions = append(out.MatchExpressions, requirement)
	}
	return out
}

// AsSelector returns the selector as a labels.Selector; an empty one matches everything. The error
// names the invalid key, operator or value, which the schema refuses, too.
func (s *LabelSelector) AsSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(s.Meta())
}

// Query returns the selector as a query parameter; empty if the selector is invalid.
func (s *LabelSelector) Query() string {
	selector, err := s.AsSelector()
	if err != nil {
		return ""
	}
	return selector.String()
}
