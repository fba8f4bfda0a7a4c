package members

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// The reasons of events.
const (
	eventLost        = "ClusterLost"
	eventBack        = "ClusterBack"
	eventCredentials = "CredentialsRefused"
	eventExpiring    = "CredentialsExpiring"
)

// Name implements controller.Controller.
func (m *Members) Name() string { return Name }

// SetupWithManager registers the controller, which connects to every MemberCluster while its
// manager leads. The scheme of the manager must know v1alpha1 and the core kinds.
func (m *Members) SetupWithManager(mgr manager.Manager) error {
	profiles, err := newProfiles(mgr.GetConfig(), m)
	if err != nil {
		return err
	}
	if err := mgr.Add(profiles); err != nil {
		return fmt.Errorf("adding the watch of ClusterProfiles: %w", err)
	}
	r := &reconciler{members: m, client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder("evenkeel-" + Name), profiles: profiles}
	return builder.ControllerManagedBy(mgr).Named(Name).
		For(&v1alpha1.MemberCluster{}).
		Watches(&v1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofSecret)).
		WatchesRawSource(m.triggers.Source()).
		Complete(r)
}

// reconciler connects to MemberClusters and writes their status.
type reconciler struct {
	members  *Members
	client   client.Client
	live     client.Reader
	events   events.EventRecorder
	profiles *profiles // nil without any
}

// ofSecret are the MemberClusters that refer to a Secret.
func (r *reconciler) ofSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	var all v1alpha1.MemberClusterList
	if secret.GetNamespace() != r.members.options.Namespace || r.client.List(ctx, &all) != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range all.Items {
		spec := &all.Items[i].Spec
		if ref := spec.ClusterProfileRef; spec.KubeconfigSecretRef.Name == secret.GetName() || ref != nil && ref.Name == secret.GetName() {
			requests = append(requests, passes.Request(&all.Items[i]))
		}
	}
	return requests
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var m v1alpha1.MemberCluster
	err := r.client.Get(ctx, request.NamespacedName, &m)
	if apierrors.IsNotFound(err) || err == nil && m.DeletionTimestamp != nil {
		r.members.remove(request.Name)
		return reconcile.Result{}, r.follow(ctx, request.Name, nil)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading MemberCluster %s: %w", request.Name, err)
	}
	if err := r.follow(ctx, request.Name, &m); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.prepare(ctx); err != nil {
		return reconcile.Result{}, err
	}
	c, isNew := r.members.add(&m)
	c.describe(&m)
	if err := r.connect(ctx, c, &m); err != nil {
		return reconcile.Result{}, err
	}
	if isNew {
		r.members.changed(m.Name)
	}
	next := c.advance()
	if err := r.store(ctx, c, &m); err != nil {
		return reconcile.Result{}, err
	}
	return passes.At(r.members.options.Clock.Now(), next), nil
}

// prepare finds out, once, which cluster the host is and which clusters have joined before.
func (r *reconciler) prepare(ctx context.Context) error {
	r.members.mu.Lock()
	done := r.members.host != ""
	r.members.mu.Unlock()
	if done {
		return nil
	}
	var all v1alpha1.MemberClusterList
	if err := r.client.List(ctx, &all); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	for i := range all.Items {
		r.members.recall(all.Items[i].Status.ClusterUID, all.Items[i].Name)
	}
	var system v1.Namespace
	if err := r.live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return fmt.Errorf("reading the UID of the host, which is that of its namespace kube-system: %w", err)
	}
	r.members.mu.Lock()
	r.members.host = string(system.UID)
	r.members.mu.Unlock()
	return nil
}

// connect has the cluster reached as its Secret says now.
func (r *reconciler) connect(ctx context.Context, c *Cluster, m *v1alpha1.MemberCluster) error {
	data, err := r.kubeconfig(ctx, m)
	var config *rest.Config
	var expires time.Time
	if err == nil {
		config, expires, err = ReadKubeconfig(data, r.members.options.Clock.Now())
	}
	if err == nil {
		issued, _ := tokenTimes(config.BearerToken)
		err = c.connect(r.members.triggers.Context(), config, sha256.Sum256(data), expires, warnAt(issued, expires))
		r.members.options.Metrics.expires(c.name, expires)
	}
	var problem *Problem
	if errors.As(err, &problem) {
		c.refuse(problem)
		return nil
	}
	return err
}

// kubeconfig is what the cluster is reached by.
func (r *reconciler) kubeconfig(ctx context.Context, m *v1alpha1.MemberCluster) ([]byte, error) {
	if ref := m.Spec.ClusterProfileRef; ref != nil {
		return r.ofProfile(ctx, ref.Name)
	}
	ref := m.Spec.KubeconfigSecretRef
	key := cmp.Or(ref.Key, v1alpha1.DefaultKubeconfigKey)
	var secret v1.Secret
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.members.options.Namespace, Name: ref.Name}, &secret)
	data, found := secret.Data[key]
	switch {
	case apierrors.IsNotFound(err):
		return nil, &Problem{v1alpha1.ReasonSecretNotFound, fmt.Sprintf("there is no Secret %s in namespace %s: create it, or %s", ref.Name, r.members.options.Namespace, remedy)}
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", ref.Name, err)
	case !found:
		return nil, &Problem{v1alpha1.ReasonSecretNotFound, fmt.Sprintf("the Secret %s in namespace %s has no key %s: add it, or %s", ref.Name, r.members.options.Namespace, key, remedy)}
	}
	return data, nil
}

// store writes the status if it changed.
func (r *reconciler) store(ctx context.Context, c *Cluster, m *v1alpha1.MemberCluster) error {
	r.members.options.Metrics.see(c.name, c.View().State)
	status := c.status(m)
	if equality.Semantic.DeepEqual(status, &m.Status) {
		return nil
	}
	before := m.DeepCopy()
	m.Status = *status
	if err := r.client.Status().Patch(ctx, m, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.report(ctx, before, m)
	return nil
}

// report records and logs what has changed.
func (r *reconciler) report(ctx context.Context, before, m *v1alpha1.MemberCluster) {
	was, is := stateOf(before), stateOf(m)
	reachable := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable)
	credentials := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionCredentialsValid)
	switch {
	case is == Offline && was != Offline && was != Stabilizing:
		r.events.Eventf(m, nil, v1.EventTypeWarning, eventLost, "Probe", "%s", reachable.Message)
	case is == Ready && was.Lost():
		r.events.Eventf(m, nil, v1.EventTypeNormal, eventBack, "Probe", "the cluster has answered for %s", r.members.options.StabilizationTime)
	}
	switch old := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionCredentialsValid); {
	case old != nil && old.Reason == credentials.Reason:
	case credentials.Status == metav1.ConditionFalse:
		r.events.Eventf(m, nil, v1.EventTypeWarning, eventCredentials, "Connect", "%s", credentials.Message)
	case credentials.Reason == v1alpha1.ReasonExpiringSoon:
		r.events.Eventf(m, nil, v1.EventTypeWarning, eventExpiring, "Connect", "%s", credentials.Message)
	}
	if was != is {
		log.FromContext(ctx).Info("Member cluster changed", "state", is, "before", was, "message", reachable.Message)
	}
}
