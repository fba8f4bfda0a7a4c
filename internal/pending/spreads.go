package pending

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// Spreads explains the topology spread constraints of pending pods, in the order of the pods: those
// that hold pods or will, and for pods that none holds those that are soft. Equal pods are explained together. Pods of which a selector
// cannot be read get that as the answer.
func Spreads(checker *predicates.Checker, c *Cluster) ([]explain.PendingSpread, error) {
	var pods []*v1.Pod
	for _, p := range c.Pending {
		if len(checker.Defaulted(p).Spec.TopologySpreadConstraints) > 0 {
			pods = append(pods, p)
		}
	}
	if len(pods) == 0 {
		return nil, nil
	}
	e := explainer{checker: checker, cluster: c}
	for _, n := range c.Nodes {
		e.nodes = append(e.nodes, predicates.Node(n))
	}
	var templates []predicates.Node
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		e.groups = append(e.groups, named{name, c.Groups[name]})
		templates = append(templates, predicates.Node(c.Groups[name].Template))
	}
	fit, err := checker.Fits(e.nodes, templates, pods)
	if err != nil {
		return nil, err
	}
	var all []explain.PendingSpread
	for i, k := range fit.Kinds() {
		kind := kind{pod: checker.Defaulted(k.Pod), isDefault: len(k.Pod.Spec.TopologySpreadConstraints) == 0}
		for _, p := range k.Pods {
			kind.names = append(kind.names, pods[p].Namespace+"/"+pods[p].Name)
		}
		for g, t := range templates {
			kind.onNew = append(kind.onNew, why(k.Pod, t, fit.Reasons(g, i)))
		}
		answers, err := e.explain(&kind)
		if err != nil {
			return nil, err
		}
		all = append(all, answers...)
	}
	return all, nil
}

type explainer struct {
	checker *predicates.Checker
	cluster *Cluster
	nodes   []predicates.Node
	groups  []named // by name
}

// named is a node group.
type named struct {
	name string
	Group
}

// kind is equal pods, and why nodes do not take one, spread constraints aside: empty if they do.
type kind struct {
	pod       *v1.Pod // with the default constraints if it has none
	isDefault bool
	names     []string
	onNode    []string // by node
	onNew     []string // by group
	table     *topologyspread.Table
}

// why says what else than topology spread keeps a pod from a node.
func why(pod *v1.Pod, n predicates.Node, reasons []predicates.Reason) string {
	for _, r := range reasons {
		if r.Plugin == "PodTopologySpread" {
			continue
		}
		if n.Node.Spec.Unschedulable && r.Plugin == "NodeUnschedulable" {
			return "cordoned"
		}
		short := template.Rejection(pod, &cloudprovider.Template{Node: n.Node, Pods: n.Pods})
		return cmp.Or(short, strings.TrimPrefix(r.Message, "node(s) "))
	}
	return ""
}

func (e *explainer) explain(k *kind) ([]explain.PendingSpread, error) {
	table, err := topologyspread.NewTable(k.pod, e.cluster.Nodes)
	if err != nil {
		return []explain.PendingSpread{{Pods: k.names, Domains: []explain.SpreadDomain{}, Binding: []string{},
			Answer: fmt.Sprintf("%s: %v", spelling.List(k.names, 1), err)}}, nil
	}
	k.table = table
	reasons, err := e.checker.Reasons(e.nodes, k.pod)
	if err != nil {
		return nil, err
	}
	for i, n := range e.nodes {
		k.onNode = append(k.onNode, why(k.pod, n, reasons[i]))
	}
	held, taken := e.held(k)
	if len(held) == 0 && !taken {
		if held, err = e.limited(k); err != nil {
			return nil, err
		}
	}
	if len(held) > 0 {
		return held, nil // what is preferred does not matter yet
	}
	return e.preferred(k), nil
}

// held explains the constraints that alone keep the pods from a node that there is, or that a group
// may get. There are none if a node takes a pod, which it reports.
func (e *explainer) held(k *kind) (all []explain.PendingSpread, taken bool) {
	refused := map[int]bool{}
	for i, reason := range k.onNode {
		switch {
		case reason != "":
		case k.table.Fits(i):
			return nil, true
		default:
			for _, r := range k.table.Refusals(i) {
				refused[r.Constraint] = refused[r.Constraint] || !r.Unkeyed
			}
		}
	}
	standings := k.table.Standings()
	for g, group := range e.groups {
		if k.onNew[g] != "" || group.Stuck != "" {
			continue
		}
		for i := range standings {
			s := &standings[i]
			if value, has := group.Template.Node.Labels[s.Key]; has && s.Key != v1.LabelHostname && slices.ContainsFunc(s.Domains, closed(value)) {
				refused[s.Constraint] = true
			}
		}
	}
	unkeyed := e.unkeyed(k)
	for i := range standings {
		s := &standings[i]
		if unkeyed[s.Key] {
			out := e.standing(k, s)
			out.Answer = unkeyedAnswer(k, &out)
			all = append(all, out)
			continue
		}
		if refused[s.Constraint] {
			out := e.standing(k, s)
			for _, d := range s.Domains {
				if d.Allowed {
					out.Binding = append(out.Binding, d.Name)
				}
			}
			out.Answer = e.heldAnswer(k, &out, s)
			all = append(all, out)
		}
	}
	return all, false
}

// unkeyed are the keys of hard constraints that no node has which takes a pod otherwise, be it there or
// a new one. There are none if no node takes a pod otherwise.
func (e *explainer) unkeyed(k *kind) map[string]bool {
	missing, takes := map[string]bool{}, false
	for _, s := range k.table.Standings() {
		missing[s.Key] = true
	}
	has := func(own map[string]string) {
		takes = true
		for key := range missing {
			if _, ok := own[key]; ok || key == v1.LabelHostname {
				delete(missing, key)
			}
		}
	}
	for i, reason := range k.onNode {
		if reason == "" {
			has(e.nodes[i].Node.Labels)
		}
	}
	for g, group := range e.groups {
		if k.onNew[g] == "" {
			has(group.Template.Node.Labels)
		}
	}
	if !takes {
		return nil
	}
	return missing
}

// closed finds the domain of a name that lets no pod in.
func closed(name string) func(topologyspread.Domain) bool {
	return func(d topologyspread.Domain) bool { return d.Name == name && !d.Allowed }
}

// standing describes a constraint and its domains.
func (e *explainer) standing(k *kind, s *topologyspread.Standing) explain.PendingSpread {
	out := explain.PendingSpread{
		Pods: k.names, Constraint: s.Constraint, Default: k.isDefault, TopologyKey: s.Key, MaxSkew: s.MaxSkew,
		Domains: make([]explain.SpreadDomain, 0, len(s.Domains)), Binding: []string{},
	}
	at := map[string]int{} // the domains by name
	for _, d := range s.Domains {
		at[d.Name] = len(out.Domains)
		out.Domains = append(out.Domains, explain.SpreadDomain{Name: d.Name, MatchingPods: d.Pods, Allowed: d.Allowed})
	}
	if s.Key != v1.LabelHostname { // a new node is a domain of its own
		for g, group := range e.groups {
			value, has := group.Template.Node.Labels[s.Key]
			if _, known := at[value]; has && !known && k.onNew[g] == "" {
				at[value] = len(out.Domains)
				out.Domains = append(out.Domains, explain.SpreadDomain{Name: value, Allowed: true})
			}
		}
	}
	rejections := make([]map[string]int, len(out.Domains))
	for i, n := range e.nodes {
		value, has := n.Node.Labels[s.Key]
		d, known := at[value]
		if !has || !known {
			continue
		}
		out.Domains[d].Nodes++
		reason := k.onNode[i]
		if reason == "" && out.Domains[d].Allowed && !k.table.Fits(i) {
			reason = "another of its spread constraints"
		}
		if reason != "" {
			if rejections[d] == nil {
				rejections[d] = map[string]int{}
			}
			rejections[d][reason]++
		}
	}
	e.addGroups(k, &out, at)
	for i := range out.Domains {
		out.Domains[i].Rejections = sorted(rejections[i])
	}
	slices.SortFunc(out.Domains, func(a, b explain.SpreadDomain) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// addGroups adds the node groups to the domains, whose positions are given by name.
func (e *explainer) addGroups(k *kind, out *explain.PendingSpread, at map[string]int) {
	if out.TopologyKey == v1.LabelHostname {
		return
	}
	for g, group := range e.groups {
		value, has := group.Template.Node.Labels[out.TopologyKey]
		if d, known := at[value]; has && known {
			here := explain.GroupRejection{Group: group.name, Reason: cmp.Or(k.onNew[g], group.Stuck), Blocked: k.onNew[g] == "" &&
				group.Stuck != "", Coming: group.Coming}
			if group.Room >= 0 {
				here.Room = &group.Room
			}
			out.Domains[d].Groups = append(out.Domains[d].Groups, here)
		}
	}
}

// sorted orders reasons: those of most nodes first.
func sorted(reasons map[string]int) []explain.Rejection {
	var all []explain.Rejection
	for reason, nodes := range reasons {
		all = append(all, explain.Rejection{Nodes: nodes, Reason: reason})
	}
	slices.SortFunc(all, func(a, b explain.Rejection) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// preferred explains the soft constraints: the scores of the nodes that take a pod or, if there are
// none, of new ones.
func (e *explainer) preferred(k *kind) []explain.PendingSpread {
	if !k.table.Scored() {
		return nil
	}
	preferences := k.table.Preferences() // before nodes are added
	labels, candidates, isNew := e.candidates(k)
	scores := k.table.Scores(candidates)
	var all []explain.PendingSpread
	for i := range preferences {
		s := &preferences[i]
		out := e.standing(k, s)
		out.Soft = true
		for d := range out.Domains {
			domain := &out.Domains[d]
			domain.Allowed = true
			for c, score := range scores {
				if value, has := labels[c][s.Key]; has && value == domain.Name && (domain.Score == nil || *domain.Score < score) {
					domain.Score = &scores[c]
				}
			}
		}
		out.Answer = e.softAnswer(k, &out, isNew)
		all = append(all, out)
	}
	return all
}

// candidates returns the numbers in the table of the nodes that take a pod, with their labels. If
// none does they are new ones, which it adds to the table.
func (e *explainer) candidates(k *kind) (nodeLabels []map[string]string, numbers []int, isNew bool) {
	for i, reason := range k.onNode {
		if reason == "" && k.table.Fits(i) {
			nodeLabels, numbers = append(nodeLabels, e.nodes[i].Node.Labels), append(numbers, i)
		}
	}
	if len(numbers) > 0 {
		return nodeLabels, numbers, false
	}
	standings := k.table.Standings()
	for g, group := range e.groups {
		own := group.Template.Node.Labels
		refuses := func(s topologyspread.Standing) bool {
			value, has := own[s.Key]
			return s.Key != v1.LabelHostname && (!has || slices.ContainsFunc(s.Domains, closed(value)))
		}
		if k.onNew[g] == "" && group.Stuck == "" && !slices.ContainsFunc(standings, refuses) {
			nodeLabels = append(nodeLabels, own)
			numbers = append(numbers, k.table.Add(topologyspread.Node(group.Template)))
		}
	}
	return nodeLabels, numbers, true
}
