package explain

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/document"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/scaleup"
)

// Sources names the files that show a fleet. Exactly one of Snapshot, Templates
// and Nodes is set.
type Sources struct {
	// Snapshot is Cluster Autoscaler's debugging snapshot.
	Snapshot string
	// Templates is a list of nodes, one for each group. A template is named by the
	// annotation of Cluster Autoscaler's kwok provider, else by GroupLabel, else by
	// its own name.
	Templates string
	// Nodes and Pods are lists of the nodes and pods of a cluster; Pods is optional.
	// They may be the same file.
	Nodes, Pods string
	// GroupLabel is the label of a node whose value names its group, or several with
	// commas between them; see nodegroupset.GroupLabel. Nodes need it.
	GroupLabel string
}

// Files is how files are opened, and how large one may be in bytes; 0 means
// document.DefaultMaxStream.
type Files struct {
	Open    func(name string) (io.ReadCloser, error)
	MaxSize int64
}

// Fleet is the node groups of a cluster.
type Fleet struct {
	// Groups are the templates by group.
	Groups map[string]cloudprovider.Template
	// Notes are what a reader should know of how the fleet was read.
	Notes []string

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
	return fleet, scaleup.ShareCloud(fleet.Groups)
}

func read(s Sources, files Files) (*Fleet, error) {
	switch {
	case s.Snapshot != "":
		return readSnapshot(s.Snapshot, files)
	case s.Templates != "":
		return readTemplates(s, files)
	case s.Nodes != "" && s.GroupLabel != "":
		return readNodes(s, files)
	}
	return nil, errors.New("a fleet needs a snapshot, templates, or nodes with the label of their group")
}

// with opens a file and has it read.
func (f Files) with(name string, read func(io.Reader, document.StreamOptions) error) error {
	file, err := f.Open(name)
	if err != nil {
		return err
	}
	err = read(file, document.StreamOptions{MaxSize: f.MaxSize})
	if closeErr := file.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("%s: %w", name, closeErr)
	}
	return err
}

// objects reads the objects of type T of a file, or of the files of a folder; there has to be one.
func objects[T any](files Files, name, kind string, each func(T) error) error {
	names, isFolder := []string{name}, false
	if name != "-" {
		var err error
		if names, isFolder, err = document.Expand(name, files.Open); err != nil {
			return err
		}
	}
	found, items := false, 0
	for _, file := range names {
		err := files.with(file, func(r io.Reader, o document.StreamOptions) error {
			for item, err := range document.Objects(title(file), r, o) {
				if isFolder && errors.Is(err, document.ErrSnapshot) {
					return nil
				}
				if err != nil {
					return err
				}
				items++
				if object, ok := item.Object.(T); ok {
					found = true
					if err := each(object); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch {
	case items == 0:
		return refuse(name, "%w", document.EmptyList(title(name)))
	case !found:
		return refuse(name, "holds no %s", kind)
	}
	return nil
}

func refuse(file, format string, args ...any) error {
	return &document.Invalid{Problems: []document.Problem{{File: title(file), Err: fmt.Errorf(format, args...)}}}
}

// title is the name of a file in messages.
func title(file string) string {
	if file == "-" {
		return "stdin"
	}
	return file
}

func readSnapshot(name string, files Files) (*Fleet, error) {
	var s *document.Snapshot
	err := files.with(name, func(r io.Reader, o document.StreamOptions) (err error) {
		s, err = document.ReadSnapshot(title(name), r, o)
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
	fleet := &Fleet{Groups: map[string]cloudprovider.Template{}, file: title(name)}
	if s.Error != "" {
		fleet.Notes = append(fleet.Notes, fmt.Sprintf("the snapshot is not complete: Cluster Autoscaler said %q", s.Error))
	}
	for group, t := range s.Templates {
		fleet.Groups[group] = cloudprovider.Template{Node: t.Node, Pods: t.Pods}
	}
	return fleet, nil
}

// annotationName is how Cluster Autoscaler's kwok provider names groups in its
// templates.
const annotationName = "cluster-autoscaler.kwok.nodegroup/name"

func readTemplates(s Sources, files Files) (*Fleet, error) {
	fleet := &Fleet{Groups: map[string]cloudprovider.Template{}, file: title(s.Templates)}
	var nodes []*v1.Node
	if err := objects(files, s.Templates, "Node", func(n *v1.Node) error { nodes = append(nodes, n); return nil }); err != nil {
		return nil, err
	}
	for i, label := range nodegroupset.ParseGroupLabel(s.GroupLabel).Names(nodes) {
		group := cmp.Or(nodes[i].Annotations[annotationName], label, nodes[i].Name)
		if _, twice := fleet.Groups[group]; twice {
			return nil, refuse(s.Templates, "two templates for the node group %q", group)
		}
		fleet.Groups[group] = cloudprovider.Template{Node: nodes[i]}
	}
	fleet.Notes = append(fleet.Notes, "templates come without pods: free is what is allocatable")
	return fleet, nil
}
