package join

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Cordon taints a member, so that it keeps the replicas that it has and gets no more.
func Cordon(ctx context.Context, host Cluster, name string) ([]Step, error) {
	j := &joiner{host: host, name: name}
	m, err := j.memberCluster(ctx)
	if err == nil {
		err = j.taint(ctx, m, v1alpha1.ClusterTaint{Key: v1alpha1.TaintCordoned, Effect: v1.TaintEffectNoSchedule})
	}
	return j.steps, err
}

// Uncordon takes away the taints of Cordon, and of a Leave that drains.
func Uncordon(ctx context.Context, host Cluster, name string) ([]Step, error) {
	j := &joiner{host: host, name: name}
	m, err := j.memberCluster(ctx)
	if err == nil {
		err = j.retaint(ctx, m, without(m.Spec.Taints, v1alpha1.TaintCordoned, v1alpha1.TaintLeaving), "uncordoned")
	}
	return j.steps, err
}

// taint adds a taint to a member.
func (j *joiner) taint(ctx context.Context, m *v1alpha1.MemberCluster, t v1alpha1.ClusterTaint) error {
	if slices.Contains(m.Spec.Taints, t) {
		return j.retaint(ctx, m, m.Spec.Taints, "")
	}
	return j.retaint(ctx, m, append(without(m.Spec.Taints, t.Key), t), fmt.Sprintf("tainted %s:%s", t.Key, t.Effect))
}

// without are the taints with other keys.
func without(taints []v1alpha1.ClusterTaint, keys ...string) []v1alpha1.ClusterTaint {
	return slices.DeleteFunc(slices.Clone(taints), func(t v1alpha1.ClusterTaint) bool { return slices.Contains(keys, t.Key) })
}

func (j *joiner) retaint(ctx context.Context, m *v1alpha1.MemberCluster, taints []v1alpha1.ClusterTaint, result string) error {
	if slices.Equal(taints, m.Spec.Taints) {
		j.did("host", nameOf(m), "unchanged")
		return nil
	}
	before := m.DeepCopy()
	m.Spec.Taints = taints
	if err := j.host.Client.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("in the host: %s: %w", nameOf(m), err)
	}
	j.did("host", nameOf(m), result)
	return nil
}
