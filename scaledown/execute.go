package scaledown

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Attempt is one call that deletes nodes of a group, and its result.
type Attempt struct {
	Group string   `json:"group"`
	Nodes []string `json:"nodes"`
	// Shrank is how many nodes the group's target size fell by.
	Shrank int   `json:"shrank"`
	Err    error `json:"-"`
}

// left reports whether the nodes are on their way out.
func (a *Attempt) left() bool { return a.Err == nil || a.Shrank > 0 }

// execute deletes what goes, one group after the other in the order in which they
// come up. A group that refuses is left alone for a while, and the decision is
// brought up to date with its result.
func (s *Scaler) execute(ctx context.Context, w *World, d *Decision) []Attempt {
	nodes := make(map[string]*v1.Node, len(w.Nodes))
	for _, n := range w.Nodes {
		nodes[n.Node.Node.Name] = n.Node.Node
	}
	sizes := map[string]int{}
	for _, g := range w.Groups {
		sizes[g.ID] = g.Target
	}
	var attempts []Attempt
	byGroup := map[string]int{}
	for _, at := range d.Go {
		o := &d.Nodes[at]
		call, known := byGroup[o.Group]
		if !known {
			call = len(attempts)
			byGroup[o.Group] = call
			attempts = append(attempts, Attempt{Group: o.Group})
		}
		attempts[call].Nodes = append(attempts[call].Nodes, o.Node)
	}
	for i := range attempts {
		a := &attempts[i]
		var doomed []*v1.Node
		for _, name := range a.Nodes {
			doomed = append(doomed, nodes[name])
		}
		s.delete(ctx, a, doomed, sizes[a.Group])
		if a.Err != nil {
			s.retryAt[a.Group] = w.Now.Add(DefaultDelayAfterFailure)
		}
	}
	s.report(d, attempts)
	return attempts
}

// delete makes one call. Even after an error the group may have shrunk, so its
// size is read again: nodes that are gone in any case have to be drained.
func (s *Scaler) delete(ctx context.Context, a *Attempt, nodes []*v1.Node, before int) {
	a.Err = s.provider.DeleteNodes(ctx, a.Group, nodes)
	now, err := s.provider.TargetSize(ctx, a.Group)
	switch {
	case err == nil:
		a.Shrank = min(max(0, before-now), len(nodes))
	case a.Err == nil:
		a.Shrank = len(nodes)
	}
}

// report notes what left, and what did not.
func (s *Scaler) report(d *Decision, attempts []Attempt) {
	failed := map[string]error{}
	for _, a := range attempts {
		if !a.left() {
			failed[a.Group] = a.Err
		}
	}
	left := d.Go[:0]
	for _, at := range d.Go {
		o := &d.Nodes[at]
		err, stayed := failed[o.Group]
		if !stayed {
			s.leaving[o.Node] = o.Drain
			delete(s.unneeded, o.Node)
			left = append(left, at)
			continue
		}
		o.Outcome, o.Reason = NodeRefused, "the cloud did not delete it: "+err.Error()
	}
	d.Go = left
}
