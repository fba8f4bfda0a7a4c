package pending

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// limited explains the constraint of pods that no node takes and that it does not hold yet, if not all
// of them can run on the nodes that the groups may get: as the others fill up, it will. That is known
// for a single constraint over zones or the like, and groups whose new nodes take equally many pods.
func (e *explainer) limited(k *kind) ([]explain.PendingSpread, error) {
	standings := k.table.Standings()
	if len(standings) != 1 || standings[0].Key == v1.LabelHostname {
		return nil, nil
	}
	s := &standings[0]
	request := topologyspread.SplitRequest{Pods: int64(len(k.names)), MaxSkew: int64(s.MaxSkew), MinDomains: int64(s.MinDomains),
		PodsPerNode: 1}
	at := map[string]int{}
	domain := func(name string) int {
		i, known := at[name]
		if !known {
			i = len(request.Domains)
			at[name] = i
			request.Domains = append(request.Domains, topologyspread.SplitDomain{Name: name})
		}
		return i
	}
	for _, d := range s.Domains {
		own := &request.Domains[domain(d.Name)]
		own.MatchingPods, own.Active = int64(d.Pods), true
	}
	perNode := 0
	for g, group := range e.groups {
		value, has := group.Template.Node.Labels[s.Key]
		if !has || k.onNew[g] != "" {
			continue
		}
		takes, err := e.takes(k, &group.Group)
		if err != nil || takes == 0 || group.Room < 0 || perNode > 0 && takes != perNode {
			return nil, err
		}
		perNode, request.PodsPerNode = takes, int64(takes)
		d := &request.Domains[domain(value)]
		d.FreeSlots += int64(takes * group.Coming)
		d.Active = d.Active || group.Coming > 0
		if group.Stuck == "" {
			request.Groups = append(request.Groups, topologyspread.SplitGroup{Name: group.name, Domain: value, Max: int64(group.Room)})
		}
	}
	result, err := topologyspread.Split(request)
	// Where no group takes a pod, or all are full, the constraint is not what matters.
	if err != nil || perNode == 0 || result.Unplaced == 0 || len(result.Binding) == 0 || len(result.Binding) == len(request.Domains) {
		return nil, err
	}
	out := e.standing(k, s)
	runnable := int(result.Placed)
	out.Binding, out.Runnable = result.Binding, &runnable
	out.Answer = limitAnswer(k, &out)
	return []explain.PendingSpread{out}, nil
}

// takes returns how many of the pods a new node of a group takes, their spread constraints aside.
func (e *explainer) takes(k *kind, g *Group) (int, error) {
	alone := *k.pod
	alone.Spec.TopologySpreadConstraints = unconstrained
	placed, err := e.checker.Cluster(nil).PlaceOnNew(predicates.Node(g.Template), &alone, len(k.names), 1)
	if err != nil || len(placed) == 0 {
		return 0, err
	}
	return placed[0].PerNode, nil
}

// unconstrained is a constraint that keeps no pod from a node, and default ones from the pod.
var unconstrained = []v1.TopologySpreadConstraint{{TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 1}}

// limitAnswer says which domains will hold pods back.
func limitAnswer(k *kind, p *explain.PendingSpread) string {
	only := "none"
	if *p.Runnable > 0 {
		only = fmt.Sprintf("only %d", *p.Runnable)
	}
	return fmt.Sprintf("of %s %s can run: with %s %s: %s", spelling.List(k.names, 1), only, skewOf(p),
		spelling.List(p.Binding, fewNames)+" "+spelling.Verb(len(p.Binding), "hold")+" the others back", bindingAnswers(p))
}
