package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/members"
)

const (
	// Account is the name of what the controllers are in a member: a ServiceAccount in
	// Options.Namespace, and its ClusterRole and ClusterRoleBinding.
	Account = "evenkeel-member"
	// DefaultLifetime is how long credentials are asked for.
	DefaultLifetime = 365 * 24 * time.Hour

	// labelCluster marks what belongs to a member, with its name.
	labelCluster = "evenkeel.dev/member-cluster"
	// labelAnchor marks the Secrets in a member that tokens live as long as.
	labelAnchor = "evenkeel.dev/credentials"
	// labelHost on the ClusterRoleBinding in a member is the UID of its host.
	labelHost = "evenkeel.dev/host"
)

// Errors of Join and Leave. Unless they say something else, nothing has been changed then.
var (
	// ErrUnsuitable is returned if the two clusters cannot be host and member as they are.
	ErrUnsuitable = errors.New("the cluster cannot join")
	// ErrNotMember is returned by Leave if there is no such MemberCluster, or if it is another
	// cluster than the one given.
	ErrNotMember = errors.New("not a member")
	// ErrUndrainable is returned by Leave if a member cannot be drained.
	ErrUndrainable = errors.New("cannot be drained")
	// ErrNotDrained is returned by Leave if replicas are left in the member when the time is over.
	// The member stays a member that is marked as leaving.
	ErrNotDrained = errors.New("not drained in time")
	// ErrDenied is returned if the credentials that were made do not give the rights that are
	// needed. Nothing has been changed in the host then.
	ErrDenied = errors.New("the new credentials do not suffice")
)

// Cluster is a cluster as somebody reaches it.
type Cluster struct {
	Client client.Client
	Config *rest.Config
}

// Options of Join. The zero value works.
type Options struct {
	// Namespace is that of the controllers in the host, and of their account in the member; empty
	// means members.DefaultNamespace.
	Namespace string
	// Labels are given to the MemberCluster, besides those that it has.
	Labels map[string]string
	// Server is the address of the member for the controllers; empty means the one in use.
	Server string
	// Lifetime is how long credentials are asked for; 0 means DefaultLifetime.
	Lifetime time.Duration
	// FixedNodes says whether the nodes of the member are all that it has, so that their room should
	// be known; nil means as before, which is no for a new member.
	FixedNodes *bool
	// As returns a client of the member with other credentials.
	As func(*rest.Config) (client.Client, error)
}

// Step is something that was done.
type Step struct {
	// Where is host or member.
	Where string
	// What is kind and name of an object, or what was verified.
	What string
	// Result is created, updated, unchanged, deleted, kept, drained, not placed, verified
	// or not verified.
	Result string
}

// joiner joins one member.
type joiner struct {
	host, member Cluster
	name         string
	options      Options
	fixedNodes   bool
	hostUID      string
	steps        []Step
}

// Join makes a cluster a member of the host, by a name. If it is one already, it gets new
// credentials, and the old ones are revoked. The steps are those that were done, also if there is an
// error.
func Join(ctx context.Context, host, member Cluster, name string, o Options) ([]Step, error) {
	o.Namespace = cmp.Or(o.Namespace, members.DefaultNamespace)
	o.Lifetime = cmp.Or(o.Lifetime, DefaultLifetime)
	j := &joiner{host: host, member: member, name: name, options: o}
	if err := j.suits(ctx); err != nil {
		return nil, err
	}
	if err := j.prepareMember(ctx); err != nil {
		return j.steps, err
	}
	anchor, token, err := j.newToken(ctx)
	if err != nil {
		return j.steps, err
	}
	kubeconfig, err := j.kubeconfig(token.Status.Token)
	if err == nil {
		err = j.verify(ctx, kubeconfig)
	}
	stored := false
	if err == nil {
		stored, err = j.register(ctx, kubeconfig)
	}
	if stored && err != nil { // the controllers use the new token already
		return j.steps, err
	}
	if err != nil {
		return j.steps, errors.Join(err, j.revoke(ctx, func(s *v1.Secret) bool { return s.Name == anchor }))
	}
	expires := token.Status.ExpirationTimestamp.Time
	what := "token, which expires on " + expires.UTC().Format(time.RFC3339)
	if expires.Before(clock.RealClock{}.Now().Add(o.Lifetime / 2)) {
		what += " because the member gives no longer ones: join again before,"
	}
	j.did("member", what, "created")
	return j.steps, j.revoke(ctx, func(s *v1.Secret) bool { return s.Name != anchor })
}

func (j *joiner) did(where, what, result string) {
	j.steps = append(j.steps, Step{where, what, result})
}

// suits refuses clusters that cannot be host and member.
func (j *joiner) suits(ctx context.Context) error {
	var all v1alpha1.MemberClusterList
	if err := j.host.Client.List(ctx, &all); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: the host has no MemberClusters: install the definitions there first, kubectl apply -k configs/crd", ErrUnsuitable)
	} else if err != nil {
		return fmt.Errorf("listing MemberClusters in the host: %w", err)
	}
	host, err := members.UIDOf(ctx, j.host.Client)
	if err != nil {
		return fmt.Errorf("in the host: %w", err)
	}
	member, err := members.UIDOf(ctx, j.member.Client)
	if err != nil {
		return fmt.Errorf("in the member: %w", err)
	}
	j.hostUID = host
	var binding rbacv1.ClusterRoleBinding
	err = j.member.Client.Get(ctx, client.ObjectKey{Name: Account}, &binding)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("in the member: %s: %w", nameOf(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: Account}}), err)
	}
	if other := binding.Labels[labelHost]; other != "" && other != host {
		return fmt.Errorf("%w: it is a member of another host, the cluster whose namespace kube-system has the UID %s, and "+
			"two hosts would overwrite each other's objects: "+
			"take it back there with evenkeel cluster leave, or, if that host is gone, delete clusterrolebinding/%s in the member", ErrUnsuitable,
			other, Account)
	}
	if host == member {
		return fmt.Errorf("%w: the kubeconfigs of host and member lead to the same cluster", ErrUnsuitable)
	}
	j.fixedNodes = ptr.Deref(j.options.FixedNodes, slices.ContainsFunc(all.Items, func(m v1alpha1.MemberCluster) bool {
		return m.Name == j.name && m.Spec.FixedNodes
	}))
	for i := range all.Items {
		other, uid := all.Items[i].Name, all.Items[i].Status.ClusterUID
		switch {
		case other != j.name && uid == member:
			return fmt.Errorf("%w: it has joined already, as %s: use that name, or take it back with evenkeel cluster leave %s", ErrUnsuitable,
				other, other)
		case other == j.name && uid != "" && uid != member:
			return fmt.Errorf("%w: %s is another cluster: use another name, or take it back with evenkeel cluster leave %s", ErrUnsuitable, other,
				other)
		}
	}
	return nil
}

// ensure creates an object, or changes what is not as it should be.
func (j *joiner) ensure(ctx context.Context, where string, c client.Client, o client.Object, change func()) error {
	result := controllerutil.OperationResultNone
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) { // the controllers write the status
		result, err = controllerutil.CreateOrUpdate(ctx, c, o, func() error {
			change()
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("in the %s: %s: %w", where, nameOf(o), err)
	}
	j.did(where, nameOf(o), string(result))
	return nil
}

// prepareMember makes the account of the controllers, with its rights.
func (j *joiner) prepareMember(ctx context.Context) error {
	namespace, account, role, binding := memberObjects(j.options.Namespace)
	for _, step := range []struct {
		o      client.Object
		change func()
	}{
		{namespace, func() {}},
		{account, func() { account.AutomountServiceAccountToken = ptr.To(false) }},
		{role, func() { role.Rules = members.Rules(j.fixedNodes) }},
		{binding, func() {
			binding.Labels[labelHost] = j.hostUID
			binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
			binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}
		}},
	} {
		if err := j.ensure(ctx, "member", j.member.Client, step.o, func() {
			step.o.SetLabels(labels.Merge(step.o.GetLabels(), map[string]string{"app.kubernetes.io/name": "evenkeel"}))
			step.change()
		}); err != nil {
			return err
		}
	}
	return nil
}

func memberObjects(namespace string) (*v1.Namespace, *v1.ServiceAccount, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding) {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Account}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: Account}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: Account}}
}

// newToken makes credentials that end when their anchor, a Secret without content, is deleted.
func (j *joiner) newToken(ctx context.Context) (anchor string, _ *authenticationv1.TokenRequest, _ error) {
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.options.Namespace, GenerateName: Account + "-", Labels: map[string]string{labelAnchor: Account},
	}}
	if err := j.member.Client.Create(ctx, secret); err != nil {
		return "", nil, fmt.Errorf("in the member: the Secret that the token lives as long as: %w", err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(j.options.Lifetime.Seconds())),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID},
	}}
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: j.options.Namespace, Name: Account}}
	if err := j.member.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", nil, errors.Join(fmt.Errorf("in the member: a token for %s: %w", nameOf(account), err),
			j.revoke(ctx, func(s *v1.Secret) bool { return s.Name == secret.Name }))
	}
	return secret.Name, request, nil
}

// revoke deletes anchors, and ends their tokens with them.
func (j *joiner) revoke(ctx context.Context, which func(*v1.Secret) bool) error {
	var all v1.SecretList
	if err := j.member.Client.List(ctx, &all, client.InNamespace(j.options.Namespace),
		client.MatchingLabels{labelAnchor: Account}); err != nil {
		return fmt.Errorf("in the member: listing credentials to revoke: %w", err)
	}
	for i := range all.Items {
		if !which(&all.Items[i]) {
			continue
		}
		if err := client.IgnoreNotFound(j.member.Client.Delete(ctx, &all.Items[i])); err != nil {
			return fmt.Errorf("in the member: revoking credentials: %w", err)
		}
		j.did("member", nameOf(&all.Items[i])+", and its token", "deleted")
	}
	return nil
}

// register tells the host of the member. It reports whether the kubeconfig is stored.
func (j *joiner) register(ctx context.Context, kubeconfig []byte) (stored bool, _ error) {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.options.Namespace}}
	err := j.host.Client.Create(ctx, namespace)
	switch {
	case err == nil:
		j.did("host", nameOf(namespace), "created")
	case !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err): // who may not create it may still write into it
		return false, fmt.Errorf("in the host: %s: %w", nameOf(namespace), err)
	}
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: j.options.Namespace, Name: secretName(j.name)}}
	if err := j.ensure(ctx, "host", j.host.Client, secret, func() {
		secret.Labels = labels.Merge(secret.Labels, map[string]string{labelCluster: j.name})
		secret.Data = map[string][]byte{v1alpha1.DefaultKubeconfigKey: kubeconfig}
	}); err != nil {
		return false, err
	}
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: j.name}}
	return true, j.ensure(ctx, "host", j.host.Client, m, func() {
		m.Labels = labels.Merge(m.Labels, j.options.Labels)
		m.Spec.ClusterProfileRef, m.Spec.FixedNodes = nil, j.fixedNodes
		m.Spec.KubeconfigSecretRef = v1alpha1.KubeconfigSecretReference{Name: secret.Name, Key: v1alpha1.DefaultKubeconfigKey}
	})
}

// secretName is the name of the Secret with the kubeconfig of a member.
func secretName(member string) string { return "member-" + member }
