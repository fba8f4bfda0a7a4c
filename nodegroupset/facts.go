package nodegroupset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// kind is what of a template a trait is: one of its amounts, a label or a taint.
type kind uint8

const (
	capacity kind = iota
	allocatable
	free
	ofLabel
	ofTaint

	kinds = ofLabel // of amounts
)

func (k kind) String() string { return [kinds]string{"capacity", "allocatable", "free"}[k] }

// measure is one amount of a template.
type measure struct {
	kind      kind
	resource  string
	requested bool // some pod of the template requests the resource
	quantity  resource.Quantity
	amount    amount // the quantity in thousandths, rounded away from zero
	added     int32  // how many billionths the rounding added
}

// exactly reports whether a measure must be equal on both sides.
func (m *measure) exactly() bool {
	return m.kind == capacity && m.resource != string(v1.ResourceMemory)
}

// text is the quantity in its canonical form.
func (m *measure) text() string {
	quantity := m.quantity // String keeps its result in the receiver
	return quantity.String()
}

type label struct{ key, value string }

func (l label) compare(o label) int {
	return cmp.Or(strings.Compare(l.key, o.key), strings.Compare(l.value, o.value))
}

type taint struct{ key, effect, value string }

func (t taint) compare(o taint) int {
	return cmp.Or(strings.Compare(t.key, o.key), strings.Compare(t.effect, o.effect), strings.Compare(t.value, o.value))
}

// facts are what similarity reads of a template, whatever the options: sorted,
// and sharing nothing the caller may change.
type facts struct {
	providerID string
	labels     []label
	taints     []taint   // a set
	measures   []measure // by kind, then resource
}

func readTemplate(t cloudprovider.Template) (*facts, error) {
	if t.Node == nil {
		return nil, apportion.Invalid("node", nil, "a template needs a node")
	}
	f := &facts{providerID: t.Node.Spec.ProviderID}
	f.labels = make([]label, 0, len(t.Node.Labels))
	for key, value := range t.Node.Labels {
		f.labels = append(f.labels, label{key, value})
	}
	slices.SortFunc(f.labels, label.compare)
	for _, t := range t.Node.Spec.Taints {
		f.taints = append(f.taints, taint{t.Key, string(t.Effect), t.Value})
	}
	slices.SortFunc(f.taints, taint.compare)
	f.taints = slices.Compact(f.taints)

	requests, err := totalRequests(t.Pods)
	if err != nil {
		return nil, err
	}
	status := &t.Node.Status
	f.measures = make([]measure, 0, len(status.Capacity)+2*len(status.Allocatable)+len(requests))
	if err := cmp.Or(f.addListed(capacity, status.Capacity), f.addListed(allocatable, status.Allocatable)); err != nil {
		return nil, err
	}
	return f, f.addFree(status.Allocatable, requests)
}

// totalRequests follows the scheduler's rule: containers, init containers and
// sidecars, overhead and pod-level resources, all as the spec says, because the
// status is that of a pod which ran elsewhere.
func totalRequests(pods []*v1.Pod) (v1.ResourceList, error) {
	total := v1.ResourceList{}
	for i, pod := range pods {
		if pod == nil {
			return nil, apportion.Invalid(fmt.Sprintf("pods[%d]", i), nil, "must be a pod")
		}
		for name, quantity := range podresource.PodRequests(pod, podresource.PodResourcesOptions{}) {
			if _, wrong := checkedAmount(name, quantity); wrong != "" {
				return nil, apportion.Invalid(fmt.Sprintf("pods[%d].requests[%s]", i, name), quantity.String(), wrong)
			}
			sum := total[name].DeepCopy()
			sum.Add(quantity)
			total[name] = sum
		}
	}
	return total, nil
}

// checkedAmount says what is wrong with an amount that no machine has and no pod
// may ask for.
func checkedAmount(name v1.ResourceName, quantity resource.Quantity) (m measure, wrong string) {
	amount, added, ok := toAmount(quantity)
	switch {
	case !ok:
		wrong = "is out of range"
	case quantity.Sign() < 0:
		wrong = notNegative
	}
	return measure{resource: string(name), quantity: quantity.DeepCopy(), amount: amount, added: added}, wrong
}

func (f *facts) addListed(kind kind, list v1.ResourceList) error {
	start := len(f.measures)
	for name, quantity := range list {
		m, wrong := checkedAmount(name, quantity)
		if wrong != "" {
			return apportion.Invalid(fmt.Sprintf("node.status.%s[%s]", kind, name), quantity.String(), wrong)
		}
		m.kind = kind
		f.measures = append(f.measures, m)
	}
	sortByResource(f.measures[start:])
	return nil
}

// addFree adds allocatable less requests for every resource that is in either,
// so free may be negative.
func (f *facts) addFree(listed, requests v1.ResourceList) error {
	end := len(f.measures)
	for _, m := range f.measures[:end] {
		if m.kind == allocatable {
			m.kind = free
			f.measures = append(f.measures, m)
		}
	}
	for name := range requests {
		if _, ok := listed[name]; !ok {
			f.measures = append(f.measures, measure{kind: free, resource: string(name)})
		}
	}
	sortByResource(f.measures[end:])
	for i := range f.measures[end:] {
		m := &f.measures[end+i]
		request, ok := requests[v1.ResourceName(m.resource)]
		if !ok {
			continue
		}
		m.requested, m.quantity = true, m.quantity.DeepCopy()
		m.quantity.Sub(request)
		if m.amount, m.added, ok = toAmount(m.quantity); !ok {
			return apportion.Invalid("pods", request.String(), "requests of "+m.resource+" are out of range")
		}
	}
	return nil
}

func sortByResource(list []measure) {
	slices.SortFunc(list, func(a, b measure) int { return strings.Compare(a.resource, b.resource) })
}

// lookup finds a label as it stands on the node.
func (f *facts) lookup(key string) (value string, ok bool) {
	i, ok := slices.BinarySearchFunc(f.labels, key, func(l label, key string) int { return strings.Compare(l.key, key) })
	if !ok {
		return "", false
	}
	return f.labels[i].value, true
}
