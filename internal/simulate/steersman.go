package simulate

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
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
	o, clock := s.setup.Options, clocktesting.NewFakeClock(s.clock.Now())
	options := sidecar.Options{
		Options: steering.Options{
			Chain: o.Expander, Similarity: o.Similarity, Backoff: o.Backoff, MaxNodeProvisionTime: o.MaxNodeProvisionTime,
			NotBalanced: o.DisableBalancing, NotSpreadAware: o.DisableSpreadSplit, ZonalShift: o.ZonalShift, MaxBalanceDeferral: o.MaxBalanceDeferral,
			Totals: steering.Totals{Nodes: o.Limits.MaxNodesTotal, Cores: o.Limits.Cores.Max, Memory: o.Limits.Memory.Max},
		},
		Journal: &journal{}, Nodes: nodeStates{s}, Workload: podStates{s}, Clock: clock,
		Parallel: 1, BackendTimeout: callTimeout, // the same file gives the same bytes
	}
	p := &steersman{s: s, clock: clock}
	options.Recorder = p
	options.Before136 = func(context.Context) bool { return s.setup.before(v136) }
	var err error
	p.Sidecar, err = sidecar.New(s.cloud, options)
	return p, err
}

// Event implements sidecar.Recorder.
func (p *steersman) Event(_ bool, _, message string) {
	p.s.timeline.once(p.s.elapsed(), v1alpha1.RowSidecar, message).Reason = message
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
		state := steering.NodeState{ProviderID: node.object.Spec.ProviderID, Name: node.object.Name, Created: node.object.CreationTimestamp.Time}
		for _, c := range node.object.Status.Conditions {
			state.Ready = state.Ready || c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
			state.Lost = state.Lost || c.Type == v1.NodeReady && c.Status == v1.ConditionUnknown
		}
		out = append(out, state)
	}
	return out, true
}

// podStates are the pods as the sidecar watches them.
type podStates struct{ s *simulation }

func (p podStates) List() (steering.Workload, bool) {
	var out steering.Workload
	for _, n := range p.s.cluster.seen() {
		out.Nodes, out.Pods = append(out.Nodes, n.Node), append(out.Pods, n.Pods...)
	}
	out.Pods = append(out.Pods, objectsOf(p.s.cluster.waiting())...)
	return out, true
}

// Complete adds the default spread constraints, as the scheduler does.
func (p podStates) Complete(pods []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, pod := range pods {
		out[i] = p.s.checker.Defaulted(pod)
	}
	return out
}
