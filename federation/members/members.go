package members

import (
	"maps"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// Name is the name of the controller in flags, logs and metrics.
const Name = "members"

// Handler is called when something of the clusters changes: a local object of a cluster was created, changed or
// deleted, or its pods changed so that it matters; or, without a local object, the cluster came, went, changed its state,
// labels or taints, or was read anew. Calls come from several goroutines, and must return quickly.
type Handler func(cluster string, l *Local)

// Members are the member clusters. Its methods may be called from several goroutines.
type Members struct {
	options  Options
	triggers passes.Triggers // with the context of the connections

	mu       sync.Mutex
	handlers []Handler // not changed, but replaced
	clusters map[string]*Cluster
}

// New returns Members. They are empty until the controller is set up and its manager runs.
func New(o Options) *Members {
	o.setDefaults()
	return &Members{options: o, clusters: map[string]*Cluster{}}
}

// Handle adds a handler, which is called for what changes from then on.
func (m *Members) Handle(h Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handlers = append(slices.Clone(m.handlers), h)
}

func (m *Members) report(cluster string, l *Local) {
	m.mu.Lock()
	handlers := m.handlers
	m.mu.Unlock()
	for _, h := range handlers {
		h(cluster, l)
	}
}

// Get returns a cluster; nil if there is none of the name.
func (m *Members) Get(name string) *Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusters[name]
}

// add returns the cluster of a MemberCluster, which continues as its status says if it is new.
func (m *Members) add(of *v1alpha1.MemberCluster) *Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clusters[of.Name] == nil {
		m.clusters[of.Name] = newCluster(of, m)
	}
	return m.clusters[of.Name]
}

// remove ends the connection to a cluster that is a member no longer.
func (m *Members) remove(name string) {
	m.mu.Lock()
	c := m.clusters[name]
	delete(m.clusters, name)
	others := slices.Collect(maps.Values(m.clusters))
	m.mu.Unlock()
	if c == nil {
		return
	}
	c.end()
	m.options.Metrics.forget(name)
	m.report(name, nil)
	for _, other := range others { // one may have been refused because of this one
		other.ask()
	}
}

// claim records which cluster it is, and refuses one that is another member. It belongs to the MemberCluster that was
// there first, as the statuses of all of them say or, of those that were not stored yet, what was found out.
func (m *Members) claim(c *Cluster, uid string, all []v1alpha1.MemberCluster) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	holder := ""
	for i := range all {
		if all[i].Status.ClusterUID == uid && m.clusters[all[i].Name] == nil {
			holder = all[i].Name
		}
	}
	for name, other := range m.clusters {
		if other.uid == uid && other != c {
			holder = name
		}
	}
	if holder != "" {
		return problemOf(v1alpha1.ReasonAlreadyJoined,
			"the kubeconfig is that of a cluster that has joined already, as %s: delete one of the two MemberClusters", holder)
	}
	c.uid = uid
	return nil
}
