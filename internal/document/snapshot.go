package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/internal/admission"
)

// Snapshot has the nodes and node groups of Cluster Autoscaler's debugging snapshot.
type Snapshot struct {
	// Nodes are the nodes of the cluster, in the order of the snapshot.
	Nodes []SnapshotNode
	// Templates are the nodes that each group would create, by group: what Cluster Autoscaler
	// compares.
	Templates map[string]SnapshotNode
	// Pending are pods without a node that fit on the nodes there are, or that are on their way, as
	// Cluster Autoscaler sees them. A snapshot has no other pending pods.
	Pending []*v1.Pod
	// Error is Cluster Autoscaler's message if it could not collect everything; usually empty.
	Error string
}

// SnapshotNode is a node with the pods on it.
type SnapshotNode struct {
	Node *v1.Node
	Pods []*v1.Pod
}

// ReadSnapshot reads a debugging snapshot of Cluster Autoscaler, node by node. The name is for
// messages. The error is an *Invalid with the place of the problem, unless reading itself failed.
func ReadSnapshot(name string, r io.Reader, o StreamOptions) (*Snapshot, error) {
	s, err := readSnapshot(json.NewDecoder(newLimited(r, o)))
	if err == nil {
		return s, nil
	}
	if err = explainJSON(err); readFailed(err) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return nil, &Invalid{[]Problem{{File: name, Err: err}}}
}

var errNoSnapshot = &syntaxError{detail: "is not a debugging snapshot of Cluster Autoscaler: a JSON object with NodeList and TemplateNodes"}

func readSnapshot(d *json.Decoder) (*Snapshot, error) {
	open, err := d.Token()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) || err == nil && open != json.Delim('{') {
		return nil, errNoSnapshot
	}
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Templates: map[string]SnapshotNode{}}
	found := false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch name {
		case "NodeList":
			found = true
			err = s.readNodes(d)
		case "TemplateNodes":
			found = true
			err = s.readTemplates(d)
		case "UnscheduledPodsCanBeScheduled":
			err = s.readPending(d)
		case "Error":
			err = d.Decode(&s.Error)
		default:
			var ignored json.RawMessage
			err = d.Decode(&ignored)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if !found {
		return nil, errNoSnapshot
	}
	if _, err := d.Token(); err == nil || errors.As(err, &syntax) {
		return nil, &syntaxError{detail: "text follows the snapshot"}
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s, nil
}

func (s *Snapshot) readNodes(d *json.Decoder) error {
	at := field.NewPath("NodeList")
	none, err := enter(d, at, '[', "a list")
	if none || err != nil {
		return err
	}
	for i := 0; d.More(); i++ {
		node, err := readSnapshotNode(d, at.Index(i))
		if err != nil {
			return err
		}
		s.Nodes = append(s.Nodes, node)
	}
	_, err = d.Token()
	return err
}

func (s *Snapshot) readPending(d *json.Decoder) error {
	at := field.NewPath("UnscheduledPodsCanBeScheduled")
	none, err := enter(d, at, '[', "a list")
	if none || err != nil {
		return err
	}
	for i := 0; d.More(); i++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		decoded, err := decodeLeniently(raw, at.Index(i), func() any { return new(v1.Pod) })
		if err != nil {
			return err
		}
		pod := decoded.(*v1.Pod)
		if errs := admission.Pod(at.Index(i), pod); len(errs) > 0 {
			return errs[0]
		}
		s.Pending = append(s.Pending, pod)
	}
	_, err = d.Token()
	return err
}

func (s *Snapshot) readTemplates(d *json.Decoder) error {
	at := field.NewPath("TemplateNodes")
	none, err := enter(d, at, '{', "an object")
	if none || err != nil {
		return err
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		group, _ := token.(string) // the decoder has made sure of it
		if s.Templates[group], err = readSnapshotNode(d, at.Key(group)); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// enter reads the begin of a list or object; none tells a null instead.
func enter(d *json.Decoder, at *field.Path, open json.Delim, noun string) (none bool, err error) {
	token, err := d.Token()
	if err != nil {
		return false, err
	}
	if token != nil && token != open {
		return false, field.Invalid(at, field.OmitValueType{}, "must be "+noun)
	}
	return token == nil, nil
}

func readSnapshotNode(d *json.Decoder, at *field.Path) (SnapshotNode, error) {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return SnapshotNode{}, err
	}
	decoded, err := decodeLeniently(raw, at, func() any { return new(SnapshotNode) })
	if err != nil {
		return SnapshotNode{}, err
	}
	node := *decoded.(*SnapshotNode)
	if node.Node == nil {
		return SnapshotNode{}, field.Required(at.Child("Node"), "must be a node")
	}
	errs := admission.Amounts(at.Child("Node", "status", "capacity"), node.Node.Status.Capacity, admission.OfNode)
	errs = append(errs, admission.Amounts(at.Child("Node", "status", "allocatable"), node.Node.Status.Allocatable, admission.OfNode)...)
	for i, pod := range node.Pods {
		if pod == nil {
			return SnapshotNode{}, field.Required(at.Child("Pods").Index(i), "must be a pod")
		}
		errs = append(errs, admission.Requests(at.Child("Pods").Index(i).Child("spec"), &pod.Spec)...)
	}
	if len(errs) > 0 {
		return SnapshotNode{}, errs[0]
	}
	return node, nil
}
