package simulate

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// Buffer is a CapacityBuffer: Cluster Autoscaler keeps room for its pods, which never exist.
type Buffer struct {
	Name string
	Pod  *v1.Pod // except for its name
	// Replicas is for how many pods, Percentage for how many of the pods of Workload, an index in
	// Setup.Workloads, or of Base if that is -1. The larger one counts.
	Replicas, Percentage, Workload, Base int
	// Most is how many pods there may be; -1 means any number. If nothing else is given, there are so
	// many.
	Most int
}

// size is the number of pods for a number of replicas of the workload.
func (b *Buffer) size(replicas int) int {
	n := b.Replicas
	if b.Percentage > 0 {
		n = max(n, 1, (replicas*b.Percentage+99)/100)
	}
	if b.Most < 0 {
		return n
	}
	if b.Replicas == 0 && b.Percentage == 0 {
		return b.Most
	}
	return min(n, b.Most)
}

// convert converts the objects of a type. A note says which of them have no effect.
func convert[T metav1.Object, V any](l *loader, effect string, f func(T) (*V, string)) (out []V) {
	for _, object := range all[T](l.objects) {
		v, why := f(object)
		if why != "" {
			l.note(fmt.Sprintf("%s %s/%s %s: %s", kindOf(object), object.GetNamespace(), object.GetName(), effect, why))
			continue
		}
		out = append(out, *v)
	}
	return out
}

func (l *loader) buffer(object *document.CapacityBuffer) (b *Buffer, why string) {
	spec, namespace := &object.Spec, object.Namespace
	if s := spec.ProvisioningStrategy; s != "" && s != document.ActiveCapacity {
		return nil, "its provisioning strategy is " + s
	}
	b = &Buffer{
		Name: object.Name, Workload: -1, Most: -1,
		Replicas: int(ptr.Deref(spec.Replicas, 0)), Percentage: int(ptr.Deref(spec.Percentage, 0)),
	}
	var template *v1.PodTemplateSpec
	switch {
	case spec.ScalableRef != nil:
		if template = l.scalable(b, spec.ScalableRef.Kind, namespace, spec.ScalableRef.Name); template == nil {
			return nil, fmt.Sprintf("there is no %s %s", spec.ScalableRef.Kind, spec.ScalableRef.Name)
		}
	case spec.PodTemplateRef != nil:
		found := find[*v1.PodTemplate](l.objects, namespace, spec.PodTemplateRef.Name)
		if found == nil {
			return nil, "there is no PodTemplate " + spec.PodTemplateRef.Name
		}
		template = &found.Template
	default:
		return nil, "it names no pod template and no workload"
	}
	b.Pod = ownPod(&Workload{Name: object.Name, Namespace: namespace, Kind: "CapacityBuffer"}, template, object.APIVersion)
	for name, quantity := range resource.PodRequests(b.Pod, resource.PodResourcesOptions{}) {
		if limit, bound := spec.Limits[name]; bound && !quantity.IsZero() {
			n := int(limit.AsApproximateFloat64()/quantity.AsApproximateFloat64() + 1e-9)
			if b.Most < 0 || n < b.Most {
				b.Most = n
			}
		}
	}
	return b, ""
}

// scalable finds the workload of a buffer, among those of the scenario or of its objects.
func (l *loader) scalable(b *Buffer, kind, namespace, name string) *v1.PodTemplateSpec {
	for i := range l.setup.Workloads {
		if w := &l.setup.Workloads[i]; w.Namespace == namespace && w.Name == name && w.Kind == kind {
			b.Workload = i
			return &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: w.Pod.Labels, Annotations: w.Pod.Annotations}, Spec: w.Pod.Spec}
		}
	}
	template, replicas, _ := podsOf(l.objects[keyOf(kind, namespace, name)])
	b.Base = int(ptr.Deref(replicas, 1))
	return template
}

// keepRoom makes or drops pods of each buffer until it has its size. The scheduler does not know them.
func (s *simulation) keepRoom() {
	for i := range s.setup.Buffers {
		b, own := &s.setup.Buffers[i], s.cluster.buffers[i]
		replicas := b.Base
		if b.Workload >= 0 {
			replicas = 0
			for _, p := range s.cluster.pods {
				if p.owner != nil && p.owner.at == b.Workload {
					replicas++
				}
			}
		}
		want := min(b.size(replicas), math.MaxInt32)
		if want == len(own) {
			continue
		}
		s.agenda.roundDue = true
		for n := len(own); n < want; n++ {
			object := *b.Pod
			object.Name, object.CreationTimestamp = fmt.Sprintf("capacity-buffer-%s-%d", b.Name, n+1), metav1.Time{Time: s.clock.Now()}
			own = append(own, &pod{object: &object})
		}
		s.cluster.buffers[i] = own[:want:want]
		row := s.timeline.add(s.elapsed(), v1alpha1.RowPods, "room for %s of capacity buffer %s is wanted", spelling.Count(want, "pod"), b.Name)
		row.Reason, row.Pods = v1alpha1.PodsBuffered, want
	}
}

// readCapacityQuotas makes quotas of the objects. A note says which do not count: those that Cluster
// Autoscaler has found, or would find, not to be valid.
func (l *loader) readCapacityQuotas() {
	for _, o := range all[*document.CapacityQuota](l.objects) {
		selector, err := labels.Everything(), error(nil)
		if o.Spec.Selector != nil {
			selector, err = metav1.LabelSelectorAsSelector(o.Spec.Selector)
		}
		if c := meta.FindStatusCondition(o.Status.Conditions, document.CapacityQuotaValid); c != nil && c.Status != metav1.ConditionTrue {
			err = fmt.Errorf("its status says that it is not valid")
		}
		if err != nil {
			l.note(fmt.Sprintf("CapacityQuota %s does not count: %v", o.Name, err))
			continue
		}
		q := autoscaler.Quota{Name: "CapacityQuota/" + o.Name, Max: map[string]int64{}, Counts: func(_ string, node *v1.Node) bool {
			return selector.Matches(labels.Set(node.Labels))
		}}
		for resource, limit := range o.Spec.Limits.Resources {
			q.Max[string(resource)] = limit.Value()
		}
		l.setup.Options.Quotas = append(l.setup.Options.Quotas, q)
	}
}
