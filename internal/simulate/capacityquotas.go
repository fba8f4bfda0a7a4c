package simulate

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/internal/document"
)

// quotaObjects are the CapacityQuotas of files, by name.
type quotaObjects map[string]*document.CapacityQuota

func (q *quotaObjects) take(object any) {
	o, ok := object.(*document.CapacityQuota)
	if !ok {
		return
	}
	if *q == nil {
		*q = quotaObjects{}
	}
	(*q)[o.Name] = o
}

// readCapacityQuotas makes quotas of the objects. A note says which do not count: those that Cluster
// Autoscaler has found, or would find, not to be valid.
func (l *loader) readCapacityQuotas() {
	for _, name := range slices.Sorted(maps.Keys(l.capacity)) {
		o := l.capacity[name]
		selector, err := labels.Everything(), error(nil)
		if o.Spec.Selector != nil {
			selector, err = metav1.LabelSelectorAsSelector(o.Spec.Selector)
		}
		if c := meta.FindStatusCondition(o.Status.Conditions, document.CapacityQuotaValid); c != nil && c.Status != metav1.ConditionTrue {
			err = fmt.Errorf("its status says that it is not valid")
		}
		if err != nil {
			l.note(fmt.Sprintf("CapacityQuota %s does not count: %v", name, err))
			continue
		}
		q := CapacityQuota{Name: name, Selector: selector, Max: map[string]int64{}}
		for resource, limit := range o.Spec.Limits.Resources {
			q.Max[string(resource)] = limit.Value()
		}
		l.setup.Options.Limits.Capacity = append(l.setup.Options.Limits.Capacity, q)
	}
}
