package expander

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Question is what Cluster Autoscaler asks an external expander.
type Question struct {
	// Options are the node groups that could grow, in the order of the call.
	Options []Offer
	// Pods are the distinct pods of all options.
	Pods []*v1.Pod
	// Nodes are the templates of all groups that have one, by group id, including groups without an
	// option.
	Nodes map[string]*v1.Node
}

// Offer is one node group that could grow.
type Offer struct {
	Group     string // node group id
	NodeCount int    // the number of nodes Cluster Autoscaler would add
	Debug     string // for human readers
	Pods      []int  // indexes into the question's pods: those the new nodes would help
}

// Chooser chooses between options. It may be called from several goroutines at the same time. The
// chooser owns the question.
type Chooser interface {
	// BestOptions returns the groups of the best options; an empty list is a veto. A group that is
	// not an option is an error.
	BestOptions(ctx context.Context, question Question) ([]string, error)
}

// ChooserFunc is a function that implements Chooser.
type ChooserFunc func(context.Context, Question) ([]string, error)

// BestOptions implements Chooser.
func (f ChooserFunc) BestOptions(ctx context.Context, question Question) ([]string, error) {
	return f(ctx, question)
}
