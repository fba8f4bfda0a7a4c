package plan

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/topologyspread"
)

func validateSpreadSplit(s *v1alpha1.SpreadSplitSpec) field.ErrorList {
	var c checks
	c.required(spec.Child("pods"), s.Pods)
	c.requiredPositive(spec.Child("maxSkew"), s.MaxSkew)
	c.positive(spec.Child("minDomains"), s.MinDomains)
	c.requiredPositive(spec.Child("podsPerNode"), s.PodsPerNode)
	domains := spec.Child("domains")
	if len(s.Domains) == 0 {
		c.Add(field.Required(domains, "must have at least one domain"))
	}
	known := names{}
	for i := range s.Domains {
		d, at := &s.Domains[i], domains.Index(i)
		known.check(&c, at.Child("name"), d.Name)
		c.ofActive(at.Child("matchingPods"), d.MatchingPods, d.Active)
		c.ofActive(at.Child("freeSlots"), d.FreeSlots, d.Active)
	}
	groups := spec.Child("groups")
	seen := names{}
	for i := range s.Groups {
		g, at := &s.Groups[i], groups.Index(i)
		seen.check(&c, at.Child("name"), g.Name)
		switch {
		case g.Domain == "":
			c.Add(field.Required(at.Child("domain"), "must be the name of a domain"))
		case !known[g.Domain]:
			c.Add(field.Invalid(at.Child("domain"), g.Domain, "must be the name of a domain"))
		}
		c.required(at.Child("size"), g.Size)
		c.required(at.Child("max"), g.Max)
	}
	c.count(spec.Child("extraNodes"), s.ExtraNodes)
	return c.Errors
}

// requiredPositive checks a count of at least 1 that must be given.
func (c *checks) requiredPositive(at *field.Path, n *int64) {
	if c.positive(at, n); n == nil {
		c.required(at, n)
	}
}

// positive checks a count of at least 1, if it is given.
func (c *checks) positive(at *field.Path, n *int64) {
	if n != nil && *n < 1 {
		c.Add(field.Invalid(at, *n, "must be at least 1"))
		return
	}
	c.count(at, n)
}

// ofActive checks a count that only an active domain has.
func (c *checks) ofActive(at *field.Path, n *int64, active bool) {
	if c.count(at, n); !active && n != nil && *n > 0 {
		c.Add(field.Invalid(at, *n, "must be 0 in a domain that is not active: set active if it has an eligible node"))
	}
}

func spreadSplit(s *v1alpha1.SpreadSplitSpec) (any, error) {
	request := topologyspread.SplitRequest{
		Pods:        *s.Pods,
		MaxSkew:     *s.MaxSkew,
		MinDomains:  ptr.Deref(s.MinDomains, 1),
		PodsPerNode: *s.PodsPerNode,
		ExtraNodes:  ptr.Deref(s.ExtraNodes, 0),
		Domains:     make([]topologyspread.SplitDomain, len(s.Domains)),
		Groups:      make([]topologyspread.SplitGroup, len(s.Groups)),
	}
	for i, d := range s.Domains {
		request.Domains[i] = topologyspread.SplitDomain{
			Name: d.Name, MatchingPods: ptr.Deref(d.MatchingPods, 0), FreeSlots: ptr.Deref(d.FreeSlots, 0), Active: d.Active,
		}
	}
	for i, g := range s.Groups {
		request.Groups[i] = topologyspread.SplitGroup{Name: g.Name, Domain: g.Domain, Size: *g.Size, Max: *g.Max}
	}
	answer, err := topologyspread.Split(request)
	if err != nil {
		return nil, at(err, spec)
	}
	status := &v1alpha1.SpreadSplitStatus{
		Groups: make([]v1alpha1.SpreadGroupStatus, len(answer.Groups)),
		Placed: answer.Placed, Unplaced: answer.Unplaced, Binding: answer.Binding,
	}
	for i, g := range answer.Groups {
		status.Groups[i] = v1alpha1.SpreadGroupStatus(g)
	}
	return status, nil
}
