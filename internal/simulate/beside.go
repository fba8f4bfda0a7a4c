package simulate

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// steersman is the sidecar of a run, between Cluster Autoscaler and the cloud.
type steersman struct {
	*sidecar.Sidecar
	s *simulation
	// clock is that of the run, but nobody who waits on it is woken before the time has come: the
	// sidecar gives up calls of the cloud that take too long.
	clock *clocktesting.FakeClock
}

func newSteersman(s *simulation) (*steersman, error) {
	clock := clocktesting.NewFakeClock(s.clock.Now())
	options := sidecar.Options{
		Options: s.setup.Options.Options,
		Journal: &journal{}, Nodes: nodeStates{s}, Clock: clock,
		Parallel: 1, BackendTimeout: callTimeout, // the same file gives the same bytes
	}
	p := &steersman{s: s, clock: clock}
	options.Recorder = events{s}
	options.Before136 = func(context.Context) bool { return s.setup.before(v136) }
	var err error
	p.Sidecar, err = sidecar.New(s.cloud, options)
	return p, err
}

// events are those of evenkeel in the timeline of a run.
type events struct{ s *simulation }

// Event implements sidecar.Recorder.
func (e events) Event(_ bool, _, message string) {
	e.s.timeline.once(e.s.elapsed(), v1alpha1.RowSidecar, message).Reason = message
}

// look brings the sidecar up to date before a loop: the time, and which zones users have shifted away.
func (p *steersman) look() {
	p.clock.SetTime(p.s.clock.Now())
	p.Shift("scenario", p.s.shiftsNow(), nil)
}

// journal keeps the sidecar's state as long as the run.
type journal struct{ text []byte }

func (j *journal) Load(context.Context) ([]byte, error) { return slices.Clone(j.text), nil }

func (j *journal) Save(_ context.Context, text []byte) error {
	j.text = slices.Clone(text)
	return nil
}

// nodeStates are the registered nodes as the sidecar watches them.
type nodeStates struct{ s *simulation }

func (n nodeStates) List() ([]steering.NodeState, bool) {
	var out []steering.NodeState
	for _, node := range n.s.cluster.nodes {
		state := steering.NodeState{
			ProviderID: node.object.Spec.ProviderID, Name: node.object.Name, Created: node.object.CreationTimestamp.Time, Ready: template.IsReady(node.object),
		}
		for _, c := range node.object.Status.Conditions {
			state.Lost = state.Lost || c.Type == v1.NodeReady && c.Status == v1.ConditionUnknown
		}
		out = append(out, state)
	}
	return out, true
}

// chooser is the expander of a run that has no other part of evenkeel.
type chooser struct {
	*sidecar.Expander
	s     *simulation
	clock *clocktesting.FakeClock
}

func newChooser(s *simulation) (*chooser, error) {
	c := &chooser{s: s, clock: clocktesting.NewFakeClock(s.clock.Now())}
	var err error
	c.Expander, err = sidecar.NewExpander(nil, sidecar.Options{Options: s.setup.Options.Options, Clock: c.clock, Recorder: events{s}})
	return c, err
}

// look brings the expander up to date before a loop: the time, and which zones users have shifted away.
func (c *chooser) look() {
	c.clock.SetTime(c.s.clock.Now())
	c.Shift("scenario", c.s.shiftsNow(), nil)
}

// sizesOf is the status that Cluster Autoscaler writes at the end of a loop.
func sizesOf(status autoscaler.Status) steering.Sizes {
	out := steering.Sizes{Began: status.Began}
	for _, g := range status.Groups {
		out.Groups = append(out.Groups, steering.GroupSize{
			Name: g.ID, Target: g.Target, MinSize: g.MinSize, MaxSize: g.MaxSize, Ready: g.Ready, Unready: g.Unready, Lost: g.LongUnregistered,
			BackedOff: g.BackedOff, Refused: g.Refused,
		})
	}
	return out
}
