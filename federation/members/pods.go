package members

import (
	"slices"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/podfit"
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
	// waiting are the pods that wait for a node, and those with a node that have not been ready yet.
	waiting waiting
	// skew is by how much the clock of the cluster is ahead, which their times are of.
	skew time.Duration
}

// Waiting is how many pods wait for a node or have not been ready yet.
func (p Pods) Waiting() int32 {
	unscheduled, notStarted := p.waiting.count()
	return unscheduled + notStarted
}

// Late is how many pods have waited for a node for at least d, and how many have had one for at least d without
// ever being ready.
func (p Pods) Late(now time.Time, d time.Duration) (unscheduled, notStarted int32) {
	return p.waiting[:p.waiting.until(now.Add(p.skew-d))].count()
}

// Next is when the next pod will have waited for d, for a node or to start; zero if none will.
func (p Pods) Next(now time.Time, d time.Duration) (next time.Time) {
	if i := p.waiting.until(now.Add(p.skew - d)); i < len(p.waiting) {
		next = p.waiting[i].since.Add(d - p.skew)
	}
	return next
}

// waiting counts pods by since when they wait, the first ones first. It is replaced rather than changed,
// so that what was read stays as it was. There is at most one time in a second.
type waiting []moment

type moment struct {
	since                   time.Time
	unscheduled, notStarted int32
}

func (w waiting) count() (unscheduled, notStarted int32) {
	for _, m := range w {
		unscheduled, notStarted = unscheduled+m.unscheduled, notStarted+m.notStarted
	}
	return unscheduled, notStarted
}

// until is how many of the times are not after a limit.
func (w waiting) until(limit time.Time) int {
	return sort.Search(len(w), func(i int) bool { return w[i].since.After(limit) })
}

// plus is w with more pods that have waited since a time.
func (w waiting) plus(m moment) waiting {
	i := w.until(m.since)
	before, after := w[:i], w[i:]
	if i > 0 && w[i-1].since.Equal(m.since) {
		before = w[:i-1]
		m.unscheduled, m.notStarted = m.unscheduled+w[i-1].unscheduled, m.notStarted+w[i-1].notStarted
	}
	if m.unscheduled == 0 && m.notStarted == 0 {
		return slices.Concat(before, after)
	}
	return slices.Concat(before, waiting{m}, after)
}

// pod is all that is kept of a pod: of its metadata the name and the version only. There may be many,
// and an empty v1.Pod takes more than a kilobyte.
type pod struct {
	metav1.ObjectMeta
	counted
	// node is where it uses what it requests; empty unless the nodes of the cluster are read.
	node     string
	requests podfit.Resources
}

// counted is what is counted of a pod: nothing if it belongs to no local object, or has ended.
type counted struct {
	local                     Local
	scheduled, ready, started bool
	since                     time.Time // since when it has waited for a node or to start
}

// trimPod keeps of a pod what is counted, and what it uses of its node if nodes are read.
func trimPod(nodes bool) func(any) (any, error) {
	return func(object any) (any, error) {
		p, ok := object.(*v1.Pod)
		if !ok {
			return object, nil
		}
		kept := &pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion}}
		if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			return kept, nil
		}
		if nodes && p.Spec.NodeName != "" {
			kept.node, kept.requests = p.Spec.NodeName, podfit.HeldBy(p)
		}
		if local, owned := localOf(p); owned && p.DeletionTimestamp == nil {
			kept.counted = countedOf(p, local)
		}
		return kept, nil
	}
}

// countedOf says what a pod of a local object counts as. One that waits after a crash has not started.
func countedOf(pod *v1.Pod, local Local) counted {
	health := podhealth.Assess(pod)
	c := counted{
		local:     local,
		scheduled: pod.Spec.NodeName != "",
		ready:     health.Ready && pod.Status.Phase == v1.PodRunning,
		started:   health.WasReady && (!health.CrashLooping || !health.SteadyAt.IsZero()),
		since:     pod.CreationTimestamp.Time,
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled && (condition.Status == v1.ConditionTrue) == c.scheduled && !condition.LastTransitionTime.IsZero() {
			c.since = condition.LastTransitionTime.Time
		}
	}
	switch {
	case c.scheduled && c.started:
		c.since = time.Time{}
	case c.scheduled && health.CrashLooping:
		c.since = health.CrashLoopingSince
	}
	return c
}

// localOf returns the local object that a pod belongs to. The ReplicaSets of a Deployment are named
// after it, with the hash that their pods have as a label.
func localOf(pod *v1.Pod) (Local, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != ReplicaSet || pod.Labels[v1alpha1.LabelFederated] == "" {
		return Local{}, false
	}
	if hash := pod.Labels["pod-template-hash"]; hash != "" {
		if name, cut := strings.CutSuffix(owner.Name, "-"+hash); cut {
			return Local{Kind: Deployment, Namespace: pod.Namespace, Name: name}, true
		}
	}
	return Local{Kind: ReplicaSet, Namespace: pod.Namespace, Name: owner.Name}, true
}

// add adds a pod to the counts, or takes it away.
func (p *Pods) add(c counted, sign int32) {
	p.Created += sign
	if c.scheduled {
		p.Scheduled += sign
	}
	if c.ready {
		p.Ready += sign
	}
	switch {
	case !c.scheduled:
		p.waiting = p.waiting.plus(moment{since: c.since, unscheduled: sign})
	case !c.started:
		p.waiting = p.waiting.plus(moment{since: c.since, notStarted: sign})
	}
}

// tally keeps the Pods of every local object and, if the nodes of the cluster are read, what they have
// left. It is counted when a pod or a node changes, so that reading costs the same however many there are.
type tally struct {
	counts map[Local]Pods
	nodes  map[string]*v1.Node
	used   map[string]podfit.Resources // by node
	room   *federation.Room            // nil if something has changed since
}

func newTally() *tally {
	return &tally{counts: map[Local]Pods{}, nodes: map[string]*v1.Node{}, used: map[string]podfit.Resources{}}
}

// count records a change of a pod, and returns the local objects whose counts changed.
func (t *tally) count(before, now *pod) (changed []Local) {
	same := before != nil && now != nil && before.counted == now.counted
	for _, step := range []struct {
		*pod
		sign int32
	}{{before, -1}, {now, +1}} {
		if step.pod == nil {
			continue
		}
		if step.node != "" {
			t.room = nil
			if t.used[step.node] = t.used[step.node].Plus(int64(step.sign), step.requests); t.used[step.node][v1.ResourcePods] == 0 {
				delete(t.used, step.node)
			}
		}
		if same || step.local == (Local{}) {
			continue
		}
		t.room = nil
		pods := t.counts[step.local]
		if pods.add(step.counted, step.sign); pods.Created > 0 {
			t.counts[step.local] = pods
		} else {
			delete(t.counts, step.local)
		}
		if !slices.Contains(changed, step.local) {
			changed = append(changed, step.local)
		}
	}
	return changed
}

// setNode records a change of a node.
func (t *tally) setNode(before, now *v1.Node) {
	t.room = nil
	if now == nil {
		delete(t.nodes, before.Name)
	} else {
		t.nodes[now.Name] = now
	}
}
