package members

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Cluster is a member cluster. Its methods may be called from several goroutines. What they return
// comes from memory, so none of them waits for the cluster.
type Cluster struct {
	name    string
	options *Options
	home    *Members

	mu     sync.Mutex
	labels map[string]string
	taints []v1alpha1.ClusterTaint
	// takeover is what may be overwritten there.
	takeover v1alpha1.Takeover
	// fixedNodes reports that the nodes are read.
	fixedNodes bool

	live    liveness
	cause   string   // why it does not answer
	problem *Problem // of its credentials
	valid   bool     // it has accepted its credentials
	expires time.Time
	warn    time.Time     // when it is reported that they expire
	skew    time.Duration // of its clock
	uid     string
	version string
	probed  time.Time
	session *session // nil without usable credentials
	caches  *caches  // nil before the cluster was ever read
	owner   *session // of the caches
	changes changes
}

func newCluster(name string, before State, home *Members) *Cluster {
	c := &Cluster{name: name, options: &home.options, home: home, live: newLiveness(before, home.options.Clock.Now(), &home.options)}
	c.changes.keys, c.changes.waiting = workqueue.NewTyped[string](), map[string]Change{}
	return c
}

// View is what is known of a cluster at a time.
type View struct {
	Name   string
	Labels map[string]string
	Taints []v1alpha1.ClusterTaint
	// Takeover is what may be overwritten there.
	Takeover v1alpha1.Takeover
	// State is what the cluster counts as, since when and, if it does not answer, why not.
	State State
	Since time.Time
	Cause string
	// Known reports that the local objects were read at least once since the program started.
	Known bool
}

// NoSchedule reports that the cluster keeps what it has and gets no more.
func (v View) NoSchedule() bool { return v.tainted(v1.TaintEffectNoSchedule) }

// Leaving reports that the replicas of the cluster belong elsewhere, as its taints say.
func (v View) Leaving() bool { return v.tainted(v1.TaintEffectNoExecute) }

func (v View) tainted(effect v1.TaintEffect) bool {
	return slices.ContainsFunc(v.Taints, func(t v1alpha1.ClusterTaint) bool { return t.Effect == effect })
}

// View returns what is known now.
func (c *Cluster) View() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live
	live.advance(c.options.Clock.Now()) // a copy: looking reports nothing
	return View{
		Name: c.name, Labels: maps.Clone(c.labels), Taints: slices.Clone(c.taints), Takeover: c.takeover,
		State: live.state, Since: live.since, Cause: c.cause, Known: c.caches != nil,
	}
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
		p = caches.tally.get(l)
		c.mu.Lock()
		defer c.mu.Unlock()
		p.skew = c.skew
	}
	return p
}

// Client returns a client of the cluster, whose calls are bounded in number and time. It returns
// ErrNotAnswering for a cluster that does not answer, so that nobody waits for it. It knows
// ReplicaSets, Deployments, pods and events.
func (c *Cluster) Client() (client.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live
	live.advance(c.options.Clock.Now())
	if c.session == nil || live.state != Ready && live.state != Stabilizing {
		return nil, ErrNotAnswering
	}
	return c.session.writer, nil
}

// read returns the caches; nil before the cluster was ever read.
func (c *Cluster) read() *caches {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.caches
}

// reads reports whether the caches are those of a session, and whether nodes should be read.
func (c *Cluster) reads(s *session) (own, fixedNodes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner == s, c.fixedNodes
}

// describe takes in the labels and taints of the MemberCluster.
func (c *Cluster) describe(m *v1alpha1.MemberCluster) {
	c.mu.Lock()
	same := maps.Equal(c.labels, m.Labels) && slices.Equal(c.taints, m.Spec.Taints) && c.takeover == m.Spec.Takeover
	c.labels, c.taints, c.takeover = maps.Clone(m.Labels), slices.Clone(m.Spec.Taints), m.Spec.Takeover
	if c.fixedNodes != m.Spec.FixedNodes {
		c.fixedNodes, same = m.Spec.FixedNodes, false
		if c.session != nil {
			c.session.ask()
		}
	}
	c.mu.Unlock()
	if !same {
		c.home.clusterChanged(c.name)
	}
}

// connect has the cluster reached by a kubeconfig from now on. If it is the one in use, nothing
// happens.
func (c *Cluster) connect(ctx context.Context, config *rest.Config, id fingerprint, expires, warn time.Time) error {
	c.mu.Lock()
	before := c.session
	c.mu.Unlock()
	if before != nil && before.fingerprint == id {
		return nil
	}
	s, err := newSession(c, config, id)
	if err != nil { // such as a key that does not belong to its certificate
		return invalid("cannot be used")
	}
	c.mu.Lock()
	c.session, c.problem, c.valid, c.expires, c.warn = s, nil, false, expires, warn
	c.mu.Unlock()
	if before != nil {
		before.close()
	}
	s.open(ctx)
	return nil
}

// refuse ends the connection because of the credentials.
func (c *Cluster) refuse(problem *Problem) {
	c.mu.Lock()
	s := c.session
	c.session, c.problem, c.valid, c.expires = nil, problem, false, time.Time{}
	c.live.failed(c.options.Clock.Now())
	c.mu.Unlock()
	if s != nil {
		s.close()
		c.home.clusterChanged(c.name)
	}
}

// close ends the connection for good.
func (c *Cluster) close() {
	c.mu.Lock()
	s, caches := c.session, c.caches
	c.session = nil
	c.live.failed(c.options.Clock.Now())
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
	if caches != nil {
		caches.cancel()
	}
	c.changes.end()
}

// checked takes in what a session found.
func (c *Cluster) checked(s *session, err error) {
	now := c.options.Clock.Now()
	c.mu.Lock()
	if c.session != s {
		c.mu.Unlock()
		return
	}
	before, known, valid := c.live.state, c.problem, c.valid
	c.probed = now
	var problem *Problem
	switch {
	case err == nil:
		c.live.answered(now)
		c.problem, c.valid, c.cause = nil, true, ""
	case errors.Is(err, errFilling):
		c.live.advance(now)
	default:
		c.live.failed(now)
		if errors.As(err, &problem) {
			c.problem, c.valid = problem, false
		}
		if c.cause == "" || c.live.state != before { // otherwise the status would change all the time
			c.cause = Explain(err)
		}
	}
	changed := c.live.state != before || c.valid != valid || !sameProblem(known, c.problem)
	c.mu.Unlock()
	if changed {
		c.home.clusterChanged(c.name)
	}
}

func sameProblem(a, b *Problem) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// identified takes in which cluster it is.
func (c *Cluster) identified(s *session, uid, version string) error {
	if err := c.home.claim(uid, c.name); err != nil {
		return err
	}
	c.mu.Lock()
	same := c.session != s || c.uid == uid && c.version == version
	if !same {
		c.uid, c.version = uid, version
	}
	c.mu.Unlock()
	if !same {
		c.home.clusterChanged(c.name)
	}
	return nil
}

// filled replaces the caches by those of a session.
func (c *Cluster) filled(s *session, fresh *caches) {
	c.mu.Lock()
	old := c.caches
	c.caches, c.owner = fresh, s
	c.mu.Unlock()
	if old != nil {
		old.cancel()
	}
	c.home.clusterChanged(c.name) // what changed meanwhile was reported too early
}

// advance makes the changes that time alone brings, and returns when the next one is; zero if there
// is none.
func (c *Cluster) advance() (next time.Time) {
	now := c.options.Clock.Now()
	c.mu.Lock()
	before := c.live.state
	c.live.advance(now)
	changed := c.live.state != before
	next = c.live.next()
	if c.warn.After(now) && (next.IsZero() || c.warn.Before(next)) {
		next = c.warn
	}
	c.mu.Unlock()
	if changed {
		c.home.clusterChanged(c.name)
	}
	return next
}
