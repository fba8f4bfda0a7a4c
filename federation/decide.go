package federation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// Input is all that a decision depends on. Decide does not change it.
type Input struct {
	Key         string // the namespace/name of the FederatedReplicaSet
	Generation  int64
	Annotations map[string]string
	Spec        v1alpha1.FederatedReplicaSetSpec
	Status      v1alpha1.FederatedReplicaSetStatus // the one that the last decision returned, as stored
	Clusters    []Cluster                          // all member clusters, in any order
	Now         time.Time
}

// Reach is whether a cluster can be reached.
type Reach int

const (
	Reachable    Reach = iota // it is read and written
	NotAnswering              // for a short time: it keeps what it has
	Lost                      // out of reach for long, or just back: its replicas run elsewhere, and nothing is written there
)

// Cluster is what was found in a member cluster.
type Cluster struct {
	Name       string
	Labels     map[string]string
	NoSchedule bool // the cluster keeps what it has and gets no more
	Leaving    bool // the cluster should be emptied
	Reach      Reach
	Local      Local // the local object; of a cluster that is not Reachable it is not read
	// Room is how many replicas of this object the cluster has room for, those with a node included,
	// if that is known. It bounds what the cluster gets, and takes nothing away that it was given.
	Room *int32
}

// Local is the local object in a cluster as it was found.
type Local struct {
	// Exists reports that there is an object of that name. If it does not exist, only the pods are
	// read of the other fields.
	Exists bool
	// Terminating reports that there is an object of that name which is being deleted, and does not Exist
	// any more. It is not written, and created again when it is gone.
	Terminating bool
	Foreign     bool // it was not written for the FederatedReplicaSet
	// Replicas is its spec.replicas, and Written the number that was written there last; nil if that
	// is not known.
	Replicas  int32
	Written   *int32
	Revision  string // what its content was written from; empty if somebody has changed it since
	RolledOut bool   // all its pods have that revision
	Paused    bool   // somebody has paused a Deployment: it rolls nothing out
	Outdated  int32  // how many of its pods are of an earlier template, which a Deployment replaces
	// MaxUnavailable is how many replicas a Deployment may have out of service while it replaces
	// pods; nil means 25 %, the default of the API.
	MaxUnavailable *intstr.IntOrString
	// Failing is how many pods have had a node for longer than the second timeout and have not
	// started. Unlike those without a node they do not lack room.
	Failing      int32
	FailingSince time.Time // since when pods cannot be created; zero if they can
	// Normal and Act are its pods, counted with the timeouts that Timeouts returns.
	Normal, Act podhealth.Counts
	Unanswered  bool // it is what is being written, and there is no answer yet
	// Staying is how many of its pods stay for sure: of the others it is not known yet whether a
	// smaller number that was written a moment ago takes them away. Nil means all up to Replicas.
	Staying *int32
}

// Timeouts are for how long it is normal that a pod waits, and after how long it is started
// elsewhere.
func Timeouts(spec *v1alpha1.FederatedReplicaSetSpec) (normal, act time.Duration) {
	f := spec.Fallback
	return cmp.Or(f.NormalTime.Duration, v1alpha1.DefaultNormalTime),
		cmp.Or(f.StartupTimeout.Duration, v1alpha1.DefaultFederatedStartupTimeout)
}

// Write is a change of a local object.
type Write struct {
	Cluster string
	// Create reports that the object is missing, Delete that it is not needed any more.
	Create, Delete bool
	Content        bool // all of the object must be written, not only its number of replicas
	// From is what it has now, and To what it is to have.
	From, To int32
	Was      string // the revision that it has now; empty if it is missing or was changed
	Moves    int32  // how many running replicas leave the cluster for another one
	Why      string // explains the number in words
}

// Decision is what to do. A driver stores the status, makes the writes in their order, notes in the status what
// could not be written, and asks again when something has changed, or at Next. If it made moves before it stored
// them, the limit would not hold.
type Decision struct {
	// Writes are first those that add replicas, then those that take some away, each from the
	// largest change down. A failure of one is not a reason to leave out another.
	Writes []Write
	Status v1alpha1.FederatedReplicaSetStatus // what to store if all writes succeed
	// Events are what is new. Their reasons are constants of this package, and they are about clusters.
	Events podhealth.Events
	Next   time.Time // when time alone may change the decision; zero for never
}

// Decide returns what to write to the clusters of a FederatedReplicaSet now, and what to store.
//
// An invalid spec is not an error: it becomes a condition and an event, and nothing is written.
// Decide returns an error if a cluster is observed twice.
func Decide(in Input) (Decision, error) { return decide(in, nil) }

// decide makes a decision. Explain is called when the replicas are shared, if it is set.
func decide(in Input, explain func(*pass) error) (Decision, error) {
	preferences, err := preferencesOf(&in)
	if err == nil {
		err = Validate(&in.Spec).ToAggregate()
	}
	if err != nil {
		return refuse(in, err.Error()), nil
	}
	p, err := newPass(in, preferences)
	if err != nil {
		return Decision{}, err
	}
	if err := p.share(); err != nil {
		return Decision{}, fmt.Errorf("share the replicas of %s: %w", in.Key, err)
	}
	if explain != nil {
		if err := explain(p); err != nil {
			return Decision{}, err
		}
	}
	d := Decision{Writes: p.pace()}
	d.Status = p.status()
	d.Status.Conditions = p.conditions(d.Status, d.Writes)
	d.Events = p.events(d.Writes)
	d.Next = p.timer.Next
	return d, nil
}

type member struct {
	Cluster
	before v1alpha1.FederatedClusterStatus // what the last decision stored; empty for a new cluster
	// status becomes what is stored. Its Written is first what was found, then what is written.
	status v1alpha1.FederatedClusterStatus
	found  int32          // what the cluster was asked for until now
	health replica.Target // pinned if the cluster is not written
	waits  bool           // pods have waited for longer than is normal
	entry  string         // the name of the entry that applies; empty if there is none
	low    int64          // its minimum, which is more than the replicas suffice for where minimums sum to more
	due    bool           // the local object gets the content of the spec now
}

// pass is the state of one decision.
type pass struct {
	in          Input
	preferences *preferences
	revision    string
	members     []member // by name
	timer       podhealth.Timer
	// normal and act are the timeouts, stabilization is how long a cluster has to run well to count as recovered.
	normal, act, stabilization time.Duration
	total                      int64
	// unplaced is how many replicas no cluster is known to be able to run, or may, of which waiting do not run.
	unplaced, waiting int64
	held              int64 // how many replicas will leave later, when others run in their place
	moves             *v1alpha1.ReplicaMoves
	// trace is called for every branch that replicas are shared at, if it is set.
	trace func(*node, apportion.Request, apportion.Result) error
}

func newPass(in Input, preferences *preferences) (*pass, error) {
	p := &pass{
		in: in, preferences: preferences, revision: Revision(&in.Spec), timer: podhealth.Timer{Now: in.Now},
		stabilization: cmp.Or(in.Spec.Fallback.StabilizationTime.Duration, v1alpha1.DefaultStabilizationTime),
		total:         int64(ptr.Deref(in.Spec.Replicas, 1)), moves: in.Status.Moves,
	}
	p.normal, p.act = Timeouts(&in.Spec)
	for _, c := range in.Clusters {
		m := member{Cluster: c, before: ptr.Deref(in.Status.Cluster(c.Name), v1alpha1.FederatedClusterStatus{}), entry: preferences.entryOf(c)}
		p.observe(&m)
		p.members = append(p.members, m)
	}
	slices.SortFunc(p.members, func(a, b member) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(p.members); i++ {
		if p.members[i].Name == p.members[i-1].Name {
			return nil, fmt.Errorf("%s: cluster %s is observed twice", in.Key, p.members[i].Name)
		}
	}
	p.learn()
	p.rollOut()
	return p, nil
}
