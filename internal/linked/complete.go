package linked

import (
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
	if len(s.options.Labels) > 0 {
		return nil
	}
	seen, unseen := map[string]cloudprovider.Template{}, map[string]cloudprovider.Template{}
	for id, m := range s.groups {
		switch {
		case m.whole || m.template.Node == nil:
		case fromCloud(m.template):
			unseen[id] = m.template
		default:
			seen[id] = m.template
		}
	}
	if len(unseen) == 0 || len(seen) == 0 {
		return nil
	}
	completed, err := complete(unseen, seen, s.options)
	if err != nil {
		klog.ErrorS(err, "Templates of empty node groups are compared as they are")
		return nil
	}
	return completed
}

// fromCloud reports whether a template is the cloud's idea of a machine: no kubelet has reported
// from it.
func fromCloud(t cloudprovider.Template) bool { return t.Node.Status.NodeInfo.KubeletVersion == "" }

// complete fills in what unseen templates lack, each from those of the seen ones that may differ
// from it in nothing else.
func complete(unseen, seen map[string]cloudprovider.Template, options nodegroupset.Options) (map[string]cloudprovider.Template, error) {
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		return nil, err
	}
	models := newModels(seen, packs, options)
	alike := map[label][]string{} // unseen templates with the same possible models
	for id, t := range unseen {
		telling := models.telling(t.Node)
		alike[telling] = append(alike[telling], id)
	}
	out := map[string]cloudprovider.Template{}
	for telling, ids := range alike {
		together := models.near(telling)
		if len(together) == 0 {
			continue
		}
		empty := map[string]bool{}
		for _, id := range ids {
			together[id], empty[id] = unseen[id], true
		}
		if err := template.ShareCloud(together); err != nil {
			return nil, err
		}
		completions, err := template.Complete(together, empty, options, func(func(*v1.PodSpec) bool) {})
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			switch {
			case completions[id].Template != nil:
				out[id] = *completions[id].Template
			case together[id].Node != unseen[id].Node:
				out[id] = together[id]
			}
		}
	}
	return out, nil
}

type label struct{ key, value string }

// models finds templates that a label does not rule out as a model. To try every template for every
// other would take as long as the comparison of all pairs that the index is there to spare.
type models struct {
	templates map[string]cloudprovider.Template
	ignorable map[string]bool // label keys that may make no difference
	with      map[label]int   // label key and value to how many templates have it
	keyed     map[string]int  // label key to how many templates have it
}

func newModels(templates map[string]cloudprovider.Template, packs nodegroupset.LabelPacks, options nodegroupset.Options) *models {
	m := &models{templates, map[string]bool{}, map[label]int{}, map[string]int{}}
	ignore := func(keys []string) {
		for _, key := range keys {
			m.ignorable[key] = true
		}
	}
	ignore(options.IgnoreLabels)
	for _, pack := range packs.Packs {
		ignore(pack.Labels)
		if pack.Cloud != nil {
			ignore(pack.Cloud.Labels)
		}
	}
	for _, alias := range packs.Aliases {
		m.ignorable[alias.Deprecated] = true // it may count as another
	}
	for _, template := range templates {
		for key, value := range template.Node.Labels {
			m.with[label{key, value}]++
			m.keyed[key]++
		}
	}
	return m
}

// telling is the label of a node that leaves the fewest templates near it; it is empty where all
// are.
func (m *models) telling(node *v1.Node) label {
	var telling label
	fewest := len(m.templates)
	for key, value := range node.Labels {
		left := len(m.templates) - m.keyed[key] + m.with[label{key, value}]
		if !m.ignorable[key] && (left < fewest || (left == fewest && key < telling.key)) {
			telling, fewest = label{key, value}, left
		}
	}
	return telling
}

// near returns the templates that share a label or lack it. One with another value differs in more
// than what can be filled in.
func (m *models) near(telling label) map[string]cloudprovider.Template {
	near := map[string]cloudprovider.Template{}
	for id, template := range m.templates {
		if value, has := template.Node.Labels[telling.key]; !has || value == telling.value {
			near[id] = template
		}
	}
	return near
}
