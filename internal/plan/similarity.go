package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/admission"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// fewDifferences is the number of differing fields up to which two sets are reported by default.
const fewDifferences = 3

func validateSimilarity(s *v1alpha1.NodeGroupSimilaritySpec) field.ErrorList {
	var c checks
	options := spec.Child("options")
	c.labels(options.Child("balancingIgnoreLabels"), s.Options.BalancingIgnoreLabels)
	c.labels(options.Child("balancingLabels"), s.Options.BalancingLabels)
	_, refused := similarityOptions(&s.Options)
	for _, err := range refused {
		c.Add(field.Invalid(options.Child(err.Path), json.Number(fmt.Sprint(err.Value)), err.Reason)) // without quotes
	}
	groups := spec.Child("groups")
	if len(s.Groups) == 0 {
		c.Add(field.Required(groups, "must have at least one group"))
	}
	seen := names{}
	for i := range s.Groups {
		g := &s.Groups[i]
		seen.check(&c, groups.Index(i).Child("name"), g.Name)
		c.template(groups.Index(i).Child("template"), &g.Template, len(s.Options.BalancingLabels) > 0)
		for j := range g.Pods {
			c.pod(groups.Index(i).Child("pods").Index(j), &g.Pods[j])
		}
	}
	return c.Errors
}

func (c *checks) labels(at *field.Path, keys []string) {
	for i, key := range keys {
		c.Add(admission.LabelKey(at.Index(i), key))
	}
}

// template checks a node, which must have a capacity unless only labels are compared.
func (c *checks) template(at *field.Path, n *v1.Node, labelsDecide bool) {
	c.typeOf(at, n.TypeMeta, "Node")
	status := at.Child("status")
	if len(n.Status.Capacity) == 0 && !labelsDecide {
		c.Add(field.Required(status.Child("capacity"), "a template needs the capacity of its nodes"))
	}
	c.Add(admission.Labels(at.Child("metadata", "labels"), n.Labels)...)
	c.Add(admission.Amounts(status.Child("capacity"), n.Status.Capacity, admission.OfNode)...)
	c.Add(admission.Amounts(status.Child("allocatable"), n.Status.Allocatable, admission.OfNode)...)
	c.Add(admission.Taints(at.Child("spec", "taints"), n.Spec.Taints)...)
}

func (c *checks) pod(at *field.Path, p *v1.Pod) {
	c.typeOf(at, p.TypeMeta, "Pod")
	c.Add(admission.Requests(at.Child("spec"), &p.Spec)...)
}

// typeOf refuses an object of another kind; most templates have no kind.
func (c *checks) typeOf(at *field.Path, t metav1.TypeMeta, kind string) {
	admission.Option(&c.Checker, at.Child("apiVersion"), t.APIVersion, "v1")
	admission.Option(&c.Checker, at.Child("kind"), t.Kind, kind)
}

func similarity(s *v1alpha1.NodeGroupSimilaritySpec) (any, error) {
	options, _ := similarityOptions(&s.Options) // they are valid
	index, err := nodegroupset.NewIndex(options)
	if err != nil {
		return nil, at(err, spec.Child("options"))
	}
	for i := range s.Groups {
		template := cloudprovider.Template{Node: &s.Groups[i].Template}
		for j := range s.Groups[i].Pods {
			template.Pods = append(template.Pods, &s.Groups[i].Pods[j])
		}
		if err := index.Set(s.Groups[i].Name, template); err != nil {
			return nil, templateAt(err, spec.Child("groups").Index(i))
		}
	}
	status := &v1alpha1.NodeGroupSimilarityStatus{Differences: []v1alpha1.SimilarityDifference{}}
	for _, set := range index.Sets() {
		status.Sets = append(status.Sets, v1alpha1.SimilaritySet{Groups: set})
	}
	most := fewDifferences
	if s.AllDifferences {
		most = -1
	}
	for _, pair := range index.Pairs(most) {
		d := v1alpha1.SimilarityDifference{Groups: []string{pair.Left, pair.Right}}
		for _, field := range pair.Differences {
			d.Fields = append(d.Fields, v1alpha1.FieldDifference(field))
		}
		status.Differences = append(status.Differences, d)
	}
	return status, nil
}

func similarityOptions(o *v1alpha1.SimilarityOptions) (nodegroupset.Options, []*apportion.InvalidError) {
	out := nodegroupset.Options{IgnoreLabels: o.BalancingIgnoreLabels, Labels: o.BalancingLabels}
	refused := out.SetRatios(o.MemoryDifferenceRatio.String(), o.MaxAllocatableDifferenceRatio.String(), o.MaxFreeDifferenceRatio.String())
	return out, refused
}

// at adds the path in the document to an error of the engine.
func at(err error, place *field.Path) *field.Error {
	var invalid *apportion.InvalidError
	if !errors.As(err, &invalid) {
		return field.Invalid(place, field.OmitValueType{}, err.Error())
	}
	return field.Invalid(place.Child(invalid.Path), invalid.Value, invalid.Reason)
}

// templateAt is at for an error about a node, which is the template of a group in the document.
func templateAt(err error, group *field.Path) *field.Error {
	var invalid *apportion.InvalidError
	if errors.As(err, &invalid) && strings.HasPrefix(invalid.Path, "node") {
		err = apportion.Invalid("template"+strings.TrimPrefix(invalid.Path, "node"), invalid.Value, invalid.Reason)
	}
	return at(err, group)
}
