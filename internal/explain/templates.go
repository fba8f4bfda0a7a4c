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
	nodes, beside, err := s.nodesOf(files, s.Templates)
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
	return fleet, fleet.addPods(s, files, beside, groupOf)
}

// addPods gives the templates the daemon set and static pods of their nodes, and the pods of those
// daemon sets that would run there.
func (f *Fleet) addPods(s Sources, files Files, beside []any, groupOf map[string]string) error {
	sets, told := []*appsv1.DaemonSet{}, map[string]bool{}
	var found template.DaemonSetFinder
	err := s.podsOf(files, beside, "Pod or DaemonSet", func(object any) bool {
		switch o := object.(type) {
		case *appsv1.DaemonSet:
			sets = append(sets, o)
			told[cmp.Or(o.Namespace, metav1.NamespaceDefault)+"/"+o.Name] = true
			return true
		case *v1.Pod:
			if o.Status.Phase == v1.PodSucceeded || o.Status.Phase == v1.PodFailed {
				return true
			}
			found.Add(o)
			if group, on := groupOf[o.Spec.NodeName]; on && template.RunsOnEveryNode(o) && o.DeletionTimestamp == nil {
				t := f.Groups[group]
				t.Pods = append(t.Pods, o)
				f.Groups[group] = t
			}
			return true
		}
		return false
	})
	if err != nil {
		return err
	}
	derived := found.DaemonSets(func(set string) bool { return told[set] })
	sets = append(sets, derived...)
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
	return nil
}
