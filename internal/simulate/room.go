package simulate

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// rooms is the cluster as the webhook of WorkloadSpreads simulates it while pods are created: nodes
// that are ready or on their way, with the pods that wait on them as far as they fit.
type rooms struct {
	cluster *predicates.Cluster
	growing []predicates.Node               // templates of groups that can grow
	full    map[*v1.Pod]workloadspread.Room // of pods for which no node has room; none gets any while pods are created
}

// room simulates the scheduler for a pod with the rules of each subset. It returns nil if its
// WorkloadSpread does not ask for that.
func (s *simulation) room(m *managed, set *revision) ([]workloadspread.Room, error) {
	strategy := &m.spread.object.Spec.ScheduleStrategy
	if strategy.Type != v1alpha1.ScheduleAdaptive || strategy.Adaptive != nil && strategy.Adaptive.DisableSimulationSchedule {
		return nil, nil
	}
	if s.controllers.rooms == nil {
		if err := s.copyCluster(); err != nil {
			return nil, err
		}
	}
	out := make([]workloadspread.Room, len(m.spread.object.Spec.Subsets))
	for i := range out {
		with, err := m.spread.inject(set, i)
		if err != nil {
			return nil, err
		}
		if out[i], err = s.controllers.rooms.find(with); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// copyCluster makes rooms of the cluster.
func (s *simulation) copyCluster() error {
	var nodes []predicates.Node
	for i, n := range s.cluster.seen() {
		if s.cluster.nodes[i].ready {
			nodes = append(nodes, n)
		}
	}
	r := &rooms{cluster: s.checker.Cluster(nodes), full: map[*v1.Pod]workloadspread.Room{}}
	ready, observed := s.cluster.readyNodes(), s.surveyed()
	for i := range s.setup.Cloud.Groups {
		g := &s.setup.Cloud.Groups[i]
		like := &g.Template
		if o := observed[g.ID]; o != nil {
			if o.BackedOffUntil.After(s.clock.Now()) || o.Away != "" {
				continue
			}
			if o.Template != nil {
				like = o.Template
			}
		}
		target, next := s.cloud.Target(g.ID), predicates.Node{Node: like.Node, Pods: like.Pods}
		if coming := target - ready[g.ID]; coming > 0 {
			r.cluster.AddCopies(next, coming)
		}
		if target < g.MaxSize {
			r.growing = append(r.growing, next)
		}
	}
	s.controllers.rooms = r
	for _, p := range s.cluster.schedulable() {
		if _, err := r.cluster.Place(p.object, 1, 0, r.cluster.Len()); err != nil {
			return err
		}
	}
	return nil
}

// find says whether there is room for a pod.
func (r *rooms) find(pod *v1.Pod) (workloadspread.Room, error) {
	if room, known := r.full[pod]; known {
		return room, nil
	}
	trial := r.cluster.Fork()
	placed, err := trial.Place(pod, 1, 0, trial.Len())
	if err != nil {
		return workloadspread.RoomUnknown, err
	}
	if len(placed) > 0 {
		return workloadspread.RoomOnNode, nil
	}
	room := workloadspread.RoomNone
	for _, template := range r.growing {
		placed, err := trial.PlaceOnNew(template, pod, 1, 1)
		if err != nil {
			return workloadspread.RoomUnknown, err
		}
		if len(placed) > 0 {
			room = workloadspread.RoomByAutoscaler
			break
		}
	}
	r.full[pod] = room
	return room, nil
}

// occupy puts a pod that was admitted on the first node with room.
func (s *simulation) occupy(subset int, pod *v1.Pod) (problem string) {
	if s.controllers.rooms == nil || subset < 0 {
		return ""
	}
	if _, err := s.controllers.rooms.cluster.Place(pod, 1, 0, s.controllers.rooms.cluster.Len()); err != nil {
		return err.Error()
	}
	return ""
}
