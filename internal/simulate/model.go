package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// Mode is which autoscaler decides in a run.
type Mode string

// The modes. In all of them the loop is that of Cluster Autoscaler.
const (
	Stock    Mode = "stock"    // Cluster Autoscaler alone
	Expander Mode = "expander" // Cluster Autoscaler with evenkeel as its expander
	Linked   Mode = "linked"   // evenkeel linked into Cluster Autoscaler
	Sidecar  Mode = "sidecar"  // Cluster Autoscaler with evenkeel as its expander and its provider
)

// Modes lists the modes.
func Modes() []Mode { return []Mode{Stock, Expander, Linked, Sidecar} }

// The releases of Cluster Autoscaler that differ in what is played.
const v135, v136 = "1.35", "1.36"

// Versions lists the releases of Cluster Autoscaler that can be played, the oldest first.
func Versions() []string { return []string{"1.34", v135, v136} }

// before reports whether the release played is older than one.
func (s *Setup) before(version string) bool { return s.Version != "" && s.Version < version }

func (s *Setup) mode() Mode { return cmp.Or(s.Mode, Linked) }

// callTimeout bounds a call in real time. It is far beyond what a call takes: whether a machine is
// busy must not show in a report.
const callTimeout = time.Hour

// answerTimeout is how long Cluster Autoscaler waits for the answer of an external provider, in virtual time.
const answerTimeout = 5 * time.Second

func impatient(ctx context.Context, _ autoscaler.Call, do func(context.Context) error) error {
	return do(fake.WithTimeout(ctx, answerTimeout))
}

// model is Cluster Autoscaler in a run.
type model struct {
	s        *simulation
	ca       *autoscaler.Autoscaler
	external *external // nil but for Sidecar and Expander

	counted   map[string]int // pods by controller, in round countedAt
	countedAt int
}

func newModel(s *simulation) (*model, error) {
	m := &model{s: s}
	options, err := m.options()
	if err != nil {
		return nil, err
	}
	connection := autoscaler.Connection{Provider: s.cloud, Intercept: impatient}
	if m.external, err = newExternal(s, &connection); err != nil {
		return nil, err
	}
	m.ca, err = autoscaler.New(autoscaler.Config{
		Clock: s.clock, Cloud: s.cloud, Connection: connection, World: m, DaemonSets: s.setup.DaemonSets, Ordered: s.setup.ordered(),
		Seed: s.setup.Seed, Options: options,
	})
	return m, err
}

func (m *model) options() (autoscaler.Options, error) {
	setup := m.s.setup
	o := setup.Options
	chain := o.Chain
	if len(chain.Names()) == 0 { // what is equal is drawn
		var err error
		if chain, err = expander.New(nil, expander.Config{Seed: setup.Seed}); err != nil {
			return autoscaler.Options{}, err
		}
	}
	out := autoscaler.Options{
		Timeout: callTimeout, ProvisionTime: o.MaxNodeProvisionTime, ScanInterval: setup.ScanInterval,
		MaxNodesTotal: o.MaxNodesTotal, MaxNodesPerScale: o.MaxNodesPerScaleUp, Quotas: o.Quotas,
		Balance: !o.NotBalanced, Backoff: o.Backoff, Strategies: &chain,
		StartupTaints: o.StartupTaints, Salvo: setup.Salvo, Progress: m.s.progress.step,
		Similarity: o.Similarity, Cloud: setup.cloud(), Explain: setup.follow(),
	}
	if setup.mode() == Expander {
		out.Balance, out.MaxNodesPerScale = false, cmp.Or(out.MaxNodesPerScale, 1)
	}
	if setup.mode() == Linked && out.Balance {
		out.Linked = &autoscaler.Linked{Similarity: o.Similarity, DisableSpreadSplit: o.DisableSpreadSplit,
			MaxBalanceDeferral: o.MaxBalanceDeferral}
	}
	out.Before135, out.Before136 = setup.before(v135), setup.before(v136)
	out.Checker = m.s.checker
	if setup.ScaleDown != nil {
		down := *setup.ScaleDown
		down.Replicas = m.replicas
		out.Removal = &down
	}
	return out, nil
}

// cloud is as the providerIDs of the scenario's nodes and templates begin; empty where none has one.
func (s *Setup) cloud() string {
	var nodes []*v1.Node
	for i := range s.Cloud.Groups {
		nodes = append(nodes, nodesOf(&s.Cloud.Groups[i])...)
	}
	return nodegroupset.StockCloud(slices.Values(nodes))
}

// Nodes implements autoscaler.World. While a zone is shifted away, a node of it is annotated, as users
// of a linked build do.
func (m *model) Nodes() []predicates.Node {
	nodes := m.s.cluster.seenByAutoscaler()
	marks := m.s.shiftsNow()
	if m.s.setup.mode() != Linked || len(marks) == 0 {
		return nodes
	}
	nodes = slices.Clone(nodes)
	for _, mark := range marks {
		at := slices.IndexFunc(nodes, func(n predicates.Node) bool { return nodegroupset.ZoneOf(n.Node) == mark.Value })
		if at < 0 {
			m.s.timeline.once(m.s.elapsed(), v1alpha1.RowWarning,
				fmt.Sprintf("zone %s has no node to annotate, so a linked build does not know that it is shifted away", mark.Value))
			continue
		}
		marked := *nodes[at].Node
		marked.Annotations = maps.Clone(marked.Annotations)
		metav1.SetMetaDataAnnotation(&marked.ObjectMeta, autoscaler.ZonalShiftAnnotation, "true")
		nodes[at].Node = &marked
	}
	return nodes
}

// Pending implements autoscaler.World.
func (m *model) Pending() []*v1.Pod { return objectsOf(m.s.cluster.helped()) }

// SetDeleting implements autoscaler.World.
func (m *model) SetDeleting(name string, deleting bool) {
	s, n := m.s, m.s.cluster.byName[name]
	if n == nil || n.leaving == deleting {
		return
	}
	n.leaving = deleting
	s.history.deleting(name, deleting)
	if deleting {
		n.object, n.ready = toBeDeleted(n.object), false
	} else {
		n.object = s.setup.registered(n.cloud)
		n.ready, n.downSince = takesPods(n.object), deadSince(n.object)
		s.agenda.bindDue = true
	}
	s.cluster.changed(n)
}

func (m *model) loop() (autoscaler.Report, error) {
	b := m.external
	if b == nil {
		return m.ca.Loop()
	}
	b.clock.SetTime(m.s.clock.Now())
	b.shift("scenario", m.s.shiftsNow(), nil)
	if b.sizes != nil {
		defer func() { b.sizes(sizesOf(m.ca.Status()), nil) }()
	}
	return m.ca.Loop()
}

// next is when a loop may decide otherwise without any event.
func (m *model) next() []time.Time {
	at, waits := m.ca.Next()
	if !waits {
		return nil
	}
	return []time.Time{later(at, m.s.clock.Now().Add(cmp.Or(m.s.setup.ScanInterval, DefaultScanInterval)))}
}
