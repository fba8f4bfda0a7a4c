package simulate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/internal/document"
)

// readCapacityQuotas makes quotas of the objects. A note says which do not count: those that Cluster
// Autoscaler has found, or would find, not to be valid.
func (l *loader) readCapacityQuotas() {
	for _, o := range all[*document.CapacityQuota](l.kept) {
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
		q := CapacityQuota{Name: o.Name, Selector: selector, Max: map[string]int64{}}
		for resource, limit := range o.Spec.Limits.Resources {
			q.Max[string(resource)] = limit.Value()
		}
		l.setup.Options.Limits.Capacity = append(l.setup.Options.Limits.Capacity, q)
	}
}
