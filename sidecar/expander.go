package sidecar

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/steering"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Expander answers Cluster Autoscaler as its expander only, whatever its cloud provider is: it chooses the set of node
// groups, and in the set the member that is furthest below its share. It may be used from several goroutines.
type Expander struct {
	machine
	nodes func() ([]*v1.Node, error)

	status  time.Time // of the status that is in use; zero without one
	read    time.Time // when a status was last read
	problem error     // why there is none
}

// ExpanderNodes lists the nodes of the cluster. It is asked where Cluster Autoscaler writes no status.
type ExpanderNodes func() ([]*v1.Node, error)

// NewExpander returns an expander. Of the options those count that decide, and Policies, Chains, Recorder, Record, Metrics,
// Clock and Log. Without nodes, which may be nil, and without a status, sizes are those of its own answers.
func NewExpander(nodes ExpanderNodes, o Options) (*Expander, error) {
	if o.Metrics == nil {
		o.Metrics, _ = NewExpanderMetrics(nil) // registers nothing
	}
	o.setDefaults()
	o.ExpanderOnly = true
	state, err := steering.New("", o.Options)
	if err != nil {
		return nil, err
	}
	e := &Expander{machine: machine{o: &o, state: state}, nodes: nodes, problem: errNoStatus}
	e.step(steering.Started{})
	return e, nil
}

var errNoStatus = fmt.Errorf("the status of Cluster Autoscaler has not been read yet")

// Sizes takes in the status of Cluster Autoscaler, or why there is none.
func (e *Expander) Sizes(sizes steering.Sizes, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.problem = err; err != nil {
		e.status = time.Time{}
		e.o.Metrics.statusTime.Set(0)
		return
	}
	e.status, e.read = sizes.Began, e.o.Clock.Now()
	e.o.Metrics.statusTime.Set(float64(e.status.UnixMilli()) / 1000)
	e.apply(sizes)
	e.measure()
}

// measure brings the gauges up to date. The caller holds mu.
func (e *Expander) measure() {
	if gauges, ok := e.state.Gauges(); ok {
		e.o.Metrics.state(gauges)
	}
}

// BestOptions implements expander.Chooser.
func (e *Expander) BestOptions(ctx context.Context, question expander.Question) ([]string, error) {
	e.readConfiguration()
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err() // nobody waits for the answer any more
	}
	if e.problem != nil {
		e.countNodes(&question)
	}
	answer := e.apply(steering.Asked{Question: question})
	e.measure()
	switch {
	case answer.Err != nil:
		return nil, answer.Err
	case ctx.Err() != nil:
		e.apply(steering.Unread{})
		return nil, ctx.Err()
	case e.o.DryRun:
		return offered(question), nil
	case answer.Group == "":
		return nil, nil
	}
	return []string{answer.Group}, nil
}

// statusPatience is how long the last status is used after it could not be read any more: a watch breaks and is back, or Cluster Autoscaler
// starts anew. Nodes that are counted lack those on their way.
const statusPatience = time.Minute

// countNodes takes the nodes of each group for its size. The caller holds mu.
func (e *Expander) countNodes(question *expander.Question) {
	if e.nodes == nil || !e.read.IsZero() && e.o.Clock.Since(e.read) < statusPatience {
		return
	}
	nodes, err := e.nodes()
	if err != nil {
		e.o.Log.Error(err, "Nodes cannot be counted")
		return
	}
	e.apply(steering.Sizes{Began: e.o.Clock.Now(), Groups: countNodes(question.Nodes, nodes), Counted: true})
}

// Shift takes in the zones that users have shifted away, as Sidecar.Shift does.
func (e *Expander) Shift(source string, marks []zonalshift.Mark, err error) {
	e.step(steering.Shift{Source: source, Marks: marks, Err: err})
}

// Status reports what the expander knows and last decided.
func (e *Expander) Status() steering.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.state.Status(e.o.Clock.Now())
	out.Ready, out.Journal, out.LastRefresh = true, "", e.status
	e.history.show(&out)
	if e.problem != nil {
		from := "sizes are counted nodes, without those that are ordered by others"
		if e.nodes == nil {
			from = "sizes are those of the answers since the start"
		}
		out.Warnings = append(out.Warnings, fmt.Sprintf("The status of Cluster Autoscaler is not known, so %s: %v", from, e.problem))
	}
	return out
}
