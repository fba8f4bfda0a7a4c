package explain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Kind is the kind of an Explanation as a document.
const Kind = "NodeGroupExplanation"

// Explanation is the answer to a question about a fleet.
type Explanation = document.Explanation[Status]

// Status is the content of an Explanation.
type Status struct {
	// Answer is the answer in one sentence.
	Answer string `json:"verdict"`
	// Notes are what the answer leaves out or rests on.
	Notes []string `json:"notes,omitempty"`
	// Pending are the pending pods of the cluster with topology spread constraints, as package
	// pending explains them, if the whole fleet is explained.
	Pending []PendingSpread `json:"pending,omitempty"`
	// Group is the answer about one group, Pair that about two; nil otherwise.
	Group *Group `json:"group,omitempty"`
	Pair  *Pair  `json:"pair,omitempty"`
	// Report is about the whole fleet, whatever was asked.
	nodegroupset.Report
}

// Group is one group among the others.
type Group struct {
	Name    string   `json:"name"`
	Set     []string `json:"set"`     // the set it belongs to, itself included
	Similar []string `json:"similar"` // the groups it is balanced with
	// Others are all other groups, those with the fewest differences first, then by
	// name. The nearest ones, at most ten, say what would join them.
	Others []Other `json:"others"`
}

// Other is a group that is not similar. On the left of its differences stands the
// group that was asked for.
type Other struct {
	Group       string                    `json:"group"`
	Differences []nodegroupset.Difference `json:"differences"`
	Remedy      *nodegroupset.Remedy      `json:"remedy,omitempty"` // as in nodegroupset.Miss
	Stock       *nodegroupset.Remedy      `json:"stock,omitempty"`
}

// Pair is two groups.
type Pair struct {
	Similar bool `json:"similar"`
	nodegroupset.Miss
}

// mostRemedies is for how many other groups it is worked out what would join them.
const mostRemedies = 10

// Explain explains the fleet, one group of it, or two, with the options of an empty
// index, which it fills. A name the fleet does not have is a
// *document.UnknownName, a
// template that cannot be compared a *document.Invalid.
func (f *Fleet) Explain(index *nodegroupset.Index, names ...string) (*Explanation, error) {
	known := f.Names()
	for i, name := range names {
		if _, ok := f.Groups[name]; !ok {
			return nil, &document.UnknownName{Kind: "node group", Name: name, Nearest: spelling.Nearest(name, known), Among: len(known)}
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("node group %q is named twice", name)
		}
	}
	if err := f.fill(index); err != nil {
		return nil, err
	}
	out := &Explanation{APIVersion: v1alpha1.APIVersion, Kind: Kind, Status: Status{Notes: slices.Clone(f.Notes), Report: index.Explain()}}
	status := &out.Status
	for _, set := range status.Sets {
		asked := len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(set.Groups, name) })
		if set.Policy != "" && asked {
			status.Notes = append(status.Notes, fmt.Sprintf("%s are declared to be a set: %s", strings.Join(set.Groups, ", "), set.Policy))
		}
	}
	switch len(names) {
	case 0:
		status.Answer = fleetAnswer(&status.Report)
		for i := range status.Misses {
			status.noteTaints(status.Misses[i].Differences)
		}
	case 1:
		status.Group = aboutGroup(index, names[0], &status.Report)
		status.Answer = groupAnswer(status.Group)
		if others := status.Group.Others; len(others) > 0 {
			status.noteTaints(others[0].Differences)
		}
	case 2:
		miss := index.Compare(names[0], names[1])
		status.Pair = &Pair{len(miss.Differences) == 0, miss}
		status.Answer = pairAnswer(status.Pair)
		status.noteTaints(miss.Differences)
	default:
		return nil, errors.New("at most two node groups are compared")
	}
	return out, nil
}

const taintNote = "Cluster Autoscaler does not compare taints, so its flags join groups that differ in them"

// noteTaints warns of flags that would join groups of different taints.
func (s *Status) noteTaints(differences []nodegroupset.Difference) {
	tainted := slices.ContainsFunc(differences, func(d nodegroupset.Difference) bool { return strings.HasPrefix(d.Field, "taints[") })
	if tainted && !slices.Contains(s.Notes, taintNote) {
		s.Notes = append(s.Notes, taintNote)
	}
}

// fill puts the groups into the index, and returns an error that names all that cannot be compared.
func (f *Fleet) fill(index *nodegroupset.Index) error {
	var problems []document.Problem
	var nodes []*v1.Node
	for _, name := range f.Names() {
		if n := f.Groups[name].Node; n != nil {
			nodes = append(nodes, n)
		}
		if err := index.Set(name, f.Groups[name]); err != nil {
			problems = append(problems, document.Problem{File: f.file, Err: err})
		}
	}
	if len(problems) > 0 {
		return &document.Invalid{Problems: problems}
	}
	index.Cloud = nodegroupset.StockCloud(slices.Values(nodes))
	return nil
}

func aboutGroup(index *nodegroupset.Index, name string, report *nodegroupset.Report) *Group {
	out := &Group{Name: name, Set: setOf(report, name), Similar: index.Similar(name), Others: []Other{}}
	if out.Similar == nil {
		out.Similar = []string{}
	}
	for _, other := range index.Names() {
		if differences := index.Differences(name, other); len(differences) > 0 {
			out.Others = append(out.Others, Other{Group: other, Differences: differences})
		}
	}
	slices.SortStableFunc(out.Others, func(a, b Other) int { return cmp.Compare(len(a.Differences), len(b.Differences)) })
	for i := range out.Others[:min(mostRemedies, len(out.Others))] {
		other := &out.Others[i]
		miss := index.Compare(name, other.Group)
		other.Remedy, other.Stock = &miss.Remedy, &miss.Stock
	}
	return out
}

// setOf returns the set a group belongs to.
func setOf(report *nodegroupset.Report, name string) []string {
	for i := range report.Sets {
		if slices.Contains(report.Sets[i].Groups, name) {
			return report.Sets[i].Groups
		}
	}
	return nil
}
