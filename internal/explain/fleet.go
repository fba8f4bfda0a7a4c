package explain

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// Sources names the files that show a fleet. Exactly one of Snapshot, Templates
// and Nodes is set.
type Sources struct {
	// Snapshot is Cluster Autoscaler's debugging snapshot. Pods may add what it leaves out: pods that
	// fit on no node.
	Snapshot string
	// Templates is a list of nodes, one for each group. A template is named by the
	// annotation of Cluster Autoscaler's kwok provider, else by GroupLabel, else by
	// its own name.
	Templates string
	// Nodes is a list of the nodes of a cluster.
	Nodes string
	// Pods is an optional list of pods, which goes with Nodes or Templates and may be
	// the same file, or with Snapshot. Daemon set and static pods on the node of a template count
	// there. With Templates, so does every daemon set whose pods fit: DaemonSets of
	// the list, or those that its pods tell of.
	Pods string
	// GroupLabel is the label of a node whose value names its group, or several with
	// commas between them; see nodegroupset.GroupLabel. Nodes need it.
	GroupLabel string
}

// Files is how files are opened, and how large one may be in bytes; 0 means
// document.DefaultMaxStream.
type Files struct {
	Open    document.Open
	MaxSize int64
}

// Fleet is the node groups of a cluster.
type Fleet struct {
	// Groups are the templates by group.
	Groups map[string]cloudprovider.Template
	// Notes are what a reader should know of how the fleet was read.
	Notes []string

	// Cluster is the nodes and pods that were read; nil if templates are all there is.
	Cluster *Cluster

	file string // where the groups are from, for messages
}

// Names returns the groups in name order.
func (f *Fleet) Names() []string { return slices.Sorted(maps.Keys(f.Groups)) }

// Read reads a fleet. What is wrong with the content of a file is a
// *document.Invalid; other errors are those of opening and reading.
func Read(s Sources, files Files) (*Fleet, error) {
	fleet, err := read(s, files)
	if err != nil {
		return nil, err
	}
	return fleet, template.ShareCloud(fleet.Groups)
}

func read(s Sources, files Files) (*Fleet, error) {
	switch {
	case s.Snapshot != "":
		return readSnapshot(s, files)
	case s.Templates != "":
		return readTemplates(s, files)
	case s.Nodes != "" && s.GroupLabel != "":
		return readNodes(s, files)
	}
	return nil, errors.New("a fleet needs a snapshot, templates, or nodes with the label of their group")
}

// objects hands the objects of a file, or of the files of a folder, to a function that reports whether
// one is of the kind; there must be one.
func objects(files Files, name, kind string, take func(object any) bool) error {
	found := false
	err := files.Open.Objects(name, document.StreamOptions{MaxSize: files.MaxSize}, func(_ string, item document.Item) error {
		document.Lean(item.Object)
		found = take(item.Object) || found
		return nil
	})
	if err == nil && !found {
		return refuse(name, "holds no %s", kind)
	}
	return err
}

// nodesOf reads the nodes of a file, as the API server has them: what is not said to be allocatable is what there is. A function
// takes the objects of the file of the pods, and reports whether one is of the kind, of which there must be one. If that is
// another file, rest reads it.
func (s *Sources) nodesOf(files Files, name, kind string, take func(object any) bool) (nodes []*v1.Node, rest func() error, err error) {
	found := false
	err = objects(files, name, "Node", func(object any) bool {
		n, ok := object.(*v1.Node)
		switch {
		case ok:
			if n.Status.Allocatable == nil {
				n.Status.Allocatable = n.Status.Capacity
			}
			nodes = append(nodes, n)
		case name == s.Pods:
			found = take(object) || found
		}
		return ok
	})
	return nodes, func() error {
		switch {
		case s.Pods != "" && s.Pods != name:
			return objects(files, s.Pods, kind, take)
		case s.Pods != "" && !found:
			return refuse(s.Pods, "holds no %s", kind)
		}
		return nil
	}, err
}

func refuse(file, format string, args ...any) error {
	return &document.Invalid{Problems: []document.Problem{{File: document.Title(file), Err: fmt.Errorf(format, args...)}}}
}

func readSnapshot(from Sources, files Files) (*Fleet, error) {
	name := from.Snapshot
	var s *document.Snapshot
	err := files.Open.Each(name, func(title string, r io.Reader, _ bool) (err error) {
		s, err = document.ReadSnapshot(title, r, document.StreamOptions{MaxSize: files.MaxSize})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(s.Templates) == 0 && s.Error != "":
		return nil, refuse(name, "holds no node groups: Cluster Autoscaler said %q", s.Error)
	case len(s.Templates) == 0:
		return nil, refuse(name, "holds no node groups: TemplateNodes is empty")
	}
	fleet := &Fleet{Groups: map[string]cloudprovider.Template{}, file: document.Title(name)}
	if s.Error != "" {
		fleet.Notes = append(fleet.Notes, fmt.Sprintf("the snapshot is not complete: Cluster Autoscaler said %q", s.Error))
	}
	for group, t := range s.Templates {
		fleet.Groups[group] = cloudprovider.Template{Node: t.Node, Pods: t.Pods}
	}
	pods := &podList{on: map[string][]*v1.Pod{}, bound: map[string]bool{}}
	if from.Pods != "" {
		if err := objects(files, from.Pods, "Pod", pods.add); err != nil {
			return nil, err
		}
	}
	fleet.Cluster = pods.inSnapshot(s)
	return fleet, nil
}
