package grouppolicy

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/followed"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// maxSize is the greatest size of a file of policies in bytes.
const maxSize = 1 << 20

// Sets is the path of the sets in a document.
var Sets = field.NewPath("spec", "sets")

// Parse reads one document of kind NodeGroupPolicies. Name is that of its file. The error for an
// invalid one is a *document.Invalid that lists every problem.
func Parse(name string, content []byte) (declared *v1alpha1.NodeGroupPolicies, policies []nodegroupset.SetPolicy, err error) {
	declared, err = document.Only(name, content, maxSize, func(d *v1alpha1.NodeGroupPolicies) (errs field.ErrorList) {
		policies, errs = Convert(d.Spec.Sets, Sets)
		return errs
	})
	if err != nil {
		return nil, nil, err
	}
	return declared, policies, nil
}

// Suit checks that the policies of a file suit the groups there are, given the nodes of their
// templates. The error is a *document.Invalid that has the path of the field.
func Suit(name string, policies []nodegroupset.SetPolicy, nodes map[string]*v1.Node) error {
	if err := nodegroupset.CheckPolicies(policies, nodes); err != nil {
		return &document.Invalid{Problems: []document.Problem{{File: name, Document: 1, Err: Unsuitable(err, Sets)}}}
	}
	return nil
}

// Read reads the policies of a file.
func Read(open document.Open, name string) (*v1alpha1.NodeGroupPolicies, []nodegroupset.SetPolicy, error) {
	content, err := open.Text(name, maxSize)
	if err != nil {
		return nil, nil, err
	}
	return Parse(name, content)
}

// File is a file of policies that is read again when it changes.
type File = followed.File[[]nodegroupset.SetPolicy]

// Open reads a file of policies for the first time.
func Open(name string) (*File, []nodegroupset.SetPolicy, error) {
	return followed.Open(name, func(name string, content []byte) ([]nodegroupset.SetPolicy, error) {
		_, policies, err := Parse(name, content)
		return policies, err
	})
}
