package zonemarks

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// MaxSize is the greatest size of a text in bytes.
const MaxSize = 1 << 20

// New returns a document that shifts nothing away.
func New() *v1alpha1.ZonalShift {
	return &v1alpha1.ZonalShift{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindZonalShift}}
}

// Parse reads a text; the name is for messages. No text, nil, shifts nothing away. An empty one is
// refused, since somebody may be writing it. The error is a *document.Invalid with every problem
// found.
func Parse(name string, text []byte) (doc *v1alpha1.ZonalShift, marks []zonalshift.Mark, err error) {
	if text == nil {
		return New(), nil, nil
	}
	doc, err = document.Only(name, text, MaxSize, func(d *v1alpha1.ZonalShift) (errs field.ErrorList) {
		marks, errs = zonalshift.Marks(d)
		return errs
	})
	if err != nil {
		return nil, nil, err
	}
	return doc, marks, nil
}

// Format returns the text of a document.
func Format(doc *v1alpha1.ZonalShift) ([]byte, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return document.ToYAML(text)
}
