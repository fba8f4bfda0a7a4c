package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/internal/linked"
)

// Report is what one loop saw, decided and did.
type Report struct {
	// ScaleUps are one but for Options.Salvo. The first is there even if nothing was ordered.
	ScaleUps []ScaleUp
	// ScaleDown is nil where none was considered.
	ScaleDown *ScaleDown
	// Err has ended the loop early, or is why no node group is known; nothing else is said of such a loop then.
	Err error
}

// ScaleUp is one scale-up from beginning to end.
type ScaleUp struct {
	Survey   *Survey
	Repairs  []Repair // before it
	Decision Decision
	Attempts []Attempt
}

// Grew is the number of nodes that were ordered.
func (u *ScaleUp) Grew() int {
	n := 0
	for _, a := range u.Attempts {
		n += a.Grew
	}
	return n
}

// ScaleDown is which nodes go, why others stay, and what the cloud answered.
type ScaleDown struct {
	Survey   *Survey
	Decision removal.Decision
	Attempts []Deletion
	Drains   []Drain
}

// Drain is a node that stays until all its pods are evicted, and why one of them is not.
type Drain struct{ Group, Node, Held string }

// Deletion is one call that deletes nodes of a group, and its result.
type Deletion struct {
	Group string
	Nodes []string
	Drain bool // they had pods to move
	// Shrank is how many nodes the group's target size fell by.
	Shrank int
	Err    error
}

// records collect the Report of the current loop.
type records struct {
	on       bool
	world    *Survey
	position map[*v1.Pod]int // among Survey.Pending
	attempts []*attempt
	repair   []Repair
	down     *ScaleDown
	full     []PodOutcome
	room     map[bool][]int // positions of pods that need no new node; true where it is on its way
}

// survey are the groups as this loop sees them, by name.
func (a *Autoscaler) survey(now time.Time) []Group {
	var out []Group
	for _, g := range a.remote.NodeGroups() {
		out = append(out, a.surveyGroup(g, now))
	}
	slices.SortFunc(out, func(g, h Group) int { return strings.Compare(g.ID, h.ID) })
	return out
}

func (a *Autoscaler) surveyGroup(g *group, now time.Time) Group {
	out := Group{ID: g.ID, Max: g.MaxSize(), Target: a.registry.ranges[g.ID].target}
	out.Upcoming = max(0, a.registry.upcoming(g.ID))
	if t := a.templates[g.ID]; t != nil {
		out.BackedOffUntil, out.BackoffReason, _ = a.registry.backoffs.Active(g.ID, now)
		out.Template = &cloudprovider.Template{Node: t.Node.Node, Pods: t.Pods}
		out.TemplateFrom = t.from
		if pricing, ok := a.remote.Provider.(cloudprovider.Pricing); ok {
			price, err := pricing.NodePrice(context.Background(), t.Node.Node, now, now.Add(time.Hour))
			out.Price, out.HasPrice = price, err == nil
		}
	}
	if out.Template == nil {
		out.Err = linked.ErrNoTemplate
	}
	out.AllOrNothing = a.remote.allOrNothing(g)
	return out
}

// begun forgets the loop before.
func (r *records) begun() {
	r.world, r.attempts, r.repair, r.down, r.full, r.room = nil, nil, nil, nil, nil, map[bool][]int{}
}

// placed notes a pod that has room on a node that exists or is on its way.
func (r *records) placed(pod *v1.Pod, coming bool) {
	if at, asked := r.position[pod]; r.on && asked {
		r.room[coming] = append(r.room[coming], at)
	}
}

// noMore notes pods that get no node because of the limit of nodes in all.
func (r *records) noMore(pods []*v1.Pod, total int) {
	if !r.on {
		return
	}
	at := make([]int, len(pods))
	for i, pod := range pods {
		at[i] = r.position[pod]
	}
	r.full = []PodOutcome{r.outcome(at, PodOutcome{Outcome: PodsUnhelped, Reason: noMoreNodes(total)})}
}

// outcome is that of pods, by their positions.
func (r *records) outcome(at []int, o PodOutcome) PodOutcome {
	slices.Sort(at)
	first := r.world.Pending[at[0]]
	o.Pods, o.Count, o.Example = at, len(at), first.Namespace+"/"+first.Name
	return o
}

// untried are the outcomes of the pods for which no scale-up is tried.
func (r *records) untried() []PodOutcome {
	out := slices.Clone(r.full)
	if at := r.room[false]; len(at) > 0 {
		out = append(out, r.outcome(at, PodOutcome{Outcome: PodsFit, Reason: "fit on nodes that exist"}))
	}
	if at := r.room[true]; len(at) > 0 {
		out = append(out, r.outcome(at, PodOutcome{Outcome: PodsAwaitNodes, Reason: "fit on nodes that are on their way"}))
	}
	return out
}

// repaired notes what was taken back.
func (r *records) repaired(group string, nodes int, why string, err error) {
	if r.on {
		r.repair = append(r.repair, Repair{Group: group, Nodes: nodes, Reason: why, Err: err})
	}
}

// waiting are the pending pods, and after them those of ProvisioningRequests.
func (a *Autoscaler) waiting() []*v1.Pod {
	waiting := a.world.Pending()
	for _, r := range a.openRequests() {
		waiting = append(slices.Clip(waiting), r.Pods...)
	}
	return waiting
}

// survey notes what the loop sees.
func (r *records) survey(a *Autoscaler, now time.Time) {
	r.world = &Survey{Now: now, Groups: a.survey(now), Pending: a.waiting()}
	r.position = make(map[*v1.Pod]int, len(r.world.Pending))
	for i, pod := range r.world.Pending {
		r.position[pod] = i
	}
}

// report is that of the loop that has just ended.
func (r *records) report(err error) Report {
	out := Report{Err: err}
	if err != nil || r.world == nil {
		return out
	}
	for _, t := range r.attempts {
		out.ScaleUps = append(out.ScaleUps, ScaleUp{Survey: r.world, Decision: t.decision, Attempts: t.increases})
	}
	if len(out.ScaleUps) == 0 {
		out.ScaleUps = []ScaleUp{{Survey: r.world}}
	}
	first := &out.ScaleUps[0]
	first.Repairs, first.Decision.Pods = r.repair, append(r.untried(), first.Decision.Pods...)
	out.ScaleDown = r.down
	return out
}

// Survey reads what a loop would see, and changes nothing.
func (a *Autoscaler) Survey() (*Survey, error) {
	now := a.clock.Now()
	nodes, _ := a.listNodes()
	if err := a.remote.refresh(); err != nil {
		return nil, fmt.Errorf("refresh: %w", err)
	}
	a.updateTemplates(nodes)
	if err := a.registry.update(nodes, now); err != nil {
		return nil, fmt.Errorf("cluster state: %w", err)
	}
	a.records.begun()
	a.records.survey(a, now)
	a.processors.surveyed()
	return a.records.world, nil
}
