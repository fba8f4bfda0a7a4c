package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// annotationName is how Cluster Autoscaler's kwok provider names groups in its
// templates.
const annotationName = "cluster-autoscaler.kwok.nodegroup/name"

// readTemplates takes every node of a list for the template of a group.
func readTemplates(s Sources, files Files) (*Fleet, error) {
	fleet := &Fleet{Groups: map[string]cloudprovider.Template{}, file: document.Title(s.Templates)}
	daemons := daemonList{named: map[string]bool{}, on: map[string][]*v1.Pod{}}
	nodes, rest, err := s.nodesOf(files, s.Templates, "Pod or DaemonSet", daemons.add)
	if err != nil {
		return nil, err
	}
	groupOf := map[string]string{} // by name of the node
	for i, label := range nodegroupset.ParseGroupLabel(s.GroupLabel).Names(nodes) {
		group := cmp.Or(nodes[i].Annotations[annotationName], label, nodes[i].Name)
		if _, twice := fleet.Groups[group]; twice {
			return nil, refuse(s.Templates, "two templates for the node group %q", group)
		}
		fleet.Groups[group] = cloudprovider.Template{Node: nodes[i]}
		groupOf[nodes[i].Name] = group
	}
	if s.Pods == "" {
		fleet.Notes = append(fleet.Notes, "templates come without pods: free is what is allocatable; --pods counts daemon sets")
		return fleet, nil
	}
	if err := rest(); err != nil {
		return nil, err
	}
	for node, group := range groupOf {
		fleet.Groups[group] = cloudprovider.Template{Node: fleet.Groups[group].Node, Pods: daemons.on[node]}
	}
	fleet.addPods(s, &daemons)
	return fleet, nil
}

// daemonList is what a list says of daemon sets and static pods.
type daemonList struct {
	sets  []*appsv1.DaemonSet
	named map[string]bool // their names, with the namespace
	found template.DaemonSetFinder
	on    map[string][]*v1.Pod // by node
}

// add keeps what an object of a list says of them, and reports whether it is a pod or daemon set.
func (l *daemonList) add(object any) bool {
	switch o := object.(type) {
	case *appsv1.DaemonSet:
		l.sets = append(l.sets, o)
		l.named[cmp.Or(o.Namespace, metav1.NamespaceDefault)+"/"+o.Name] = true
		return true
	case *v1.Pod:
		if o.Status.Phase == v1.PodSucceeded || o.Status.Phase == v1.PodFailed {
			return true
		}
		l.found.Add(o)
		if template.RunsOnEveryNode(o) && o.DeletionTimestamp == nil {
			l.on[o.Spec.NodeName] = append(l.on[o.Spec.NodeName], o)
		}
		return true
	}
	return false
}

// addPods gives the templates the pods of daemon sets that would run there.
func (f *Fleet) addPods(s Sources, daemons *daemonList) {
	derived := daemons.found.DaemonSets(func(set string) bool { return daemons.named[set] })
	sets := slices.Concat(daemons.sets, derived)
	for _, group := range slices.Sorted(maps.Keys(f.Groups)) {
		t := f.Groups[group]
		template.AddDaemonPods(&t, sets)
		f.Groups[group] = t
	}
	if len(derived) > 0 {
		var names []string
		for _, set := range derived {
			names = append(names, set.Namespace+"/"+set.Name)
		}
		f.Notes = append(f.Notes, fmt.Sprintf("%s has no DaemonSet %s: taken from its pods, without node affinity of its own",
			document.Title(s.Pods), spelling.List(names, mostNames)))
	}
}
