package placement

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/document"
)

// Dump has the objects of files.
type Dump struct {
	// Sets are in the order of the input.
	Sets []*v1alpha1.FederatedReplicaSet
	// Members are by name.
	Members []*v1alpha1.MemberCluster
}

// Of is the dump of the FederatedReplicaSets and MemberClusters in files. What is wrong with them is a *document.Invalid.
func Of(files *document.Contents) (*Dump, error) {
	d, seen := &Dump{}, map[string]bool{}
	err := document.Check(files.Documents, func(doc *document.Document) field.ErrorList { return d.check(doc, seen) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(d.Members, func(a, b *v1alpha1.MemberCluster) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
}

// check adds an object, and returns the errors in it and in the old annotations of a FederatedReplicaSet.
func (d *Dump) check(doc *document.Document, seen map[string]bool) (errs field.ErrorList) {
	name := doc.Name
	switch o := doc.Object.(type) {
	case *v1alpha1.FederatedReplicaSet:
		if o.Namespace == "" {
			o.Namespace = "default"
		}
		name = o.Namespace + "/" + o.Name
		errs = federation.Validate(&o.Spec)
		if _, _, err := federation.Named(federation.Input{Annotations: o.Annotations, Spec: o.Spec}); err != nil && len(errs) == 0 {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations"), field.OmitValueType{}, err.Error()))
		}
		d.Sets = append(d.Sets, o)
	case *v1alpha1.MemberCluster:
		d.Members = append(d.Members, o)
	default:
		return nil
	}
	at := field.NewPath("metadata", "name")
	switch {
	case doc.Name == "":
		errs = append(errs, field.Required(at, "must be the name of the "+doc.Kind))
	case seen[doc.Kind+name]:
		errs = append(errs, field.Duplicate(at, name))
	}
	seen[doc.Kind+name] = true
	return errs
}

// Naming is how FederatedReplicaSets are named.
var Naming = document.Naming{
	Kind: v1alpha1.KindFederatedReplicaSet, Prefixes: []string{"frs/", "federatedreplicaset/", "federatedreplicasets/",
		"federatedreplicasets.evenkeel.dev/"},
	Get: "kubectl get frs,memberclusters -A -o yaml",
}
