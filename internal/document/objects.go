package document

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/evenkeel/evenkeel/internal/admission"
)

// Item is one object of a list, or an object on its own.
type Item struct {
	// APIVersion, Kind, Namespace and Name identify it.
	APIVersion, Kind, Namespace, Name string
	// Object is a *v1.Pod, *v1.Node, *v1.Event, *v1.Namespace, *v1.Service, *v1.ReplicationController,
	// *v1.PodTemplate, *v1.PersistentVolume, *v1.PersistentVolumeClaim, *v1.ConfigMap, *CapacityBuffer, *appsv1.DaemonSet,
	// *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.StatefulSet, *batchv1.Job, *batchv1.CronJob, *schedulingv1.PriorityClass, *policyv1.PodDisruptionBudget,
	// *storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver,
	// *storagev1.CSIStorageCapacity or *storagev1.VolumeAttachment; nil for any other kind.
	Object any
}

// supported are the supported kinds, by version and kind, each with a function that returns a new object.
var supported = map[string]func() any{
	"v1/Pod":                               func() any { return new(v1.Pod) },
	"v1/Node":                              func() any { return new(v1.Node) },
	"v1/Event":                             func() any { return new(v1.Event) },
	"v1/Namespace":                         func() any { return new(v1.Namespace) },
	"v1/Service":                           func() any { return new(v1.Service) },
	"v1/ReplicationController":             func() any { return new(v1.ReplicationController) },
	"v1/PodTemplate":                       func() any { return new(v1.PodTemplate) },
	"v1/PersistentVolume":                  func() any { return new(v1.PersistentVolume) },
	"v1/PersistentVolumeClaim":             func() any { return new(v1.PersistentVolumeClaim) },
	"v1/ConfigMap":                         func() any { return new(v1.ConfigMap) },
	"apps/v1/DaemonSet":                    func() any { return new(appsv1.DaemonSet) },
	"scheduling.k8s.io/v1/PriorityClass":   func() any { return new(schedulingv1.PriorityClass) },
	"policy/v1/PodDisruptionBudget":        func() any { return new(policyv1.PodDisruptionBudget) },
	"apps/v1/Deployment":                   func() any { return new(appsv1.Deployment) },
	"batch/v1/Job":                         func() any { return new(batchv1.Job) },
	"batch/v1/CronJob":                     func() any { return new(batchv1.CronJob) },
	"apps/v1/ReplicaSet":                   func() any { return new(appsv1.ReplicaSet) },
	"apps/v1/StatefulSet":                  func() any { return new(appsv1.StatefulSet) },
	"storage.k8s.io/v1/CSIDriver":          func() any { return new(storagev1.CSIDriver) },
	"storage.k8s.io/v1/CSIStorageCapacity": func() any { return new(storagev1.CSIStorageCapacity) },
	"storage.k8s.io/v1/VolumeAttachment":   func() any { return new(storagev1.VolumeAttachment) },
	"storage.k8s.io/v1/StorageClass":       func() any { return new(storagev1.StorageClass) },
	"storage.k8s.io/v1/CSINode":            func() any { return new(storagev1.CSINode) },

	"autoscaling.x-k8s.io/v1beta1/CapacityBuffer":  func() any { return new(CapacityBuffer) },
	"autoscaling.x-k8s.io/v1alpha1/CapacityBuffer": func() any { return new(CapacityBuffer) },
}

// newObject returns a new object of a supported kind, or nil.
func newObject(apiVersion, kind string) func() any { return supported[apiVersion+"/"+kind] }

// refused returns the first error of an API server for an object, or nil.
func refused(object any) error {
	var errs field.ErrorList
	switch o := object.(type) {
	case *v1.Pod:
		errs = admission.Pod(nil, o)
	case *v1.Node:
		errs = admission.Node(nil, o)
	case *appsv1.DaemonSet:
		errs = admission.PodSpec(field.NewPath("spec", "template", "spec"), &o.Spec.Template.Spec)
	case *v1.PodTemplate:
		errs = admission.PodSpec(field.NewPath("template", "spec"), &o.Template.Spec)
	case *v1.PersistentVolumeClaim:
		errs = admission.Claim(field.NewPath("spec"), &o.Spec)
	case *policyv1.PodDisruptionBudget:
		errs = admission.Budget(field.NewPath("spec"), &o.Spec)
	case *v1.PersistentVolume:
		errs = admission.Amounts(field.NewPath("spec", "capacity"), o.Spec.Capacity, admission.OfVolume)
	}
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

// Objects reads the output of kubectl get -o json or -o yaml: one or more lists and objects. Only
// one item of a list is in memory at a time. The name is for messages. The sequence ends with the
// first error, an *Invalid with the item's position, unless reading itself failed.
func Objects(name string, r io.Reader, o StreamOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		s := &objectStream{in: bufio.NewReaderSize(newLimited(r, o), 64<<10), yield: yield, line: 1}
		err := s.all()
		switch {
		case err == nil || errors.Is(err, errStopped):
			return
		case readFailed(err):
			yield(Item{}, fmt.Errorf("%s: %w", name, err))
		default:
			yield(Item{}, &Invalid{[]Problem{{File: name, Document: s.document, Err: err}}})
		}
	}
}

// errStopped ends a stream whose reader has stopped.
var errStopped = errors.New("stopped")

// objectStream reads an input and yields its objects.
type objectStream struct {
	in       *bufio.Reader
	yield    func(Item, error) bool
	document int  // number of the document being read, from 1
	isJSON   bool // what it is
	before   Item // kind and version of the object yielded last
	line     int  // of YAML
	given    int  // items yielded
	again    int  // items to come that were yielded already
}

// give yields an item.
func (s *objectStream) give(item Item) error {
	if s.again > 0 {
		s.again--
		return nil
	}
	s.given++
	if !s.yield(item, nil) {
		return errStopped
	}
	return nil
}

func (s *objectStream) all() error {
	switch begin, _ := s.in.Peek(3); { // fewer at the end
	case bytes.HasPrefix(begin, []byte("\xff\xfe")) || bytes.HasPrefix(begin, []byte("\xfe\xff")):
		return &syntaxError{detail: "is UTF-16 text, as some shells of Windows write: save it as UTF-8"}
	case string(begin) == "\xef\xbb\xbf":
		_, _ = s.in.Discard(3) // all are there
	}
	for {
		wasJSON := s.isJSON
		isJSON, separator, err := s.peekFormat()
		s.isJSON = isJSON
		if errors.Is(err, io.EOF) {
			if s.document == 0 {
				return &syntaxError{detail: "holds no object"}
			}
			return nil
		}
		if err != nil {
			return err
		}
		s.document++
		switch {
		case s.isJSON:
			err = s.json()
		case wasJSON && !separator:
			err = &syntaxError{detail: textAfterJSON}
		default:
			err = s.yaml()
		}
		if err != nil {
			return err
		}
	}
}

// lookAhead is how far the first name of an object is looked for, in bytes.
const lookAhead = 4 << 10

// peekFormat skips blanks, comments after JSON and marker lines, and reports whether what follows
// is JSON and whether a marker was there. The error is io.EOF at the end.
func (s *objectStream) peekFormat() (isJSON, separator bool, err error) {
	for {
		next, err := s.in.Peek(3) // fewer at the end
		if len(next) == 0 {
			return false, separator, err
		}
		switch begin := string(next); {
		case begin == "---", begin == "..." && s.isJSON: // a marker; the rest of it is a blank line or a comment
			separator = true
			_, _ = s.in.Discard(3) // all are there
		case begin[0] == '\n':
			s.line++
			fallthrough
		case strings.IndexByte(blanks, begin[0]) >= 0:
			_, _ = s.in.Discard(1)
		case begin[0] == '#' && s.isJSON && !separator:
			if _, err := readLine(s.in); err != nil {
				return false, separator, err
			}
			s.line++
		case begin[0] == '{' || begin[0] == '[':
			next, _ = s.in.Peek(lookAhead) // fewer at the end
			return looksLikeJSON(next), separator, nil
		default:
			return false, separator, nil
		}
	}
}

// header is the beginning of a list or object.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// item is the header of an item in a list h; lists of one kind leave kind and version out of their
// items.
func (h header) item(i header) header {
	if of, ok := strings.CutSuffix(h.Kind, "List"); ok && of != "" && i.Kind == "" {
		i.Kind, i.APIVersion = of, cmp.Or(i.APIVersion, h.APIVersion)
	}
	return i
}

// who names an object in messages.
func (h header) who() string {
	name := h.Metadata.Name
	if h.Metadata.Namespace != "" {
		name = h.Metadata.Namespace + "/" + name
	}
	return strings.TrimSpace(h.Kind + " " + name)
}

// emit decodes an object and yields it. The place is its position, empty for an object on its own.
func (s *objectStream) emit(place string, h header, decode func(into func() any) (any, error)) error {
	if h.Kind == "" {
		return inItem(place, h, field.Required(field.NewPath("kind"), "must be the kind of a Kubernetes object"))
	}
	if h.APIVersion == "" {
		return inItem(place, h, field.Required(field.NewPath("apiVersion"), "must be the version of a Kubernetes object, such as v1"))
	}
	item := Item{APIVersion: h.APIVersion, Kind: h.Kind, Namespace: h.Metadata.Namespace, Name: h.Metadata.Name}
	if into := newObject(h.APIVersion, h.Kind); into != nil {
		var err error
		if item.Object, err = decode(into); err != nil {
			return inItem(place, h, err)
		}
		if err := refused(item.Object); err != nil {
			return inItem(place, h, err)
		}
	}
	s.before = Item{APIVersion: item.APIVersion, Kind: item.Kind}
	return s.give(item)
}

// inItem adds to an error in which object it is.
func inItem(place string, h header, err error) error {
	switch who := h.who(); {
	case place != "" && who != "":
		return fmt.Errorf("%s (%s): %w", place, who, err)
	case place != "" || who != "":
		return fmt.Errorf("%s%s: %w", place, who, err)
	}
	return err
}

// emitJSON yields one object.
func (s *objectStream) emitJSON(place string, outer header, raw []byte) error {
	if item, ok := s.guess(outer, raw); ok {
		return s.give(item)
	}
	decoded, err := decodeLeniently(raw, nil, func() any { return new(header) })
	if err != nil {
		return inItem(place, header{}, err)
	}
	return s.emit(place, outer.item(*decoded.(*header)), func(into func() any) (any, error) {
		return decodeLeniently(raw, nil, into)
	})
}

// guess decodes an object as one of the same kind as the one before, which saves reading it once
// more to find the kind: lists are long and mostly of one kind.
func (s *objectStream) guess(outer header, raw []byte) (Item, bool) {
	into := newObject(s.before.APIVersion, s.before.Kind)
	if into == nil || mayBeHuge(raw) {
		return Item{}, false
	}
	item := Item{APIVersion: s.before.APIVersion, Kind: s.before.Kind, Object: into()}
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, item.Object) != nil || refused(item.Object) != nil {
		return Item{}, false
	}
	object := item.Object.(interface {
		GetObjectKind() schema.ObjectKind
		metav1.Object
	})
	var own header
	own.APIVersion, own.Kind = object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	own = outer.item(own)
	item.Namespace, item.Name = object.GetNamespace(), object.GetName()
	return item, own.APIVersion == item.APIVersion && own.Kind == item.Kind
}

// emitValue yields one object.
func (s *objectStream) emitValue(place string, outer header, v *value) error {
	decoded, err := decodeValue(v, nil, func() any { return new(header) })
	if err != nil {
		return inItem(place, header{}, err)
	}
	return s.emit(place, outer.item(*decoded.(*header)), func(into func() any) (any, error) {
		return decodeValue(v, nil, into)
	})
}

// json reads one JSON value: a list, whose items go out as they come, or an object. Text that
// begins like JSON but is invalid may be YAML in flow style.
func (s *objectStream) json() error {
	text := &beginning{from: s.in}
	decoder := json.NewDecoder(text)
	given := s.given
	err := s.jsonValue(decoder)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && text.whole():
		s.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(text.read), s.in), 64<<10)
		s.again = s.given - given
		return s.yaml()
	case err != nil:
		return explainJSON(err)
	}
	s.in = bufio.NewReaderSize(io.MultiReader(decoder.Buffered(), s.in), 64<<10)
	return nil
}

// beginning remembers what is read, as long as that is short enough to be written by hand.
type beginning struct {
	from io.Reader
	read []byte
	size int
}

const maxBeginning = 256 << 10

// Read implements io.Reader.
func (b *beginning) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.size += n; b.whole() {
		b.read = append(b.read, p[:n]...)
	} else {
		b.read = nil
	}
	return n, err
}

func (b *beginning) whole() bool { return b.size <= maxBeginning }

func (s *objectStream) jsonValue(decoder *json.Decoder) error {
	open, err := decoder.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return &syntaxError{detail: "must be a Kubernetes object or list"}
	}
	var outer header
	isList := false
	rest := []byte{'{'} // all but the items
	var raw json.RawMessage
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder has made sure of it
		if name == "items" {
			isList = true
			if err := s.jsonItems(decoder, outer); err != nil {
				return err
			}
			continue
		}
		if outer.Kind == "" && (name == "NodeList" || name == "TemplateNodes") {
			return ErrSnapshot
		}
		if err := decoder.Decode(&raw); err != nil {
			return err
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(appendString(rest, name), ':'), raw...)
		switch name {
		case "kind":
			err = json.Unmarshal(raw, &outer.Kind)
		case "apiVersion":
			err = json.Unmarshal(raw, &outer.APIVersion)
		}
		if err != nil {
			return field.Invalid(field.NewPath(name), raw, "must be a string")
		}
	}
	if _, err := decoder.Token(); err != nil {
		return err
	}
	if isList || strings.HasSuffix(outer.Kind, "List") {
		return nil
	}
	return s.emitJSON("", header{}, append(rest, '}'))
}

// jsonItems yields the items of a list.
func (s *objectStream) jsonItems(decoder *json.Decoder, outer header) error {
	open, err := decoder.Token()
	if err != nil {
		return err
	}
	if open == nil { // items: null
		return nil
	}
	if open != json.Delim('[') {
		return field.Invalid(field.NewPath("items"), field.OmitValueType{}, "must be a list")
	}
	var raw json.RawMessage
	for i := 0; decoder.More(); i++ {
		if err := decoder.Decode(&raw); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
		if err := s.emitJSON(fmt.Sprintf("items[%d]", i), outer, raw); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}
