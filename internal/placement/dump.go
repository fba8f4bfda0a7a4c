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

// Read reads the FederatedReplicaSets and MemberClusters of files and folders, and
// passes over all other objects. What is wrong in them is a *document.Invalid.
func Read(files []string, open document.Open, maxSize int64) (*Dump, error) {
	docs, err := document.ReadFiles(files, open, document.Options{
		Kinds: document.Kinds{v1alpha1.FederatedReplicaSet{}, v1alpha1.MemberCluster{}}, AmongOthers: true, MaxSize: maxSize,
	})
	if err != nil {
		return nil, err
	}
	d := &Dump{}
	var problems []document.Problem
	seen := map[string]bool{}
	for i := range docs {
		doc := &docs[i]
		var name string
		switch o := doc.Object.(type) {
		case *v1alpha1.FederatedReplicaSet:
			if o.Namespace == "" {
				o.Namespace = "default"
			}
			name = o.Namespace + "/" + o.Name
			problems = append(problems, doc.Refuse(check(o)...)...)
			d.Sets = append(d.Sets, o)
		case *v1alpha1.MemberCluster:
			name = o.Name
			d.Members = append(d.Members, o)
		}
		at := field.NewPath("metadata", "name")
		switch {
		case doc.Name == "":
			problems = append(problems, doc.Refuse(field.Required(at, "must be the name of the "+doc.Kind))...)
		case seen[doc.Kind+name]:
			problems = append(problems, doc.Refuse(field.Duplicate(at, name))...)
		}
		seen[doc.Kind+name] = true
	}
	if len(problems) > 0 {
		return nil, &document.Invalid{Problems: problems}
	}
	slices.SortFunc(d.Members, func(a, b *v1alpha1.MemberCluster) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
}

// check returns the errors in the spec of a FederatedReplicaSet, and in its old annotations.
func check(f *v1alpha1.FederatedReplicaSet) (errs []error) {
	for _, err := range federation.Validate(&f.Spec) {
		errs = append(errs, err)
	}
	if _, _, err := federation.Named(federation.Input{Annotations: f.Annotations, Spec: f.Spec}); err != nil && len(errs) == 0 {
		errs = append(errs, err)
	}
	return errs
}

// Naming is how FederatedReplicaSets are named.
var Naming = document.Naming{
	Kind: v1alpha1.KindFederatedReplicaSet, Prefixes: []string{"frs/", "federatedreplicaset/", "federatedreplicasets/", "federatedreplicasets.evenkeel.dev/"},
	Get: "kubectl get frs,memberclusters -A -o yaml",
}
