package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// populate makes the initial cluster: nodes, and the pods on them.
func (s *simulation) populate(ctx context.Context) error {
	for _, g := range s.setup.Cloud.Groups {
		for _, n := range g.Nodes {
			s.groupOf[n.Name] = g.ID
		}
		size, err := s.cloud.TargetSize(ctx, g.ID)
		if err != nil {
			size = max(g.Size, len(g.Nodes)) // a fault hits the call
		}
		s.groups[g.ID] = &groupRecord{before: size}
	}
	for _, object := range s.setup.Nodes {
		n := &node{object: object, ready: takesPods(object), upSince: s.clock.Now(), downSince: deadSince(object)}
		s.cluster.nodes = append(s.cluster.nodes, n)
		s.cluster.byName[object.Name] = n
	}
	for _, object := range s.cloud.SharedNodes() {
		n := s.register(object)
		n.downSince = deadSince(n.object)
	}
	for _, object := range s.setup.Pods {
		if err := s.adopt(object); err != nil {
			return err
		}
	}
	for _, n := range s.cluster.nodes {
		n.alike = s.setup.alike.on[n.object.Name]
	}
	if err := s.controllers.daemons.begin(s.cluster.nodes); err != nil {
		return err
	}
	if err := s.controllers.volumes.provide(s.cluster.pods); err != nil {
		return err
	}
	if err := s.controllers.volumes.bind(s.cluster.pods); err != nil {
		return err
	}
	for _, lack := range s.controllers.volumes.missing(s.setup) {
		s.timeline.once(0, v1alpha1.RowWarning, lack).Reason = lack
	}
	slices.SortStableFunc(s.cluster.queue, func(a, b *pod) int { // the oldest first
		return a.object.CreationTimestamp.Compare(b.object.CreationTimestamp.Time)
	})
	s.cluster.sortNodes()
	s.cluster.changed(s.cluster.nodes...)
	s.agenda.roundDue, s.agenda.bindDue = true, true
	if waiting := len(s.cluster.waiting()); waiting > 0 {
		row := s.timeline.add(0, v1alpha1.RowPods, "%s pending at the start", spelling.Count(waiting, "pod"))
		row.Reason, row.Pods, row.Pending = v1alpha1.PodsAtStart, waiting, &waiting
	}
	return nil
}

// adopt adds a pod that exists at the start.
func (s *simulation) adopt(object *v1.Pod) error {
	n := s.cluster.byName[object.Spec.NodeName]
	switch {
	case object.Spec.NodeName == "" && template.RunsOnEveryNode(object):
		p := &pod{object: object}
		s.cluster.leftAlone.sort(p)
		s.cluster.leftAlone.outside = append(s.cluster.leftAlone.outside, p)
		return nil
	case object.Spec.NodeName == "":
	case n == nil:
		return fmt.Errorf("pod %s/%s is bound to node %s, which does not exist", object.Namespace, object.Name, object.Spec.NodeName)
	case template.RunsOnEveryNode(object):
		n.daemons = append(n.daemons, object)
		return nil
	}
	p := &pod{object: object, node: n}
	s.adoptOwned(p)
	s.cluster.add(p)
	if n != nil && object.DeletionTimestamp != nil {
		s.controllers.terminating = append(s.controllers.terminating, p)
	}
	if nominated := s.cluster.byName[object.Status.NominatedNodeName]; p.why == autoscaler.Nominated && nominated != nil {
		s.cluster.bind(p, nominated) // it waits for nothing but the end of others
		s.cluster.leaveQueue((*pod).runs)
	}
	return nil
}

// RegisteredNodes returns the node objects of the scenario's cloud, with the changes of
// RegistersAs.
func (s *Setup) RegisteredNodes(cloud *fake.Cloud) []*v1.Node {
	objects := cloud.RegisteredNodes()
	for i, object := range objects {
		objects[i] = s.registered(object)
	}
	return objects
}

// kubeletVersion is what kubelets report that say nothing else.
const kubeletVersion = "v1.36.3"

// registered returns a node of the cloud as its kubelet reports it, with the changes of RegistersAs.
func (s *Setup) registered(object *v1.Node) *v1.Node {
	like := s.RegistersAs[object.Annotations[fake.GroupAnnotation]]
	_, made := object.Annotations[fake.GroupAnnotation]
	young := made && !object.CreationTimestamp.After(epoch)
	if like == nil && !young && object.Status.NodeInfo.KubeletVersion != "" {
		return object // almost always
	}
	turned := *object
	if turned.Status.NodeInfo.KubeletVersion == "" {
		turned.Status.NodeInfo.KubeletVersion = kubeletVersion
	}
	if young {
		aged(&turned)
	}
	if like == nil {
		return &turned
	}
	turned.Labels = maps.Clone(like.Labels)
	if zone := nodegroupset.ZoneOf(object); zone != nodegroupset.ZoneOf(like) {
		turned.Labels = fake.InZone(like, zone).Labels
	}
	turned.Labels[v1.LabelHostname] = object.Name
	turned.Status.Capacity, turned.Status.Allocatable = like.Status.Capacity, like.Status.Allocatable
	turned.Spec.Taints = slices.Clone(object.Spec.Taints)
	for _, taint := range like.Spec.Taints {
		if !slices.Contains(turned.Spec.Taints, taint) {
			turned.Spec.Taints = append(turned.Spec.Taints, taint)
		}
	}
	return &turned
}

// startAge is for how long nodes of the start have been what they are, unless they say otherwise.
const startAge = time.Hour

// aged has a node of the start be what it is for a while: Cluster Autoscaler makes no template of a
// node that has just become ready.
func aged(n *v1.Node) {
	before := metav1.Time{Time: epoch.Add(-startAge)}
	if n.CreationTimestamp.After(before.Time) {
		n.CreationTimestamp = before
	}
	n.Status.Conditions = slices.Clone(n.Status.Conditions)
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.LastTransitionTime.Time.Equal(epoch) {
			c.LastTransitionTime = before
		}
	}
}

func (s *simulation) register(object *v1.Node) *node {
	group, given := s.groupOf[object.Name]
	if !given { // made from a template
		group = object.Annotations[fake.GroupAnnotation]
	}
	n := &node{object: s.setup.registered(object), cloud: object, group: group, ready: takesPods(object), upSince: s.clock.Now()}
	s.cluster.nodes = append(s.cluster.nodes, n)
	s.cluster.byName[object.Name] = n
	return n
}

// syncNodes updates the cluster's nodes from the cloud.
func (s *simulation) syncNodes() error {
	now := s.clock.Now()
	came, up, down, gone := tally{}, tally{}, tally{}, tally{}
	objects := s.cloud.SharedNodes()
	present := make(map[string]bool, len(objects))
	for _, object := range objects {
		present[object.Name] = true
		n := s.cluster.byName[object.Name]
		if n == nil {
			n = s.register(object)
			if err := s.controllers.daemons.start(n); err != nil {
				return err
			}
			came.add(n.group)
			if n.ready {
				up.add(n.group)
			}
			continue
		}
		if n.cloud == object {
			continue
		}
		n.cloud, object = object, s.setup.registered(object)
		if n.leaving {
			object = toBeDeleted(object)
		}
		ready := takesPods(object) && !n.leaving
		switch {
		case n.leaving && template.IsReady(object):
			s.revive(n)
		case n.leaving:
			s.fail(n)
		case ready && !n.ready:
			up.add(n.group)
			n.upSince = now
			s.revive(n)
		case ready: // without a taint that it had while it started
			s.agenda.roundDue, s.agenda.bindDue = true, true
		case !ready && n.ready:
			down.add(n.group)
			s.fail(n)
		}
		n.object, n.ready = object, ready
		s.cluster.changed()
	}
	lost := s.dropNodes(present, gone)
	if came.total()+up.total()+down.total()+gone.total() > 0 {
		s.cluster.sortNodes()
		s.cluster.changed()
		s.agenda.roundDue = true
		s.agenda.bindDue = s.agenda.bindDue || up.total() > 0 || lost > 0
	}
	s.timeline.nodes(s.elapsed(), v1alpha1.RowNodesReady, up, "ready", "")
	row := s.timeline.nodes(s.elapsed(), v1alpha1.RowNodesLost, down, "not ready any more", "")
	row.Reason, row.Faults = v1alpha1.NodesNotReady, s.outages(down)
	row = s.timeline.nodes(s.elapsed(), v1alpha1.RowNodesLost, gone, "gone", lostPods(lost))
	row.Reason, row.Pods, row.Faults = v1alpha1.NodesGone, lost, s.outages(gone)
	return nil
}

// outages returns the faults that affect nodes of these groups now.
func (s *simulation) outages(nodes tally) []int {
	return s.faults.outages(s.elapsed(), slices.Sorted(maps.Keys(nodes))...)
}

func lostPods(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %s pending again", spelling.Count(n, "pod"))
}

// dropNodes removes nodes that the cloud no longer has. Their pods become pending again; it returns
// their number.
func (s *simulation) dropNodes(present map[string]bool, gone tally) int {
	lost := 0
	s.cluster.nodes = slices.DeleteFunc(s.cluster.nodes, func(n *node) bool {
		if n.group == "" || present[n.object.Name] {
			return false
		}
		gone.add(n.group)
		lost += s.cluster.evictFrom(n, func(*pod) bool { return true })
		delete(s.cluster.byName, n.object.Name)
		return true
	})
	return lost
}

// sortNodes sorts nodes of no group first and the others by group, in the order of their
// registration.
func (c *cluster) sortNodes() {
	slices.SortStableFunc(c.nodes, func(a, b *node) int { return cmp.Compare(a.group, b.group) })
}

func (c *cluster) readyNodes() tally {
	ready := tally{}
	for _, n := range c.nodes {
		if n.ready {
			ready.add(n.group)
		}
	}
	return ready
}

// takesPods reports whether the scheduler may bind pods to the node.
func takesPods(n *v1.Node) bool {
	return n.DeletionTimestamp == nil && !n.Spec.Unschedulable && template.IsReady(n)
}

func objectsOf(pods []*pod) []*v1.Pod {
	objects := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		objects[i] = p.object
	}
	return objects
}

// defaultPatience is how long pods stay on a node that does not respond: the tolerationSeconds that
// the API server gives every pod without its own.
const defaultPatience = 5 * time.Minute

// deadTaint is the key of the taint of a node that is not ready, and empty for one that is.
func deadTaint(n *v1.Node) string {
	switch _, ready := nodeutil.GetNodeCondition(&n.Status, v1.NodeReady); {
	case ready == nil:
	case ready.Status == v1.ConditionFalse:
		return v1.TaintNodeNotReady
	case ready.Status == v1.ConditionUnknown:
		return v1.TaintNodeUnreachable
	}
	return ""
}

// deadSince is when a node of the start stopped being ready; zero if it is ready. One that does not
// say has not been for long.
func deadSince(n *v1.Node) time.Time {
	if deadTaint(n) == "" {
		return time.Time{}
	}
	if _, ready := nodeutil.GetNodeCondition(&n.Status, v1.NodeReady); !ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	return epoch.Add(-startAge)
}

// taintDeadNodes gives the nodes of files that are not ready the taints that the node lifecycle
// controller does, where the files leave them out.
func (s *Setup) taintDeadNodes() {
	s.eachNode(func(n *v1.Node) {
		key := deadTaint(n)
		for _, effect := range []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute} {
			if key != "" && !slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == key && t.Effect == effect }) {
				n.Spec.Taints = append(slices.Clip(n.Spec.Taints), v1.Taint{Key: key, Effect: effect})
			}
		}
	})
}

// fail has a node stop responding, if it does: the pods on it do not run any more.
func (s *simulation) fail(n *node) {
	if !n.downSince.IsZero() {
		return
	}
	n.downSince = s.clock.Now()
	for _, p := range n.pods {
		s.history.unbound(p)
	}
}

// revive has a node respond again, and the pods that are still on it run.
func (s *simulation) revive(n *node) {
	n.downSince = time.Time{}
	for _, p := range n.pods {
		if p.life.on == nil {
			s.history.bound(p)
		}
	}
}

// patience is how long a pod stays on a node with a taint of this key that evicts; ever reports that
// it always does.
func patience(p *v1.Pod, key string) (stays time.Duration, ever bool) {
	var limits []int64
	for _, t := range p.Spec.Tolerations {
		exists := t.Operator == v1.TolerationOpExists
		switch {
		case t.Key != key && (t.Key != "" || !exists), t.Effect != "" && t.Effect != v1.TaintEffectNoExecute:
		case !exists && t.Value != "": // these taints have no value
		case t.TolerationSeconds == nil:
			ever = true
		default:
			limits = append(limits, max(0, *t.TolerationSeconds))
		}
	}
	if len(limits) > 0 {
		return time.Duration(slices.Min(limits)) * time.Second, false
	}
	return defaultPatience, ever
}

// evictsAt is when a pod loses its node, which does not respond; zero for never.
func (n *node) evictsAt(p *pod) time.Time {
	stays, ever := patience(p.object, deadTaint(n.object))
	if ever {
		return time.Time{}
	}
	return n.downSince.Add(stays)
}

// evictions calls f with the times at which pods lose nodes that do not respond.
func (s *simulation) evictions(f func(time.Time)) {
	for _, p := range s.cluster.stranded() {
		if at := p.node.evictsAt(p); !at.IsZero() {
			f(at)
		}
	}
}

// evictFromDeadNodes evicts the pods that tolerate for no longer that their node does not respond.
func (s *simulation) evictFromDeadNodes() {
	now, evicted := s.clock.Now(), 0
	for _, n := range s.cluster.nodes {
		if n.downSince.IsZero() {
			continue
		}
		evicted += s.cluster.evictFrom(n, func(p *pod) bool {
			at := n.evictsAt(p)
			return !at.IsZero() && !at.After(now)
		})
	}
	if evicted > 0 {
		s.agenda.roundDue, s.agenda.bindDue = true, true
		row := s.timeline.add(s.elapsed(), v1alpha1.RowPods, "%s evicted from nodes that are not ready", spelling.Count(evicted, "pod"))
		row.Reason, row.Pods = v1alpha1.PodsEvicted, evicted
	}
}
