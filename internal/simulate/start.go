package simulate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// startAt moves all times of the nodes and pods of files so that the run begins now, by default at the
// newest of them: a node that was not ready for an hour then is so for an hour at the start.
func (s *Setup) startAt(now *metav1.Time, at *field.Path) field.ErrorList {
	newest := s.alike.newest
	s.eachTime(func(at *metav1.Time) { newest = later(newest, at.Time) })
	switch {
	case newest.IsZero():
		return nil
	case now == nil:
	case now.Time.Before(newest):
		return field.ErrorList{field.Invalid(at, now.UTC().Format(time.RFC3339), beforeNewest(newest))}
	default:
		newest = now.Time
	}
	by := epoch.Sub(newest)
	s.eachTime(func(at *metav1.Time) {
		if !at.IsZero() {
			at.Time = at.Add(by)
		}
	})
	for _, p := range s.Pods { // those that are being deleted will be gone in the future
		if at := p.DeletionTimestamp; at != nil {
			at.Time = at.Add(by)
		}
	}
	return nil
}

func beforeNewest(newest time.Time) string {
	return "is before " + newest.UTC().Format(time.RFC3339) + ", the newest time of the nodes and pods"
}

// eachTime calls f for all times that nodes and pods of files tell.
func (s *Setup) eachTime(f func(*metav1.Time)) {
	s.eachNode(func(n *v1.Node) { timesOfNode(n, f) })
	for _, p := range s.Pods {
		timesOfPod(p, f)
	}
	for i := range s.Requests {
		f(&s.Requests[i].Provisioned)
	}
}

func timesOfNode(n *v1.Node, f func(*metav1.Time)) {
	f(&n.CreationTimestamp)
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		f(&c.LastTransitionTime)
		f(&c.LastHeartbeatTime)
	}
}

func timesOfPod(p *v1.Pod, f func(*metav1.Time)) {
	f(&p.CreationTimestamp)
	if p.Status.StartTime != nil {
		f(p.Status.StartTime)
	}
}

// eachNode calls f for all nodes of files.
func (s *Setup) eachNode(f func(*v1.Node)) {
	for _, n := range s.Nodes {
		f(n)
	}
	for i := range s.Cloud.Groups {
		for _, n := range s.Cloud.Groups[i].Nodes {
			f(n)
		}
	}
}

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
	return deadSince(n).Sub(n.CreationTimestamp.Time) < neverReadyWithin
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

// shareCloud makes all nodes and the template of a group be of one cloud, as in life, and groups that
// show none be of the one that all others show. Which labels are compared depends on it, so it must not
// change between a template, the nodes of files and those that are made from the template.
func (s *Setup) shareCloud(packs nodegroupset.LabelPacks) error {
	shown := map[string]cloudprovider.Template{} // the first node of a group that names a cloud
	for i := range s.Cloud.Groups {
		g := &s.Cloud.Groups[i]
		nodes := nodesOf(g)
		shown[g.ID] = cloudprovider.Template{Node: nodes[max(0, slices.IndexFunc(nodes, packs.NamesCloud))]}
	}
	if err := template.ShareCloud(shown); err != nil {
		return err
	}
	for i := range s.Cloud.Groups {
		g := &s.Cloud.Groups[i]
		of := shown[g.ID].Node
		if !packs.NamesCloud(of) {
			continue
		}
		scheme, _, _ := strings.Cut(of.Spec.ProviderID, ":")
		ofCloud := func(n *v1.Node) *v1.Node {
			if packs.NamesCloud(n) {
				return n
			}
			out := *n // it may be the template of others
			_, rest, _ := strings.Cut(n.Spec.ProviderID, "://")
			out.Spec.ProviderID = scheme + "://" + g.ID + "/" + n.Name + rest
			return &out
		}
		g.Template.Node = ofCloud(g.Template.Node)
		for at, n := range g.Nodes {
			g.Nodes[at] = ofCloud(n)
		}
	}
	return nil
}

// nodesOf are the template of a group and its nodes at the start.
func nodesOf(g *fake.Group) []*v1.Node {
	return append([]*v1.Node{g.Template.Node}, g.Nodes...)
}
