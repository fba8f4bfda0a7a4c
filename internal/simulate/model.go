package simulate

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

// Mode is which autoscaler decides in a run.
type Mode string

// The modes. In all of them the loop is that of Cluster Autoscaler.
const (
	Stock   Mode = "stock"   // Cluster Autoscaler alone
	Linked  Mode = "linked"  // evenkeel linked into Cluster Autoscaler
	Sidecar Mode = "sidecar" // Cluster Autoscaler with evenkeel as its expander and its provider
)

// Modes lists the modes.
func Modes() []Mode { return []Mode{Stock, Linked, Sidecar} }

// callTimeout bounds a call in real time. It is far beyond what a call takes: whether a machine is
// busy must not show in a report.
const callTimeout = time.Hour

// model is Cluster Autoscaler in a run.
type model struct {
	s       *simulation
	ca      *autoscaler.Autoscaler
	sidecar *steersman // nil but for Sidecar
}

func newModel(s *simulation) (*model, error) {
	m := &model{s: s}
	options, err := m.options()
	if err != nil {
		return nil, err
	}
	if s.setup.Mode == Sidecar {
		if m.sidecar, err = newSteersman(s); err != nil {
			return nil, err
		}
	}
	m.ca, err = autoscaler.New(autoscaler.Config{
		Clock: s.clock, Cloud: s.cloud, World: m, DaemonSets: s.setup.DaemonSets, Seed: s.setup.Seed, Options: options,
		Connect: func(int) (autoscaler.Connection, error) {
			if m.sidecar != nil {
				return autoscaler.Connection{Provider: m.sidecar, Expander: m.sidecar}, nil
			}
			return autoscaler.Connection{Provider: s.cloud}, nil
		},
	})
	return m, err
}

// options are those of Cluster Autoscaler.
func (m *model) options() (autoscaler.Options, error) {
	setup := m.s.setup
	o := setup.Options
	chain, err := m.strategies(o.Expander)
	if err != nil {
		return autoscaler.Options{}, err
	}
	out := autoscaler.Options{
		Timeout: callTimeout, ProvisionTime: o.MaxNodeProvisionTime, ScanInterval: setup.ScanInterval,
		MaxNodesTotal: o.Limits.MaxNodesTotal, MaxNodesPerScale: o.Limits.MaxNodesPerScaleUp, Quotas: quotasOf(&o.Limits),
		Balance: !o.DisableBalancing && setup.Mode != Sidecar, Backoff: o.Backoff, Strategies: &chain,
		StartupTaints: o.StartupTaints, Packing: autoscaler.PluginsOf(m.s.checker), Salvo: setup.Salvo,
	}
	if setup.Mode == Linked && out.Balance {
		out.Linked = &autoscaler.Linked{Similarity: o.Similarity, DisableSpreadSplit: o.DisableSpreadSplit}
		if down := setup.ScaleDown; down != nil {
			out.Linked.MaxBalanceDeferral = down.MaxBalanceDeferral
		}
	}
	return out, nil
}

// strategies are those of --expander; what they find equal is drawn.
func (m *model) strategies(chain expander.Chain) (expander.Chain, error) {
	names := chain.Names()
	if len(names) == 0 {
		var err error
		if chain, err = expander.New(nil, expander.Config{Seed: m.s.setup.Seed}); err != nil {
			return chain, err
		}
	}
	return chain, nil
}

// quotasOf are the limits over several groups.
func quotasOf(l *scaleup.Limits) []autoscaler.Quota {
	everywhere := func(string, *v1.Node) bool { return true }
	var out []autoscaler.Quota
	add := func(name string, counts func(string, *v1.Node) bool, resource string, limit int64) {
		if limit > 0 {
			out = append(out, autoscaler.Quota{Name: name, Counts: counts, Max: map[string]int64{resource: limit}})
		}
	}
	add("cores-total", everywhere, autoscaler.QuotaCores, l.MaxCoresTotal)
	add("memory-total", everywhere, autoscaler.QuotaMemory, l.MaxMemoryTotal)
	for i := range l.Quotas {
		q := &l.Quotas[i]
		counts := everywhere
		if len(q.Groups)+len(q.Zones) > 0 {
			counts = func(group string, node *v1.Node) bool {
				zone := nodegroupset.ZoneOf(node)
				return slices.Contains(q.Groups, group) || zone != "" && slices.Contains(q.Zones, zone)
			}
		}
		add(q.Name, counts, autoscaler.QuotaNodes, q.Nodes)
		add(q.Name, counts, autoscaler.QuotaCores, q.MilliCPU/1000)
		add(q.Name, counts, autoscaler.QuotaMemory, q.Memory)
	}
	return out
}

// Nodes implements autoscaler.World.
func (m *model) Nodes() []predicates.Node { return m.s.cluster.seen() }

// Pending implements autoscaler.World.
func (m *model) Pending() []*v1.Pod { return objectsOf(m.s.cluster.helped()) }

// SetDeleting implements autoscaler.World.
func (m *model) SetDeleting(name string, deleting bool) {
	n := m.s.cluster.byName[name]
	if n == nil || n.leaving == deleting {
		return
	}
	if deleting {
		m.s.retire(n)
		return
	}
	m.s.keep(n)
}

// Restarted implements autoscaler.World: the model's process never ends.
func (m *model) Restarted() {}

// round runs one loop.
func (m *model) round() ([]scaleup.Round, error) {
	if m.sidecar != nil {
		m.sidecar.look()
	}
	report, err := m.ca.Loop()
	if err != nil {
		return nil, err
	}
	if report.Err != nil {
		return nil, report.Err
	}
	return report.Rounds, nil
}

// next is when a loop may decide otherwise without any event.
func (m *model) next() []time.Time {
	at, waits := m.ca.Next()
	if !waits {
		return nil
	}
	scan := m.s.clock.Now().Add(cmp.Or(m.s.setup.ScanInterval, DefaultScanInterval))
	if at.Before(scan) {
		at = scan
	}
	return []time.Time{at}
}
