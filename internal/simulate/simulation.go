package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/predicates"
)

// loopTime is what a loop of Cluster Autoscaler takes that orders nodes: mostly the cloud's answers.
const loopTime = time.Second

// Run plays a scenario from beginning to end and reports. It calls progress at every instant at which
// something happens, and from time to time in between; progress may be nil, and must return quickly. It returns an error if the setup is
// invalid; failures in the simulated cloud are not errors but part of the report. If ctx is done,
// Run ends within a round and returns its error with the report of what has happened so far.
func Run(ctx context.Context, setup *Setup, progress func(Progress)) (*v1alpha1.ScenarioReport, error) {
	s, err := newSimulation(ctx, setup)
	if err != nil {
		return nil, err
	}
	s.progress.report = progress
	for {
		if ctx.Err() != nil {
			return s.interrupted(ctx)
		}
		s.progress.moment(s)
		if err := s.step(ctx); ctx.Err() != nil {
			return s.interrupted(ctx)
		} else if err != nil {
			return nil, fmt.Errorf("scenario %s at +%s: %w", setup.Name, s.elapsed(), err)
		}
		if !s.jump(s.end()) {
			return s.report(ctx)
		}
	}
}

// simulation is the state of a run.
type simulation struct {
	setup       *Setup
	clock       *virtualClock
	cloud       *fake.Cloud
	model       *model
	checker     *predicates.Checker
	cluster     *cluster
	controllers controllers
	agenda      agenda
	last        lastRound
	faults      faults
	groupOf     map[string]string // group of the nodes given in the setup, by name
	moved       map[string]int    // pods evicted by scale-down, by node, until this is gone

	timeline  timeline
	groups    groupRecords
	history   *history
	rounds    int
	calls     int                      // that the autoscaler made to the cloud
	leftAlone []v1alpha1.PendingReport // reported so far
	story     podStory
	progress  *progress
}

// controllers are the programs of a run beside the autoscaler, with what they work on.
type controllers struct {
	binder      *predicates.Scheduler
	preemptor   *predicates.Preemptor
	daemons     *daemonController
	volumes     *volumeController
	workloads   []*managed // those that are not plain first
	managed     []*managed // these
	terminating []*pod     // that were being deleted at the start
	requests    []*request
	rooms       *rooms // while pods are created
}

// agenda is what is due, and when.
type agenda struct {
	roundDue bool // something happened that a round has not seen yet
	bindDue  bool // the scheduler may be able to bind more than before
	nextScan time.Time
	wakeups  []time.Time // when a round may decide otherwise without any event
	settled  bool        // nothing is due any more
}

// lastRound is what the last round saw and did.
type lastRound struct {
	scaleUp   *autoscaler.ScaleUp // the last one that did not fail
	pending   []*pod              // its pending pods
	scaleDown *removal.Decision
	err       error
}

// interrupted reports the state of an interrupted run, without checking expectations.
func (s *simulation) interrupted(ctx context.Context) (*v1alpha1.ScenarioReport, error) {
	r, err := s.report(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	r.Status.Interrupted, r.Status.Expectations, r.Status.Holds = true, nil, false
	return r, context.Cause(ctx)
}

func newSimulation(ctx context.Context, setup *Setup) (*simulation, error) {
	clock := newClock()
	cloud, err := fake.New(setup.Cloud, clock)
	if err != nil {
		return nil, err
	}
	progress := new(progress)
	checker, err := predicates.New(ctx, predicates.Options{
		Configuration: setup.SchedulerConfig, Objects: append(setup.controllers(), setup.Storage...), Done: ctx.Done(), Progress: progress.step,
	})
	if err != nil {
		return nil, err
	}
	faults := newFaults(&setup.Cloud, setup.Shifts)
	history := newHistory(clock, faults.vanishes)
	s := &simulation{
		setup: setup, clock: clock, cloud: cloud, checker: checker,
		cluster: newCluster(history),
		controllers: controllers{
			binder: checker.Scheduler(), preemptor: checker.Preemptor(),
			daemons: newDaemonController(checker, setup), volumes: newVolumeController(checker, setup),
		},
		agenda:   agenda{nextScan: clock.Now(), wakeups: shiftEdges(setup.Shifts)},
		faults:   faults,
		groupOf:  map[string]string{},
		moved:    map[string]int{},
		timeline: timeline{added: map[string]bool{}, failed: map[string]*failure{}},
		groups:   groupRecords{},
		history:  history,
		progress: progress,
	}
	s.cluster.budgets = newBudgets(setup.Budgets)
	s.cluster.leftAlone.filter = setup.LeftAlone
	s.cluster.buffers = make([][]*pod, len(setup.Buffers))
	s.beginWorkloads()
	s.beginRequests()
	if err := s.populate(ctx); err != nil {
		return nil, err
	}
	if s.model, err = newModel(s); err != nil {
		return nil, err
	}
	s.observe()
	return s, nil
}

func (s *simulation) elapsed() time.Duration { return s.clock.Since(epoch) }

func (s *simulation) end() time.Time {
	return epoch.Add(cmp.Or(s.setup.Duration, DefaultDuration))
}

// step executes all events of this instant: pods arrive and leave, nodes are added and removed,
// pods are bound, and if a round is due the autoscaler runs.
func (s *simulation) step(ctx context.Context) error {
	if err := s.update(); err != nil {
		return err
	}
	if s.agenda.roundDue && !s.clock.Now().Before(s.agenda.nextScan) {
		s.round(ctx)
	}
	if err := s.manage(); err != nil { // pods of nodes that were just removed
		return err
	}
	s.observe()
	return nil
}

// update executes the events of this instant up to the round.
func (s *simulation) update() error {
	for _, m := range s.controllers.workloads {
		s.begin(m)
	}
	s.deleteTerminated()
	s.reportLeftAlone()
	if err := s.syncNodes(); err != nil {
		return err
	}
	s.evictFromDeadNodes()
	if err := s.manage(); err != nil {
		return err
	}
	s.keepRoom()
	return nil
}

// nextEvent is the next instant at which anything can happen; zero if there is none.
func (s *simulation) nextEvent() time.Time {
	now, next := s.clock.Now(), time.Time{}
	consider := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if s.agenda.roundDue {
		consider(s.agenda.nextScan)
	}
	if at, ok := s.cloud.NextEvent(); ok {
		consider(at)
	}
	future := func(at time.Time) {
		if at.After(now) {
			consider(at)
		}
	}
	s.evictions(future)
	s.bookings(future)
	for _, m := range s.controllers.workloads {
		m.awaited(now, consider)
	}
	for _, p := range s.controllers.terminating {
		consider(epoch.Add(gracePeriod(p.object)))
	}
	for _, at := range s.agenda.wakeups {
		future(at)
	}
	return next
}

// jump advances time to the next instant at which anything can happen. It returns false if there is
// none up to the end.
func (s *simulation) jump(end time.Time) bool {
	now, next := s.clock.Now(), s.nextEvent()
	switch {
	case next.IsZero():
		s.agenda.settled = true
		return false
	case next.After(end):
		s.clock.advance(end)
		return false
	case s.setup.mode() == Sidecar && s.agenda.nextScan.Before(next):
		// The sidecar watches nodes from loop to loop, whether there is anything to do or not.
		next, s.agenda.roundDue = s.agenda.nextScan, true
	}
	wake := func(at time.Time) { s.agenda.roundDue = s.agenda.roundDue || at.After(now) && !at.After(next) }
	for _, at := range s.agenda.wakeups {
		wake(at)
	}
	s.bookings(wake)
	s.clock.advance(next)
	s.alignScan()
	return true
}

// alignScan keeps rounds at multiples of the scan interval over idle times.
func (s *simulation) alignScan() {
	interval := cmp.Or(s.setup.ScanInterval, DefaultScanInterval)
	if late := s.clock.Now().Sub(s.agenda.nextScan); late > 0 {
		s.agenda.nextScan = s.agenda.nextScan.Add((late + interval - 1) / interval * interval)
	}
}

func (w *Workload) key() string { return w.Namespace + "/" + w.Name }

func (w *Workload) label() string {
	if w.Namespace == defaultNamespace {
		return w.Name
	}
	return w.key()
}

// bindPods runs the scheduler if something has changed for it.
func (s *simulation) bindPods() error {
	if !s.agenda.bindDue {
		return nil
	}
	s.agenda.bindDue = false
	if err := s.controllers.volumes.provide(s.cluster.waiting()); err != nil {
		return err
	}
	bound, err := s.schedule()
	if err != nil {
		return err
	}
	if err := s.controllers.volumes.bind(bound); err != nil {
		return err
	}
	s.noteBound(bound)
	if len(bound) > 0 {
		s.agenda.roundDue = true
		pending := len(s.cluster.waiting())
		row := s.timeline.add(s.elapsed(), v1alpha1.RowBound, "%s bound, %d pending", spelling.Count(len(bound), "pod"), pending)
		row.Pods, row.Pending = len(bound), &pending
	}
	return nil
}

// round runs the autoscaler once.
func (s *simulation) round(ctx context.Context) {
	s.rounds++
	s.progress.now.Rounds = s.rounds
	now := s.clock.Now()
	pending := append(s.cluster.helped(), s.requested()...)
	s.cloud.ForgetCalls() // the log would grow forever
	report, err := s.model.loop()
	s.calls += s.cloud.ForgetCalls()
	at := s.elapsed()
	s.clock.catchUp()
	s.agenda.nextScan = later(s.clock.Now(), now.Add(cmp.Or(s.setup.ScanInterval, DefaultScanInterval)))
	if ctx.Err() != nil {
		s.rounds-- // this one has no end
		return
	}
	if s.last.err = err; err == nil {
		s.last.err = report.Err
	}
	if s.last.err != nil {
		s.timeline.roundFailed(at, s.last.err, s.faults.behind(at, s.last.err))
		return
	}
	s.agenda.roundDue, s.agenda.wakeups = false, append(s.model.next(), shiftEdges(s.setup.Shifts)...)
	for i := range report.ScaleUps {
		up := &report.ScaleUps[i]
		s.last.scaleUp, s.last.pending = up, pending
		s.noteScaleUp(up, pending)
		s.narrate(at, up)
		s.tellStory(at, up)
		s.groups.add(up)
		s.agenda.roundDue = s.agenda.roundDue || len(up.Attempts) > 0 || len(up.Repairs) > 0
		if slices.ContainsFunc(up.Attempts, func(a autoscaler.Attempt) bool { return a.Err == nil }) {
			s.agenda.nextScan = later(s.clock.Now(), now.Add(loopTime)) // the next loop follows at once, whatever was granted
		}
	}
	s.book(at, report.ScaleDown)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Moment is what a loop of a run sees.
type Moment struct {
	// Groups are the node groups by name, with the templates that are compared: from nodes, from the
	// cloud, and completed ones.
	Groups []autoscaler.Group
	// Nodes are the registered nodes, each with the pods on it.
	Nodes []predicates.Node
	// Pending are the pods that nodes are ordered for, in order of arrival.
	Pending []*v1.Pod
	// Checker answers for the scheduler.
	Checker *predicates.Checker
}

// See plays a setup and returns what a round at an instant of the run's clock sees, before it orders
// anything; at 0 that is the first round. If nothing more happens before, it is what there is at the
// end.
func See(ctx context.Context, setup *Setup, at time.Duration) (*Moment, error) {
	s, err := newSimulation(ctx, setup)
	if err != nil {
		return nil, err
	}
	end := epoch.Add(min(at, s.end().Sub(epoch)))
	for at > 0 {
		if err := s.step(ctx); err != nil {
			return nil, fmt.Errorf("scenario %s at +%s: %w", setup.Name, s.elapsed(), err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !s.jump(end) || s.clock.Now().Equal(end) {
			break
		}
	}
	if err := s.update(); err != nil {
		return nil, err
	}
	survey, err := s.model.ca.Survey()
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", setup.Name, err)
	}
	return &Moment{Groups: survey.Groups, Nodes: s.cluster.seen(), Pending: survey.Pending, Checker: s.checker}, nil
}
