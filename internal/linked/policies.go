package linked

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Policies are declared sets of node groups that may change.
type Policies interface {
	// Changed returns the policies if they have changed since it was last called. An error is
	// returned once for what it is about; the policies before hold on then.
	Changed() (policies []nodegroupset.SetPolicy, changed bool, err error)
}

// declared is what is known of declared sets.
type declared struct {
	follow  Policies // nil: they do not change
	given   []nodegroupset.SetPolicy
	waiting bool   // those given are not used yet
	refused string // why they are not
	terms   map[string]*nodegroupset.Terms
}

// Declare sets the declared sets, which are used as soon as they suit the groups there are, and where
// they are looked for changes; nil for nowhere.
func (s *Sets[T, G]) Declare(policies []nodegroupset.SetPolicy, follow Policies) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declared = declared{follow: follow, given: policies, waiting: true}
}

// TermsOf are how the set of a group shares nodes; nil if it is in no declared set.
func (s *Sets[T, G]) TermsOf(id string) *nodegroupset.Terms {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.declared.terms[id]
}

// Declared returns how the set of a group shares nodes, and the groups that the cloud has of it.
func (s *Sets[T, G]) Declared(id string) (terms *nodegroupset.Terms, members []G) {
	s.mu.Lock()
	defer s.mu.Unlock()
	terms = s.declared.terms[id]
	if terms == nil {
		return nil, nil
	}
	for _, name := range terms.Except(nil) {
		if m := s.groups[name]; m != nil && !m.planned && !m.whole {
			members = append(members, m.group)
		}
	}
	return terms, members
}

// usePolicies takes up changes of the declared sets once they suit the groups, and reports whether
// it has. Groups may be named before they are there, so it is tried again in every loop.
func (s *Sets[T, G]) usePolicies() (changed bool) {
	d := &s.declared
	if d.follow != nil {
		switch policies, changed, err := d.follow.Changed(); {
		case err != nil:
			d.waiting = false
			s.refusePolicies(err)
		case changed:
			d.given, d.waiting = policies, true
		}
	}
	nodes := make(map[string]*v1.Node, len(s.groups))
	for id, m := range s.groups {
		if !m.whole {
			nodes[id] = m.shown.Node
		}
	}
	if d.waiting {
		options, index, err := s.options.Declare(d.given, nodes)
		if err != nil {
			s.refusePolicies(err)
		} else {
			s.options, s.index = options, index
			d.given, d.waiting, d.refused = nil, false, ""
			s.journal.policies("")
			if len(options.Policies) > 0 {
				klog.InfoS("Policies of sets are used", "sets", len(options.Policies))
			}
			changed = true
		}
	}
	d.terms = s.options.Declared(nodes)
	return changed
}

func (s *Sets[T, G]) refusePolicies(err error) {
	if s.declared.refused == err.Error() {
		return
	}
	s.declared.refused = err.Error()
	klog.ErrorS(err, "New policies of sets are not used, those before stay")
	s.journal.policies(err.Error())
}

// termsBySet are the terms of sets under which nodes go, by set.
func (f *fleet[G]) termsBySet() map[string]*nodegroupset.Terms {
	out := map[string]*nodegroupset.Terms{}
	if f.termsOf == nil {
		return out
	}
	for _, g := range f.groups {
		if terms := f.termsOf(g.Name); terms != nil && g.Set != "" {
			out[g.Set] = terms
		}
	}
	return out
}

// underPolicy completes a request by the policy of the chosen group's set, and names that.
func (u ScaleUp[G]) underPolicy(request nodegroupset.SplitRequest, chosen string) (completed nodegroupset.SplitRequest, policy string) {
	if u.Declared == nil {
		return request, ""
	}
	terms, members := u.Declared(chosen)
	if terms == nil {
		return request, ""
	}
	return terms.Completed(request, chosen, knownSizes(members, request.Groups)), terms.Describe()
}
