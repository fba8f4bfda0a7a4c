package scaleup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// Plan decides one round. It changes nothing and asks nobody but the
// scheduler's plugins: the same world has the same decision.
func Plan(w *World, checker *predicates.Checker, opts Options) (Decision, error) {
	p, err := plan(w, checker, newSchedulers(checker), opts)
	if err != nil {
		return Decision{}, err
	}
	return p.decision, nil
}

// plan also hands over how it came to the decision, for what may have to be decided
// anew.
func plan(w *World, checker *predicates.Checker, by schedulers, opts Options) (*planner, error) {
	p := newPlanner(w, checker, opts)
	p.schedulers = by
	p.schedulers.unborn, p.schedulers.work = unborn{}, new(int)
	if err := p.make(); err != nil {
		return nil, err
	}
	p.explainGroups()
	p.explainPods()
	return p, nil
}

// planner carries one plan from step to step.
type planner struct {
	world      *World
	checker    *predicates.Checker
	schedulers schedulers
	opts       Options
	decision   Decision

	ledger   *ledger
	skipped  map[string]string
	standing []string // groups that may grow, by name

	cluster   *predicates.Cluster // nodes that exist and are on their way, with the pods settled on them
	estimator *estimator.Estimator
	pods      []int // positions in world.Pending of the pods that are left
	fit       *predicates.Fit
	kinds     []predicates.Kind // of the pods that are left; positions are those of pods
	workload  estimator.Workload
	template  map[string]int   // index into fit's templates
	came      map[string][]int // the same of nodes that came in a group

	simulation simulation
	before     *outcome // without new nodes
	// foreseen rounds lie in the future of the one that is planned; rehearsed ones too, and are
	// planned as they will be.
	foreseen, rehearsed bool

	index *nodegroupset.Index
	sets  map[string][]string // the set of each standing group

	options  []expander.Option
	without  map[string]string // groups without an option, and why
	classes  []class           // the chosen option's pods, by the members they pass on
	helped   map[int]int       // pods of each kind that the ordered nodes help
	spreads  map[int]*spreadKind
	filledUp []string // groups whose nodes for pods placed one by one other pods fill up
}

func newPlanner(w *World, checker *predicates.Checker, opts Options) *planner {
	return &planner{
		world: w, checker: checker, opts: opts,
		ledger:   newLedger(w, &opts),
		skipped:  map[string]string{},
		template: map[string]int{},
		came:     map[string][]int{},
		sets:     map[string][]string{},
		without:  map[string]string{},
		helped:   map[int]int{},
		spreads:  map[int]*spreadKind{},
	}
}

// make comes to a decision, step by step.
func (p *planner) make() error {
	for _, step := range []func() error{
		p.skipGroups,   // groups that cannot grow
		p.settlePods,   // pods that have a place already, or soon
		p.findSets,     // similar groups count as one choice
		p.buildOptions, // what each group would need
		p.decide,       // the expander's choice, its partners, and the nodes of each
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// progress calls Options.Progress, if it is set.
func (p *planner) progress(s predicates.Step) {
	if p.opts.Progress != nil {
		p.opts.Progress(s)
	}
}

func (p *planner) group(name string) *Group { return p.ledger.group(name) }

// skipGroups sets groups aside that cannot grow now.
func (p *planner) skipGroups() error {
	for i := range p.world.Groups {
		g := &p.world.Groups[i]
		if reason := p.skipReason(g); reason != "" {
			p.skipped[g.ID] = reason
		} else {
			p.standing = append(p.standing, g.ID)
		}
	}
	slices.Sort(p.standing)
	return nil
}

func (p *planner) skipReason(g *Group) string {
	registered := g.Ready + g.NotStarted + g.Unready
	switch {
	case g.Err != nil:
		return g.Err.Error()
	case g.Template == nil:
		return "no template"
	case g.Away != "":
		return g.Away
	case !g.BackedOffUntil.IsZero():
		return fmt.Sprintf("backed off for another %s: %s", g.BackedOffUntil.Sub(p.world.Now), g.BackoffReason)
	case g.Unready > DefaultOkTotalUnreadyCount && 100*g.Unready > DefaultMaxUnreadyPercentage*registered:
		return fmt.Sprintf("unhealthy: %d of %d nodes are not ready", g.Unready, registered)
	case g.Target > g.Max:
		return fmt.Sprintf("over its maximum: %d of %d", g.Target, g.Max)
	case g.Target == g.Max:
		return fmt.Sprintf("at its maximum of %d", g.Max)
	}
	if name, blocked := full(p.ledger.quotas, g.ID); blocked {
		return "no room under " + name
	}
	if g.AllOrNothing && p.ledger.room([]string{g.ID}, p.roundLimit()) < int64(g.Max-g.Target) {
		return fmt.Sprintf("all or nothing, and there is no room for all %d nodes", g.Max-g.Target)
	}
	return ""
}

// settlePods sets pods aside that fit on nodes that exist or are on their way,
// and asks of the others which pass where.
func (p *planner) settlePods() error {
	var templates []predicates.Node
	for i := range p.world.Groups {
		if g := &p.world.Groups[i]; g.Template != nil {
			p.template[g.ID] = len(templates)
			templates = append(templates, predicates.Node{Node: g.Template.Node, Pods: g.Template.Pods})
		}
	}
	for i := range p.world.Groups {
		g := &p.world.Groups[i]
		for _, came := range g.Came {
			p.came[g.ID] = append(p.came[g.ID], len(templates))
			templates = append(templates, predicates.Node{Node: came.Node, Pods: came.Pods})
		}
	}
	if err := p.settle(templates); err != nil {
		return err
	}
	p.estimator = estimator.New(p.cluster)
	p.workload = estimator.NewWorkload(p.kinds)
	return nil
}

// findSets puts similar groups together. A group that is all or nothing stands alone, as a part of
// its nodes would be of no use, and so does one whose template cannot be compared.
func (p *planner) findSets() error {
	index, err := nodegroupset.NewIndex(p.opts.Similarity)
	if err != nil {
		return err
	}
	p.index = index
	for _, name := range p.standing {
		p.sets[name] = []string{name}
		if g := p.group(name); !p.opts.DisableBalancing && !g.AllOrNothing {
			if err := index.Set(name, *g.Template); err != nil {
				p.decision.Warnings = append(p.decision.Warnings, fmt.Sprintf("%v; it is balanced with no other group", err))
			}
		}
	}
	if p.opts.DisableBalancing {
		return nil
	}
	for _, set := range index.Sets() {
		for _, name := range set {
			p.sets[name] = set
		}
	}
	return nil
}

// buildOptions estimates for every group what the pods it takes would need.
func (p *planner) buildOptions() error {
	rooms := map[string]int64{} // by the first member of a set
	for i, name := range p.standing {
		p.progress(predicates.Step{Doing: "estimating the nodes of each group", Done: i, Total: len(p.standing), Of: "node groups"})
		g, set := p.group(name), p.sets[name]
		kinds := p.passing(name)
		if len(kinds) == 0 {
			p.without[name] = ""
			continue
		}
		room, known := rooms[set[0]]
		if !known {
			room = p.ledger.room(set, p.roundLimit())
			rooms[set[0]] = room
		}
		phases := []estimator.Phase{p.phase(name, p.workload.Demands(kinds...))}
		estimate, err := p.estimator.Estimate(phases, int(room))
		if err != nil {
			return fmt.Errorf("node group %s: %w", name, err)
		}
		if estimate.NodeCount == 0 {
			p.without[name] = "its pods pass alone, but not beside the others"
			continue
		}
		o := p.workload.Option(name, phases, estimate)
		if g.AllOrNothing {
			o.NodeCount = g.Max - g.Target
		}
		o.Set, o.Members, o.Template = set[0], set, *g.Template
		o.NodePrice, o.HasPrice = g.Price, g.HasPrice
		p.options = append(p.options, o)
	}
	return nil
}

// phase asks for new nodes of a group. The pods that pass cannot tell templates
// of one class apart, so groups of one class share an estimate.
func (p *planner) phase(group string, demands []estimator.Demand) estimator.Phase {
	g := p.group(group)
	shape := fmt.Sprint(p.fit.ClassOf(p.template[group]))
	if len(p.came[group]) > 0 {
		shape += " " + group // it may take fewer pods than its class
	}
	return estimator.Phase{
		Template: predicates.Node{Node: g.Template.Node, Pods: g.Template.Pods},
		Shape:    shape,
		Demands:  demands,
		MaxNodes: estimator.NoLimit,
	}
}

// passing lists the kinds of pods that fit a group's template.
func (p *planner) passing(group string) []int {
	var kinds []int
	for k := range p.kinds {
		if p.passes(group, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (p *planner) roundLimit() int64 {
	return int64(cmp.Or(p.opts.Limits.MaxNodesPerScaleUp, DefaultMaxNodesPerScaleUp))
}

func (p *planner) choose() error {
	if len(p.options) == 0 {
		return nil
	}
	chain := p.opts.Expander
	if len(chain.Names()) == 0 {
		var err error
		if chain, err = expander.New(nil, expander.Config{}); err != nil {
			return err
		}
	}
	best, trail, err := chain.Choose(p.options)
	if errors.Is(err, expander.ErrNoOptions) {
		return nil
	}
	if err != nil {
		return err
	}
	p.decision.Chosen, p.decision.Trail = best.Group, trail
	return nil
}

// podName is how a pod is named to people.
func podName(pod *v1.Pod) string {
	return strings.TrimPrefix(pod.Namespace+"/"+pod.Name, "/")
}
