package subsets

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
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
	// Objects are all others of kinds that package document knows.
	Objects []document.Item

	pods   map[string][]*v1.Pod // by namespace
	nodes  map[string]*v1.Node
	events []v1.Event
	status *provisioning.Status
	notes  []string
	at     time.Time // the latest in nodes and events
}

// Kinds reads which objects the files have: whether there is a WorkloadSpread, and whether there is a document of another
// kind that the caller asks for. Files without the word are not parsed, as most are scenarios that will be.
func Kinds(files []string, open document.Open, maxSize int64, other string) (spreads, others bool) {
	found := func(item document.Item) {
		if strings.HasPrefix(item.APIVersion, v1alpha1.Group+"/") {
			spreads = spreads || item.Kind == v1alpha1.KindWorkloadSpread
			others = others || item.Kind == other
		}
	}
	for _, file := range files { // what is wrong is found again when the files are read
		mentioned := false
		_ = open.Each(file, func(_ string, r io.Reader, _ bool) error {
			text, err := document.Text(r, maxSize)
			mentioned = mentioned || bytes.Contains(text, []byte(v1alpha1.KindWorkloadSpread))
			return err
		})
		if mentioned {
			_ = each([]string{file}, open, maxSize, found)
		}
	}
	return spreads, others
}

// each calls a function for every object of the files.
func each(files []string, open document.Open, maxSize int64, take func(document.Item)) error {
	for _, file := range files {
		err := open.Each(file, func(title string, r io.Reader, _ bool) error {
			for item, err := range document.Objects(title, r, document.StreamOptions{MaxSize: maxSize}) {
				if err != nil {
					return err
				}
				take(item)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Read reads the WorkloadSpreads of files and folders, and the objects beside them; what it opens is read twice. What is
// wrong in them is a *document.Invalid.
func Read(files []string, open document.Open, maxSize int64) (*Dump, error) {
	d := &Dump{pods: map[string][]*v1.Pod{}, nodes: map[string]*v1.Node{}}
	if _, err := document.ReadFiles(files, open, document.Options{
		Kinds:       document.Kinds{v1alpha1.WorkloadSpread{}},
		AmongOthers: true, MaxSize: maxSize, Check: d.check,
	}); err != nil {
		return nil, err
	}
	err := each(files, open, maxSize, d.add)
	d.at = document.Latest(d.events, slices.Collect(maps.Values(d.nodes))) // a kubelet says several times a minute that it is there
	return d, err
}

func (d *Dump) add(item document.Item) {
	if item.Object == nil {
		return
	}
	if object, ok := item.Object.(metav1.Object); ok && object.GetNamespace() == "" {
		if _, isNode := item.Object.(*v1.Node); !isNode {
			object.SetNamespace(metav1.NamespaceDefault)
		}
	}
	d.Objects = append(d.Objects, item)
	switch o := item.Object.(type) {
	case *v1.Pod:
		d.pods[o.Namespace] = append(d.pods[o.Namespace], o)
	case *v1.Node:
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
	object := doc.Object.(*v1alpha1.WorkloadSpread)
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
