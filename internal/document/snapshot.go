package document

import (
	"cmp"
	"encoding/json"
	"errors"
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
	s, in := &Snapshot{Templates: map[string]SnapshotNode{}}, newInput(r, cmp.Or(o.MaxSize, DefaultMaxStream))
	if err := s.read(json.NewDecoder(in)); err != nil {
		return nil, in.refuse(name, 0, err)
	}
	return s, nil
}

var errNoSnapshot = &syntaxError{detail: "is not a debugging snapshot of Cluster Autoscaler: a JSON object with NodeList and TemplateNodes"}

func (s *Snapshot) read(d *json.Decoder) error {
	found := false
	err := each(d, nil, '{', errNoSnapshot, func(at *field.Path, name string) error {
		found = found || name == "NodeList" || name == "TemplateNodes"
		switch name {
		case "NodeList":
			return each(d, at, '[', nil, func(at *field.Path, _ string) error {
				node, err := readSnapshotNode(d, at)
				s.Nodes = append(s.Nodes, node)
				return err
			})
		case "TemplateNodes":
			return each(d, at, '{', nil, func(at *field.Path, group string) (err error) {
				s.Templates[group], err = readSnapshotNode(d, at)
				return err
			})
		case "UnscheduledPodsCanBeScheduled":
			return each(d, at, '[', nil, func(at *field.Path, _ string) error {
				pod := new(v1.Pod)
				s.Pending = append(s.Pending, pod)
				if err := decodeNext(d, at, pod); err != nil {
					return err
				}
				return first(admission.Pod(at, pod))
			})
		case "Error":
			return d.Decode(&s.Error)
		}
		var ignored json.RawMessage
		return d.Decode(&ignored)
	})
	if err == nil && !found {
		return errNoSnapshot
	}
	if err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &syntaxError{detail: "text follows the snapshot"}
	}
	return nil
}

func readSnapshotNode(d *json.Decoder, at *field.Path) (SnapshotNode, error) {
	var node SnapshotNode
	if err := decodeNext(d, at, &node); err != nil {
		return node, err
	}
	if node.Node == nil {
		return node, field.Required(at.Child("Node"), "must be a node")
	}
	status := at.Child("Node", "status")
	errs := admission.Amounts(status.Child("capacity"), node.Node.Status.Capacity, admission.OfNode)
	errs = append(errs, admission.Amounts(status.Child("allocatable"), node.Node.Status.Allocatable, admission.OfNode)...)
	for i, pod := range node.Pods {
		at := at.Child("Pods").Index(i)
		if pod == nil {
			return node, field.Required(at, "must be a pod")
		}
		errs = append(errs, admission.Requests(at.Child("spec"), &pod.Spec)...)
	}
	return node, first(errs)
}
