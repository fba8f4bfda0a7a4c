package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/predicates"
)

// Annotations of node templates, as Cluster Autoscaler's kwok provider has them.
const (
	annotationName = "cluster-autoscaler.kwok.nodegroup/name"
	annotationMin  = "cluster-autoscaler.kwok.nodegroup/min-count"
	annotationMax  = "cluster-autoscaler.kwok.nodegroup/max-count"
	annotationSize = "cluster-autoscaler.kwok.nodegroup/desired-count"
)

// reading opens and reads a file: problems of the file or its name are collected, and only a
// failure to read is an error.
func (l *loader) reading(name string, at *field.Path, read func(file string, r io.Reader, inFolder bool) error) error {
	return l.unread(name, at, l.files.Open.Each(name, func(file string, r io.Reader, inFolder bool) error {
		return read(file, l.files.watched(file, r), inFolder)
	}))
}

// unread classifies the error of a file, if there is one.
func (l *loader) unread(name string, at *field.Path, err error) error {
	var invalid *document.Invalid
	var unreadable *fs.PathError
	switch {
	case errors.As(err, &invalid):
		for _, p := range invalid.Problems {
			l.problems = append(l.problems, l.document.Refuse(&inFile{at, name, p})...)
		}
	case errors.Is(err, fs.ErrNotExist):
		l.add(field.Invalid(at, name, "no such file"))
	case errors.As(err, &unreadable) && unreadable.Op == "open":
		l.add(field.Invalid(at, name, "cannot be opened: "+unreadable.Err.Error()))
	case errors.As(err, &unreadable):
		l.add(field.Invalid(at, name, "cannot be read: "+unreadable.Err.Error()))
	default:
		return err
	}
	return nil
}

// inFile is a problem of a file that the document names.
type inFile struct {
	at      *field.Path // that names the file
	name    string
	problem document.Problem
}

func (e *inFile) Error() string {
	return fmt.Sprintf("%s: Invalid value: %q: %s", e.at, e.name, e.problem.InFile())
}

func (e *inFile) Unwrap() error { return e.problem.Err }

// objects reads the objects of type T of a file; there must be at least one.
func objects[T any](l *loader, name string, at *field.Path, each func(T)) error {
	if name == inlineObjects {
		at = specPath.Child("objects")
	}
	found, items, problems := 0, 0, len(l.problems)
	take := func(item document.Item) {
		items++
		if class, ok := item.Object.(*schedulingv1.PriorityClass); ok && class.GlobalDefault {
			l.general = class
		}
		l.objects.add(item.Object)
		if object, ok := item.Object.(T); ok {
			found++
			each(object)
		}
	}
	if name == inlineObjects && l.files.Objects != nil {
		return l.given(kindOf(*new(T)), take)
	}
	err := l.reading(name, at, func(file string, r io.Reader, isFolder bool) error {
		for item, err := range document.Objects(file, r, document.StreamOptions{MaxSize: l.files.MaxSize}) {
			if isFolder && errors.Is(err, document.ErrSnapshot) {
				return nil
			}
			if err != nil {
				return l.unread(file, at, err)
			}
			take(item)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case len(l.problems) > problems || name == inlineObjects: // of which any kind will do
	case items == 0:
		l.add(field.Invalid(at, name, fmt.Sprintf("the list in %s has no items", name)))
	case found == 0:
		var wanted T
		l.add(field.Invalid(at, name, fmt.Sprintf("holds no %s", kindOf(wanted))))
	}
	return nil
}

// given takes the objects of a kind that the caller gives. Nodes, pods and DaemonSets are taken one kind after the other; what is none
// of them comes with the nodes.
func (l *loader) given(kind string, take func(document.Item)) error {
	other := func(k string) bool { return k != "Node" && k != "Pod" && k != "DaemonSet" }
	for item, err := range l.files.Objects(func(k string) bool { return k == kind || kind == "Node" && other(k) }) {
		if err != nil {
			return err
		}
		take(item)
	}
	return nil
}

// snapshot reads Cluster Autoscaler's debugging snapshot.
func (l *loader) snapshot(name string, at *field.Path) (*document.Snapshot, error) {
	var s *document.Snapshot
	err := l.reading(name, at, func(file string, r io.Reader, _ bool) (err error) {
		s, err = document.ReadSnapshot(file, r, document.StreamOptions{MaxSize: l.files.MaxSize})
		return err
	})
	if s == nil {
		s = &document.Snapshot{}
	}
	return s, err
}

// fileField is the field that names a file.
func fileField(from *v1alpha1.FileSource, at *field.Path) *field.Path {
	switch {
	case from.Snapshot != "":
		return at.Child("snapshot")
	case from.File == inlineObjects:
		return specPath.Child("objects")
	}
	return at.Child("file")
}

// read reads the objects of type T of a file or, if they are nodes or pods, of a snapshot.
func read[T any](l *loader, from *v1alpha1.FileSource, at *field.Path, each func(T)) error {
	if from.Snapshot == "" {
		return objects(l, from.File, at.Child("file"), each)
	}
	s, err := l.snapshot(from.Snapshot, at.Child("snapshot"))
	for _, n := range s.Nodes {
		switch each := any(each).(type) {
		case func(*v1.Node):
			each(n.Node)
		case func(*v1.Pod):
			for _, p := range n.Pods {
				each(p)
			}
		}
	}
	return err
}

// groupTemplate is what a file says of one node group.
type groupTemplate struct {
	group    string
	template cloudprovider.Template
}

// templates reads the node groups of a file by name.
func (l *loader) templates(from *v1alpha1.NodeGroupsSource, at *field.Path) (found []groupTemplate, err error) {
	add := func(group string, node *v1.Node, pods []*v1.Pod) {
		found = append(found, groupTemplate{group, cloudprovider.Template{Node: node, Pods: pods}})
	}
	if from.Snapshot == "" {
		at = at.Child("file")
		var nodes []*v1.Node
		err = objects(l, from.File, at, func(n *v1.Node) { nodes = append(nodes, n) })
		for i, label := range l.groupLabel.Names(nodes) {
			add(cmp.Or(nodes[i].Annotations[annotationName], label, nodes[i].Name), nodes[i], nil)
		}
	} else {
		at = at.Child("snapshot")
		var s *document.Snapshot
		s, err = l.snapshot(from.Snapshot, at)
		for group, t := range s.Templates {
			add(group, t.Node, t.Pods)
		}
	}
	slices.SortStableFunc(found, func(a, b groupTemplate) int { return strings.Compare(a.group, b.group) })
	return found, err
}

// bounds sets the group's sizes, preferring those of the scenario over those of the file.
func (t *groupTemplate) bounds(g *fake.Group, from *v1alpha1.NodeGroupsSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	pick := func(annotation string, given *int32) (int, bool) {
		text, annotated := t.template.Node.Annotations[annotation]
		switch {
		case given != nil:
			return int(*given), true
		case !annotated:
			return 0, false
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			errs = append(errs, field.Invalid(at, text, fmt.Sprintf("annotation %s of node group %s must be a number that is not negative",
				annotation, t.group)))
		}
		return int(n), true
	}
	g.MinSize, _ = pick(annotationMin, from.Min)
	most, bounded := pick(annotationMax, from.Max)
	g.MaxSize = most
	g.Size, _ = pick(annotationSize, from.Size)
	switch {
	case len(errs) > 0:
	case !bounded:
		errs = append(errs, field.Required(at.Child("max"), fmt.Sprintf("node group %s has no maximum in the file", t.group)))
	case g.MaxSize < g.MinSize:
		errs = append(errs, field.Invalid(at, most, fmt.Sprintf("the maximum of node group %s must not be below its minimum of %d", t.group,
			g.MinSize)))
	}
	return errs
}

// capacity checks that the template can run pods.
func (t *groupTemplate) capacity(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods} {
		switch quantity, listed := t.template.Node.Status.Capacity[name]; {
		case !listed || quantity.IsZero():
			errs = append(errs, field.Required(at, fmt.Sprintf("status.capacity[%s] of the template of node group %s", name, t.group)))
		case quantity.Sign() < 0:
			errs = append(errs, field.Invalid(at, quantity.String(),
				fmt.Sprintf("status.capacity[%s] of the template of node group %s must not be negative", name, t.group)))
		}
	}
	return errs
}

// readScheduler reads the configuration of the scheduler, if there is one.
func (l *loader) readScheduler() error {
	given, at := l.spec.Options.SchedulerConfig, specPath.Child("options", "schedulerConfig")
	if given == nil {
		return nil
	}
	config := []byte(given.Object)
	var shown any = field.OmitValueType{}
	if given.File != "" {
		shown = given.File
		var err error
		if config, err = l.files.Open.Text(given.File, maxSchedulerConfig); err != nil {
			return l.unread(given.File, at, err)
		}
	}
	if err := predicates.CheckConfiguration(config); err != nil {
		l.add(field.Invalid(at, shown, err.Error()))
	}
	l.setup.SchedulerConfig = config
	return nil
}

// maxSchedulerConfig is the greatest size of a configuration that is read, in bytes.
const maxSchedulerConfig = 1 << 20
