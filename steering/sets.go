package steering

import (
	"iter"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// sets are those of groups that share nodes.
type sets struct {
	index    *nodegroupset.Index // of what Cluster Autoscaler sent last
	first    map[string]string   // of the set of each group, by the last options
	declared declared
}

// compare brings the index of similar groups up to date with the templates Cluster Autoscaler sent.
// Of a group without nodes that is what the catalogue says of its machines, which is completed from
// groups that have nodes.
func (s *State) compare(request *Question) error {
	templates := make(map[string]cloudprovider.Template, len(request.Nodes))
	empty := map[string]bool{}
	for name, node := range request.Nodes {
		templates[name] = cloudprovider.Template{Node: node}
		if g := s.view.Groups[name]; g != nil {
			if s.nodes.at.count(g, s.state(name)).ready == 0 {
				empty[name] = true
			}
		}
	}
	if _, err := template.Fill(templates, empty, s.o.Similarity, podSpecs(request.Pods)); err != nil {
		return err
	}
	for _, name := range s.sets.index.Names() {
		if _, sent := templates[name]; !sent && s.view.Groups[name] == nil { // else it was only not read this time
			s.sets.index.Delete(name)
		}
	}
	for name, t := range templates {
		if err := s.sets.index.Set(name, t); err != nil {
			s.sets.index.Delete(name)
			s.log(Log{Verbosity: 2, Message: "Node group is balanced with no other, its template cannot be compared",
				Values: []any{"nodeGroup", name, "reason", err.Error()}})
		}
	}
	s.sets.first = nodegroupset.FirstOf(s.sets.index.Sets())
	return nil
}

func podSpecs(pods []*v1.Pod) iter.Seq[*v1.PodSpec] {
	return func(yield func(*v1.PodSpec) bool) {
		for _, pod := range pods {
			if !yield(&pod.Spec) {
				return
			}
		}
	}
}

// hasPeers reports whether a group is in a set with others.
func (s *State) hasPeers(id string) bool {
	first := s.firstOf()
	for other := range s.view.Groups {
		if other != id && first[id] != "" && first[other] == first[id] {
			return true
		}
	}
	return false
}

// firstOf returns the first member of the set of each group: as Cluster Autoscaler has shown them
// last, and before it has, by the templates of the cloud.
func (s *State) firstOf() map[string]string {
	if len(s.sets.index.Names()) == 0 {
		return s.catalogueSets(s.now)
	}
	return s.sets.first
}
