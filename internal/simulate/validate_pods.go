package simulate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
)

func (c *checker) podShape(p *v1alpha1.PodShape, at *field.Path) {
	c.add(admission.Labels(at.Child("labels"), p.Labels)...)
	if p.Template == nil {
		c.amounts(at.Child("requests"), p.Requests, admission.OfPod)
		c.add(admission.Labels(at.Child("nodeSelector"), p.NodeSelector)...)
		c.add(admission.Tolerations(at.Child("tolerations"), p.Tolerations)...)
		c.add(admission.Spread(at.Child("spread"), spreadConstraints("", p.Spread))...)
		return
	}
	if p.Requests != nil || p.NodeSelector != nil || p.Tolerations != nil || p.Spread != nil || p.OnePerNode {
		c.add(field.Forbidden(at.Child("template"), "not together with requests, nodeSelector, tolerations, spread or onePerNode"))
	}
	c.add(admission.Labels(at.Child("template", "metadata", "labels"), p.Template.Labels)...)
	c.add(admission.PodSpec(at.Child("template", "spec"), &p.Template.Spec)...)
}
