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

	"go.yaml.in/yaml/v3"
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
	// Object is a pointer to a value of the kind's type, such as a *v1.Pod, for the kinds that are supported; nil for any other.
	Object any
}

// supported are the types of the supported kinds, by version.
var supported = map[string]Kinds{
	"v1": {v1.Pod{}, v1.Node{}, v1.Event{}, v1.Namespace{}, v1.Service{}, v1.ReplicationController{}, v1.PodTemplate{}, v1.PersistentVolume{},
		v1.PersistentVolumeClaim{}, v1.ConfigMap{}},
	"apps/v1":              {appsv1.DaemonSet{}, appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{}},
	"batch/v1":             {batchv1.Job{}, batchv1.CronJob{}},
	"policy/v1":            {policyv1.PodDisruptionBudget{}},
	"scheduling.k8s.io/v1": {schedulingv1.PriorityClass{}},
	"storage.k8s.io/v1": {storagev1.CSIDriver{}, storagev1.CSINode{}, storagev1.CSIStorageCapacity{}, storagev1.StorageClass{},
		storagev1.VolumeAttachment{}},
	"autoscaling.x-k8s.io/v1alpha1": {CapacityBuffer{}, CapacityQuota{}},
	"autoscaling.x-k8s.io/v1beta1":  {CapacityBuffer{}, ProvisioningRequest{}},
	"autoscaling.x-k8s.io/v1":       {ProvisioningRequest{}},
}

// refused returns the first error of an API server for an object, or nil.
func refused(object any) error {
	switch o := object.(type) {
	case *v1.Pod:
		return first(admission.Pod(nil, o))
	case *v1.Node:
		return first(admission.Node(nil, o))
	case *appsv1.DaemonSet:
		return first(admission.PodSpec(field.NewPath("spec", "template", "spec"), &o.Spec.Template.Spec))
	case *v1.PodTemplate:
		return first(admission.PodSpec(field.NewPath("template", "spec"), &o.Template.Spec))
	case *v1.PersistentVolumeClaim:
		return first(admission.Claim(field.NewPath("spec"), &o.Spec))
	case *policyv1.PodDisruptionBudget:
		return first(admission.Budget(field.NewPath("spec"), &o.Spec))
	case *v1.PersistentVolume:
		return first(admission.Amounts(field.NewPath("spec", "capacity"), o.Spec.Capacity, admission.OfVolume))
	}
	return nil
}

// Objects reads the output of kubectl get -o json or -o yaml: one or more lists and objects. Only
// one item of a list is in memory at a time. The name is for messages. The sequence ends with the
// first error, an *Invalid with the item's position, unless reading itself failed.
func Objects(name string, r io.Reader, o StreamOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		s := &objectStream{yield: yield}
		in := newInput(r, cmp.Or(o.MaxSize, DefaultMaxStream))
		err := sections(in, s.section)
		if err == nil && s.document == 0 {
			err = &syntaxError{detail: "holds no object"}
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Item{}, in.refuse(name, s.document, err))
		}
	}
}

// errStopped ends a stream whose reader has stopped.
var errStopped = errors.New("stopped")

// objectStream reads an input and yields its objects.
type objectStream struct {
	yield    func(Item, error) bool
	document int             // number of the document being read, from 1
	before   metav1.TypeMeta // of the object yielded last
}

// section reads the documents between two marker lines. Text that begins like JSON but is none is YAML in flow style.
func (s *objectStream) section(in *bufio.Reader, line int) error {
	begin, err := in.Peek(beginning) // fewer at the end
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.HasPrefix(begin, []byte("\xff\xfe")) || bytes.HasPrefix(begin, []byte("\xfe\xff")) {
		return &syntaxError{detail: "is UTF-16 text, as some shells of Windows write: save it as UTF-8"}
	}
	s.document++
	var syntax *json.SyntaxError
	var value json.RawMessage
	switch begin = bytes.TrimLeft(begin, blanks); {
	case bytes.HasPrefix(begin, []byte("[")):
		return noObject(line)
	case !bytes.HasPrefix(begin, []byte("{")):
		return s.yaml(in, line, true)
	case errors.As(json.NewDecoder(bytes.NewReader(begin)).Decode(&value), &syntax):
		return s.yaml(in, line, false)
	}
	return s.json(in)
}

func noObject(line int) error { return &syntaxError{line, "must be a Kubernetes object or list"} }

// json reads JSON values one after another. Comments may follow.
func (s *objectStream) json(in *bufio.Reader) error {
	d, wrong, follows := json.NewDecoder(in), noObject(0), &syntaxError{detail: textAfterJSON}
	for ; d.More(); s.document++ {
		err := s.value(d, wrong)
		if rest := io.MultiReader(d.Buffered(), in); errors.Is(err, follows) && onlyComments(rest) {
			s.document--
			return nil
		}
		if err != nil {
			return err
		}
		wrong = follows
	}
	s.document--
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func onlyComments(r io.Reader) bool {
	rest, err := io.ReadAll(r)
	return err == nil && isBlank(rest)
}

// value reads a list, whose items go out as they come, or an object.
func (s *objectStream) value(d *json.Decoder, wrong error) error {
	var outer header
	var raw json.RawMessage
	members, isList := map[string]json.RawMessage{}, false
	err := each(d, nil, '{', wrong, func(at *field.Path, name string) error {
		switch {
		case name == "items":
			isList = true
			return each(d, at, '[', nil, func(at *field.Path, _ string) error {
				if err := d.Decode(&raw); err != nil {
					return fmt.Errorf("%s: %w", at, err)
				}
				return s.object(at.String(), outer, raw)
			})
		case outer.Kind == "" && (name == "NodeList" || name == "TemplateNodes"):
			return ErrSnapshot
		}
		var member json.RawMessage
		if err := d.Decode(&member); err != nil {
			return err
		}
		members[name] = member
		if into := map[string]*string{"kind": &outer.Kind, "apiVersion": &outer.APIVersion}[name]; into != nil {
			return decodeLeniently(member, at, into)
		}
		return nil
	})
	if err != nil || isList || strings.HasSuffix(outer.Kind, "List") {
		return err
	}
	if raw, err = encode(members); err != nil {
		return err
	}
	return s.object("", header{}, raw)
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

// in adds to an error in which object it is.
func (h header) in(place string, err error) error {
	who := h.Metadata.Name
	if h.Metadata.Namespace != "" {
		who = h.Metadata.Namespace + "/" + who
	}
	if who = strings.TrimSpace(h.Kind + " " + who); place != "" && who != "" {
		who = " (" + who + ")"
	}
	if place+who == "" {
		return err
	}
	return fmt.Errorf("%s%s: %w", place, who, err)
}

// object yields an object, given as JSON. The place is its position, empty for an object on its own.
func (s *objectStream) object(place string, outer header, raw []byte) error {
	own, object := s.guess(raw)
	if object == nil {
		if err := decodeLeniently(raw, nil, &own); err != nil {
			return own.in(place, err)
		}
	}
	if of, ok := strings.CutSuffix(outer.Kind, "List"); ok && own.Kind == "" { // lists of one kind leave it out of their items
		own.Kind, own.APIVersion = of, cmp.Or(own.APIVersion, outer.APIVersion)
	}
	is := metav1.TypeMeta{APIVersion: own.APIVersion, Kind: own.Kind}
	var err error
	if object == nil || is != s.before {
		if object = supported[own.APIVersion].new(own.Kind); object != nil {
			err = decodeLeniently(raw, nil, object)
		}
	}
	switch s.before = is; {
	case own.Kind == "":
		err = field.Required(field.NewPath("kind"), "must be the kind of a Kubernetes object")
	case own.APIVersion == "":
		err = field.Required(field.NewPath("apiVersion"), "must be the version of a Kubernetes object, such as v1")
	case err == nil:
		err = refused(object)
	}
	if err != nil {
		return own.in(place, err)
	}
	if !s.yield(Item{own.APIVersion, own.Kind, own.Metadata.Namespace, own.Metadata.Name, object}, nil) {
		return errStopped
	}
	return nil
}

// guess decodes an object as one of the same kind as the one before, which saves reading it once more to find the kind: lists
// are long and mostly of one kind. Whether it is one, its header tells; nil if it cannot be.
func (s *objectStream) guess(raw []byte) (own header, object any) {
	object = supported[s.before.APIVersion].new(s.before.Kind)
	typed, ok := object.(metav1.ObjectMetaAccessor)
	if !ok || mayBeHuge(raw) || kjson.UnmarshalCaseSensitivePreserveInts(raw, object) != nil {
		return own, nil
	}
	own.APIVersion, own.Kind = object.(interface{ GetObjectKind() schema.ObjectKind }).GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	own.Metadata.Namespace, own.Metadata.Name = typed.GetObjectMeta().GetNamespace(), typed.GetObjectMeta().GetName()
	return own, object
}

// yaml reads one YAML document. A list as kubectl prints it, in block style with items: at the begin of a line and one - below
// the other, is cut at the items, so that only one of them is parsed at a time. Anything else is parsed as a whole.
func (s *objectStream) yaml(in *bufio.Reader, first int, isBlock bool) error {
	var rest bytes.Buffer // all but the items
	var items *yamlItems
	for line := first; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(text) == 0 {
			break
		}
		taken := false
		if items != nil {
			if taken, err = items.take(text, line); err != nil {
				return err
			}
		} else if begin, ok := bytes.CutPrefix(text, []byte("items:")); ok && isBlock && isBlank(begin) {
			items = &yamlItems{stream: s, outer: listHeader(rest.Bytes()), indent: -1}
			text = []byte("\n") // lines keep their numbers up to here
		}
		if !taken {
			rest.Write(text)
		}
	}
	if items != nil {
		if err := items.emit(); err != nil {
			return err
		}
	}
	return s.whole(rest.Bytes(), first, items != nil)
}

// whole reads a document, or what is left of a list that was cut.
func (s *objectStream) whole(text []byte, first int, cut bool) error {
	values, err := parse(text, first)
	switch {
	case err != nil:
	case len(values) == 0 && !cut:
		s.document-- // comments only
	case len(values) > 0 && values[0].Kind != yaml.MappingNode:
		return noObject(values[0].Line)
	case len(values) > 0 && (!cut || member(values[0], "items") != nil):
		return s.value(json.NewDecoder(bytes.NewReader(appendJSON(nil, values[0]))), nil)
	}
	return err
}

// listHeader is what stands before the items of a list: mostly its version, and its kind if that comes first. What is wrong
// with it is found with the rest of the document.
func listHeader(text []byte) (h header) {
	if values, err := parse(text, 1); err == nil && len(values) > 0 {
		_ = decodeLeniently(appendJSON(nil, values[0]), nil, &h)
	}
	return h
}

// yamlItems are the items of a list.
type yamlItems struct {
	stream *objectStream
	outer  header
	text   bytes.Buffer // of one item
	line   int          // its first
	indent int          // of the items; negative before the first
	index  int
	ended  bool
}

// take takes a line, and reports whether it is one of the items.
func (l *yamlItems) take(line []byte, number int) (bool, error) {
	content := bytes.TrimLeft(line, " ")
	if indent := len(line) - len(content); !l.ended && !isBlank(content) {
		begins := (bytes.HasPrefix(content, []byte("- ")) || content[0] == '-' && isBlank(content[1:])) && (l.indent < 0 || indent == l.indent)
		if l.ended = !begins && indent <= max(l.indent, 0); begins || l.ended {
			if err := l.emit(); err != nil {
				return true, err
			}
		}
		if begins {
			l.indent, l.line = indent, number
		}
	}
	if !l.ended {
		l.text.Write(line)
	}
	return !l.ended, nil
}

// emit yields the item that has been taken.
func (l *yamlItems) emit() error {
	defer l.text.Reset()
	list, err := parseYAML(l.text.Bytes(), l.line)
	if err == nil && list == nil {
		return nil // comments before the first
	}
	place := fmt.Sprintf("items[%d]", l.index)
	l.index++
	if err == nil && (list.Kind != yaml.SequenceNode || len(list.Content) != 1) {
		err = &syntaxError{l.line, "must be one item of a list"}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return l.stream.object(place, l.outer, appendJSON(nil, list.Content[0]))
}
