package linked

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// completed returns the templates of machines that nobody has seen yet, where something that the
// cloud did not say of them can be filled in from groups that have such machines; else an empty
// group would never be similar to a populated one.
//
// That serves the comparison alone. Whether pods fit is decided by the autoscaler on the template
// as it was, so no guess draws a pod anywhere, and no pods need to be looked at. Labels that the
// user chose to decide are not guessed.
func (s *Sets[T, G]) completed() map[string]cloudprovider.Template {
	s.notes = nil
	if len(s.options.Labels) > 0 {
		return nil
	}
	templates, unseen := map[string]cloudprovider.Template{}, map[string]bool{}
	for id, m := range s.groups {
		if m.whole || m.template.Node == nil {
			continue
		}
		templates[id] = m.template
		if fromCloud(m.template) {
			unseen[id] = true
		}
	}
	if len(unseen) == 0 || len(unseen) == len(templates) {
		return nil
	}
	filled := maps.Clone(templates)
	notes, err := template.Fill(filled, unseen, s.options, func(func(*v1.PodSpec) bool) {})
	if err != nil {
		klog.ErrorS(err, "Templates of empty node groups are compared as they are")
		return nil
	}
	s.notes = notes
	maps.DeleteFunc(filled, func(id string, t cloudprovider.Template) bool { return !unseen[id] || t.Node == templates[id].Node })
	return filled
}

// fromCloud reports whether a template is the cloud's idea of a machine: no kubelet has reported
// from it.
func fromCloud(t cloudprovider.Template) bool { return t.Node.Status.NodeInfo.KubeletVersion == "" }
