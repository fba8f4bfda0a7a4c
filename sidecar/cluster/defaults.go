package cluster

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The scheduler spreads pods that have no topology spread of their own by the default constraints
// of its profile. Which pods count is deduced from the services that select the pod, and from its
// controller.

// defaults are what that takes.
type defaults struct {
	constraints  []v1.TopologySpreadConstraint // that must hold
	services     *watched[*v1.Service]
	replicaSets  *watched[*appsv1.ReplicaSet]
	statefulSets *watched[*appsv1.StatefulSet]
	controllers  *watched[*v1.ReplicationController]
}

func newDefaults(o *Options) *defaults {
	return &defaults{
		constraints: slices.DeleteFunc(slices.Clone(o.DefaultConstraints), func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != v1.DoNotSchedule }),
		services:    newWatched(strippedService, o.Log), replicaSets: newWatched(strippedReplicaSet, o.Log),
		statefulSets: newWatched(strippedStatefulSet, o.Log), controllers: newWatched(strippedController, o.Log),
	}
}

// known reports whether services and controllers were listed.
func (d *defaults) known() bool {
	return d.services.known() && d.replicaSets.known() && d.statefulSets.known() && d.controllers.known()
}

// Complete returns pods with the constraints by which the scheduler spreads them: those without a
// constraint of their own get the default ones. Pods on nodes stay as they are, and so do all while
// services and controllers are not known.
func (w *Workload) Complete(pods []*v1.Pod) []*v1.Pod {
	d := w.defaults
	if len(d.constraints) == 0 || !d.known() {
		return pods
	}
	services := map[string][]*v1.Service{}
	for _, s := range d.services.list() {
		services[s.Namespace] = append(services[s.Namespace], s)
	}
	selectors := map[string]*metav1.LabelSelector{}
	out := slices.Clone(pods)
	for i, pod := range pods {
		if len(pod.Spec.TopologySpreadConstraints) > 0 || pod.Spec.NodeName != "" {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(pod)
		key := pod.Namespace + " " + labels.Set(pod.Labels).String()
		if owner != nil {
			key += " " + owner.APIVersion + " " + owner.Kind + " " + owner.Name
		}
		selector, done := selectors[key]
		if !done {
			selector = d.selector(pod, owner, services[pod.Namespace])
			selectors[key] = selector
		}
		if selector != nil {
			out[i] = spreadBy(pod, d.constraints, selector)
		}
	}
	return out
}

// spreadBy returns a copy of the pod with constraints of its own.
func spreadBy(pod *v1.Pod, constraints []v1.TopologySpreadConstraint, selector *metav1.LabelSelector) *v1.Pod {
	out := *pod
	out.Spec.TopologySpreadConstraints = slices.Clone(constraints)
	for i := range out.Spec.TopologySpreadConstraints {
		one := &out.Spec.TopologySpreadConstraints[i]
		one.LabelSelector, one.MatchLabelKeys = selector, nil // the scheduler uses the deduced selector alone
	}
	return &out
}

// selector returns what a pod is selected by: the selectors of all services that select it, and that
// of its controller; nil for nothing.
func (d *defaults) selector(pod *v1.Pod, owner *metav1.OwnerReference, services []*v1.Service) *metav1.LabelSelector {
	out := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, s := range services {
		if len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			maps.Copy(out.MatchLabels, s.Spec.Selector)
		}
	}
	if owner != nil {
		switch owner.APIVersion + " " + owner.Kind {
		case "v1 ReplicationController":
			if c, ok := d.controllers.get(pod.Namespace, owner.Name); ok {
				maps.Copy(out.MatchLabels, c.Spec.Selector)
			}
		case "apps/v1 ReplicaSet":
			if c, ok := d.replicaSets.get(pod.Namespace, owner.Name); ok {
				narrow(out, c.Spec.Selector)
			}
		case "apps/v1 StatefulSet":
			if c, ok := d.statefulSets.get(pod.Namespace, owner.Name); ok {
				narrow(out, c.Spec.Selector)
			}
		}
	}
	if len(out.MatchLabels)+len(out.MatchExpressions) == 0 {
		return nil
	}
	return out
}

// narrow adds the requirements of another selector.
func narrow(s, by *metav1.LabelSelector) {
	if _, err := metav1.LabelSelectorAsSelector(by); err != nil || by == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(by.MatchLabels)) {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{by.MatchLabels[key]}})
	}
	s.MatchExpressions = append(s.MatchExpressions, by.MatchExpressions...)
}

// identity is what is kept of the metadata of a service or a controller.
func identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

func strippedService(s *v1.Service) *v1.Service {
	return &v1.Service{ObjectMeta: identity(&s.ObjectMeta), Spec: v1.ServiceSpec{Selector: s.Spec.Selector}}
}

func strippedReplicaSet(s *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: identity(&s.ObjectMeta), Spec: appsv1.ReplicaSetSpec{Selector: s.Spec.Selector}}
}

func strippedStatefulSet(s *appsv1.StatefulSet) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: identity(&s.ObjectMeta), Spec: appsv1.StatefulSetSpec{Selector: s.Spec.Selector}}
}

func strippedController(c *v1.ReplicationController) *v1.ReplicationController {
	return &v1.ReplicationController{ObjectMeta: identity(&c.ObjectMeta), Spec: v1.ReplicationControllerSpec{Selector: c.Spec.Selector}}
}
