package explain

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// PendingSpread says what one of the topology spread constraints of equal pending pods means to them.
type PendingSpread struct {
	Pods []string `json:"pods"` // namespace/name
	// Constraint is the position among the pods' constraints, the others are of it. Default says that
	// these are the default constraints of the scheduler's profile.
	Constraint  int    `json:"constraint"`
	Default     bool   `json:"default,omitempty"`
	TopologyKey string `json:"topologyKey"`
	MaxSkew     int    `json:"maxSkew"`
	// Soft is a constraint that keeps no pod waiting (ScheduleAnyway). Without, it holds the pods.
	Soft bool `json:"soft,omitempty"`
	// Domains are the domains that have nodes the constraint includes, or could get some from a node
	// group, by name.
	Domains []SpreadDomain `json:"domains"`
	// Binding are the domains that hold the others back: the constraint lets the pods in, but no node
	// takes one. It is empty if too few domains for minDomains are what holds the pods.
	Binding []string `json:"binding"`
	// Runnable is set if the constraint does not hold the pods yet, but will, since the node groups of
	// the binding domains have no room: how many of them can run.
	Runnable *int `json:"runnable,omitempty"`
	// Answer is all that in one sentence.
	Answer string `json:"verdict"`
}

// SpreadDomain is a domain of a constraint.
type SpreadDomain struct {
	Name         string `json:"name"`
	MatchingPods int    `json:"matchingPods"`
	Nodes        int    `json:"nodes"`
	// Allowed says that the constraint lets the pods in.
	Allowed bool `json:"allowed"`
	// Score is the best score of a node there, 0 to 100, by all soft constraints together: of a node
	// that takes a pod or, if none does, of a new one. Nil if there is neither, or the constraint is
	// hard.
	Score *int64 `json:"score,omitempty"`
	// Rejections say why nodes do not take a pod, whatever the constraint: most nodes first.
	Rejections []Rejection `json:"rejections,omitempty"`
	// Groups are the node groups there, and why a new node would not take a pod.
	Groups []GroupRejection `json:"groups,omitempty"`
}

// Rejection is a reason that nodes share.
type Rejection struct {
	Nodes  int    `json:"nodes"`
	Reason string `json:"reason"`
}

// GroupRejection says why a new node of a group does not take a pod; the reason is empty if it does.
// Blocked is a group that gets no node now, whatever the pods: the reason says why. Coming nodes are
// ordered already.
type GroupRejection struct {
	Group   string `json:"group"`
	Reason  string `json:"reason,omitempty"`
	Blocked bool   `json:"blocked,omitempty"`
	Coming  int    `json:"coming,omitempty"`
	// Room is how many nodes the group may get, if that is known.
	Room *int `json:"room,omitempty"`
}

// Cluster is the nodes and pods of a fleet.
type Cluster struct {
	Nodes []topologyspread.Node // with the pods on them
	// Pending are the pods without a node that the scheduler may bind.
	Pending []*v1.Pod
	// Objects are what the scheduler looks up: services, controllers, volumes and the like.
	Objects []runtime.Object
	// Volumes says that the volume claims of the pods are among the objects.
	Volumes bool
}

// podList is the pods of a cluster, and what the scheduler looks up for them.
type podList struct {
	on      map[string][]*v1.Pod // by node
	bound   map[string]bool      // the names of those, with the namespace; nil if nobody asks
	equal   *document.Interner   // of those on nodes; nil if nobody asks for them
	pending []*v1.Pod
	objects []runtime.Object
	volumes bool
}

// add keeps an object of a list, and reports whether it is a pod.
func (l *podList) add(object any) (isPod bool) {
	switch o := object.(type) {
	case *v1.Pod:
		isPod = true
		switch {
		case o.Status.Phase == v1.PodSucceeded || o.Status.Phase == v1.PodFailed: // takes no room
		case o.Spec.NodeName != "":
			if l.bound != nil {
				l.bound[o.Namespace+"/"+o.Name] = true
				break
			}
			l.on[o.Spec.NodeName] = append(l.on[o.Spec.NodeName], l.shared(o))
		case o.DeletionTimestamp == nil && len(o.Spec.SchedulingGates) == 0:
			l.pending = append(l.pending, o)
		}
	case *v1.PersistentVolumeClaim:
		l.volumes = true
		l.objects = append(l.objects, o)
	case *v1.Namespace, *v1.Service, *v1.ReplicationController, *v1.PersistentVolume, *appsv1.ReplicaSet, *appsv1.StatefulSet,
		*storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver, *storagev1.CSIStorageCapacity, *storagev1.VolumeAttachment:
		l.objects = append(l.objects, o.(runtime.Object))
	}
	return isPod
}

// shared returns one pod for all that count alike on their nodes. Pods of templates are shown by name: they stand for themselves.
func (l *podList) shared(p *v1.Pod) *v1.Pod {
	if !template.RunsOnEveryNode(p) {
		if like, _ := l.equal.OnNode(p); like != nil {
			return like
		}
	}
	return p
}

// clusterOf puts the pods on the nodes.
func (l *podList) clusterOf(nodes []*v1.Node) *Cluster {
	c := &Cluster{Pending: l.pending, Objects: l.objects, Volumes: l.volumes}
	for _, n := range nodes {
		c.Nodes = append(c.Nodes, topologyspread.Node{Node: n, Pods: l.on[n.Name]})
	}
	return c
}

// inSnapshot adds the pending pods of the list to those of a snapshot. Where a pod is bound in
// either, it is not pending.
func (l *podList) inSnapshot(s *document.Snapshot) *Cluster {
	c := &Cluster{Objects: l.objects, Volumes: l.volumes}
	known := l.bound
	for _, n := range s.Nodes {
		c.Nodes = append(c.Nodes, topologyspread.Node{Node: n.Node, Pods: n.Pods})
		for _, p := range n.Pods {
			known[p.Namespace+"/"+p.Name] = true
		}
	}
	for _, p := range slices.Concat(l.pending, s.Pending) {
		if key := p.Namespace + "/" + p.Name; !known[key] {
			known[key] = true
			c.Pending = append(c.Pending, p)
		}
	}
	return c
}
