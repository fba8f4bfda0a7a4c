package steering

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// declared is what the user has declared about sets. Policies are used once they suit the groups of
// the cloud; until then those before stay.
type declared struct {
	given   []nodegroupset.SetPolicy // that are not used yet
	waiting bool                     // there are such
	refused string                   // why they are not, or could not be read
}

// Declare replaces the declared sets, as soon as the policies suit the groups there are. With an Err
// they could not be read, and those in use stay.
type Declare struct {
	Policies []nodegroupset.SetPolicy `json:"-"` // from the configuration: see Recorded
	Err      error
}

func (e Declare) apply(s *State) Answer {
	if e.Err != nil {
		s.sets.declared = declared{}
		s.refusePolicies(e.Err)
		return Answer{}
	}
	s.sets.declared = declared{given: e.Policies, waiting: true}
	s.adoptPolicies()
	return Answer{}
}

func (s *State) refusePolicies(err error) {
	s.sets.declared.refused = err.Error()
	s.warn("PoliciesRefused", "New policies are not used, those before stay: "+err.Error())
}

// adoptPolicies uses the policies that wait if they suit the groups. Groups that are not there yet
// may come, so it is tried again at every reading.
func (s *State) adoptPolicies() {
	d := &s.sets.declared
	if !d.waiting || s.view == nil {
		return
	}
	options, index, err := s.o.Similarity.Declare(d.given, s.templateNodes(nil))
	if err != nil {
		s.refusePolicies(err)
		return
	}
	s.o.Similarity, s.sets.index, s.sets.first = options, index, map[string]string{}
	s.levels.catalogue = nil
	s.log(Log{Message: "Policies are used", Values: []any{"sets", len(d.given)}})
	*d = declared{}
}

// templateNodes are the nodes of all groups' templates. What Cluster Autoscaler sent is preferred to
// what the cloud says.
func (s *State) templateNodes(sent map[string]*v1.Node) map[string]*v1.Node {
	nodes := make(map[string]*v1.Node, len(s.view.Groups))
	for id, g := range s.view.Groups {
		if !g.ZeroOrMax {
			nodes[id] = g.Template.Node
		}
	}
	maps.Copy(nodes, sent)
	return nodes
}

// terms are how declared sets share nodes, by group; nil if none is declared.
func (s *State) terms(sent map[string]*v1.Node) map[string]*nodegroupset.Terms {
	if len(s.o.Similarity.Policies) == 0 || s.view == nil {
		return nil
	}
	return s.o.Similarity.Declared(s.templateNodes(sent))
}

// PolicyStatus is a declared set.
type PolicyStatus struct {
	Set    string   `json:"set"`
	Policy string   `json:"policy"`
	Groups []string `json:"groups"` // by name
}

// policyStatuses are the declared sets by name.
func (s *State) policyStatuses() []PolicyStatus {
	bySet := map[string]*PolicyStatus{}
	terms := s.terms(nil)
	for _, name := range slices.Sorted(maps.Keys(terms)) {
		t := terms[name]
		if bySet[t.Set] == nil {
			bySet[t.Set] = &PolicyStatus{Set: t.Set, Policy: t.String()}
		}
		bySet[t.Set].Groups = append(bySet[t.Set].Groups, name)
	}
	var out []PolicyStatus
	for _, set := range slices.Sorted(maps.Keys(bySet)) {
		out = append(out, *bySet[set])
	}
	return out
}
