package simulate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaledown"
	"github.com/evenkeel/evenkeel/scaleup"
)

// planner decides in a run without a Mode: the pipeline of packages scaleup and scaledown.
type planner struct {
	s       *simulation
	scaler  *scaleup.Scaler
	remover *scaledown.Scaler // nil: nodes are never removed
}

func newPlanner(s *simulation) (*planner, error) {
	p := &planner{s: s}
	o := &s.setup.Options
	scaler, err := scaleup.New(s.cloud, s.checker, scaleup.Options{
		SequentialResize: true, // the same file gives the same bytes
		DisableBalancing: o.DisableBalancing, DisableSpreadSplit: o.DisableSpreadSplit, Similarity: o.Similarity, Expander: o.Expander,
		Limits: limitsOf(&o.Limits), Backoff: o.Backoff, ZonalShift: o.ZonalShift, MaxNodeProvisionTime: o.MaxNodeProvisionTime,
		StartupTaints: o.StartupTaints, StartupTimes: startupTimes(s.setup.Cloud.Groups), NodeNames: s.cloud.NodeNames, Progress: s.progress.step,
	})
	if err != nil {
		return nil, err
	}
	p.scaler = scaler
	if down := s.setup.ScaleDown; down != nil {
		p.remover, err = scaledown.New(s.cloud, s.checker, scaledown.Options{
			DisableBalancing: o.DisableBalancing, Similarity: o.Similarity, MaxBalanceDeferral: o.MaxBalanceDeferral,
			UnneededTime: down.UnneededTime, UnreadyTime: down.UnreadyTime, UtilizationThreshold: down.UtilizationThreshold,
			DelayAfterAdd: down.DelayAfterAdd, MaxParallelism: down.MaxParallelism, MaxDrainParallelism: down.MaxDrainParallelism,
			AllowSystemPods: down.AllowSystemPods, AllowLocalStorage: down.AllowLocalStorage, AllowCustomControllers: down.AllowCustomControllers,
			Seed: down.Seed,
		})
	}
	return p, err
}

// limitsOf are the limits as package scaleup has them.
func limitsOf(l *Limits) scaleup.Limits {
	out := scaleup.Limits{
		MaxNodesPerScaleUp: l.MaxNodesPerScaleUp, MaxNodesTotal: l.MaxNodesTotal, MaxCoresTotal: l.MaxCoresTotal, MaxMemoryTotal: l.MaxMemoryTotal,
	}
	for _, q := range l.Quotas {
		out.Quotas = append(out.Quotas, pipelineQuota(q))
	}
	return out
}

func pipelineQuota(q v1alpha1.ScenarioQuota) scaleup.Quota {
	out := scaleup.Quota{Name: q.Name, Groups: q.Groups, Zones: q.Zones}
	if q.Nodes != nil {
		out.Nodes = *q.Nodes
	}
	if q.Cores != nil {
		out.MilliCPU = min(*q.Cores, maxCores) * 1000
	}
	if q.Memory != nil {
		out.Memory = q.Memory.Value()
	}
	return out
}

// maxCores are as many as fit an int64 in thousandths.
const maxCores = int64(1<<63-1) / 1000

// startupTimes are what the groups' nodes take from their order until they register and until pods
// run on them. A second stands for none at all, which would mean that it is not known.
func startupTimes(groups []fake.Group) map[string]scaleup.StartupTime {
	times := make(map[string]scaleup.StartupTime, len(groups))
	for _, g := range groups {
		registered := g.BootTime + g.RegistrationDelay
		times[g.ID] = scaleup.StartupTime{Registered: registered, Ready: max(time.Second, registered+g.ReadyDelay)}
	}
	return times
}

// cluster is what the planner sees.
func (p *planner) cluster(pending []*pod) scaleup.Cluster {
	return scaleup.Cluster{Nodes: p.s.cluster.seen(), Pending: objectsOf(pending), DaemonSets: p.s.setup.DaemonSets, Shifts: p.s.setup.Shifts}
}

// loop plans and executes once.
func (p *planner) loop(ctx context.Context, pending []*pod) (report autoscaler.Report, wakeups []time.Time, err, downErr error) {
	r, err := p.scaler.Round(ctx, p.s.clock.Now(), p.cluster(pending))
	if err != nil {
		return report, nil, err, nil
	}
	up := autoscaler.ScaleUp{Survey: surveyOf(r.World), Decision: decisionOf(&r.Decision)}
	for _, repair := range r.Repairs {
		up.Repairs = append(up.Repairs, autoscaler.Repair(repair))
	}
	for _, a := range r.Attempts {
		up.Attempts = append(up.Attempts, autoscaler.Attempt(a))
	}
	report.ScaleUps = []autoscaler.ScaleUp{up}
	if p.remover != nil {
		report.ScaleDown, downErr = p.scaleDown(ctx, &r)
	}
	return report, p.wakeupsAfter(&r), nil, downErr
}

// scaleDown follows a scale-up.
func (p *planner) scaleDown(ctx context.Context, up *scaleup.Round) (*autoscaler.ScaleDown, error) {
	p.s.progress.step(predicates.Step{Doing: "looking for unneeded nodes"})
	down, err := p.remover.Round(ctx, up)
	if err != nil {
		return nil, fmt.Errorf("scale-down: %w", err)
	}
	out := &autoscaler.ScaleDown{Survey: surveyOf(up.World), Decision: removal.Decision{Go: down.Decision.Go, Next: down.Decision.Next}}
	for i := range down.World.Groups {
		g := &down.World.Groups[i]
		out.Survey.Groups[i].Target = g.Target
	}
	for _, o := range down.Decision.Nodes {
		out.Decision.Nodes = append(out.Decision.Nodes, removal.NodeOutcome{
			Node: o.Node, Group: o.Group, Set: o.Set, Outcome: removal.Outcome(o.Outcome), Reason: o.Reason, Pod: o.Pod, Drain: o.Drain,
			Behind: o.Behind, UnneededSince: o.UnneededSince,
		})
	}
	for _, a := range down.Attempts {
		out.Attempts = append(out.Attempts, autoscaler.Deletion{Group: a.Group, Nodes: a.Nodes, Shrank: a.Shrank, Err: a.Err})
	}
	for _, name := range down.Gone() {
		p.s.retire(p.s.cluster.byName[name])
	}
	return out, nil
}

// wakeupsAfter returns the instants at which the decision of a round may change without an event: a
// backoff ends, an instance is given up.
func (p *planner) wakeupsAfter(r *scaleup.Round) []time.Time {
	var at []time.Time
	patience := cmp.Or(p.s.setup.Options.MaxNodeProvisionTime, cloudprovider.DefaultMaxNodeProvisionTime)
	if !r.World.Shift.Next.IsZero() {
		at = append(at, r.World.Shift.Next)
	}
	for _, g := range r.World.Groups {
		if !g.BackedOffUntil.IsZero() && len(r.World.Pending) > 0 {
			at = append(at, g.BackedOffUntil)
		}
		if g.Upcoming > 0 {
			at = append(at, r.World.Now.Add(patience))
		}
		for _, o := range g.Orders {
			if g.StartupDeadline > 0 {
				at = append(at, o.At.Add(g.StartupDeadline))
			}
		}
	}
	return at
}

// survey is what a loop would see.
func (p *planner) survey(ctx context.Context) (*autoscaler.Survey, error) {
	world, err := p.scaler.Survey(ctx, p.s.clock.Now(), p.cluster(p.s.cluster.helped()))
	if err != nil {
		return nil, err
	}
	return surveyOf(world), nil
}

func surveyOf(w *scaleup.World) *autoscaler.Survey {
	out := &autoscaler.Survey{Now: w.Now, Pending: w.Pending, Shift: w.Shift}
	for i := range w.Groups {
		g := &w.Groups[i]
		out.Groups = append(out.Groups, autoscaler.Group{
			ID: g.ID, Zone: g.Zone, Min: g.Min, Max: g.Max, Target: g.Target, Ready: g.Ready, NotStarted: g.NotStarted, Unready: g.Unready,
			Upcoming: g.Upcoming, Template: g.Template, TemplateFrom: g.TemplateFrom, Price: g.Price, HasPrice: g.HasPrice,
			AllOrNothing: g.AllOrNothing, BackedOffUntil: g.BackedOffUntil, BackoffReason: g.BackoffReason, Err: g.Err, Away: g.Away,
		})
	}
	return out
}

func decisionOf(d *scaleup.Decision) autoscaler.Decision {
	out := autoscaler.Decision{Trail: d.Trail, Chosen: d.Chosen, Members: d.Members, Need: d.Need, Unplaced: d.Unplaced, Warnings: d.Warnings}
	for _, i := range d.Increases {
		out.Increases = append(out.Increases, autoscaler.Increase(i))
	}
	for _, g := range d.Groups {
		out.Groups = append(out.Groups, autoscaler.GroupOutcome{
			Group: g.Group, Outcome: autoscaler.Outcome(g.Outcome), Reason: g.Reason, DiffersFrom: g.DiffersFrom, Differences: g.Differences,
		})
	}
	for i := range d.Pods {
		p := &d.Pods[i]
		row := autoscaler.PodOutcome{Example: p.Example, Count: p.Count, Outcome: autoscaler.Outcome(p.Outcome), Reason: p.Reason, Pods: p.Pods}
		for _, r := range p.Rejections {
			row.Rejections = append(row.Rejections, autoscaler.Rejection(r))
		}
		out.Pods = append(out.Pods, row)
	}
	return out
}
