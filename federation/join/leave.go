package join

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/members"
)

// LeaveOptions are options of Leave. The zero value works.
type LeaveOptions struct {
	// Namespace is that of the controllers in the host, and of their account in the member; empty
	// means members.DefaultNamespace.
	Namespace string
	// Drain has the member emptied before: the controllers move its replicas to other members, and
	// what is left of their local objects is deleted. It needs the member.
	Drain bool
	// Timeout is how long that may take; 0 means DefaultDrainTimeout.
	Timeout time.Duration
	// Progress is called with what still runs in the member, when that has changed; nil is not
	// called.
	Progress func([]Remaining)
}

// Leave takes back what Join has made. Unless the member is drained, what runs there stays. Without
// a member, that is if its Client is nil, what is in the member stays, too. The steps are those that
// were done, also if there is an error.
func Leave(ctx context.Context, host, member Cluster, name string, o LeaveOptions) ([]Step, error) {
	j := &joiner{host: host, member: member, name: name, options: Options{Namespace: cmp.Or(o.Namespace, members.DefaultNamespace)}}
	m, err := j.memberCluster(ctx)
	if err != nil {
		return nil, err
	}
	if member.Client != nil {
		uid, err := members.UIDOf(ctx, member.Client)
		if err != nil {
			return nil, fmt.Errorf("in the member: %w", err)
		}
		if known := m.Status.ClusterUID; known != "" && known != uid {
			return nil, fmt.Errorf("%w: the kubeconfig of the member leads to another cluster than %s", ErrNotMember, name)
		}
	}
	if o.Drain {
		err = j.drain(ctx, m, &o)
	} else {
		err = j.orphan(ctx)
	}
	if err != nil {
		return j.steps, err
	}
	if err := j.forget(ctx, m); err != nil || member.Client == nil {
		return j.steps, err
	}
	if o.Drain {
		if err := j.deleteLocals(ctx); err != nil {
			return j.steps, err
		}
	}
	return j.steps, j.clear(ctx)
}

// memberCluster reads the MemberCluster.
func (j *joiner) memberCluster(ctx context.Context) (*v1alpha1.MemberCluster, error) {
	m := &v1alpha1.MemberCluster{}
	err := j.host.Client.Get(ctx, client.ObjectKey{Name: j.name}, m)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, fmt.Errorf("%w: there is no MemberCluster %s", ErrNotMember, j.name)
	case err != nil:
		return nil, fmt.Errorf("reading MemberCluster %s: %w", j.name, err)
	}
	return m, nil
}

// forget deletes what the host knows of the member.
func (j *joiner) forget(ctx context.Context, m *v1alpha1.MemberCluster) error {
	if err := j.delete(ctx, "host", j.host.Client, m); err != nil {
		return err
	}
	if m.Spec.KubeconfigSecretRef.Name == "" {
		return nil // the ClusterProfile that it refers to is not of join
	}
	var secret v1.Secret
	err := j.host.Client.Get(ctx, client.ObjectKey{Namespace: j.options.Namespace, Name: m.Spec.KubeconfigSecretRef.Name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("in the host: secret/%s: %w", m.Spec.KubeconfigSecretRef.Name, err)
	case secret.Labels[labelCluster] != j.name:
		j.did("host", nameOf(&secret)+", which join did not make", "kept")
		return nil
	}
	return j.delete(ctx, "host", j.host.Client, &secret)
}

// clear deletes the account of the controllers in the member, its rights first.
func (j *joiner) clear(ctx context.Context) error {
	namespace, account, role, binding := memberObjects(j.options.Namespace)
	for _, o := range []client.Object{binding, role, account} {
		if err := j.delete(ctx, "member", j.member.Client, o); err != nil {
			return err
		}
	}
	j.did("member", nameOf(namespace), "kept")
	return j.revoke(ctx, func(*v1.Secret) bool { return true })
}

func (j *joiner) delete(ctx context.Context, where string, c client.Client, o client.Object) error {
	err := c.Delete(ctx, o)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("in the %s: %s: %w", where, nameOf(o), err)
	}
	j.did(where, nameOf(o), "deleted")
	return nil
}

// nameOf is kind and name of an object as kubectl prints them.
func nameOf(o client.Object) string {
	return strings.ToLower(reflect.TypeOf(o).Elem().Name()) + "/" + cmp.Or(o.GetName(), o.GetGenerateName())
}
