package members

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// Name is the name of the controller in flags, logs and metrics.
const Name = "members"

// Handler is called when something of the clusters changes. Calls come from several goroutines, and
// must return quickly. A nil function is not called.
type Handler struct {
	// Cluster came, went, changed its state, labels or taints, or was read anew.
	Cluster func(name string)
	// Local object of a cluster was created, changed or deleted, or its pods changed so that it matters.
	Local func(cluster string, l Local)
}

// Members are the member clusters. Its methods may be called from several goroutines.
type Members struct {
	options  Options
	triggers passes.Triggers // with the context of the connections

	mu       sync.Mutex
	handlers []Handler // not changed, but replaced
	clusters map[string]*Cluster
	claims   map[string]string // names by the UID of the cluster
	host     string            // UID of the host
}

// New returns Members. They are empty until the controller is set up and its manager runs.
func New(o Options) *Members {
	o.setDefaults()
	return &Members{options: o, clusters: map[string]*Cluster{}, claims: map[string]string{}}
}

// Handle adds a handler, which is called for what changes from then on.
func (m *Members) Handle(h Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handlers = append(slices.Clone(m.handlers), h)
}

func (m *Members) handling() []Handler {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.handlers
}

// Get returns a cluster; nil if there is none of the name.
func (m *Members) Get(name string) *Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusters[name]
}

// add returns the cluster of a MemberCluster, which continues as its status says if it is new.
func (m *Members) add(of *v1alpha1.MemberCluster) (c *Cluster, isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.clusters[of.Name]; c != nil {
		return c, false
	}
	c = newCluster(of.Name, stateOf(of), m)
	m.clusters[of.Name] = c
	return c, true
}

// remove ends the connection to a cluster that is a member no longer.
func (m *Members) remove(name string) {
	m.mu.Lock()
	c := m.clusters[name]
	delete(m.clusters, name)
	var others []string
	for uid, holder := range m.claims {
		if holder == name {
			delete(m.claims, uid)
		}
	}
	for other := range m.clusters {
		others = append(others, other)
	}
	m.mu.Unlock()
	if c == nil {
		return
	}
	c.close()
	m.options.Metrics.forget(name)
	m.changed(name)
	for _, other := range others { // one may have been refused because of this one
		m.ask(other)
	}
}

// ask has a cluster probed now if it was refused.
func (m *Members) ask(name string) {
	if c := m.Get(name); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.session != nil && c.problem != nil {
			c.session.ask()
		}
	}
}

// recall takes in which cluster a MemberCluster was found to be before the program started, so that
// another MemberCluster does not take its place.
func (m *Members) recall(uid, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uid != "" && m.claims[uid] == "" {
		m.claims[uid] = name
	}
}

// claim refuses a cluster that is another member or the host. A cluster belongs to the MemberCluster that was there first.
func (m *Members) claim(uid, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uid == m.host {
		return &Problem{
			v1alpha1.ReasonPointsToHost,
			"the kubeconfig is that of the host, the cluster that the controllers run against: give the one of the member",
		}
	}
	if holder := m.claims[uid]; holder != "" && holder != name {
		return &Problem{
			v1alpha1.ReasonAlreadyJoined,
			fmt.Sprintf("the kubeconfig is that of a cluster that has joined already, as %s: delete one of the two MemberClusters", holder),
		}
	}
	for other, holder := range m.claims {
		if holder == name && other != uid {
			delete(m.claims, other)
		}
	}
	m.claims[uid] = name
	return nil
}

// clusterChanged has the status of the MemberCluster looked at, and calls handlers.
func (m *Members) clusterChanged(name string) {
	m.triggers.Pass(types.NamespacedName{Name: name}, 0)
	m.changed(name)
}

func (m *Members) changed(name string) {
	for _, h := range m.handling() {
		if h.Cluster != nil {
			h.Cluster(name)
		}
	}
}

func (m *Members) localChanged(cluster string, l Local) {
	for _, h := range m.handling() {
		if h.Local != nil {
			h.Local(cluster, l)
		}
	}
}
