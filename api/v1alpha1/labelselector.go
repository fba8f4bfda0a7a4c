package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// LabelSelector selects objects by their labels. In JSON it is the selector of Kubernetes; its schema refuses everything
// that cannot be one, which the schema of that one does not. Whoever uses it says what an empty one means.
//
// +kubebuilder:object:generate=true
// +structType=atomic
type LabelSelector struct {
	// MatchLabels are labels that an object has with these values.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && !format.qualifiedName().validate(k).hasValue())",message="every key must be one of a label",messageExpression="self.filter(k, size(k) > 317 || format.qualifiedName().validate(k).hasValue())[0] + ' is no key of a label'"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// MatchExpressions are what else has to be true of the labels of an object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelSelectorRequirement is one thing that has to be true of the labels of an object.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || has(self.values) && size(self.values) > 0",message="are required when operator is In or NotIn",fieldPath=".values",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",message="are for operator In or NotIn only",fieldPath=".values",reason=FieldValueForbidden
type LabelSelectorRequirement struct {
	// Key of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be the key of a label",messageExpression="'is no key of a label: ' + format.qualifiedName().validate(self).value()[0]"
	Key string `json:"key"`

	// Operator is In, NotIn, Exists or DoesNotExist.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`

	// Values are those that the operators In and NotIn are about; the others have none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Values []LabelValue `json:"values,omitempty"`
}

// LabelValue is the value of a label: empty, or up to 63 letters, digits, '-', '_' and '.', with a letter or digit at either
// end.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// Meta is the selector as the libraries of Kubernetes have it.
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

// AsSelector is the selector ready for use; an empty one matches everything. The error says which key, operator or value is
// wrong; the schema refuses all such.
func (s *LabelSelector) AsSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(s.Meta())
}
