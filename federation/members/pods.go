package members

import (
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/podhealth"
)

// Local identifies a local object: a ReplicaSet or a Deployment in a member cluster.
type Local struct {
	Kind            string
	Namespace, Name string
}

// The kinds of local objects.
const (
	ReplicaSet = "ReplicaSet"
	Deployment = "Deployment"
)

// Pods counts the pods of a local object, without those that have ended or are being deleted.
type Pods struct {
	// Created is how many there are, Scheduled how many of them have a node, Ready how many are
	// ready.
	Created, Scheduled, Ready int32
	// unscheduled and notStarted are the pods that wait for a node, and those with a node that have
	// not been ready yet.
	unscheduled, notStarted waiting
	// skew is by how much the clock of the cluster is ahead, which their times are of.
	skew time.Duration
}

// Waiting is how many pods wait for a node or have not been ready yet.
func (p Pods) Waiting() int32 { return p.unscheduled.count() + p.notStarted.count() }

// Unscheduled is how many pods have waited for a node for at least d.
func (p Pods) Unscheduled(now time.Time, d time.Duration) int32 {
	return p.unscheduled.since(now.Add(p.skew - d))
}

// NotStarted is how many pods have had a node for at least d without ever being ready.
func (p Pods) NotStarted(now time.Time, d time.Duration) int32 {
	return p.notStarted.since(now.Add(p.skew - d))
}

// Next is when the next pod will have waited for d, for a node or to start; zero if none will.
func (p Pods) Next(now time.Time, d time.Duration) time.Time {
	var next time.Time
	for _, w := range []waiting{p.unscheduled, p.notStarted} {
		if since, ok := w.after(now.Add(p.skew - d)); ok {
			if at := since.Add(d - p.skew); next.IsZero() || at.Before(next) {
				next = at
			}
		}
	}
	return next
}

// tally keeps the Pods of every local object. Reading them costs the same however many pods there
// are, and so does a change of a pod that does not wait; one that does costs the logarithm of those
// that wait.
type tally struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]counted
	of   map[Local]*Pods
}

// counted is what is counted of a pod: nothing if it belongs to no local object, or has ended.
type counted struct {
	local Local
	standing
}

// standing is what a pod counts as.
type standing struct {
	scheduled, ready, started bool
	since                     time.Time // since when it has waited for a node or to start
}

func newTally() *tally {
	return &tally{pods: map[types.NamespacedName]counted{}, of: map[Local]*Pods{}}
}

// get returns the counts of a local object, which do not change after that.
func (t *tally) get(local Local) Pods {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.of[local]; p != nil {
		return *p
	}
	return Pods{}
}

// set counts a pod anew. It returns the local objects whose counts changed.
func (t *tally) set(key types.NamespacedName, now counted) []Local {
	if now == (counted{}) {
		return t.delete(key)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.pods[key]
	if known && before == now {
		return nil
	}
	changed := []Local{now.local}
	if known {
		t.count(before, -1)
		if before.local != now.local {
			changed = append(changed, before.local)
		}
	}
	t.pods[key] = now
	t.count(now, +1)
	return changed
}

// delete forgets a pod.
func (t *tally) delete(key types.NamespacedName) []Local {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.pods[key]
	if !known {
		return nil
	}
	delete(t.pods, key)
	t.count(before, -1)
	return []Local{before.local}
}

// count adds a pod to the counts of its local object, or takes it away.
func (t *tally) count(c counted, sign int32) {
	p := t.of[c.local]
	if p == nil {
		p = &Pods{}
		t.of[c.local] = p
	}
	p.Created += sign
	if c.scheduled {
		p.Scheduled += sign
	}
	if c.ready {
		p.Ready += sign
	}
	waits := &p.unscheduled
	if c.scheduled {
		waits = &p.notStarted
	}
	switch {
	case c.scheduled && c.started:
	case sign > 0:
		*waits = waits.with(c.since)
	default:
		*waits = waits.without(c.since)
	}
	if p.Created == 0 {
		delete(t.of, c.local)
	}
}

// countedOf says what is counted of a pod.
func countedOf(pod *v1.Pod) counted {
	local, owned := localOf(pod)
	if ended(pod) || !owned {
		return counted{}
	}
	return counted{local: local, standing: standingOf(pod)}
}

// standingOf says what a pod counts as. A pod that waits after a crash has not started.
func standingOf(pod *v1.Pod) standing {
	health := podhealth.Assess(pod)
	s := standing{
		scheduled: pod.Spec.NodeName != "",
		ready:     health.Ready && pod.Status.Phase == v1.PodRunning,
		started:   health.WasReady && (!health.CrashLooping || !health.SteadyAt.IsZero()),
		since:     pod.CreationTimestamp.Time,
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && (c.Status == v1.ConditionTrue) == s.scheduled && !c.LastTransitionTime.IsZero() {
			s.since = c.LastTransitionTime.Time
		}
	}
	switch {
	case s.scheduled && s.started:
		s.since = time.Time{}
	case s.scheduled && health.CrashLooping:
		s.since = health.CrashLoopingSince
	}
	return s
}

// ended reports whether a pod does not count any more.
func ended(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// localOf returns the local object that a pod belongs to. The ReplicaSets of a Deployment are named
// after it, with the hash that their pods have as a label.
func localOf(pod *v1.Pod) (Local, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != ReplicaSet {
		return Local{}, false
	}
	if hash := pod.Labels["pod-template-hash"]; hash != "" {
		if name, cut := strings.CutSuffix(owner.Name, "-"+hash); cut {
			return Local{Kind: Deployment, Namespace: pod.Namespace, Name: name}, true
		}
	}
	return Local{Kind: ReplicaSet, Namespace: pod.Namespace, Name: owner.Name}, true
}
