package template

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// templateGeneration is a label that the daemon set controller gives a pod.
const templateGeneration = "pod-template-generation"

// DaemonSetFinder makes daemon sets from their pods, for callers that do not have the daemon sets
// themselves. The zero value is ready. A set's own required node affinity cannot be found again:
// the controller replaces it by the name of the node.
type DaemonSetFinder struct {
	newest map[string]*v1.Pod // of each set, by namespace/name
}

// Add looks at a pod and ignores it unless a daemon set owns it.
func (f *DaemonSetFinder) Add(p *v1.Pod) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind != "DaemonSet" {
		return
	}
	if f.newest == nil {
		f.newest = map[string]*v1.Pod{}
	}
	key := namespaceOf(p) + "/" + owner.Name
	if other := f.newest[key]; other == nil || cmp.Or(cmp.Compare(generation(other), generation(p)), cmp.Compare(p.Name, other.Name)) < 0 {
		f.newest[key] = p
	}
}

// DaemonSets returns the sets found so far, by namespace and name, but for those that are known by
// namespace/name.
func (f *DaemonSetFinder) DaemonSets(known func(name string) bool) []*appsv1.DaemonSet {
	var sets []*appsv1.DaemonSet
	for _, key := range slices.Sorted(maps.Keys(f.newest)) {
		if !known(key) {
			sets = append(sets, daemonSetOf(f.newest[key]))
		}
	}
	return sets
}

// generation of the template that a pod was made from; 0 where it does not say so.
func generation(p *v1.Pod) int {
	n, err := strconv.Atoi(p.Labels[templateGeneration])
	if err != nil {
		return 0
	}
	return n
}

func namespaceOf(p *v1.Pod) string { return cmp.Or(p.Namespace, metav1.NamespaceDefault) }

// daemonSetOf takes back what the controller has done to the pod of a set.
func daemonSetOf(p *v1.Pod) *appsv1.DaemonSet {
	clean := p.DeepCopy()
	for _, label := range []string{templateGeneration, appsv1.ControllerRevisionHashLabelKey, v1.LabelTopologyZone, v1.LabelTopologyRegion} {
		delete(clean.Labels, label)
	}
	s := &clean.Spec
	s.NodeName = ""
	s.Tolerations = slices.DeleteFunc(s.Tolerations, func(t v1.Toleration) bool {
		return slices.ContainsFunc(daemonTolerations, func(added v1.Toleration) bool {
			return t.Key == added.Key && t.Operator == added.Operator && t.Effect == added.Effect && t.Value == "" && t.TolerationSeconds == nil
		})
	})
	if a := s.Affinity; a != nil && a.NodeAffinity != nil {
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = withoutPin(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	owner := metav1.GetControllerOfNoCopy(p)
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: owner.Name, Namespace: namespaceOf(p), UID: owner.UID},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: clean.Labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: clean.Labels, Annotations: clean.Annotations}, Spec: *s},
		},
	}
}

// withoutPin takes the name of the node out of a node selector; nil where nothing is left.
func withoutPin(s *v1.NodeSelector) *v1.NodeSelector {
	if s == nil {
		return nil
	}
	var terms []v1.NodeSelectorTerm
	for _, term := range s.NodeSelectorTerms {
		term.MatchFields = slices.DeleteFunc(slices.Clone(term.MatchFields), func(r v1.NodeSelectorRequirement) bool {
			return r.Key == metav1.ObjectNameField
		})
		if len(term.MatchFields)+len(term.MatchExpressions) == 0 {
			return nil // this one alone matches every node
		}
		terms = append(terms, term)
	}
	if len(terms) == 0 {
		return nil
	}
	return &v1.NodeSelector{NodeSelectorTerms: terms}
}
