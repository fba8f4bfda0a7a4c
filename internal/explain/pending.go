package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// PendingSpread says why equal pending pods are held by one of their topology spread constraints.
type PendingSpread struct {
	Pods []string `json:"pods"` // namespace/name
	// Constraint is the position among the pods' constraints, the others are of it.
	Constraint  int    `json:"constraint"`
	TopologyKey string `json:"topologyKey"`
	MaxSkew     int    `json:"maxSkew"`
	// Domains are the domains that have nodes the constraint includes, by name.
	Domains []SpreadDomain `json:"domains"`
	// Binding are the domains that hold the others back: the constraint lets the pods in, but no node
	// takes one. It is empty if too few domains for minDomains are what holds the pods.
	Binding []string `json:"binding"`
	// Answer is all that in one sentence.
	Answer string `json:"verdict"`
}

// SpreadDomain is a domain of a constraint.
type SpreadDomain struct {
	Name         string `json:"name"`
	MatchingPods int    `json:"matchingPods"`
	Nodes        int    `json:"nodes"`
	// Allowed says that the constraint lets the pods in.
	Allowed bool `json:"allowed"`
	// Rejections say why nodes do not take a pod, whatever the constraint: most nodes first.
	Rejections []Rejection `json:"rejections,omitempty"`
	// Groups are the node groups there, and why a new node would not take a pod.
	Groups []GroupRejection `json:"groups,omitempty"`
}

// Rejection is a reason that nodes share.
type Rejection struct {
	Nodes  int    `json:"nodes"`
	Reason string `json:"reason"`
}

// GroupRejection says why a new node of a group does not take a pod; the reason is empty if it does.
type GroupRejection struct {
	Group  string `json:"group"`
	Reason string `json:"reason,omitempty"`
}

// podList is the pods of a cluster.
type podList struct {
	on      map[string][]*v1.Pod // by node
	pending []*v1.Pod            // with hard spread constraints
}

// add keeps a pod if it is on a node, or is held by a spread constraint.
func (l *podList) add(p *v1.Pod) {
	switch {
	case p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed:
	case p.Spec.NodeName != "":
		l.on[p.Spec.NodeName] = append(l.on[p.Spec.NodeName], p)
	case p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 && slices.ContainsFunc(p.Spec.TopologySpreadConstraints, isHard):
		l.pending = append(l.pending, p)
	}
}

func isHard(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.DoNotSchedule }

// pendingSpreads says of pending pods which constraints hold them on these nodes.
func (f *Fleet) pendingSpreads(nodes []*v1.Node, pods *podList) error {
	fleet := make([]topologyspread.Node, len(nodes))
	for i, n := range nodes {
		fleet[i] = topologyspread.Node{Node: n, Pods: pods.on[n.Name]}
	}
	var order []string
	kinds := map[string][]*v1.Pod{}
	for _, p := range pods.pending {
		key, err := kindOf(p)
		if err != nil {
			return err
		}
		if kinds[key] == nil {
			order = append(order, key)
		}
		kinds[key] = append(kinds[key], p)
	}
	for _, key := range order {
		held, err := f.heldBySpread(fleet, kinds[key])
		if err != nil {
			return err
		}
		f.pending = append(f.pending, held...)
	}
	return nil
}

// kindOf encodes what pods are equal in to the scheduler's rules.
func kindOf(p *v1.Pod) (string, error) {
	own := *p.Spec.DeepCopy()
	own.Volumes, own.Hostname = nil, ""
	labels := make(map[string]string, len(p.Labels))
	for key, value := range p.Labels {
		if key != appsv1.StatefulSetPodNameLabel && key != appsv1.PodIndexLabel {
			labels[key] = value
		}
	}
	key, err := json.Marshal([]any{p.Namespace, labels, metav1.GetControllerOfNoCopy(p), own})
	return string(key), err
}

// heldBySpread returns the constraints that hold equal pods; none if a node takes them.
func (f *Fleet) heldBySpread(fleet []topologyspread.Node, pods []*v1.Pod) ([]PendingSpread, error) {
	pod := pods[0]
	table, err := topologyspread.NewTable(pod, fleet)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	reasons := make([]string, len(fleet))
	refused := map[int]bool{} // constraints that alone keep the pod from a node
	for i, n := range fleet {
		if reasons[i] = rejection(pod, n); reasons[i] != "" {
			continue
		}
		if table.Fits(i) {
			return nil, nil
		}
		for _, r := range table.Refusals(i) {
			if !r.Unkeyed {
				refused[r.Constraint] = true
			}
		}
	}
	var held []PendingSpread
	for _, s := range table.Standings() {
		if refused[s.Constraint] {
			held = append(held, f.held(&s, fleet, pods, reasons))
		}
	}
	return held, nil
}

// rejection says why a node does not take a pod, whatever its spread constraints.
func rejection(pod *v1.Pod, n topologyspread.Node) string {
	if n.Node.Spec.Unschedulable {
		return "cordoned"
	}
	return template.Rejection(pod, &cloudprovider.Template{Node: n.Node, Pods: n.Pods})
}

// held describes a constraint that keeps pods from nodes that would take them.
func (f *Fleet) held(s *topologyspread.Standing, fleet []topologyspread.Node, pods []*v1.Pod, reasons []string) PendingSpread {
	out := PendingSpread{Constraint: s.Constraint, TopologyKey: s.Key, MaxSkew: s.MaxSkew, Binding: []string{}}
	for _, p := range pods {
		out.Pods = append(out.Pods, p.Namespace+"/"+p.Name)
	}
	for _, d := range s.Domains {
		domain := SpreadDomain{Name: d.Name, MatchingPods: d.Pods, Allowed: d.Allowed}
		why := map[string]int{}
		for i, n := range fleet {
			if value, has := n.Node.Labels[s.Key]; has && value == d.Name {
				domain.Nodes++
				if reasons[i] != "" || d.Allowed {
					why[cmp.Or(reasons[i], "another of its spread constraints")]++
				}
			}
		}
		for reason, nodes := range why {
			domain.Rejections = append(domain.Rejections, Rejection{nodes, reason})
		}
		slices.SortFunc(domain.Rejections, func(a, b Rejection) int {
			return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason, b.Reason))
		})
		for _, group := range f.Names() {
			if t := f.Groups[group]; t.Node.Labels[s.Key] == d.Name {
				domain.Groups = append(domain.Groups, GroupRejection{group, template.Rejection(pods[0], &t)})
			}
		}
		if d.Allowed {
			out.Binding = append(out.Binding, d.Name)
		}
		out.Domains = append(out.Domains, domain)
	}
	out.Answer = heldAnswer(&out, s)
	return out
}

func heldAnswer(p *PendingSpread, s *topologyspread.Standing) string {
	text := listed(p.Pods, 1)
	verb := "waits"
	if len(p.Pods) > 1 {
		verb = "wait"
	}
	if len(p.Binding) == 0 {
		return fmt.Sprintf("%s %s for another domain: %s has %s, and minDomains is %d", text, verb, p.TopologyKey, count(len(s.Domains), "domain"), s.MinDomains)
	}
	var why []string
	for i := range p.Domains {
		if d := &p.Domains[i]; d.Allowed {
			why = append(why, d.why())
		}
	}
	return fmt.Sprintf("%s %s for %s: with maxSkew %d of %s no other domain may take more: %s", text, verb, listed(p.Binding, fewGroups), p.MaxSkew, p.TopologyKey, listed(why, fewGroups))
}

// why says what keeps the pods out of a domain that the constraint lets them into.
func (d *SpreadDomain) why() string {
	var nodes, groups []string
	for _, r := range d.Rejections {
		nodes = append(nodes, fmt.Sprintf("%s: %s", count(r.Nodes, "node"), r.Reason))
	}
	text := fmt.Sprintf("%s has %s and no node for one more (%s)", d.Name, count(d.MatchingPods, "matching pod"), strings.Join(nodes, "; "))
	for _, g := range d.Groups {
		if g.Reason == "" {
			groups = append(groups, "a new node of "+g.Group+" would take it")
		} else {
			groups = append(groups, "a new node of "+g.Group+" would not: "+g.Reason)
		}
	}
	if len(groups) == 0 {
		groups = []string{"no node group is there"}
	}
	return text + "; " + listed(groups, fewGroups)
}
