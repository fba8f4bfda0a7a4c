package simulate

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// startNodes has the nodes of files that were still starting go on: each is ready, without the taints of
// a node that starts, as long after its creation as new nodes of its group are, and in the first loop
// at the earliest. What is older than Cluster Autoscaler gives a node to start does not start any more.
func (s *Setup) startNodes() {
	for i := range s.Cloud.Groups {
		g := &s.Cloud.Groups[i]
		for _, n := range g.Nodes {
			age := epoch.Sub(n.CreationTimestamp.Time)
			if n.CreationTimestamp.IsZero() || age > cloudprovider.DefaultMaxNodeStartupTime || !s.starting(n) {
				continue
			}
			if g.Started == nil {
				g.Started = map[string]fake.Started{}
			}
			after := max(g.BootTime+g.RegistrationDelay+g.ReadyDelay-age, cmp.Or(s.ScanInterval, DefaultScanInterval))
			g.Started[n.Name] = fake.Started{After: after, Node: s.started(n, epoch.Add(after))}
		}
	}
}

// ordered counts the nodes of files that are still starting, by group: the autoscaler that was at work
// before the start has ordered them, and counts on them.
func (s *Setup) ordered() map[string]int {
	out := map[string]int{}
	for i := range s.Cloud.Groups {
		if g := &s.Cloud.Groups[i]; len(g.Started) > 0 {
			out[g.ID] = len(g.Started)
		}
	}
	return out
}

// starting reports whether a node has not been ready yet, or carries a taint that it has only until it
// is.
func (s *Setup) starting(n *v1.Node) bool {
	if deadTaint(n) == "" {
		return slices.ContainsFunc(n.Spec.Taints, s.goesAway)
	}
	since := deadSince(n)
	return since.Sub(n.CreationTimestamp.Time) < neverReadyWithin
}

// neverReadyWithin is how soon after its creation a node that has never been ready says that it is not.
const neverReadyWithin = time.Minute

func (s *Setup) goesAway(t v1.Taint) bool {
	return t.Key == v1.TaintNodeNotReady || template.StartsWith(t.Key, s.Options.StartupTaints)
}

// started is a node that is ready from a time on.
func (s *Setup) started(n *v1.Node, from time.Time) *v1.Node {
	n = n.DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == v1.TaintNodeUnreachable || s.goesAway(t) })
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == v1.NodeReady {
			c.Status, c.Reason, c.Message, c.LastTransitionTime = v1.ConditionTrue, "KubeletReady", "", metav1.Time{Time: from}
		}
	}
	return n
}
