package members

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
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

// passesAtATime is how many clusters are probed at the same time. One that hangs takes DefaultProbeTimeout of each probe,
// so that others are delayed only if hundreds hang.
const passesAtATime = 200

// Name implements controller.Controller.
func (m *Members) Name() string { return Name }

// SetupWithManager registers the controller, which connects to every MemberCluster while its
// manager leads. The scheme of the manager must know v1alpha1 and the core kinds.
func (m *Members) SetupWithManager(mgr manager.Manager) error {
	profiles, err := newProfiles(mgr, m)
	if err != nil {
		return err
	}
	if err := mgr.Add(profiles); err != nil {
		return fmt.Errorf("adding the watch of ClusterProfiles: %w", err)
	}
	r := &reconciler{members: m, client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder("evenkeel-" + Name),
		profiles: profiles}
	return builder.ControllerManagedBy(mgr).Named(Name).
		For(&v1alpha1.MemberCluster{}).
		Watches(&v1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofSecret)).
		WatchesRawSource(m.triggers.Source()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: passesAtATime,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](passes.FirstRetry,
				m.options.ProbeInterval),
		}).
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

// Reconcile implements reconcile.Reconciler. Each pass probes the cluster, and requests the next one.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	m := &v1alpha1.MemberCluster{}
	err := r.client.Get(ctx, request.NamespacedName, m)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading MemberCluster %s: %w", request.Name, err)
	}
	if err != nil || m.DeletionTimestamp != nil {
		r.members.remove(request.Name)
		return reconcile.Result{}, r.follow(ctx, request.Name, nil)
	}
	if err := r.follow(ctx, request.Name, m); err != nil {
		return reconcile.Result{}, err
	}
	c := r.members.add(m)
	before := c.member
	if m.ResourceVersion != c.replaced { // otherwise the status that was stored does not show yet
		c.set(func() { c.member = m })
	}
	s, err := r.connection(ctx, c)
	switch {
	case err == nil:
		err = r.check(ctx, c, s)
	case !errors.As(err, new(*Problem)): // of the host
		return reconcile.Result{}, err
	}
	if ctx.Err() != nil { // the program ends: that says nothing about the cluster
		return reconcile.Result{}, context.Cause(ctx)
	}
	now := clock.Now()
	c.checked(now, err)
	v := c.View()
	v.Cause = ""
	if v != c.reported || !maps.Equal(before.Labels, m.Labels) {
		c.reported = v
		r.members.report(m.Name, nil) // of new caches, what changed meanwhile was reported too early
	}
	next, err := r.store(ctx, c, now)
	return passes.At(now, now.Add(r.members.options.ProbeInterval), next), err
}

// connection is how the cluster is reached as its Secret says now: as before, if that says the same.
func (r *reconciler) connection(ctx context.Context, c *Cluster) (*connection, error) {
	data, err := r.kubeconfig(ctx, c.member)
	if s := c.connection; err == nil && s != nil && s.kubeconfig == sha256.Sum256(data) &&
		(s.expires.IsZero() || clock.Now().Before(s.expires)) {
		return s, nil
	}
	var s *connection
	if err == nil {
		s, err = r.connect(ctx, c, data)
	}
	if err == nil || errors.As(err, new(*Problem)) {
		c.use(s)
	}
	return s, err
}

func (r *reconciler) connect(ctx context.Context, c *Cluster, kubeconfig []byte) (*connection, error) {
	config, expires, err := ReadKubeconfig(kubeconfig, clock.Now())
	if err != nil {
		return nil, err
	}
	host, err := UIDOf(ctx, r.live)
	if err != nil {
		return nil, fmt.Errorf("in the host: %w", err)
	}
	reading, cancel := context.WithCancel(r.members.triggers.Context())
	s, err := c.connect(reading, config)
	if err != nil { // such as a key that does not belong to its certificate
		cancel()
		return nil, invalid("cannot be used")
	}
	issued, _ := tokenTimes(config.BearerToken)
	s.close, s.kubeconfig, s.hostUID, s.expires, s.warn = cancel, sha256.Sum256(kubeconfig), host, expires, warnAt(issued, expires)
	return s, nil
}

// check finds out whether the cluster answers, is the one it is taken for, and lets itself be read.
func (r *reconciler) check(ctx context.Context, c *Cluster, s *connection) error {
	skew, err := s.probe(ctx, c.options)
	c.probed = clock.Now()
	c.options.Metrics.probed(c.name, err)
	if err != nil {
		s.failed = true
		return err
	}
	c.skewed(skew)
	if !s.identified || s.failed {
		uid, version, err := s.identify(ctx, c.options)
		if err != nil {
			return err
		}
		var all v1alpha1.MemberClusterList
		if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		if uid == s.hostUID {
			return problemOf(v1alpha1.ReasonPointsToHost,
				"the kubeconfig is that of the host, the cluster that the controllers run against: give the one of the member")
		}
		if err := r.members.claim(c, uid, all.Items); err != nil {
			return err
		}
		c.version, s.identified = version, true
	}
	return s.read(c, c.probed)
}

// UIDOf identifies a cluster.
func UIDOf(ctx context.Context, c client.Reader) (string, error) {
	var system v1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return "", fmt.Errorf("reading the UID of the cluster, which is that of its namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(system.UID), nil
}

// kubeconfig is what the cluster is reached by.
func (r *reconciler) kubeconfig(ctx context.Context, m *v1alpha1.MemberCluster) ([]byte, error) {
	if ref := m.Spec.ClusterProfileRef; ref != nil {
		return r.ofProfile(ctx, ref.Name)
	}
	ref := m.Spec.KubeconfigSecretRef
	return r.secret(ctx, ref.Name, cmp.Or(ref.Key, v1alpha1.DefaultKubeconfigKey))
}

// secret is what a Secret holds under a key.
func (r *reconciler) secret(ctx context.Context, name, key string) ([]byte, error) {
	var secret v1.Secret
	namespace := r.members.options.Namespace
	err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	case err != nil:
		return nil, problemOf(v1alpha1.ReasonSecretNotFound, "there is no Secret %s in namespace %s: create it, or %s", name, namespace, remedy)
	case len(secret.Data[key]) == 0:
		return nil, problemOf(v1alpha1.ReasonSecretNotFound, "the Secret %s in namespace %s has no key %s: add it, or %s", name, namespace, key,
			remedy)
	}
	return secret.Data[key], nil
}

// store writes the status if it changed. It returns when time alone changes it; zero for never.
func (r *reconciler) store(ctx context.Context, c *Cluster, now time.Time) (next time.Time, _ error) {
	r.members.options.Metrics.see(c.name, c.reported.State)
	status, next := c.status(now)
	if equality.Semantic.DeepEqual(status, &c.member.Status) {
		return next, nil
	}
	m := c.member.DeepCopy()
	m.Status = *status
	if err := r.client.Status().Patch(ctx, m, client.MergeFrom(c.member)); err != nil {
		return next, client.IgnoreNotFound(err)
	}
	r.report(ctx, c.member, m)
	c.replaced = c.member.ResourceVersion
	c.set(func() { c.member = m })
	return next, nil
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
