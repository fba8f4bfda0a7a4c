package document

import (
	"fmt"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Explanation is a document that explains an object or, without a name, many of them.
type Explanation[S any] struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata,omitzero"`
	Status     S        `json:"status"`
}

// Metadata is the name of the object.
type Metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// Explain explains the objects of the names, as by Choose, each in a document of the kind.
func Explain[T Object, S any](kind string, n Naming, objects []T, names []string, explain func(T) (S, error)) ([]*Explanation[S], error) {
	chosen, err := Choose(n, objects, names...)
	if err != nil {
		return nil, err
	}
	var all []*Explanation[S]
	for _, o := range chosen {
		status, err := explain(o)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", o.GetNamespace(), o.GetName(), err)
		}
		all = append(all, &Explanation[S]{v1alpha1.APIVersion, kind, Metadata{o.GetName(), o.GetNamespace()}, status})
	}
	return all, nil
}
