package linked

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
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
	completed, notes, err := complete(templates, unseen, s.options)
	s.notes = notes
	if err != nil {
		klog.ErrorS(err, "Templates of empty node groups are compared as they are")
		return nil
	}
	return completed
}

// fromCloud reports whether a template is the cloud's idea of a machine: no kubelet has reported
// from it.
func fromCloud(t cloudprovider.Template) bool { return t.Node.Status.NodeInfo.KubeletVersion == "" }

// complete returns what unseen templates are when what they lack is filled in, where there is
// something to fill in.
func complete(templates map[string]cloudprovider.Template, unseen map[string]bool, options nodegroupset.Options) (
	completed map[string]cloudprovider.Template, notes map[string]string, err error) {
	shared := maps.Clone(templates)
	if err := template.ShareCloud(shared); err != nil {
		return nil, nil, err
	}
	completions, err := template.Complete(shared, unseen, options, func(func(*v1.PodSpec) bool) {})
	if err != nil {
		return nil, nil, err
	}
	out, notes := map[string]cloudprovider.Template{}, map[string]string{}
	for id := range unseen {
		if note := completions[id].Note; note != "" {
			notes[id] = note
		}
		switch {
		case completions[id].Template != nil:
			out[id] = *completions[id].Template
		case shared[id].Node != templates[id].Node:
			out[id] = shared[id]
		}
	}
	return out, notes, nil
}
