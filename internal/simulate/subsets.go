package simulate

import (
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// spreading plays a WorkloadSpread: its webhook, its controller and its status.
type spreading struct {
	object   *v1alpha1.WorkloadSpread
	selector labels.Selector // of the pods that are managed
	status   *v1alpha1.WorkloadSpreadStatus
	next     time.Time // when to decide again

	injected map[injectionKey]*v1.Pod
	unfolded int  // pods admitted since the counts were folded
	left     bool // pods have left since they were counted

	rescheduled, waited int
}

// assignment is what a pod has from a WorkloadSpread.
type assignment struct {
	subset string
	text   string // the annotation
	cost   *int32
	uid    types.UID
	// scaleUp is what the autoscaler does about it; its time is zero if nothing is known.
	scaleUp workloadspread.ScaleUp

	seen *v1.Pod // what was seen last, and what it was made from
	from seenFrom
}

// seenFrom are the parts of a pod that decide what is seen of it.
type seenFrom struct {
	object *v1.Pod
	node   *node
	ready  bool
	cost   int32
	costs  bool
}

type injectionKey struct {
	set    *revision
	subset int // -1: none
}

// subset is the name of the subset that the pod belongs to; empty for none.
func (p *pod) subset() string {
	if p.assigned == nil {
		return ""
	}
	return p.assigned.subset
}

// beginWorkloads makes the controllers of the workloads.
func (s *simulation) beginWorkloads() {
	byWorkload := map[int]*v1alpha1.WorkloadSpread{}
	for i := range s.setup.Spreads {
		byWorkload[s.setup.Spreads[i].Workload] = s.setup.Spreads[i].Object
	}
	var plain []*managed
	for i := range s.setup.Workloads {
		w, object := &s.setup.Workloads[i], byWorkload[i]
		m := newManaged(i, w, object == nil && len(w.Rollouts) == 0)
		if m.plain {
			plain = append(plain, m)
			continue
		}
		if object != nil {
			m.spread = &spreading{object: object, selector: labels.Everything(), status: &v1alpha1.WorkloadSpreadStatus{},
				injected: map[injectionKey]*v1.Pod{}}
			if f := object.Spec.TargetFilter; f != nil && f.Selector != nil {
				if selector, err := f.Selector.AsSelector(); err == nil { // checked when the scenario was
					m.spread.selector = selector
				}
			}
		}
		s.controllers.managed = append(s.controllers.managed, m)
	}
	s.controllers.workloads = slices.Concat(s.controllers.managed, plain)
}

func (w *spreading) names() []string {
	names := make([]string, len(w.object.Spec.Subsets))
	for i := range names {
		names[i] = w.object.Spec.Subsets[i].Name
	}
	return names
}

// state is what the webhook and the controller know.
func (w *spreading) state(s *simulation, m *managed) workloadspread.State {
	current := ""
	if len(m.sets) > 1 || m.current().Hash != "" {
		current = workloadspread.RevisionOf(m.current().Pod)
	}
	return workloadspread.State{
		Spec: &w.object.Spec, Status: w.status, Now: s.clock.Now(),
		Workload: workloadspread.Workload{Found: true, Replicas: int32(m.replicas), Surge: int32(m.surge()), Start: int32(m.Start),
			Revision: current},
	}
}

// admit is the webhook for a pod that is created. It returns why it is refused.
func (s *simulation) admit(m *managed, p *pod, object *v1.Pod, ordinal int32) (refusal string) {
	w := m.spread
	if !w.selector.Matches(labels.Set(object.Labels)) {
		return ""
	}
	request := workloadspread.NewPod{ID: object.Name, Revision: workloadspread.RevisionOf(object), Ordinal: ordinal}
	var err error
	if request.Room, err = s.room(m, p.set); err != nil {
		return err.Error()
	}
	state := w.state(s, m)
	state.Counted = !w.left
	a := workloadspread.Admit(state, request)
	if a.Recount {
		in, _ := s.observed(m)
		w.status, _ = workloadspread.Recount(state, w.object.Name, request.Revision, in.Pods) // each pod is there at once
		w.left, state.Status, state.Counted = false, w.status, true
		a = workloadspread.Admit(state, request)
	}
	if a.Refused {
		return a.Message
	}
	with, err := w.inject(p.set, a.Subset)
	if err != nil {
		return err.Error()
	}
	if a.Changed {
		w.status = a.Status
		w.fold()
	}
	name := object.Name
	*object = *with
	object.Name = name
	p.assigned = w.assign(s, object, a.Subset)
	if a.Cost != 0 {
		p.assigned.cost = &a.Cost
	}
	return s.occupy(a.Subset, with)
}

// inject is the pod of a revision with the rules of a subset. All of them share it.
func (w *spreading) inject(set *revision, subset int) (*v1.Pod, error) {
	key := injectionKey{set, subset}
	if with := w.injected[key]; with != nil {
		return with, nil
	}
	a := workloadspread.Assignment{Name: w.object.Name}
	var rules *v1alpha1.WorkloadSubset
	if subset >= 0 {
		rules = &w.object.Spec.Subsets[subset]
		a.Subset = rules.Name
	}
	// The image of a pod in short form does not matter: it stands for any.
	pod := set.Pod.DeepCopy()
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Image == "" {
			pod.Spec.Containers[i].Image = "any"
		}
	}
	with, err := workloadspread.Inject(pod, rules, a, labels.Everything())
	if err == nil {
		w.injected[key] = with
	}
	return with, err
}

func (w *spreading) assign(s *simulation, object *v1.Pod, subset int) *assignment {
	a := &assignment{text: object.Annotations[workloadspread.AnnotationSpread], uid: s.uid(object)}
	if subset >= 0 {
		a.subset = w.object.Spec.Subsets[subset].Name
	}
	return a
}

// uid is an identifier of a pod, which differs from that of earlier pods of its name.
func (s *simulation) uid(object *v1.Pod) types.UID {
	if object.UID != "" {
		return object.UID
	}
	return types.UID(object.Namespace + "/" + object.Name + "/" + strconv.Itoa(len(s.history.pods)))
}

// fold counts pods that were admitted as created once there are many: nothing is late here, and every
// further admission would copy all of them.
func (w *spreading) fold() {
	const many = 64
	if w.unfolded++; w.unfolded < many {
		return
	}
	w.unfolded = 0
	status := w.status.DeepCopy()
	for _, row := range status.VersionedSubsetStatuses {
		for i := range row {
			c := &row[i]
			c.Replicas += int32(len(c.CreatingPods))
			c.CreatingPods = nil
		}
	}
	w.status = status
}

// decide is the controller of a WorkloadSpread. It reports whether there is something to do for the
// controller of the workload or for the scheduler.
func (s *simulation) decide(m *managed) bool {
	w := m.spread
	if w == nil || !m.decideDue && (w.next.IsZero() || s.clock.Now().Before(w.next)) {
		return false
	}
	m.decideDue = false
	in, of := s.observed(m)
	d := workloadspread.Decide(in)
	before := w.status
	w.status, w.next, w.unfolded, w.left = d.Status, d.Next, 0, false
	for _, a := range d.Assign {
		p := of[a.Pod]
		p.assigned = &assignment{subset: a.Subset, text: a.Annotations[workloadspread.AnnotationSpread], uid: s.uid(p.object)}
		p.life.report.Subset = a.Subset
	}
	for _, c := range d.Costs {
		p := of[c.Pod]
		if p.assigned == nil {
			p.assigned = &assignment{uid: s.uid(p.object)}
		}
		p.assigned.cost = &c.Cost
	}
	s.narrateMarks(m, before)
	return s.moveOn(m, d, of) || m.refused > 0 && s.mayRetry(m, before)
}

// observed is what the controller of a WorkloadSpread decides upon, and of which pods it is made.
func (s *simulation) observed(m *managed) (in workloadspread.Input, of map[*v1.Pod]*pod) {
	w := m.spread
	in = workloadspread.Input{Name: w.object.Name, State: w.state(s, m), Autoscaler: map[types.UID]workloadspread.ScaleUp{}}
	of = map[*v1.Pod]*pod{}
	for _, p := range s.cluster.pods {
		if p.owner != m || !p.managed() || p.object.DeletionTimestamp != nil || !w.selector.Matches(labels.Set(p.object.Labels)) {
			continue
		}
		if p.assigned != nil && !p.assigned.scaleUp.Since.IsZero() && p.node == nil {
			in.Autoscaler[p.assigned.uid] = p.assigned.scaleUp
		}
		seen := s.seen(p)
		of[seen] = p
		if p.assigned == nil && p.node != nil {
			if in.Nodes == nil {
				in.Nodes = map[string]*v1.Node{}
			}
			in.Nodes[p.node.object.Name] = p.node.object
		}
		in.Pods = append(in.Pods, seen)
	}
	return in, of
}

// mayRetry lets the controller of the workload try again to create pods if a mark has changed.
func (s *simulation) mayRetry(m *managed, before *v1alpha1.WorkloadSpreadStatus) bool {
	m.syncDue = m.syncDue || !maps.Equal(marks(before), marks(m.spread.status))
	return m.syncDue
}

// marks are until when new pods pass over subsets.
func marks(status *v1alpha1.WorkloadSpreadStatus) map[string]time.Time {
	out := map[string]time.Time{}
	for _, subset := range status.SubsetStatuses {
		if subset.UnschedulableUntil != nil {
			out[subset.Name] = subset.UnschedulableUntil.Time
		}
	}
	return out
}

// moveOn deletes pods that cannot be scheduled.
func (s *simulation) moveOn(m *managed, d workloadspread.Decision, of map[*v1.Pod]*pod) bool {
	var gone []*pod
	for _, deletion := range d.Delete {
		gone = append(gone, of[deletion.Pod])
	}
	m.spread.rescheduled += len(gone)
	s.remove(m, gone)
	s.narrateMove(m, gone, workloadspread.ReasonRescheduled, "could not be scheduled and is deleted", "could not be scheduled and are deleted")
	if len(gone) == 0 {
		return false
	}
	s.agenda.roundDue, s.agenda.bindDue, m.decideDue = true, true, true
	return true
}

// seen is a pod as the API server shows it.
func (s *simulation) seen(p *pod) *v1.Pod {
	a := p.assigned
	ready := p.node != nil && template.IsReady(p.node.object)
	from := seenFrom{object: p.object, node: p.node, ready: ready}
	if a != nil {
		if a.cost != nil {
			from.cost, from.costs = *a.cost, true
		}
		if a.seen != nil && a.from == from {
			return a.seen
		}
	}
	v := *p.object
	v.UID, v.Spec.NodeName = s.uid(p.object), ""
	v.CreationTimestamp = metav1.NewTime(epoch.Add(p.life.report.Arrived.Duration).Truncate(time.Second))
	if !p.object.CreationTimestamp.IsZero() {
		v.CreationTimestamp = p.object.CreationTimestamp
	}
	v.Status = v1.PodStatus{Phase: v1.PodPending}
	switch {
	case p.node != nil:
		v.Spec.NodeName = p.node.object.Name
		c := v1.PodCondition{Type: v1.PodReady, Status: map[bool]v1.ConditionStatus{true: v1.ConditionTrue, false: v1.ConditionFalse}[ready]}
		if n := len(p.life.report.Runs); n > 0 {
			c.LastTransitionTime = metav1.NewTime(epoch.Add(p.life.report.Runs[n-1].From.Duration))
		}
		v.Status = v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{c}}
	case p.mayBeBound():
		v.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable,
			LastTransitionTime: metav1.NewTime(epoch.Add(p.life.pending)),
		}}
	}
	if a != nil {
		v.UID = a.uid
		v.Annotations = maps.Clone(p.object.Annotations)
		if a.text != "" {
			metav1.SetMetaDataAnnotation(&v.ObjectMeta, workloadspread.AnnotationSpread, a.text)
		}
		if a.cost != nil {
			metav1.SetMetaDataAnnotation(&v.ObjectMeta, workloadspread.AnnotationCost, strconv.Itoa(int(*a.cost)))
		}
		a.seen, a.from = &v, from
	}
	return &v
}

// noteBound lets the controllers of pods look that have got a node, and reports those that had waited
// for the autoscaler.
func (s *simulation) noteBound(bound []*pod) {
	for _, m := range s.controllers.managed {
		var own, waited []*pod
		for _, p := range bound {
			if p.owner == m {
				own = append(own, p)
				if m.spread != nil && m.spread.hasWaited(p, s.elapsed()) {
					waited = append(waited, p)
				}
			}
		}
		if len(own) > 0 {
			m.syncDue, m.decideDue = true, true
		}
		if len(waited) > 0 {
			m.spread.waited += len(waited)
			s.narrateMove(m, waited, "Waited", "was kept until its node was ready", "were kept until their nodes were ready")
		}
	}
}

// hasWaited reports whether a pod was kept longer than the critical time because a node was on its
// way.
func (w *spreading) hasWaited(p *pod, now time.Duration) bool {
	a := w.object.Spec.ScheduleStrategy.Adaptive
	if w.object.Spec.ScheduleStrategy.Type != v1alpha1.ScheduleAdaptive || a == nil || a.RescheduleCriticalSeconds == nil ||
		*a.RescheduleCriticalSeconds == 0 {
		return false
	}
	if p.assigned == nil || !p.assigned.scaleUp.Acting || len(p.life.report.Runs) == 0 {
		return false
	}
	return now-p.life.pending > time.Duration(*a.RescheduleCriticalSeconds)*time.Second && p.assigned.subset != w.names()[len(w.names())-1]
}

// noteScaleUp notes for each pod what the autoscaler does about it.
func (s *simulation) noteScaleUp(r *autoscaler.ScaleUp, pending []*pod) {
	if len(s.controllers.managed) == 0 {
		return
	}
	refused := r.Grew() == 0
	for _, outcome := range r.Decision.Pods {
		acting := outcome.Outcome == autoscaler.PodsHelped && !refused || outcome.Outcome == autoscaler.PodsAwaitNodes
		if !acting && outcome.Outcome != autoscaler.PodsUnhelped && outcome.Outcome != autoscaler.PodsHelped {
			continue
		}
		for _, at := range outcome.Pods {
			if a := pending[at].assigned; a != nil && (a.scaleUp.Since.IsZero() || a.scaleUp.Acting != acting) {
				a.scaleUp = workloadspread.ScaleUp{Acting: acting, Since: r.Survey.Now}
			}
		}
	}
	for _, m := range s.controllers.managed {
		if m.spread != nil && m.spread.object.Spec.ScheduleStrategy.Type == v1alpha1.ScheduleAdaptive {
			m.decideDue = true
		}
		m.syncDue = m.syncDue || m.refused > 0
	}
}
