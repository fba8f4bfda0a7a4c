package autoscaler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// maxKindsPerController is the number of kinds of pods of one controller that are distinguished;
// each further pod is a separate kind.
const maxKindsPerController = 10

// option is one way to scale up.
type option struct {
	group *group
	count int
	pods  []*v1.Pod
}

// attempt is one scale-up.
type attempt struct {
	*Autoscaler
	view   *view
	now    time.Time
	pods   []*v1.Pod
	atomic bool              // all pods or none
	kinds  [][]*v1.Pod       // of equal pods
	fits   map[string][]bool // per valid group: which kinds fit
	alike  *nodegroupset.Index
}

// scaleUpMode scales up for ordinary pods or for a ProvisioningRequest, alternating if there are
// both.
func (a *Autoscaler) scaleUpMode(v *view, pods []*v1.Pod, now time.Time) (scaled bool, err error) {
	var requested, regular []*v1.Pod
	for _, pod := range pods {
		if pod.Annotations[RequestAnnotation] != "" {
			requested = append(requested, pod)
		} else {
			regular = append(regular, pod)
		}
	}
	switch {
	case len(requested) == 0:
		a.requestMode = false
	case len(regular) == 0:
		a.requestMode = true
	}
	mode := a.requestMode
	a.requestMode = !mode
	switch {
	case mode:
		return a.provision(v, requested, now)
	case a.options.Salvo:
		return a.salvo(v, regular, now)
	}
	_, _, scaled, err = a.scaleUp(v, regular, now, false)
	return scaled, err
}

// salvo scales up again and again for the pods that are left, on the assumption that those before
// get what was asked for.
func (a *Autoscaler) salvo(v *view, pods []*v1.Pod, now time.Time) (scaled bool, err error) {
	for i := 0; len(pods) > 0; i++ {
		plan, helped, again, err := a.scaleUp(v, pods, now, false)
		scaled = scaled || again
		if err != nil || !again {
			return scaled, err
		}
		pods = slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return slices.Contains(helped, p) })
		var nodes []predicates.Node
		for _, p := range plan {
			template := a.templates[p.group.ID]
			for k := range p.size - p.current {
				node := renamed(template, fmt.Sprintf("%s-salvo-%d-%d", template.Name, i, k))
				v.nodes, nodes = append(v.nodes, node), append(nodes, predicates.Node{Node: node})
			}
		}
		all, err := v.Extend(nodes, helped)
		if err != nil {
			return scaled, worldError{err}
		}
		if !all {
			break
		}
	}
	return scaled, nil
}

// provision handles a ProvisioningRequest: it needs room for all of its pods, there or ordered now.
func (a *Autoscaler) provision(v *view, pods []*v1.Pod, now time.Time) (scaled bool, err error) {
	var left []*v1.Pod
	if err := a.place(v, pods, &left); err != nil {
		return false, worldError{err}
	}
	if len(left) > 0 {
		_, _, scaled, err = a.scaleUp(v, left, now, true)
	}
	if a.crashed {
		return false, errCrashed
	}
	name := pods[0].Annotations[RequestAnnotation]
	c := a.world.claims[slices.IndexFunc(a.world.claims, func(c *claim) bool { return c.name == name })]
	if err != nil || len(left) > 0 && !scaled {
		c.failed = now
		c.retry = max(min(2*c.retry, maxRetry), firstRetry)
		a.note(Unprovisioned, "", len(pods), name)
		return false, err
	}
	c.provisioned = true
	a.note(Provisioned, "", len(pods), name)
	return scaled, a.appear(c.pods, c.life, now)
}

// scaleUp tries to order nodes for the pods. It returns what was asked for, and the pods that this
// is for.
func (a *Autoscaler) scaleUp(v *view, pods []*v1.Pod, now time.Time, atomic bool) (plan []planned, helped []*v1.Pod, scaled bool, err error) {
	t := &attempt{Autoscaler: a, view: v, now: now, pods: pods, atomic: atomic, fits: map[string][]bool{}}
	best, count, err := t.best()
	if err != nil || best == nil {
		return nil, nil, false, err
	}
	if plan, err = a.balance(append([]*group{best.group}, t.similar(best.group)...), count); err != nil {
		return nil, nil, false, err
	}
	placed := 0
	for _, p := range plan {
		placed += p.size - p.current
	}
	if atomic && placed < count {
		return nil, nil, false, nil
	}
	a.remote.gpuTypes()
	for _, p := range plan {
		if err := a.execute(p, now); err != nil {
			return nil, nil, false, err
		}
	}
	a.registry.recalculate()
	return plan, best.pods, !a.crashed, nil
}

// best returns the option that is taken, and for how many nodes; nil for none.
func (t *attempt) best() (*option, int, error) {
	if err := t.compare(); err != nil {
		return nil, 0, worldError{err}
	}
	t.kinds = t.kindsOf(t.pods)
	if err := t.countNodes(); err != nil {
		return nil, 0, err
	}
	options, err := t.offers(t.validGroups())
	if err != nil || len(options) == 0 {
		return nil, 0, err
	}
	best := t.choose(options)
	if best == nil || best.count <= 0 {
		return nil, 0, nil
	}
	count, err := t.capped(best.count)
	if err != nil || count < best.count && t.atomic {
		return nil, 0, err
	}
	return best, count, nil
}

// execute makes one step of a plan.
func (a *Autoscaler) execute(p planned, now time.Time) error {
	delta := p.size - p.current
	a.remote.gpuLabel() // for a metric
	if err := a.remote.increase(p.group.ID, delta); err != nil {
		a.note(Failed, p.group.ID, delta, err.Error())
		a.registry.failed(p.group.ID, now)
		return fmt.Errorf("increase %s by %d: %w", p.group.ID, delta, err)
	}
	a.registry.register(p.group.ID, delta, a.clock.Now())
	a.note(Increased, p.group.ID, delta, "")
	return nil
}

// kindsOf groups equal pods of one controller. The order of the kinds is random.
func (t *attempt) kindsOf(pods []*v1.Pod) [][]*v1.Pod {
	kind := make(map[*v1.Pod]string, len(t.world.pods))
	for _, p := range t.world.pods {
		kind[p.object] = p.kind
	}
	for _, c := range t.world.claims {
		for i, pod := range c.pods {
			kind[pod] = c.kinds[i]
		}
	}
	index := map[string]int{}
	perOwner := map[string]int{}
	var kinds [][]*v1.Pod
	for _, pod := range pods {
		key := kind[pod]
		if i, ok := index[key]; ok && key != "" {
			kinds[i] = append(kinds[i], pod)
			continue
		}
		if key != "" {
			owner := string(metav1.GetControllerOfNoCopy(pod).UID)
			if perOwner[owner]++; perOwner[owner] <= maxKindsPerController {
				index[key] = len(kinds)
			}
		}
		kinds = append(kinds, []*v1.Pod{pod})
	}
	t.shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds
}

// countNodes is what the quotas are calculated from: the group and the GPUs of every node, those to
// come included.
func (t *attempt) countNodes() error {
	for _, node := range t.view.nodes {
		if _, err := t.remote.groupOf(node); err != nil {
			return fmt.Errorf("quotas: node group of %s: %w", node.Name, err)
		}
		t.countGPUs()
	}
	return nil
}

// validGroups are the groups that may grow now.
func (t *attempt) validGroups() []*group {
	var valid []*group
	for _, g := range t.remote.nodeGroups() {
		if !t.registry.safe(g.ID, t.now) {
			continue
		}
		size, err := t.remote.targetSize(g.ID)
		if err != nil || size >= g.MaxSize {
			continue
		}
		options, err := t.remote.groupOptions(g.ID)
		if err == nil && options != nil && options.ZeroOrMaxNodeScaling && t.options.MaxNodesTotal != 0 &&
			len(t.view.nodes)+g.MaxSize-size > t.options.MaxNodesTotal {
			continue
		}
		if t.templates[g.ID] == nil {
			continue
		}
		t.countGPUs()
		valid = append(valid, g)
	}
	return valid
}

// countGPUs is how the quotas learn of GPUs.
func (t *attempt) countGPUs() {
	if !t.options.Before135 {
		t.remote.gpuLabel()
	}
}

// offers computes an option for every group on which some pods fit.
func (t *attempt) offers(valid []*group) ([]option, error) {
	samples := make([]*v1.Pod, len(t.kinds))
	for i, kind := range t.kinds {
		samples[i] = kind[0]
	}
	for _, g := range valid {
		fits, err := t.view.Fits(predicates.Node{Node: t.templates[g.ID]}, samples)
		if err != nil {
			return nil, worldError{fmt.Errorf("%s: %w", g.ID, err)}
		}
		t.fits[g.ID] = fits
	}
	var out []option
	for _, g := range valid {
		o, err := t.option(g)
		if err != nil {
			return nil, worldError{fmt.Errorf("%s: %w", g.ID, err)}
		}
		if len(o.pods) > 0 && o.count != 0 && (!t.atomic || len(o.pods) == len(t.pods)) {
			out = append(out, o)
		}
	}
	return out, nil
}

// option estimates how many nodes of the group the pods need.
func (t *attempt) option(g *group) (option, error) {
	o := option{group: g}
	var kinds [][]*v1.Pod
	for i, kind := range t.kinds {
		if t.fits[g.ID][i] {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return o, nil
	}
	limit := t.limit(append([]*group{g}, t.similar(g)...))
	var err error
	if o.count, o.pods, err = t.view.Estimate(predicates.Node{Node: t.templates[g.ID]}, kinds, limit); err != nil {
		return o, err
	}
	options, err := t.remote.groupOptions(g.ID)
	if err == nil && options != nil && options.ZeroOrMaxNodeScaling {
		if t.atomic && o.count > g.MaxSize {
			o.count, o.pods = 0, nil
		}
		if o.count > 0 {
			o.count = g.MaxSize
		}
	}
	return o, nil
}

// limit is how many nodes an estimate may open.
func (t *attempt) limit(groups []*group) int {
	limit, room := t.options.MaxNodesPerScale, 0
	if total := t.options.MaxNodesTotal; total > 0 {
		limit = min(limit, max(total-len(t.view.nodes), 0))
	}
	for _, g := range groups {
		if size, err := t.remote.targetSize(g.ID); err == nil {
			room += max(g.MaxSize-size, 0)
		}
	}
	return min(limit, room)
}

// capped limits a count to --max-nodes-total.
func (t *attempt) capped(count int) (int, error) {
	total := t.options.MaxNodesTotal
	if total == 0 || count+len(t.view.nodes) <= total {
		return count, nil
	}
	if count = total - len(t.view.nodes); count < 1 {
		return 0, errors.New("the limit of nodes in all is reached")
	}
	return count, nil
}

// choose asks the expander. If it fails, or names several, the choice is random.
func (t *attempt) choose(options []option) *option {
	if t.remote.Expander == nil {
		return &options[t.random.IntN(len(options))]
	}
	t.counters.Asked++
	request := t.request(options)
	answer, err := t.remote.bestOptions(request)
	var named []int
	for _, id := range answer {
		if i := slices.IndexFunc(options, func(o option) bool { return o.group.ID == id }); i >= 0 {
			named = append(named, i)
		}
	}
	switch {
	case err != nil || len(named) == 0 && len(answer) > 0:
		t.note(Unanswered, "", len(options), textOf(err))
		return &options[t.random.IntN(len(options))]
	case len(answer) == 0:
		t.note(Vetoed, "", len(options), describe(options))
		return nil
	}
	t.note(Asked, options[named[0]].group.ID, len(named), describe(options))
	if len(named) == 1 {
		return &options[named[0]]
	}
	return &options[named[t.random.IntN(len(named))]]
}

// request is the question as the expander receives it. It shares nodes and pods with the world;
// neither side changes them.
func (t *attempt) request(options []option) grpcexpander.Request {
	request := grpcexpander.Request{Nodes: maps.Clone(t.templates)}
	index := make(map[*v1.Pod]int, len(t.pods))
	for _, o := range options {
		sent := grpcexpander.Option{Group: o.group.ID, NodeCount: o.count, Pods: make([]int, 0, len(o.pods))}
		for _, pod := range o.pods {
			i, ok := index[pod]
			if !ok {
				i = len(request.Pods)
				index[pod] = i
				request.Pods = append(request.Pods, pod)
			}
			sent.Pods = append(sent.Pods, i)
		}
		request.Options = append(request.Options, sent)
	}
	return request
}

func describe(options []option) string {
	out := make([]string, len(options))
	for i, o := range options {
		out[i] = fmt.Sprintf("%s:%d/%d", o.group.ID, o.count, len(o.pods))
	}
	return strings.Join(out, " ")
}

// scaleUpToMin increases groups below their minimum.
func (a *Autoscaler) scaleUpToMin(v *view, now time.Time) error {
	t := &attempt{Autoscaler: a, view: v, now: now}
	if err := t.countNodes(); err != nil {
		return err
	}
	var plan []planned
	for _, g := range a.remote.nodeGroups() {
		size, err := a.remote.targetSize(g.ID)
		if err != nil || size >= g.MinSize || !a.registry.safe(g.ID, now) || a.templates[g.ID] == nil {
			continue
		}
		count := g.MinSize - size
		if total := a.options.MaxNodesTotal; total > 0 { // the group's own size is taken for the cluster's
			if count = min(count, total-size); count < 1 {
				continue
			}
		}
		plan = append(plan, planned{group: g, current: size, size: size + count})
	}
	if len(plan) == 0 {
		return nil
	}
	a.remote.gpuTypes()
	for _, p := range plan {
		if err := a.execute(p, now); err != nil {
			return err
		}
	}
	a.registry.recalculate()
	if !a.crashed {
		a.lastScaleUp = now
	}
	return nil
}
