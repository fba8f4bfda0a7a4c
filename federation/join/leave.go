package join

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/members"
)

// Leave takes back what Join has made. What runs in the member stays there. Without a member, that
// is if its Client is nil, what is in the member stays, too. The namespace empty means
// members.DefaultNamespace. The steps are those that were done, also if there is an error.
func Leave(ctx context.Context, host, member Cluster, name, namespace string) ([]Step, error) {
	j := &joiner{host: host, member: member, name: name, options: Options{Namespace: cmp.Or(namespace, members.DefaultNamespace)}}
	m := &v1alpha1.MemberCluster{}
	m.Name = name
	err := host.Client.Get(ctx, client.ObjectKeyFromObject(m), m)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, fmt.Errorf("%w: there is no MemberCluster %s", ErrNotMember, name)
	case err != nil:
		return nil, fmt.Errorf("reading MemberCluster %s: %w", name, err)
	}
	if member.Client != nil {
		uid, err := uidOf(ctx, member.Client)
		if err != nil {
			return nil, fmt.Errorf("in the member: %w", err)
		}
		if known := m.Status.ClusterUID; known != "" && known != uid {
			return nil, fmt.Errorf("%w: the kubeconfig of the member leads to another cluster than %s", ErrNotMember, name)
		}
	}
	if err := j.forget(ctx, m); err != nil || member.Client == nil {
		return j.steps, err
	}
	return j.steps, j.clear(ctx)
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

// clear deletes the account of the controllers in the member.
func (j *joiner) clear(ctx context.Context) error {
	namespace, account, role, binding := memberObjects(j.options.Namespace)
	for _, o := range []client.Object{binding, role} {
		if err := j.delete(ctx, "member", j.member.Client, o); err != nil {
			return err
		}
	}
	if err := j.revoke(ctx, func(*v1.Secret) bool { return true }); err != nil {
		return err
	}
	if err := j.delete(ctx, "member", j.member.Client, account); err != nil {
		return err
	}
	j.did("member", nameOf(namespace), "kept")
	return nil
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
	name := o.GetName()
	if name == "" {
		name = o.GetGenerateName()
	}
	return strings.ToLower(reflect.TypeOf(o).Elem().Name()) + "/" + name
}
