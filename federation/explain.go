package federation

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/replica"
)

// Explanation is a decision and how its numbers came about.
type Explanation struct {
	Decision
	// Steps share the replicas, from the whole to its parts. There are none, but not nil, if the spec is
	// invalid or no cluster takes part.
	Steps    []Step
	Clusters []Applied // all clusters, by name
}

// Applied is what applies to a cluster.
type Applied struct {
	Name string
	// Entry is the name of its entry in the preferences; empty if there is none. Tier is that of the
	// entry, and Preference what it says about the cluster alone.
	Entry      string
	Tier       int32
	Preference v1alpha1.ClusterPreference
	// Awaited says what happens when, if nothing changes; empty if nothing does.
	Awaited string
}

// Step shares a number of replicas.
type Step struct {
	Name     string           `json:"name,omitempty"` // what they are for: "tier 1" or "group eu"; empty for all replicas
	Replicas int64            `json:"replicas"`
	Policy   apportion.Policy `json:"policy"`
	Parts    []Part           `json:"parts"`
}

// Part is what a cluster, or a later step, gets in a step.
type Part struct {
	Name   string `json:"name"` // that of the cluster, or of the step that shares it further
	Shared bool   `json:"-"`    // by a later step
	// Weight, Min, Max and Capacity are what counts now: a cluster that is marked NoSchedule, for
	// example, has a Max of what it has. Max and Capacity are nil if there is no such limit.
	Weight   int64  `json:"weight"`
	Min      int64  `json:"min"`
	Max      *int64 `json:"max,omitempty"`
	Capacity *int64 `json:"capacity,omitempty"`
	Keeps    bool   `json:"-"` // the cluster keeps what it has, because it is not written now
	// Exact is the share by weight before it is rounded, with two decimals; empty if there is none.
	Exact string `json:"exact,omitempty"`
	// ByWeight is the share by weight or order in whole numbers, without regard to anything else.
	// WithinBounds is the one with Min and Max, Staying also without moves where replicas stay, and
	// Able also with the capacities, which is the result.
	ByWeight     int64  `json:"byWeight"`
	WithinBounds int64  `json:"withinBounds"`
	Staying      int64  `json:"staying"`
	Able         int64  `json:"able"`
	Reason       string `json:"reason"` // what determines the result, as in the status
	given        int64  // what a later step shares: what it is able to run, and what is pending there
}

// Explain makes the decision that [Decide] makes, and shows how its numbers came about.
func Explain(in Input) (e Explanation, err error) {
	e.Steps = []Step{}
	e.Decision, err = decide(in, e.explain)
	return e, err
}

func (e *Explanation) explain(p *pass) error {
	given := map[string]int64{} // what was given to later steps
	targets := p.targets()
	p.trace = func(n *node, request apportion.Request, result apportion.Result) error {
		if total, ok := given[n.words]; ok {
			request.Replicas = total
		}
		for i, c := range n.children {
			if c.member == nil {
				given[c.words] = result.Targets[i].Replicas
			}
		}
		s, err := p.step(n, request, result)
		e.Steps = append(e.Steps, s)
		return err
	}
	if _, err := p.layout(targets); err != nil {
		return err
	}
	for _, m := range p.members {
		a := Applied{Name: m.Name, Entry: m.entry, Awaited: p.awaited(&m)}
		if m.entry != "" {
			a.Tier, a.Preference = p.preferences.Clusters[m.entry].Tier, p.preferences.within(m.entry, m.Name)
		}
		e.Clusters = append(e.Clusters, a)
	}
	return nil
}

// Named are the clusters that the preferences name, in the spec or in an annotation, and whether
// they select others by labels. The error is about an annotation.
func Named(in Input) (names []string, byLabels bool, err error) {
	p, err := preferencesOf(&in)
	if err != nil {
		return nil, false, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Clusters)) {
		if p.Clusters[name].Selector == nil && name != others {
			names = append(names, name)
		}
	}
	return names, len(p.groups) > 0, nil
}

// step shows how the result of a request came about: the same request with one rule after another.
func (p *pass) step(n *node, request apportion.Request, result apportion.Result) (Step, error) {
	s := Step{Name: n.words, Replicas: request.Replicas, Policy: request.Policy}
	free, weights := request.Replicas, int64(0)
	for _, t := range request.Targets {
		if keeps(t) {
			free -= t.Min
		} else {
			weights += ptr.Deref(t.Weight, 1)
		}
	}
	for i, t := range request.Targets {
		r := result.Targets[i]
		part := Part{
			Name: t.Name, Weight: ptr.Deref(t.Weight, 1), Min: t.Min, Capacity: t.Capacity, Keeps: keeps(t),
			Able: r.Replicas - r.Pending, Reason: replica.Reason(r.Reason),
		}
		if c := n.children[i]; c.member == nil {
			part.Name, part.Shared, part.given = c.words, true, r.Replicas
		}
		if t.Max != nil && *t.Max < apportion.MaxReplicas {
			part.Max = t.Max
		}
		switch {
		case part.Keeps:
			part.Weight = 0
		case request.Policy != apportion.Priority && weights > 0:
			part.Exact = fraction(max(0, free), part.Weight, weights)
		}
		s.Parts = append(s.Parts, part)
	}
	return s, s.under(request)
}

// keeps reports whether a target is a cluster that keeps what it has.
func keeps(t apportion.Target) bool { return ptr.Deref(t.Weight, 1) >= pinnedWeight }

// under fills in the results of a request with only some of its rules.
func (s *Step) under(request apportion.Request) error {
	all := request.Targets
	for _, rules := range []struct {
		bounds, staying bool
		into            func(*Part) *int64
	}{
		{false, false, func(p *Part) *int64 { return &p.ByWeight }},
		{true, false, func(p *Part) *int64 { return &p.WithinBounds }},
		{true, true, func(p *Part) *int64 { return &p.Staying }},
	} {
		some := request
		some.Targets = make([]apportion.Target, len(all))
		for i, t := range all {
			t.Capacity, t.Taken = nil, nil
			if !rules.bounds && !keeps(t) {
				t.Min, t.Max = 0, nil
			}
			some.Targets[i] = t
		}
		if !rules.staying {
			some.Rebalance = nil
		}
		result, err := apportion.Distribute(some)
		if err != nil {
			return err
		}
		for i, r := range result.Targets {
			*rules.into(&s.Parts[i]) = r.Replicas
		}
	}
	return nil
}

// fraction is n * weight / weights with two decimals, which are left out if they are zero.
func fraction(n, weight, weights int64) string {
	r := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(n), big.NewInt(weight)), big.NewInt(weights))
	if r.IsInt() {
		return r.Num().String()
	}
	return r.FloatString(2)
}

// awaited says what time alone will change about a cluster.
func (p *pass) awaited(m *member) string {
	h := m.health.Now
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case m.status.Name == "" || m.Reach != Reachable:
		return ""
	case m.health.Frozen:
		return "the write that failed is tried again at " + at(retryAt(m.status.Refused))
	case h.Capacity != nil && h.FineSince != nil:
		return fmt.Sprintf("if it stays as it is until %s, the cluster gets more again", at(h.FineSince.Add(p.stabilization)))
	case h.Capacity == nil && h.BelowSizeSince != nil && h.Running < h.Size:
		return fmt.Sprintf("%s not running yet: what does not run by %s is started elsewhere", inWords(h.Size-h.Running),
			at(h.BelowSizeSince.Add(p.act)))
	}
	return ""
}
