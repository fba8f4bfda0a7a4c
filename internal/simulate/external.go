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
	"github.com/evenkeel/evenkeel/zonalshift"
)

// external is the evenkeel of a run that Cluster Autoscaler asks: the expander alone, or the provider as
// well.
type external struct {
	// clock is that of the run, but nobody who waits on it is woken before the time has come: the
	// sidecar gives up calls of the cloud that take too long.
	clock *clocktesting.FakeClock
	shift func(source string, marks []zonalshift.Mark, err error)
	sizes func(sizes steering.Sizes, err error) // nil for the provider, which reads them by itself
}

// newExternal starts the evenkeel of the mode, and connects Cluster Autoscaler with it; nil for a mode without one.
func newExternal(s *simulation, connection *autoscaler.Connection) (*external, error) {
	b := &external{clock: clocktesting.NewFakeClock(s.clock.Now())}
	options := sidecar.Options{Options: s.setup.Options.Options, Clock: b.clock, Recorder: events{s}}
	switch s.setup.mode() {
	case Sidecar:
		options.Journal, options.Nodes = &journal{}, nodeStates{s}
		options.Parallel, options.BackendTimeout = 1, callTimeout // the same file gives the same bytes
		options.Before136 = func(context.Context) bool { return s.setup.before(v136) }
		provider, err := sidecar.New(s.cloud, options)
		if err != nil {
			return nil, err
		}
		b.shift = provider.Shift
		*connection = autoscaler.Connection{Provider: provider, Expander: provider}
	case Expander:
		expander, err := sidecar.NewExpander(nil, options)
		if err != nil {
			return nil, err
		}
		b.shift, b.sizes = expander.Shift, expander.Sizes
		connection.Expander = expander
	case Stock, Linked:
		return nil, nil
	}
	return b, nil
}

// events are those of evenkeel in the timeline of a run.
type events struct{ s *simulation }

// Event implements sidecar.Recorder.
func (e events) Event(_ bool, _, message string) {
	e.s.timeline.once(e.s.elapsed(), v1alpha1.RowSidecar, message).Reason = message
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
		out = append(out, steering.NodeState{
			ProviderID: node.object.Spec.ProviderID, Name: node.object.Name, Created: node.object.CreationTimestamp.Time,
			Ready: template.IsReady(node.object), Lost: deadTaint(node.object) == v1.TaintNodeUnreachable,
		})
	}
	return out, true
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
