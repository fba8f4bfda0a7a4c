package grouppolicy

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/internal/admission"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Convert checks declared sets and makes policies of them. At is the path of the list.
func Convert(sets []v1alpha1.NodeGroupSetPolicy, at *field.Path) ([]nodegroupset.SetPolicy, field.ErrorList) {
	c := converter{sets: map[string]bool{}, groups: map[string]bool{}}
	policies := make([]nodegroupset.SetPolicy, len(sets))
	for i := range sets {
		policies[i] = c.set(&sets[i], at.Index(i))
	}
	return policies, c.Errors
}

// Unsuitable says in terms of the list at a path what nodegroupset.CheckPolicies refuses.
func Unsuitable(err error, at *field.Path) *field.Error {
	var wrong *apportion.InvalidError
	if !errors.As(err, &wrong) {
		return field.Invalid(at, field.OmitValueType{}, err.Error())
	}
	path := strings.TrimPrefix(wrong.Path, "sets")
	return field.Invalid(field.NewPath(at.String()+path), wrong.Value, wrong.Reason)
}

// converter collects errors.
type converter struct {
	admission.Checker
	sets, groups map[string]bool
}

func (c *converter) name(seen map[string]bool, at *field.Path, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		c.Add(field.Required(at, "must be a name"))
	case seen[name]:
		c.Add(field.Duplicate(at, name))
	}
	seen[name] = true
}

func (c *converter) set(s *v1alpha1.NodeGroupSetPolicy, at *field.Path) nodegroupset.SetPolicy {
	c.name(c.sets, at.Child("name"), s.Name)
	admission.Option(&c.Checker, at.Child("policy"), s.Policy, v1alpha1.SplitEven, v1alpha1.SplitProportional, v1alpha1.SplitPriority)
	admission.Option(&c.Checker, at.Child("measure"), s.Measure, v1alpha1.MeasureNodes, v1alpha1.MeasureCPU, v1alpha1.MeasureMemory)
	out := nodegroupset.SetPolicy{Name: s.Name, Policy: nodegroupset.Policy(s.Policy), Measure: nodegroupset.Measure(s.Measure)}
	if s.StartupDeadline != nil {
		out.StartupDeadline = s.StartupDeadline.Duration
		if c.Time(at.Child("startupDeadline"), *s.StartupDeadline); out.StartupDeadline >= time.Second && alone(s) {
			c.Add(field.Invalid(at.Child("startupDeadline"), out.StartupDeadline.String(),
				"needs another node group to order from, and the set names one only"))
		}
	}
	if s.Policy == v1alpha1.SplitEven || s.Policy == "" {
		if len(s.Portions) > 0 {
			c.Add(field.Forbidden(at.Child("portions"), "policy Even shares between all groups alike: use groups or selector"))
			return out
		}
		selector := c.selection(&s.NodeGroupSelection, at)
		out.Portions = []nodegroupset.PortionPolicy{{Portion: nodegroupset.Portion{Name: s.Name, Groups: s.Groups}, Selector: selector}}
		return out
	}
	if len(s.Groups) > 0 || s.Selector != nil {
		c.Add(field.Forbidden(at, fmt.Sprintf("policy %s shares between portions: move groups and selector there", s.Policy)))
	}
	if len(s.Portions) == 0 {
		c.Add(field.Required(at.Child("portions"), fmt.Sprintf("policy %s shares between portions", s.Policy)))
		return out
	}
	names, weights := map[string]bool{}, int64(0)
	for i := range s.Portions {
		p := c.portion(s, &s.Portions[i], at.Child("portions").Index(i), names)
		weights += p.Weight
		out.Portions = append(out.Portions, p)
	}
	if s.Policy == v1alpha1.SplitProportional && weights == 0 {
		c.Add(field.Invalid(at.Child("portions"), field.OmitValueType{}, "the weights sum to 0: give a portion a weight"))
	}
	return out
}

// alone reports whether a set can have one group at most.
func alone(s *v1alpha1.NodeGroupSetPolicy) bool {
	groups, selectors := len(s.Groups), s.Selector != nil
	for i := range s.Portions {
		groups += len(s.Portions[i].Groups)
		selectors = selectors || s.Portions[i].Selector != nil
	}
	return groups < 2 && !selectors
}

func (c *converter) portion(s *v1alpha1.NodeGroupSetPolicy, p *v1alpha1.NodeGroupPortion, at *field.Path,
	names map[string]bool) nodegroupset.PortionPolicy {
	c.name(names, at.Child("name"), p.Name)
	out := nodegroupset.PortionPolicy{Portion: nodegroupset.Portion{Name: p.Name, Groups: p.Groups, Weight: 1}}
	out.Selector = c.selection(&p.NodeGroupSelection, at)
	if p.Weight != nil {
		switch {
		case s.Policy != v1alpha1.SplitProportional:
			c.Add(field.Forbidden(at.Child("weight"), "counts with policy Proportional only"))
		case *p.Weight < 0 || *p.Weight > v1alpha1.MaxCount:
			c.Add(field.Invalid(at.Child("weight"), *p.Weight, fmt.Sprintf("must be between 0 and %d", v1alpha1.MaxCount)))
		default:
			out.Weight = *p.Weight
		}
	}
	if p.Base != nil {
		out.Base = c.base(s.Measure, p.Base, at.Child("base"))
	}
	return out
}

// base is a base in the unit of the measure.
func (c *converter) base(by v1alpha1.NodeGroupMeasure, q *resource.Quantity, at *field.Path) int64 {
	if q.Sign() < 0 {
		c.Add(field.Invalid(at, q.String(), "must not be negative"))
		return 0
	}
	amount := *q
	switch by {
	case v1alpha1.MeasureCPU:
		if amount.CmpInt64(math.MaxInt32) <= 0 {
			return amount.MilliValue()
		}
	case v1alpha1.MeasureMemory:
		if amount.CmpInt64(math.MaxInt64-nodegroupset.Mebibyte) < 0 {
			return (amount.Value() + nodegroupset.Mebibyte - 1) / nodegroupset.Mebibyte
		}
	default:
		if whole := amount.Value(); amount.CmpInt64(whole) != 0 {
			c.Add(field.Invalid(at, q.String(), "must be a whole number of nodes"))
			return 0
		}
		if amount.CmpInt64(v1alpha1.MaxCount) <= 0 {
			return amount.Value()
		}
	}
	c.Add(field.Invalid(at, q.String(), "is more than any set can have"))
	return 0
}

func (c *converter) selection(s *v1alpha1.NodeGroupSelection, at *field.Path) labels.Selector {
	for i, name := range s.Groups {
		c.name(c.groups, at.Child("groups").Index(i), name)
	}
	if s.Selector == nil {
		if len(s.Groups) == 0 {
			c.Add(field.Required(at.Child("groups"), "name node groups here or select them by labels with selector"))
		}
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	switch {
	case err != nil:
		c.Add(field.Invalid(at.Child("selector"), metav1.FormatLabelSelector(s.Selector), err.Error()))
		return nil
	case selector.Empty():
		c.Add(field.Invalid(at.Child("selector"), "{}", "selects every node group: name a label"))
		return nil
	}
	return selector
}
