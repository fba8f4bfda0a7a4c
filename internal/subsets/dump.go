package subsets

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// Dump has the objects of files.
type Dump struct {
	// Spreads are in the order of the input.
	Spreads []*v1alpha1.WorkloadSpread

	files   *document.Contents
	targets map[string]metav1.Object // ReplicaSets and others of the kinds of targets, by kind, namespace and name
	pods    []*v1.Pod                // of the workloads
	nodes   map[string]*v1.Node
	events  []v1.Event
	status  *provisioning.Status
	notes   []string
	at      time.Time // the latest in nodes and events
}

// Of is the dump of the WorkloadSpreads in files, with the objects beside them. What is wrong with them is a *document.Invalid.
func Of(files *document.Contents) (*Dump, error) {
	d := &Dump{files: files, targets: map[string]metav1.Object{}, nodes: map[string]*v1.Node{}}
	if err := cmp.Or(document.Check(files.Documents, d.check), files.Wrong); err != nil {
		return nil, err
	}
	isPod := func(kind string) bool { return kind == "Pod" }
	for _, wanted := range []func(string) bool{func(kind string) bool { return !isPod(kind) }, isPod} { // whose pods they are is known first
		for item, err := range d.objects(wanted) {
			if err != nil {
				return nil, err
			}
			d.add(item)
		}
	}
	d.at = document.Latest(d.events, slices.Collect(maps.Values(d.nodes))) // a kubelet says several times a minute that it is there
	return d, nil
}

// Objects are all others of kinds that package document knows. They are not held.
func (d *Dump) Objects() iter.Seq2[document.Item, error] { return d.objects(nil) }

func (d *Dump) objects(wanted func(kind string) bool) iter.Seq2[document.Item, error] {
	return func(yield func(document.Item, error) bool) {
		for item, err := range d.files.Objects.All(wanted) {
			if object, ok := item.Object.(metav1.Object); ok && object.GetNamespace() == "" && item.Kind != "Node" {
				object.SetNamespace(metav1.NamespaceDefault)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

func targetKey(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// add keeps what explains a WorkloadSpread.
func (d *Dump) add(item document.Item) {
	o := item.Object.(metav1.Object)
	isTarget := func(s *v1alpha1.WorkloadSpread) bool {
		return item.Kind == "ReplicaSet" || item.Kind == s.Spec.TargetRef.Kind
	}
	if key := targetKey(item.Kind, o.GetNamespace(), o.GetName()); d.targets[key] == nil && slices.ContainsFunc(d.Spreads, isTarget) {
		d.targets[key] = o
	}
	switch o := item.Object.(type) {
	case *v1.Pod:
		if slices.ContainsFunc(d.Spreads, func(s *v1alpha1.WorkloadSpread) bool { return d.isOf(s, o) }) {
			d.pods = append(d.pods, o)
		}
	case *v1.Node:
		document.Lean(o)
		d.nodes[o.Name] = o
	case *v1.Event:
		d.events = append(d.events, *o)
	case *v1.ConfigMap:
		if o.Name != provisioning.StatusConfigMap {
			return
		}
		status, err := provisioning.ParseStatus(o.Data[provisioning.StatusKey])
		if err != nil {
			d.notes = append(d.notes, fmt.Sprintf("ConfigMap %s is passed over: %v", o.Name, err))
			return
		}
		d.status = &status
	}
}

// check adds a WorkloadSpread, and returns the errors in it.
func (d *Dump) check(doc *document.Document) (errs field.ErrorList) {
	object, ok := doc.Object.(*v1alpha1.WorkloadSpread)
	if !ok {
		return nil
	}
	if object.Namespace == "" {
		object.Namespace = metav1.NamespaceDefault
	}
	if object.Name == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), "must be the name of the WorkloadSpread"))
	}
	errs = append(errs, workloadspread.Validate(&object.Spec, nil)...)
	var others []v1alpha1.WorkloadSpread
	for _, other := range d.Spreads {
		switch {
		case other.Namespace != object.Namespace:
		case other.Name == object.Name && object.Name != "":
			errs = append(errs, field.Duplicate(field.NewPath("metadata", "name"), object.Namespace+"/"+object.Name))
		default:
			others = append(others, *other)
		}
	}
	d.Spreads = append(d.Spreads, object)
	return append(errs, workloadspread.ValidateTarget(object, others)...)
}

// Naming is how WorkloadSpreads are named.
var Naming = document.Naming{
	Kind: v1alpha1.KindWorkloadSpread, Prefixes: []string{"ews/", "workloadspread/", "workloadspreads/", "workloadspreads.evenkeel.dev/"},
	Get: "kubectl get ews,deployments,replicasets,statefulsets,jobs,pods,nodes,events -o yaml",
}
