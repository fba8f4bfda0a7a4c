package placement

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/podhealth"
)

// inputOf is what the controller would decide upon, as far as a dump shows it.
func (d *Dump) inputOf(f *v1alpha1.FederatedReplicaSet) federation.Input {
	in := federation.Input{
		Key: f.Namespace + "/" + f.Name, Generation: f.Generation, Annotations: f.Annotations, Spec: f.Spec, Status: f.Status,
	}
	in.Now = document.Latest(f) // what the status says was so then
	clusters := map[string]*v1alpha1.FederatedClusterStatus{}
	for i := range f.Status.Clusters {
		clusters[f.Status.Clusters[i].Name] = &f.Status.Clusters[i]
	}
	if len(d.Members) == 0 {
		for _, name := range named(in) {
			in.Clusters = append(in.Clusters, observed(federation.Cluster{Name: name}, f, clusters[name], in.Now))
		}
		return in
	}
	for _, m := range d.Members {
		if m.DeletionTimestamp != nil {
			continue
		}
		c := federation.Cluster{Name: m.Name, Labels: m.Labels, Reach: reachOf(m)}
		for _, taint := range m.Spec.Taints {
			c.NoSchedule = c.NoSchedule || taint.Effect == v1.TaintEffectNoSchedule
			c.Leaving = c.Leaving || taint.Effect == v1.TaintEffectNoExecute
		}
		in.Clusters = append(in.Clusters, observed(c, f, clusters[m.Name], in.Now))
	}
	return in
}

// reachOf is what the condition of a MemberCluster says. One that no controller has seen yet is
// taken as reachable.
func reachOf(m *v1alpha1.MemberCluster) federation.Reach {
	switch c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable); {
	case c == nil || c.Status == metav1.ConditionTrue:
		return federation.Reachable
	case c.Status == metav1.ConditionFalse:
		return federation.Lost
	}
	return federation.NotAnswering
}

// named are the clusters that the status and the preferences name.
func named(in federation.Input) []string {
	names, _, _ := federation.Named(in) // checked when the file was read
	for _, c := range in.Status.Clusters {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// observed fills in what the status says about a cluster: what was written, and which pods there
// were. The time since when each pod waits is not stored; those that have waited for too long are
// counted.
func observed(c federation.Cluster, f *v1alpha1.FederatedReplicaSet, s *v1alpha1.FederatedClusterStatus, now time.Time) federation.Cluster {
	if s == nil {
		return c
	}
	switch {
	case s.Reason == federation.ReasonLost || s.Reason == federation.ReasonUnknown:
		c.Reach = federation.Lost
	case !s.Reachable:
		c.Reach = max(c.Reach, federation.NotAnswering)
	}
	normal, act := federation.Timeouts(&f.Spec)
	counts := func(timeout time.Duration) podhealth.Counts {
		return podhealth.Counts{Timeout: timeout, Existing: s.Pods, Running: s.Running, Ready: s.Ready, Late: s.Unschedulable}
	}
	c.Local = federation.Local{
		Exists: s.Revision != "" || s.Written > 0, Replicas: s.Written, Written: &s.Written, Revision: s.Revision,
		RolledOut: s.RollingSince == nil,
		Normal:    counts(normal), Act: counts(act),
	}
	if s.Uncreated > 0 { // only replicas that could not be created for so long are counted
		c.Local.FailingSince = now.Add(-act - time.Second)
	}
	return c
}
