package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// managed is the controller of a workload. The pods of one that has rollouts or a WorkloadSpread are
// created and deleted one by one, whereas those of plain ones only change in number and get their old
// place in the queue when they lose their node.
type managed struct {
	*Workload
	plain     bool
	at        int // index in Setup.Workloads
	replicas  int // that it is to have
	sets      []*revision
	nextStep  int
	nextRoll  int
	lastName  int        // the number in the name of the youngest pod, if it is of no StatefulSet
	spread    *spreading // nil: none
	syncDue   bool       // something changed for the controller of the workload
	decideDue bool       // something changed for the WorkloadSpread
	refused   int        // pods that could not be created
	refusal   string     // why
}

// revision is a revision of a workload: a ReplicaSet, for a Deployment.
type revision struct {
	Revision
	size int
}

func newManaged(at int, w *Workload, plain bool) *managed {
	m := &managed{Workload: w, plain: plain, at: at, syncDue: true}
	for _, r := range w.Revisions {
		m.sets = append(m.sets, &revision{Revision: r, size: r.Replicas})
	}
	if len(m.sets) > 0 {
		m.replicas = w.Steps[0].Replicas
	} else {
		first := Revision{Pod: w.Pod}
		if len(w.Rollouts) > 0 {
			first = w.numbered(1)
		}
		m.sets = append(m.sets, &revision{Revision: first})
	}
	return m
}

const hashLabel = "pod-template-hash"

// numbered is a revision of a workload of the scenario. They differ in their number only.
func (w *Workload) numbered(n int) Revision {
	pod := w.Pod.DeepCopy()
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[hashLabel] = fmt.Sprint(n)
	return Revision{Hash: pod.Labels[hashLabel], Pod: pod}
}

func (m *managed) current() *revision { return m.sets[len(m.sets)-1] }

func (m *managed) total() (n int) {
	for _, set := range m.sets {
		n += set.size
	}
	return n
}

// surge and unavailable are by how many pods a rollout may exceed the replicas, and fall below them.
// They are those of a Deployment, 25 % by default, and not both 0.
func (m *managed) surge() int { return m.part(m.MaxSurge, m.replicas, true) }

func (m *managed) unavailable() int {
	n := m.part(m.MaxUnavailable, m.replicas, false)
	if n == 0 && m.surge() == 0 {
		return 1
	}
	return min(n, m.replicas)
}

func (m *managed) part(of *intstr.IntOrString, replicas int, up bool) int {
	if m.Kind != v1alpha1.WorkloadDeployment {
		return 0
	}
	value := intstr.FromString("25%")
	if of != nil {
		value = *of
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, replicas, up)
	if err != nil {
		return 0 // refused when the scenario was checked
	}
	return n
}

// scale changes the replicas. A Deployment in the middle of a rollout shares the change among its
// revisions in proportion to their sizes.
func (m *managed) scale(replicas int) {
	if replicas == m.replicas {
		return
	}
	before := m.replicas + m.surge()
	m.replicas, m.syncDue = replicas, true
	active, _ := partition(m.sets, func(set *revision) bool { return set.size > 0 })
	switch len(active) {
	case 0:
		m.current().size = replicas
		return
	case 1:
		active[0].size = replicas
		return
	}
	allowed := 0
	if replicas > 0 {
		allowed = replicas + m.surge()
	}
	change, added := allowed-m.total(), 0
	slices.Reverse(active) // the newest first
	if change < 0 {
		slices.Reverse(active)
	}
	slices.SortStableFunc(active, func(a, b *revision) int { return b.size - a.size })
	for _, set := range active {
		part := int(math.Round(float64(set.size)*float64(allowed)/float64(max(before, 1)))) - set.size
		if change > 0 {
			part = min(part, change-added)
		} else {
			part = max(part, change-added)
		}
		set.size += part
		added += part
	}
	active[0].size = max(0, active[0].size+change-added)
}

// roll takes the next step of a rollout, as the controller of Deployments does: new pods within the
// surge, then old ones that do not run, then as many others as are not needed to have enough that run.
// It reports whether a size has changed.
func (m *managed) roll(own map[*revision][]*pod, available map[*revision]int) bool {
	newest := m.current()
	if newest.size > m.replicas {
		newest.size = m.replicas
		return true
	}
	if room := m.replicas + m.surge() - m.total(); newest.size < m.replicas && room > 0 {
		newest.size += min(room, m.replicas-newest.size)
		return true
	}
	least := m.replicas - m.unavailable()
	mayGo := m.total() - least - (newest.size - available[newest])
	running := 0
	for _, set := range m.sets {
		running += available[set]
	}
	old, changed := m.sets[:len(m.sets)-1], false
	shrink := func(most int, from func(*revision) int) (left int) {
		for _, set := range old {
			n := max(0, min(most, from(set)))
			set.size -= n
			most -= n
			changed = changed || n > 0
		}
		return most
	}
	mayGo = shrink(mayGo, func(set *revision) int { return set.size - available[set] })
	shrink(min(running-least, mayGo), func(set *revision) int { return set.size })
	m.sets = append(slices.DeleteFunc(old, func(set *revision) bool { return set.size == 0 && len(own[set]) == 0 }), newest)
	return changed
}

// manage carries out what managed workloads do at this instant, as long as something changes.
func (s *simulation) manage() error {
	s.collectOrphans()
	const most = 10_000 // rounds of the controllers within one instant
	for range most {
		changed := false
		for _, m := range s.controllers.managed {
			if m.syncDue {
				changed = s.sync(m) || changed
			}
		}
		if err := s.bindPods(); err != nil {
			return err
		}
		changed = s.collectOrphans() || s.agenda.bindDue || changed
		for _, m := range s.controllers.managed {
			changed = s.decide(m) || changed
		}
		if !changed {
			return nil
		}
	}
	return fmt.Errorf("the workloads do not come to rest at +%s", s.elapsed())
}

// sync creates and deletes pods until every revision has its size. It reports whether there is more to
// do once the scheduler has looked.
func (s *simulation) sync(m *managed) bool {
	m.syncDue, m.decideDue, m.refused, m.refusal = false, true, 0, ""
	own, available := s.podsOf(m)
	if m.Kind == v1alpha1.WorkloadDeployment && m.roll(own, available) {
		m.syncDue = true
	}
	var created, gone []*pod
	s.cluster.queue = slices.Clip(s.cluster.queue) // others may have the list
	s.controllers.rooms = nil
	for _, set := range m.sets {
		missing := set.size - len(own[set])
		if m.isStatefulSet() {
			created = append(created, s.createOrdinals(m, set, own[set])...)
			missing = min(missing, 0)
		}
		for ; missing > 0; missing-- {
			p := s.create(m, set, m.lastName+1)
			if p == nil {
				m.refused = missing
				break
			}
			m.lastName++
			created = append(created, p)
		}
		if missing < 0 {
			gone = append(gone, m.firstOf(own, set, -missing, s)...)
		}
	}
	s.controllers.rooms = nil
	s.remove(m, gone)
	s.narratePods(m, created, gone)
	if len(created)+len(gone) > 0 {
		s.agenda.roundDue, s.agenda.bindDue = true, true
	}
	return len(created)+len(gone) > 0 || m.syncDue
}

// podsOf are the pods of each revision, and how many of them run on a ready node. Those that are being
// deleted do not count.
func (s *simulation) podsOf(m *managed) (own map[*revision][]*pod, available map[*revision]int) {
	own, available = map[*revision][]*pod{}, map[*revision]int{}
	for _, p := range s.cluster.pods {
		if p.owner != m || p.object.DeletionTimestamp != nil {
			continue
		}
		own[p.set] = append(own[p.set], p)
		if p.node != nil && template.IsReady(p.node.object) {
			available[p.set]++
		}
	}
	return own, available
}

// firstOf are the pods of a revision that are deleted first. Pods of all revisions count when those
// that share a node are counted.
func (m *managed) firstOf(own map[*revision][]*pod, set *revision, n int, s *simulation) []*pod {
	var related []*pod
	switch m.Kind {
	case v1alpha1.WorkloadStatefulSet: // its youngest, which have the highest numbers
		youngest := slices.Clone(own[set])
		slices.Reverse(youngest)
		return youngest[:n]
	case v1alpha1.WorkloadJob:
	default:
		for _, other := range m.sets {
			related = append(related, own[other]...)
		}
	}
	return rankAmong(own[set], related, s.history.now())[:n]
}

// createOrdinals creates the pods of a stateful set that are missing, and sorts those that it has.
func (s *simulation) createOrdinals(m *managed, set *revision, own []*pod) []*pod {
	has := map[int32]bool{}
	for _, p := range own {
		has[workloadspread.OrdinalOf(p.object.Name)] = true
	}
	slices.SortStableFunc(own, func(a, b *pod) int {
		return int(workloadspread.OrdinalOf(a.object.Name)) - int(workloadspread.OrdinalOf(b.object.Name))
	})
	var created []*pod
	for n := m.Start; n < m.Start+set.size; n++ {
		if has[int32(n)] {
			continue
		}
		p := s.create(m, set, n)
		if p == nil {
			m.refused++
			continue
		}
		created = append(created, p)
	}
	return created
}

// create creates a pod of a revision; nil if it is refused.
func (s *simulation) create(m *managed, set *revision, number int) *pod {
	object := *set.Pod
	object.Name = m.podName(number)
	if m.plain {
		object.CreationTimestamp = metav1.Time{Time: s.clock.Now()}
	}
	p := &pod{owner: m, set: set}
	if m.spread != nil {
		if m.refusal = s.admit(m, p, &object, int32(number)); m.refusal != "" {
			return nil
		}
	}
	m.withClaims(&object)
	p.object = &object
	s.cluster.add(p)
	return p
}

func (s *simulation) remove(m *managed, pods []*pod) {
	if len(pods) == 0 {
		return
	}
	s.cluster.remove(pods)
	m.syncDue, m.decideDue = true, true
	if m.spread != nil {
		m.spread.left = true
	}
}

// collectOrphans deletes the pods of managed workloads that have lost their node, and reports whether
// there were some.
func (s *simulation) collectOrphans() bool {
	orphans := s.cluster.orphans
	s.cluster.orphans = nil
	for _, m := range s.controllers.managed {
		own, _ := partition(orphans, func(p *pod) bool { return p.owner == m })
		s.remove(m, own)
		if len(own) > 0 {
			s.agenda.roundDue, s.agenda.bindDue = true, true
		}
	}
	return len(orphans) > 0
}

// awaited are the next step and rollout, and when the WorkloadSpread decides again.
func (m *managed) awaited(now time.Time, consider func(time.Time)) {
	if m.nextStep < len(m.Steps) {
		consider(epoch.Add(m.Steps[m.nextStep].At))
	}
	if m.nextRoll < len(m.Rollouts) {
		consider(epoch.Add(m.Rollouts[m.nextRoll]))
	}
	if m.spread != nil && m.spread.next.After(now) {
		consider(m.spread.next)
	}
}

// begin carries out the steps of a workload that are due.
func (s *simulation) begin(m *managed) {
	for m.nextRoll < len(m.Rollouts) && m.Rollouts[m.nextRoll] <= s.elapsed() {
		m.nextRoll++
		m.sets = append(m.sets, &revision{Revision: m.numbered(m.nextRoll + 1)})
		m.syncDue = true
		s.timeline.add(s.elapsed(), v1alpha1.RowRollout, "revision %d of %s begins", m.nextRoll+1, m.label()).Workload = m.key()
	}
	for m.nextStep < len(m.Steps) && m.Steps[m.nextStep].At <= s.elapsed() {
		m.scale(m.Steps[m.nextStep].Replicas)
		m.nextStep++
		if m.plain {
			s.sync(m)
		}
	}
}

// narratePods adds rows about pods that came, went, and could not be created.
func (s *simulation) narratePods(m *managed, created, gone []*pod) {
	pending := len(s.cluster.waiting())
	s.tell(m, gone, v1alpha1.RowPods, v1alpha1.PodsLeft, "left").Pending = &pending
	s.tell(m, created, v1alpha1.RowPods, v1alpha1.PodsArrived, "arrived").Pending = &pending
	if m.refused > 0 {
		row := s.timeline.once(s.elapsed(), v1alpha1.RowPods, fmt.Sprintf("%s of %s refused: %s", spelling.Count(m.refused, "pod"), m.label(),
			m.refusal))
		row.Reason, row.Workload, row.Pods = v1alpha1.PodsRefused, m.key(), m.refused
	}
}

// tell adds a row about what pods of a workload do, if there are any; otherwise it returns one that is
// discarded.
func (s *simulation) tell(m *managed, pods []*pod, what, reason, text string) *v1alpha1.TimelineRow {
	if len(pods) == 0 {
		return &v1alpha1.TimelineRow{}
	}
	subsets, in := m.bySubset(pods)
	row := s.timeline.add(s.elapsed(), what, "%s of %s %s%s", spelling.Count(len(pods), "pod"), m.label(), text, in)
	row.Reason, row.Workload, row.Pods, row.Subsets = reason, m.key(), len(pods), subsets
	return row
}

func (m *managed) bySubset(pods []*pod) ([]v1alpha1.SubsetPods, string) {
	if m.spread == nil {
		return nil, ""
	}
	counts := map[string]int{}
	for _, p := range pods {
		counts[p.subset()]++
	}
	var rows []v1alpha1.SubsetPods
	var parts []string
	for _, subset := range append(m.spread.names(), "") {
		if n := counts[subset]; n > 0 {
			rows = append(rows, v1alpha1.SubsetPods{Name: subset, Pods: n})
			parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(subset, "no subset"), n))
		}
	}
	return rows, " (" + strings.Join(parts, ", ") + ")"
}
