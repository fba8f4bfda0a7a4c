package scaleup

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/predicates"
)

// settlement is what is left once pods have taken the places there are.
type settlement struct {
	cluster *predicates.Cluster
	settled []PodOutcome
	left    []int // positions in World.Pending
	fit     *predicates.Fit
	stage   stage
}

// settle places pending pods on the nodes that exist and on those that are on
// their way: the scheduler's business, and no reason to order more.
func (p *planner) settle(templates []predicates.Node) (settlement, error) {
	w := p.world
	if len(w.Pending) == 0 { // nobody looks for a place
		cluster := p.checker.Cluster(nil)
		fit, err := cluster.Fits(templates, nil)
		return settlement{cluster: cluster, fit: fit, stage: stage{cluster: cluster}}, err
	}
	s := settlement{cluster: p.checker.Cluster(w.Nodes)}
	var arriving []string // the group of each node on its way
	for i := range w.Groups {
		g := &w.Groups[i]
		if g.Template == nil || g.Upcoming == 0 {
			continue
		}
		like := g.Template
		if len(g.Came) > 0 {
			like = &g.Came[0] // what came last says more of the next than the template
		}
		first := s.cluster.AddCopies(predicates.Node{Node: like.Node, Pods: like.Pods}, g.Upcoming)
		s.stage.coming = append(s.stage.coming, span{g.ID, first, g.Upcoming})
		arriving = append(arriving, slices.Repeat([]string{g.ID}, g.Upcoming)...)
	}
	fit, err := s.cluster.Fits(templates, w.Pending)
	if err != nil {
		return settlement{}, err
	}
	s.stage.kinds, s.stage.order = fit.Kinds(), Queue(fit, templates, nil)
	s.stage.cluster = s.cluster.Fork()
	if s.cluster.Len() == 0 {
		s.fit, s.left = fit, everyIndex(len(w.Pending))
		return s, nil
	}
	kinds, order := s.stage.kinds, s.stage.order
	placements, err := s.place(kinds, order, p.told)
	if err != nil {
		return settlement{}, err
	}
	placed := make([]int, len(kinds))
	for _, k := range order {
		placed[k] = s.book(len(w.Nodes), arriving, kinds[k], placements[k])
	}
	for k, kind := range kinds {
		s.left = append(s.left, kind.Pods[placed[k]:]...)
	}
	slices.Sort(s.left)
	if len(s.left) == len(w.Pending) { // nothing has changed
		s.fit = fit
		return s, nil
	}
	pending := make([]*v1.Pod, len(s.left))
	for i, at := range s.left {
		pending[i] = w.Pending[at]
	}
	s.fit, err = s.cluster.Fits(templates, pending)
	return s, err
}

// place puts the kinds on the nodes in the given order, and those that others
// make way for again until nothing changes, as the scheduler does.
func (s *settlement) place(kinds []predicates.Kind, order []int, told func(predicates.Step)) ([][]predicates.Placement, error) {
	placements := make([][]predicates.Placement, len(kinds))
	left := make([]int, len(kinds))
	step := predicates.Step{Doing: "looking for room on the nodes there are", Of: "pods"}
	for k := range kinds {
		left[k] = len(kinds[k].Pods)
		step.Total += left[k]
	}
	for again := true; again; {
		again = false
		step.Done = 0
		for _, k := range order {
			told(step)
			step.Done += len(kinds[k].Pods)
			runs, err := s.cluster.Place(kinds[k].Pod, left[k], 0, s.cluster.Len())
			if err != nil {
				return nil, err
			}
			for _, run := range runs {
				left[k] -= run.Nodes * run.PerNode
			}
			placements[k] = append(placements[k], runs...)
			again = again || len(runs) > 0
		}
		order = slices.DeleteFunc(slices.Clone(order), func(k int) bool { return left[k] == 0 || !madeWayFor(kinds[k].Pod) })
	}
	return placements, nil
}

// madeWayFor tells pods that may find a place once others have found theirs.
func madeWayFor(pod *v1.Pod) bool {
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.DoNotSchedule }) {
		return true
	}
	a := pod.Spec.Affinity
	return a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// book notes where pods of a kind were placed and returns how many were.
func (s *settlement) book(existing int, arriving []string, kind predicates.Kind, placements []predicates.Placement) int {
	placed := 0
	var onNodes, awaiting []int
	var groups []string
	for _, at := range placements {
		for id := at.First; id < at.First+at.Nodes; id++ {
			pods := kind.Pods[placed : placed+at.PerNode]
			placed += at.PerNode
			if id < existing {
				onNodes = append(onNodes, pods...)
				continue
			}
			awaiting = append(awaiting, pods...)
			if group := arriving[id-existing]; !slices.Contains(groups, group) {
				groups = append(groups, group)
			}
		}
	}
	if len(onNodes) > 0 {
		s.settled = append(s.settled, PodOutcome{
			Example: podName(kind.Pod), Count: len(onNodes), Outcome: PodsFit,
			Reason: "fit on nodes that exist", Pods: onNodes,
		})
	}
	if len(awaiting) > 0 {
		slices.Sort(groups)
		s.settled = append(s.settled, PodOutcome{
			Example: podName(kind.Pod), Count: len(awaiting), Outcome: PodsAwaitNodes,
			Reason: "fit on nodes on their way in " + strings.Join(groups, ", "), Pods: awaiting,
		})
	}
	return placed
}

func everyIndex(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
