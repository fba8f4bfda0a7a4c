package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/federation/members"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/podhealth"
)

const (
	// finalizer keeps an object until its local objects are deleted, if they should be.
	finalizer = "evenkeel.dev/federation"
	action    = "Federate" // of all events
)

// reconciler makes the passes. The queue makes sure that there is never more than one pass over an
// object at a time.
type reconciler struct {
	client    client.Client
	live      client.Reader
	events    passes.Recorder
	members   *members.Members
	metrics   *Metrics
	clock     clock.PassiveClock
	known     memory
	ledger    ledger
	deletions deletions // how objects are deleted
	// triggers request passes, and say how long writes may go on. begun is when the first pass was made.
	triggers *passes.Triggers
	begun    func() time.Time
}

// Reconcile implements reconcile.Reconciler. An error means that the pass made no decision or could
// not store the status; nothing was written then.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	f := &v1alpha1.FederatedReplicaSet{}
	err := r.live.Get(ctx, key, f)
	if apierrors.IsNotFound(err) {
		r.known.forget(key)
		r.ledger.forget(key.String())
		r.metrics.set.ForgetObject(key)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the FederatedReplicaSet: %w", err)
	}
	if f.DeletionTimestamp != nil {
		return r.finish(ctx, f)
	}
	mark := controllerutil.RemoveFinalizer
	if f.Spec.Cascade == v1alpha1.CascadeDelete { // the local objects go with it
		mark = controllerutil.AddFinalizer
	}
	if err := r.finalize(ctx, f, mark); err != nil {
		return reconcile.Result{}, err
	}
	return r.pass(ctx, key, f)
}

// finalize adds or removes the finalizer.
func (r *reconciler) finalize(ctx context.Context, f *v1alpha1.FederatedReplicaSet, change func(client.Object, string) bool) error {
	before := f.DeepCopy()
	if !change(f, finalizer) {
		return nil
	}
	return r.client.Patch(ctx, f, passes.IfUnchanged(before))
}

func (r *reconciler) pass(ctx context.Context, key types.NamespacedName, f *v1alpha1.FederatedReplicaSet) (reconcile.Result, error) {
	if r.reading(f) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	took := passes.Stopwatch(r.clock, r.metrics.phases)
	answers := r.known.answers(key)
	status, all := federation.Answered(f.Status, answers, r.clock.Now())
	timer := podhealth.Timer{Now: r.clock.Now()}
	in, err := r.observe(ctx, f, status, &timer)
	took(phaseObserve)
	var d federation.Decision
	if err == nil {
		d, err = r.decide(ctx, in)
		took(phaseDecide)
	}
	before := f.ResourceVersion
	if err == nil {
		err = passes.StoreStatus(ctx, r.client, f, &f.Status, d.Status)
		took(phaseStore)
	}
	r.metrics.passed(f.ResourceVersion != before, len(d.Writes), err)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: passes.FirstRetry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	r.known.stored(key, len(answers))
	for _, w := range d.Writes {
		r.send(ctx, key, f, w, eventsOf(d.Events, w.Cluster, true))
		timer.After(timer.Now.Add(patience)) // then a pass is made, whatever else happens
	}
	r.record(f, append(all, eventsOf(d.Events, "", false)...))
	took(phaseSend)
	r.metrics.gauges.See(key, d.Status)
	return passes.At(r.clock.Now(), d.Next, timer.Next), nil
}

// reading reports that the program has just started and a cluster in which the object has replicas was
// not read yet. It would count as one that does not answer, and for an object that has not changed
// meanwhile that would be written, and soon after that it does answer. A cluster that does not answer
// is not waited for.
func (r *reconciler) reading(f *v1alpha1.FederatedReplicaSet) bool {
	if f.Status.ObservedGeneration != f.Generation || r.clock.Since(r.begun()) > patience {
		return false
	}
	return slices.ContainsFunc(f.Status.Clusters, func(s v1alpha1.FederatedClusterStatus) bool {
		if c := r.members.Get(s.Name); c != nil {
			v := c.View()
			return s.Reachable && v.Cause == "" && (v.State == members.Connecting || !v.Known)
		}
		return s.Reachable
	})
}

// observe is all that a decision depends on. The timer collects when what is known now counts no more.
func (r *reconciler) observe(ctx context.Context, f *v1alpha1.FederatedReplicaSet, status v1alpha1.FederatedReplicaSetStatus,
	t *podhealth.Timer) (federation.Input, error) {
	key := client.ObjectKeyFromObject(f)
	in := federation.Input{Key: key.String(), Generation: f.Generation, Annotations: f.Annotations, Spec: f.Spec, Status: status, Now: t.Now}
	var all v1alpha1.MemberClusterList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing MemberClusters: %w", err)
	}
	normal, act := federation.Timeouts(&f.Spec)
	for i := range all.Items {
		m := &all.Items[i]
		if m.DeletionTimestamp != nil {
			continue
		}
		o := federation.Cluster{Name: m.Name, Labels: m.Labels, Reach: federation.NotAnswering}
		if c := r.members.Get(m.Name); c != nil {
			v := c.View()
			o.Reach, o.NoSchedule, o.Leaving = reachOf(v), v.NoSchedule, v.Leaving
			if o.Reach == federation.Reachable {
				local, id := seen(c, f, &status)
				var pods, more members.Pods
				if !id.untouchable {
					pods = c.Pods(members.Local{Kind: kindOf(f), Namespace: f.Namespace, Name: f.Name})
					more = adopted(c, f, pods)
				}
				local.Normal, local.Act = countsOf(pods, more, normal, in.Now), countsOf(pods, more, act, in.Now)
				_, local.Failing = pods.Late(in.Now, act)
				o.Local = r.known.read(key, m.Name, local, id, t)
			} else {
				r.known.drop(key, m.Name)
			}
		}
		in.Clusters = append(in.Clusters, o)
	}
	return in, nil
}

func reachOf(v members.View) federation.Reach {
	switch {
	case v.State == members.Ready && v.Known:
		return federation.Reachable
	case v.State.Lost():
		return federation.Lost
	}
	return federation.NotAnswering
}

// countsOf are the pods of a local object as package podhealth counts them. Of adopted pods it is not
// known since when they wait: those that are ready run, and the others are starting.
func countsOf(p, adopted members.Pods, timeout time.Duration, now time.Time) podhealth.Counts {
	unscheduled, notStarted := p.Late(now, timeout)
	return podhealth.Counts{
		Timeout: timeout, Existing: p.Created + adopted.Created, Running: p.Created - p.Waiting() + adopted.Ready, Ready: p.Ready + adopted.Ready,
		Late: unscheduled + notStarted, NextLate: p.Next(now, timeout),
	}
}

// writes are the reasons of events about writes, which are recorded when the writes are made.
var writes = []string{
	federation.ReasonCreated, federation.ReasonDeleted, federation.ReasonOverwritten, federation.ReasonRescaled, federation.ReasonMoved,
	federation.ReasonRolledOut,
}

// eventsOf are the events about the writes to a cluster, or all others.
func eventsOf(all []podhealth.Event, cluster string, ofWrites bool) []podhealth.Event {
	return slices.DeleteFunc(slices.Clone(all), func(e podhealth.Event) bool {
		return slices.Contains(writes, e.Reason) != ofWrites || ofWrites && e.About != cluster
	})
}

func (r *reconciler) record(f *v1alpha1.FederatedReplicaSet, all []podhealth.Event) {
	for _, e := range all {
		var related runtime.Object
		if e.About != "" {
			related = &v1.ObjectReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindMemberCluster, Name: e.About}
		}
		r.events.Record(f, related, e.Type, e.Reason, e.Message)
	}
}

// finish deletes the local objects of an object that is deleted, if they should be, and lets it go.
// Where a cluster cannot be reached, nothing is deleted, and the object stays.
func (r *reconciler) finish(ctx context.Context, f *v1alpha1.FederatedReplicaSet) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(f, finalizer) {
		return reconcile.Result{}, nil
	}
	orphan, known := r.deletions.orphans(f)
	if !known {
		return reconcile.Result{RequeueAfter: passes.ChangeDelay}, nil
	}
	if f.Spec.Cascade == v1alpha1.CascadeDelete && !orphan {
		if left, err := r.clear(ctx, f); err != nil || left {
			return reconcile.Result{RequeueAfter: passes.LastRetry}, err
		}
	}
	logr.FromContextOrDiscard(ctx).Info("Let go", "cascade", f.Spec.Cascade, "orphan", orphan)
	return reconcile.Result{}, client.IgnoreNotFound(r.finalize(ctx, f, controllerutil.RemoveFinalizer))
}

// deletions are how FederatedReplicaSets are deleted, by UID: whether what belongs to them should stay, as kubectl
// delete --cascade=orphan asks for. Kubernetes marks them so for a moment only.
type deletions struct{ orphaned sync.Map }

// see records what an object was and is.
func (d *deletions) see(before, now *v1alpha1.FederatedReplicaSet) {
	switch {
	case now == nil:
		d.orphaned.Delete(before.UID)
	case now.DeletionTimestamp != nil && controllerutil.ContainsFinalizer(now, metav1.FinalizerOrphanDependents):
		d.orphaned.Store(now.UID, true)
	case now.DeletionTimestamp != nil:
		d.orphaned.LoadOrStore(now.UID, false)
	}
}

// orphans reports whether what belongs to a deleted object should stay, and whether that is known yet.
func (d *deletions) orphans(f *v1alpha1.FederatedReplicaSet) (orphan, known bool) {
	marked := controllerutil.ContainsFinalizer(f, metav1.FinalizerOrphanDependents)
	value, known := d.orphaned.Load(f.UID)
	return marked || value == true, marked || known
}

// clear deletes the local objects, and reports whether some are left. The condition Settled says
// where and why.
func (r *reconciler) clear(ctx context.Context, f *v1alpha1.FederatedReplicaSet) (bool, error) {
	key, refused := client.ObjectKeyFromObject(f), map[string]string{}
	answers := r.known.answers(key)
	in, err := r.observe(ctx, f, f.Status, &podhealth.Timer{Now: r.clock.Now()})
	if err != nil {
		return true, err
	}
	for _, a := range answers {
		refused[a.Write.Cluster] = a.Refused
	}
	r.known.stored(key, len(answers))
	var left []string
	var deletes []federation.Write
	for _, c := range in.Clusters {
		s := f.Status.Cluster(c.Name)
		known := s != nil && (s.Written > 0 || s.Revision != "")
		switch {
		case c.Reach != federation.Reachable && known:
			left = append(left, c.Name+" (it cannot be reached: nothing is deleted there until it can, or until its MemberCluster is deleted)")
		case c.Local.Exists && !c.Local.Foreign:
			why := c.Name
			if text := refused[c.Name]; text != "" {
				why += " (it refuses that: " + text + ")"
			}
			left, deletes = append(left, why), append(deletes, federation.Write{Cluster: c.Name, Delete: true, From: c.Local.Replicas})
		}
	}
	if len(left) == 0 {
		return false, nil
	}
	status := *f.Status.DeepCopy()
	status.Conditions = podhealth.Conditions(f.Status.Conditions, []metav1.Condition{
		podhealth.Condition(v1alpha1.ConditionSettled, false, federation.ReasonDeleting, "local objects are still to be deleted in "+
			strings.Join(left, ", ")),
	}, f.Generation, in.Now)
	if err := passes.StoreStatus(ctx, r.client, f, &f.Status, status); err != nil {
		return true, err
	}
	for _, w := range deletes {
		r.send(ctx, key, f, w, nil)
	}
	return true, nil
}

// ledger decides about one object after the other where the room of a cluster is known, so that no
// two of them choose the same room.
type ledger struct {
	federation.Ledger
	mu       sync.Mutex
	recalled bool // it knows what all objects were given before the program started
}

// decide makes a decision.
func (r *reconciler) decide(ctx context.Context, in federation.Input) (federation.Decision, error) {
	l := &r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	rooms := r.rooms(in.Clusters) // under the lock: the ledger forgets what later rooms have shown
	if !l.recalled && len(rooms) == 0 {
		return federation.Decide(in)
	}
	if !l.recalled {
		var list v1alpha1.FederatedReplicaSetList
		if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return federation.Decision{}, fmt.Errorf("listing FederatedReplicaSets: %w", err)
		}
		for i := range list.Items {
			if f := &list.Items[i]; f.DeletionTimestamp == nil {
				l.Recall(client.ObjectKeyFromObject(f).String(), &f.Spec, &f.Status, in.Now)
			}
		}
		l.recalled = true
	}
	return l.Decide(in, rooms)
}

func (l *ledger) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Forget(key)
}

// rooms are the rooms that are known, of the clusters that can be reached.
func (r *reconciler) rooms(clusters []federation.Cluster) map[string]federation.Room {
	out := map[string]federation.Room{}
	for _, cluster := range clusters {
		if cluster.Reach != federation.Reachable {
			continue
		}
		if c := r.members.Get(cluster.Name); c != nil {
			if room, known := c.Room(); known {
				out[cluster.Name] = room
			}
		}
	}
	return out
}
