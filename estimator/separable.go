package estimator

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/predicates"
)

// layout is where the pods of a request went on new nodes, which are numbered
// from 0.
type layout struct {
	Estimation
	bound   int                      // nodes it was allowed
	limited bool                     // and may lack
	cuts    bool                     // the request is separable
	runs    [][]predicates.Placement // in the order of the demands
}

// under is the estimate under a limit, if the layout tells. Packing looks at a
// bound only when it runs into it: an answer that no bound has shaped holds
// wherever its nodes have room. Of separable demands, first fit fills the first
// nodes the same way whether or not there are more behind them, so the answer is
// what lies on these.
func (l *layout) under(limit int) (e Estimation, holds bool) {
	switch {
	case limit == l.bound, !l.limited && l.NodeCount <= limit:
		return l.Estimation, true
	case !l.cuts || l.limited && limit > l.bound:
		return Estimation{}, false
	}
	e = Estimation{NodeCount: min(limit, l.NodeCount), Placed: make([]int, len(l.runs))}
	for i, runs := range l.runs {
		for _, run := range runs {
			e.Placed[i] += run.PerNode * max(0, min(run.Nodes, limit-run.First))
		}
	}
	return e, true
}

// separable reports whether what runs on one new node has no bearing on who may
// run on another one, beyond the number of equal pods. Then a node left away
// changes nothing on those before it. Spread over hosts is not separable, for
// every node is a domain; nor is what looks at pods of another demand, or at
// volumes and devices it may share with them. If unsure, it returns false.
func separable(r Request) bool {
	for i, d := range r.Demands {
		if sharesObjects(d.Pod) {
			return false
		}
		selectors, ok := widerSelectors(d.Pod)
		if !ok {
			return false
		}
		for _, s := range selectors {
			if selectsOther(s, r, i) {
				return false
			}
		}
	}
	return true
}

func sharesObjects(pod *v1.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			return true
		}
	}
	return len(pod.Spec.ResourceClaims) > 0
}

// widerSelectors lists the selectors of all rules that reach beyond one node.
func widerSelectors(pod *v1.Pod) (selectors []labels.Selector, ok bool) {
	var list []*metav1.LabelSelector
	for _, c := range podfit.HardSpread(pod) {
		if c.TopologyKey == v1.LabelHostname {
			return nil, false
		}
		list = append(list, c.LabelSelector)
	}
	affinity, anti := podfit.PodTerms(pod)
	if len(affinity) > 0 {
		return nil, false
	}
	for _, term := range anti {
		if term.TopologyKey != v1.LabelHostname {
			list = append(list, term.LabelSelector)
		}
	}
	for _, l := range list {
		s, err := metav1.LabelSelectorAsSelector(l)
		if err != nil {
			return nil, false
		}
		selectors = append(selectors, s)
	}
	return selectors, true
}

// selectsOther reports whether the selector may find pods of another demand or
// those that come with the nodes. Namespaces are left out of account.
func selectsOther(s labels.Selector, r Request, demand int) bool {
	for j, d := range r.Demands {
		if j != demand && s.Matches(labels.Set(d.Pod.Labels)) {
			return true
		}
	}
	for _, pod := range r.Template.Pods {
		if s.Matches(labels.Set(pod.Labels)) {
			return true
		}
	}
	return false
}
