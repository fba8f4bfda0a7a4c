package zonemarks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
func Parse(name string, text []byte) (*v1alpha1.ZonalShift, []zonalshift.Mark, error) {
	if text == nil {
		return New(), nil, nil
	}
	docs, err := document.Read(name, bytes.NewReader(text), document.Options{
		MaxSize: MaxSize,
		Kinds:   document.Kinds{v1alpha1.ZonalShift{}},
	})
	if err != nil {
		return nil, nil, err
	}
	if len(docs) > 1 {
		return nil, nil, &document.Invalid{Problems: docs[1].Refuse(errors.New("must be the only document"))}
	}
	doc, ok := docs[0].Object.(*v1alpha1.ZonalShift)
	if !ok {
		return nil, nil, fmt.Errorf("%s: not a %s", name, v1alpha1.KindZonalShift)
	}
	marks, errs := zonalshift.Marks(doc)
	if len(errs) > 0 {
		all := make([]error, len(errs))
		for i, err := range errs {
			all[i] = err
		}
		return nil, nil, &document.Invalid{Problems: docs[0].Refuse(all...)}
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
