package placement

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// Kind is the kind of an Explanation as a document.
const Kind = "FederatedReplicaSetExplanation"

// Explanation says where the replicas of a FederatedReplicaSet run, and why.
type Explanation = document.Explanation[Status]

// Status is the content of an Explanation.
type Status struct {
	// Answer is the answer in one sentence.
	Answer string `json:"verdict"`
	// Notes are what the answer rests on or leaves out.
	Notes    []string `json:"notes,omitempty"`
	Replicas int32    `json:"replicas"`
	Unplaced int32    `json:"unplaced"`
	// Clusters are those that have replicas or should have, by name.
	Clusters []Cluster `json:"clusters"`
	// Steps share the replicas, from the whole to its parts.
	Steps []federation.Step `json:"steps"`
	// Writes are what the controller would write now.
	Writes []Write `json:"writes"`
	// Conditions are those of the status; if it has none yet, those that it would have.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Cluster is what a cluster is to have, and why.
type Cluster struct {
	Name string `json:"name"`
	// Entry is the name of the entry of the preferences that applies; absent if none does. What it
	// says about the cluster follows.
	Entry       string `json:"entry,omitempty"`
	Tier        int32  `json:"tier"`
	Weight      int32  `json:"weight"`
	MinReplicas int32  `json:"minReplicas"`
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// The numbers are those of the status.
	Desired       int32  `json:"desired"`
	Written       int32  `json:"written"`
	Running       int32  `json:"running"`
	Ready         int32  `json:"ready"`
	Pending       int32  `json:"pending"`
	Unschedulable int32  `json:"unschedulable"`
	Uncreated     int32  `json:"uncreated"`
	Capacity      *int32 `json:"capacity,omitempty"`

	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Next says what happens when, if nothing changes until then.
	Next string `json:"next,omitempty"`
}

// Write is a change of a local object.
type Write struct {
	Cluster string `json:"cluster"`
	// Change is Create, Delete, Update (all of the object) or Scale.
	Change string `json:"change"`
	From   int32  `json:"from"`
	To     int32  `json:"to"`
	Why    string `json:"why"`
}

// Explain explains the FederatedReplicaSets of a dump or, with names, those of them. A name that none has is a
// *document.UnknownName.
func (d *Dump) Explain(names ...string) ([]*Explanation, error) {
	return document.Explain(Kind, Naming, d.Sets, names, d.explain)
}

func (d *Dump) explain(f *v1alpha1.FederatedReplicaSet) (Status, error) {
	in := d.inputOf(f)
	known, err := federation.Explain(in)
	if err != nil {
		return Status{}, err
	}
	s := Status{Clusters: []Cluster{}, Steps: known.Steps, Writes: []Write{}, Replicas: ptr.Deref(f.Spec.Replicas, 1)}
	s.note(d, f, in)
	stored := f.Status.ObservedGeneration == f.Generation && len(f.Status.Conditions) > 0
	s.clusters(&known, f, stored)
	s.Unplaced, s.Conditions = known.Status.Unplaced, known.Status.Conditions
	if stored {
		s.Unplaced, s.Conditions = f.Status.Unplaced, f.Status.Conditions
	}
	for _, w := range known.Writes {
		s.Writes = append(s.Writes, writeOf(w))
	}
	s.Answer = s.answer(f)
	return s, nil
}

// note says what the answer rests on.
func (s *Status) note(d *Dump, f *v1alpha1.FederatedReplicaSet, in federation.Input) {
	if _, byLabels, _ := federation.Named(in); len(d.Members) == 0 {
		note := "there are no MemberClusters beside it, so only the clusters are known that its status or its preferences name"
		if byLabels {
			note += ", and not their labels, which the preferences select by"
		}
		s.Notes = append(s.Notes, note+": "+Naming.Get+" prints all")
	}
	switch {
	case f.Status.ObservedGeneration == 0:
		s.Notes = append(s.Notes, "it has no status yet: this is what the controller would decide if every cluster were empty and had room")
	case f.Status.ObservedGeneration != f.Generation:
		s.Notes = append(s.Notes, "its status is about an earlier spec: this is what the controller would decide about the spec as it is now")
	}
}

// clusters fills in the clusters. What the controller has decided about the spec as it is counts: it
// knew more than the status shows, such as the ages of pods.
func (s *Status) clusters(known *federation.Explanation, f *v1alpha1.FederatedReplicaSet, stored bool) {
	var other []string
	for _, a := range known.Clusters {
		now, before := known.Status.Cluster(a.Name), f.Status.Cluster(a.Name)
		if now == nil {
			continue
		}
		c := Cluster{
			Name: a.Name, Entry: a.Entry, Tier: a.Tier, Next: a.Awaited,
			Weight: ptr.Deref(a.Preference.Weight, 0), MinReplicas: ptr.Deref(a.Preference.MinReplicas, 0), MaxReplicas: a.Preference.MaxReplicas,
			Desired: now.Desired, Pending: now.Pending, Reason: now.Reason, Message: now.Message, Capacity: now.Capacity,
		}
		if before != nil {
			c.Written, c.Running, c.Ready, c.Unschedulable, c.Uncreated = before.Written, before.Running, before.Ready, before.Unschedulable,
				before.Uncreated
			if stored && before.Desired != now.Desired {
				other = append(other, fmt.Sprintf("%s %d", a.Name, now.Desired))
			}
			if stored {
				c.Desired, c.Pending, c.Reason, c.Message, c.Capacity = before.Desired, before.Pending, before.Reason, before.Message, before.Capacity
			}
		}
		s.Clusters = append(s.Clusters, c)
	}
	if len(other) > 0 {
		s.Notes = append(s.Notes, "from what the file shows the decision would be "+strings.Join(other, ", ")+
			": the controller knew more, such as room or the ages of pods, or a MemberCluster has changed since")
	}
}

func writeOf(w federation.Write) Write {
	out := Write{Cluster: w.Cluster, Change: "Scale", From: w.From, To: w.To, Why: w.Why}
	switch {
	case w.Create:
		out.Change = "Create"
	case w.Delete:
		out.Change = "Delete"
	case w.Content:
		out.Change = "Update"
	}
	return out
}

// mostNamed is how many clusters a sentence names.
const mostNamed = 6

// answer is the answer in one sentence.
func (s *Status) answer(f *v1alpha1.FederatedReplicaSet) string {
	var parts []string
	var waiting int32
	more := 0
	for _, c := range s.Clusters {
		if c.Entry == "" && c.Desired == 0 {
			continue
		}
		waiting += c.Pending
		if len(parts) == mostNamed {
			more++
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %d", c.Name, c.Desired))
	}
	text := fmt.Sprintf("%s/%s asks for %s: ", f.Namespace, f.Name, spelling.Count(s.Replicas, "replica"))
	switch {
	case len(parts) == 0:
		text += "no cluster takes part"
	case more > 0:
		text += fmt.Sprintf("%s and %d more clusters", strings.Join(parts, ", "), more)
	default:
		text += strings.Join(parts, ", ")
	}
	if waiting > 0 {
		text += fmt.Sprintf("; %d of these cannot run now and wait", waiting)
	}
	if s.Unplaced > 0 {
		if placed := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPlaced); placed != nil {
			text += "; " + placed.Message
		}
	}
	return text
}
