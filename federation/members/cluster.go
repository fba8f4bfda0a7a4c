package members

import (
	"errors"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
)

// Cluster is a member cluster. Its methods may be called from several goroutines. What they return
// comes from memory, so none of them waits for the cluster.
type Cluster struct {
	name    string
	options *Options
	members *Members
	changes changes

	// Only the reconciler of the MemberCluster changes these, one pass at a time: it reads them without a lock.
	mu         sync.Mutex
	member     *v1alpha1.MemberCluster // as it was last read
	live       liveness
	cause      string        // why it does not answer
	skew       time.Duration // of its clock
	connection *connection   // nil without usable credentials
	caches     *caches       // nil before the cluster was ever read

	// Only that reconciler uses these.
	problem  *Problem // of the credentials
	version  string
	probed   time.Time
	replaced string // version of the MemberCluster before its status was stored last
	reported View   // to handlers, without what does not matter for them

	uid string // members.mu guards it
}

func newCluster(m *v1alpha1.MemberCluster, all *Members) *Cluster {
	o := &all.options
	return &Cluster{
		name: m.Name, options: o, members: all, member: m, uid: m.Status.ClusterUID, version: m.Status.Version,
		live:    newLiveness(stateOf(m), clock.Now(), o),
		changes: changes{keys: workqueue.NewTyped[string](), waiting: map[string]Change{}},
	}
}

// View is what is known of a cluster at a time.
type View struct {
	State State
	// Cause is why it does not answer, if it does not.
	Cause string
	// Known reports that the local objects were read at least once since the program started.
	Known bool
	// Takeover is what may be overwritten there.
	Takeover v1alpha1.Takeover
	// NoSchedule reports that the cluster keeps what it has and gets no more, and Leaving that its replicas belong
	// elsewhere, as its taints say.
	NoSchedule, Leaving bool

	// What was read, and whether nodes were.
	caches *caches
	nodes  bool
}

// View returns what is known now.
func (c *Cluster) View() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, _, _ := c.live.at(clock.Now())
	spec := &c.member.Spec
	tainted := func(effect v1.TaintEffect) bool {
		return slices.ContainsFunc(spec.Taints, func(t v1alpha1.ClusterTaint) bool { return t.Effect == effect })
	}
	nodes, _ := c.caches.nodesKnown()
	return View{state, c.cause, c.caches != nil, spec.Takeover, tainted(v1.TaintEffectNoSchedule), tainted(v1.TaintEffectNoExecute), c.caches,
		nodes}
}

// Name is the name of the MemberCluster.
func (c *Cluster) Name() string { return c.name }

// ReplicaSet returns a local object as it was last seen; nil if there is none. It is shared and
// must not be changed.
func (c *Cluster) ReplicaSet(namespace, name string) *appsv1.ReplicaSet {
	r, _ := c.read().get(Local{ReplicaSet, namespace, name}).(*appsv1.ReplicaSet)
	return r
}

// Deployment is as ReplicaSet.
func (c *Cluster) Deployment(namespace, name string) *appsv1.Deployment {
	d, _ := c.read().get(Local{Deployment, namespace, name}).(*appsv1.Deployment)
	return d
}

// ReplicaSetsOf are the ReplicaSets of a Deployment that is a local object, as ReplicaSet.
func (c *Cluster) ReplicaSetsOf(d *appsv1.Deployment) []*appsv1.ReplicaSet {
	return c.read().replicaSetsOf(d)
}

// Pods counts the pods of a local object.
func (c *Cluster) Pods(l Local) (p Pods) {
	if caches := c.read(); caches != nil {
		p = caches.pods(l)
		c.mu.Lock()
		defer c.mu.Unlock()
		p.skew = c.skew
	}
	return p
}

// Room returns what the nodes of a cluster have left, if it has fixed nodes and they have been read.
// It is shared and must not be changed.
func (c *Cluster) Room() (_ federation.Room, known bool) {
	caches := c.read()
	if known, _ = caches.nodesKnown(); !known {
		return federation.Room{}, false
	}
	return caches.room(), true
}

// HostTime is a time that an object in the cluster says, by the clock of the controllers.
func (c *Cluster) HostTime(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.IsZero() {
		return t
	}
	return t.Add(-c.skew)
}

// Client returns a client of the cluster, whose calls are bounded in number and time. It returns
// ErrNotAnswering for a cluster that does not answer, so that nobody waits for it. It knows
// ReplicaSets, Deployments, pods and events.
func (c *Cluster) Client() (client.Client, error) {
	state := c.View().State
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connection == nil || state != Ready && state != Stabilizing {
		return nil, ErrNotAnswering
	}
	return c.connection.writer, nil
}

// read returns the caches; nil before the cluster was ever read.
func (c *Cluster) read() *caches {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.caches
}

// set changes what others read.
func (c *Cluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// ask has the cluster probed now, and its status stored.
func (c *Cluster) ask() { c.members.triggers.Pass(types.NamespacedName{Name: c.name}, 0) }

// use has the cluster reached by a connection from now on, and ends the former one; nil ends it only.
func (c *Cluster) use(s *connection) {
	before, expires := c.connection, time.Time{}
	c.problem = nil
	c.set(func() { c.connection = s })
	if before != nil {
		before.close()
	}
	if s != nil {
		expires = s.expires
	}
	c.options.Metrics.expires(c.name, expires)
}

// end ends the connection for good, and returns when no change is under way.
func (c *Cluster) end() {
	c.use(nil)
	c.changes.end()
}

// show replaces the caches.
func (c *Cluster) show(fresh *caches) {
	if c.caches != nil {
		c.caches.cancel()
	}
	c.set(func() { c.caches = fresh })
}

// skewed records by how much the clock of the cluster is ahead. What its objects say about times is
// corrected by that. A difference of a moment changes nothing, or times would change with each probe.
func (c *Cluster) skewed(by time.Duration) {
	if (by-c.skew).Abs() >= skewMatters || by == 0 {
		c.set(func() { c.skew = by })
	}
	c.options.Metrics.skew.WithLabelValues(c.name).Set(c.skew.Seconds())
}

// errFilling is returned while the cluster answers, but what is there is not known yet.
var errFilling = errors.New("reading what runs in the cluster")

// checked records what was found out.
func (c *Cluster) checked(now time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, errFilling) {
		return
	}
	c.live.saw(err == nil, now)
	if err == nil {
		c.problem, c.connection.valid, c.cause = nil, true, ""
		return
	}
	if state, _, _ := c.live.at(now); c.cause == "" || state != c.reported.State { // otherwise the status would change all the time
		c.cause = Explain(err)
	}
	if problem, ok := errors.AsType[*Problem](err); ok {
		c.problem = problem
	}
}
