package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/predicates"
)

// maxKindsPerController is the number of kinds of pods of one controller that are distinguished;
// each further pod is a separate kind.
const maxKindsPerController = 10

// option is one way to scale up.
type option struct {
	group   *group
	count   int
	pods    []*v1.Pod
	placed  []int // how many of each kind they are
	similar []*group
}

// attempt is one scale-up.
type attempt struct {
	*Autoscaler
	view     *view
	now      time.Time
	pods     []*v1.Pod
	atomic   bool        // all pods or none
	kinds    [][]*v1.Pod // of equal pods
	valid    []*group    // that may grow
	fit      fit         // of the kinds on the templates of the valid groups
	position map[string]int
	tracker  *tracker

	decision  Decision
	increases []Attempt
	skipped   map[string]string // why groups cannot grow, by group
	held      map[string]string // what kept groups from growing further
	helped    []*v1.Pod
	asked     int // nodes of the plan
}

// newAttempt begins a scale-up for pods.
func (a *Autoscaler) newAttempt(v *view, pods []*v1.Pod, now time.Time) *attempt {
	t := &attempt{
		Autoscaler: a, view: v, now: now, pods: pods,
		position: map[string]int{}, skipped: map[string]string{}, held: map[string]string{},
	}
	if a.records.on {
		a.records.attempts = append(a.records.attempts, t)
	}
	return t
}

// passes reports whether pods of a kind fit a new node of a group, which must be valid.
func (t *attempt) passes(group string, kind int) bool {
	at, valid := t.position[group]
	return valid && t.fit.passes(at, kind)
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
	ordered, _, err := a.scaleUp(v, regular, now, false)
	return len(ordered) > 0, err
}

// salvo scales up again and again for the pods that are left, on the assumption that those before
// get what was asked for.
func (a *Autoscaler) salvo(v *view, pods []*v1.Pod, now time.Time) (scaled bool, err error) {
	for i := 0; len(pods) > 0; i++ {
		ordered, helped, err := a.scaleUp(v, pods, now, false)
		if err != nil || len(ordered) == 0 {
			return scaled, err
		}
		scaled = true
		has := sets.New(helped...)
		pods = slices.DeleteFunc(slices.Clone(pods), has.Has)
		var nodes []predicates.Node
		for _, p := range ordered {
			template := a.templates[p.group.ID]
			for k := range p.size - p.current {
				nodes, v.coming = append(nodes, template.copied(fmt.Sprintf("-salvo-%d-%d", i, k))), append(v.coming, p.group.ID)
			}
		}
		v.nodes = append(v.nodes, nodes...)
		all, err := v.extend(nodes, helped)
		if err != nil {
			return scaled, worldError{err}
		}
		if !all {
			break
		}
	}
	return scaled, nil
}

// scaleUp tries to order nodes for the pods. It returns what was ordered, nothing after an error, and the
// pods that this is for.
func (a *Autoscaler) scaleUp(v *view, pods []*v1.Pod, now time.Time, atomic bool) (ordered []planned, helped []*v1.Pod, err error) {
	t := a.newAttempt(v, pods, now)
	t.atomic = atomic
	defer t.explain()
	best, count, err := t.best()
	if err != nil || best == nil {
		return nil, nil, err
	}
	plan, err := t.plan(best, count)
	if err == nil {
		err = t.carryOut(plan)
	}
	if err != nil {
		return nil, nil, err
	}
	return plan, best.pods, nil
}

// carryOut increases one group after the other, up to the first error.
func (t *attempt) carryOut(plan []planned) error {
	if len(plan) == 0 {
		return nil
	}
	t.remote.askGPUTypes()
	for _, p := range plan {
		id, delta := p.group.ID, p.size-p.current
		before, known := t.sizeOf(id)
		t.remote.askGPULabel() // for a metric
		err := t.remote.increase(id, delta)
		if err != nil {
			t.registry.failed(id, t.now, err.Error(), false)
			t.registry.refused[id] = true
			err = fmt.Errorf("increase %s by %d: %w", id, delta, err)
		} else {
			t.registry.register(id, delta, t.clock.Now())
		}
		grew := 0
		if after, still := t.sizeOf(id); known && still {
			grew = after - before
		} else if err == nil {
			grew = delta
		}
		// Behind a sidecar a group may grow by less than was asked, and after an error it may have grown all the same.
		t.increases = append(t.increases, Attempt{Group: id, Delta: delta, To: p.size, Grew: max(0, grew), Err: err})
		if err != nil {
			return err
		}
	}
	t.registry.recalculate()
	return nil
}

// sizeOf is how large a group really is, whatever Cluster Autoscaler has heard.
func (a *Autoscaler) sizeOf(id string) (size int, known bool) {
	size, err := a.config.Cloud.TargetSize(context.Background(), id)
	return size, err == nil
}

// plan shares the nodes of the chosen option among its group and those similar to it. An atomic one
// that cannot be kept whole is none.
func (t *attempt) plan(best *option, count int) ([]planned, error) {
	groups := append([]*group{best.group}, t.similar(best.group)...)
	t.decision.Chosen, t.decision.Need, t.helped = best.group.ID, best.count, best.pods
	members := sets.New[string]()
	for _, g := range groups {
		members.Insert(g.ID)
	}
	t.decision.Members = sets.List(members)
	plan, err := t.processors.balance(t, groups, count)
	if err != nil {
		return nil, err
	}
	plan = t.cut(plan)
	for _, p := range plan {
		members.Insert(p.group.ID)
		t.asked += p.size - p.current
	}
	t.decision.Members = sets.List(members)
	if t.atomic && t.asked < count {
		return nil, nil
	}
	return plan, nil
}

// best returns the option that is taken, and for how many nodes; nil for none.
func (t *attempt) best() (*option, int, error) {
	t.kinds = t.kindsOf(t.pods)
	t.processors.begin(t)
	if err := t.countNodes(); err != nil {
		return nil, 0, err
	}
	t.tracker = t.track()
	t.valid = t.validGroups()
	options, err := t.offers()
	if err != nil || len(options) == 0 {
		return nil, 0, err
	}
	best := t.processors.best(t, options, t.choose)
	if best == nil || best.count <= 0 {
		return nil, 0, nil
	}
	count, err := t.capped(best)
	if err != nil || count < best.count && t.atomic {
		return nil, 0, err
	}
	return best, count, nil
}

// kindsOf groups equal pods of one controller. The order of the kinds is random.
func (t *attempt) kindsOf(pods []*v1.Pod) [][]*v1.Pod {
	index, perOwner := map[int]int{}, map[string]int{}
	var kinds [][]*v1.Pod
	for _, pod := range pods {
		key := t.kindOf(pod)
		if i, ok := index[key]; ok && key != 0 {
			kinds[i] = append(kinds[i], pod)
			continue
		}
		if key != 0 {
			owner := ownerOf(pod)
			if perOwner[owner]++; perOwner[owner] <= maxKindsPerController {
				index[key] = len(kinds)
			}
		}
		kinds = append(kinds, []*v1.Pod{pod})
	}
	t.shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds
}

// maxKnownPods is how many pods the kind is remembered of.
const maxKnownPods = 1 << 17

// kindOf numbers pods that are equal to Cluster Autoscaler alike. Pods without a controller, 0, are
// all different.
func (a *Autoscaler) kindOf(pod *v1.Pod) int {
	if kind, known := a.kinds[pod]; known {
		return kind
	}
	if len(a.kinds) >= maxKnownPods {
		clear(a.kinds)
	}
	kind := 0
	if owner := ownerOf(pod); owner != "" {
		if spec, err := pod.Spec.Marshal(); err == nil {
			key := fmt.Sprintf("%s %v %s", owner, labelsOf(pod), spec)
			if kind = a.numbers[key]; kind == 0 {
				kind = len(a.numbers) + 1
				a.numbers[key] = kind
			}
		}
	}
	a.kinds[pod] = kind
	return kind
}

// ownerOf identifies the controller of a pod; empty for none.
func ownerOf(pod *v1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}
	return pod.Namespace + " " + owner.Kind + " " + owner.Name + " " + string(owner.UID)
}

// labelsOf are the labels of a pod without those in which the pods of one controller differ.
func labelsOf(pod *v1.Pod) map[string]string {
	out := make(map[string]string, len(pod.Labels))
	for key, value := range pod.Labels {
		switch key {
		case "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index", "statefulset.kubernetes.io/pod-name":
		default:
			out[key] = value
		}
	}
	return out
}

// countNodes is what the quotas are calculated from: the group and the GPUs of every node, those to
// come included.
func (t *attempt) countNodes() error {
	for _, n := range t.view.nodes {
		if _, err := t.remote.groupOf(n.Node); err != nil {
			return fmt.Errorf("quotas: node group of %s: %w", n.Node.Name, err)
		}
		t.countGPUs()
	}
	return nil
}

// validGroups are the groups that may grow now.
func (t *attempt) validGroups() []*group {
	var valid []*group
	for _, g := range t.remote.NodeGroups() {
		if why := t.unfit(g); why != "" {
			t.skipped[g.ID] = why
			continue
		}
		t.countGPUs()
		valid = append(valid, g)
	}
	return valid
}

// unfit says why a group may not grow now; empty if it may.
func (t *attempt) unfit(g *group) string {
	if why := t.registry.unsafe(g.ID, t.now); why != "" {
		return why
	}
	size, err := t.remote.targetSize(g.ID)
	switch {
	case err != nil:
		return "read the target size: " + err.Error()
	case size >= g.MaxSize():
		if size > g.MaxSize() {
			return fmt.Sprintf("over its maximum: %d of %d", size, g.MaxSize())
		}
		return fmt.Sprintf("at its maximum of %d", g.MaxSize())
	}
	if t.remote.allOrNothing(g) && t.options.MaxNodesTotal != 0 &&
		len(t.view.nodes)+g.MaxSize()-size > t.options.MaxNodesTotal {
		return "all of its nodes at once exceed max-nodes-total"
	}
	if t.templates[g.ID] == nil {
		return "no template"
	}
	if room, by := t.tracker.room(t.templates[g.ID].Node.Node); room == 0 {
		return "no room under " + by
	}
	return ""
}

// countGPUs is how the quotas learn of GPUs.
func (t *attempt) countGPUs() {
	if !t.options.Before135 {
		t.remote.askGPULabel()
	}
}

// offers computes an option for every group on which some pods fit.
func (t *attempt) offers() ([]option, error) {
	samples := make([]*v1.Pod, len(t.kinds))
	for i, kind := range t.kinds {
		samples[i] = kind[0]
	}
	templates := make([]predicates.Node, len(t.valid))
	for i, g := range t.valid {
		templates[i], t.position[g.ID] = t.templates[g.ID].Node, i
	}
	var err error
	if t.fit, err = t.view.fits(templates, samples); err != nil {
		return nil, worldError{err}
	}
	var out []option
	for i, g := range t.valid {
		if t.options.Progress != nil {
			t.options.Progress(predicates.Step{Doing: "estimating the nodes of each group", Done: i, Total: len(t.valid), Of: "node groups"})
		}
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
	var demands []estimator.Demand
	var kinds []int
	for k, pods := range t.kinds {
		if t.passes(g.ID, k) {
			demands, kinds = append(demands, estimator.Demand{Pod: pods[0], Count: len(pods)}), append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return o, nil
	}
	o.similar = t.similar(g)
	limit := t.limit(append([]*group{g}, o.similar...))
	estimation, err := t.view.estimate(estimator.Request{Template: t.templates[g.ID].Node, Class: t.fit.class(t.position[g.ID]),
		Demands: demands}, limit)
	if err != nil {
		return o, err
	}
	o.count, o.placed = estimation.NodeCount, make([]int, len(t.kinds))
	for i, n := range estimation.Placed {
		o.placed[kinds[i]] = n
		o.pods = append(o.pods, t.kinds[kinds[i]][:n]...)
	}
	if t.remote.allOrNothing(g) {
		if t.atomic && o.count > g.MaxSize() {
			o.count, o.pods = 0, nil
		}
		if o.count > 0 {
			o.count = g.MaxSize()
		}
	}
	return o, nil
}

// similar are the groups that share a scale-up of the group, with --balance-similar-node-groups:
// similar and safe ones on which all kinds of pods fit that fit on the group.
func (t *attempt) similar(g *group) []*group {
	if !t.options.Balance {
		return nil
	}
	if t.remote.allOrNothing(g) || !t.takesSome(g.ID) {
		return nil
	}
	var out []*group
	for _, other := range t.processors.similar(t, g) {
		if t.registry.safe(other.ID, t.now) && t.covers(other.ID, g.ID) {
			out = append(out, other)
		}
	}
	return out
}

func (t *attempt) takesSome(group string) bool {
	for i := range t.kinds {
		if t.passes(group, i) {
			return true
		}
	}
	return false
}

// covers reports whether all kinds that fit on g fit on the other, which must be valid itself.
func (t *attempt) covers(other, g string) bool {
	for i := range t.kinds {
		if t.passes(g, i) && !t.passes(other, i) {
			return false
		}
	}
	return true
}

// limit is how many nodes an estimate may open.
func (t *attempt) limit(groups []*group) int {
	limit, room := t.options.MaxNodesPerScale, 0
	if total := t.options.MaxNodesTotal; total > 0 {
		limit = min(limit, max(total-len(t.view.nodes), 0))
	}
	for _, g := range groups {
		if size, err := t.remote.targetSize(g.ID); err == nil {
			room += max(g.MaxSize()-size, 0)
		}
	}
	return min(limit, room)
}

// capped limits the nodes of an option to what the limits of the cluster leave.
func (t *attempt) capped(best *option) (int, error) {
	count := best.count
	if total := t.options.MaxNodesTotal; total > 0 && count+len(t.view.nodes) > total {
		if count = total - len(t.view.nodes); count < 1 {
			return 0, errors.New("the limit of nodes in all is reached")
		}
	}
	if room, _ := t.tracker.room(t.templates[best.group.ID].Node.Node); room < int64(count) {
		count = int(room)
	}
	return count, nil
}

// scaleUpToMin increases groups below their minimum.
func (a *Autoscaler) scaleUpToMin(v *view, now time.Time) error {
	t := a.newAttempt(v, nil, now)
	if err := t.countNodes(); err != nil {
		return err
	}
	var plan []planned
	for _, g := range a.remote.NodeGroups() {
		size, err := a.remote.targetSize(g.ID)
		if err != nil || size >= g.MinSize() || !a.registry.safe(g.ID, now) || a.templates[g.ID] == nil {
			continue
		}
		count := g.MinSize() - size
		if total := a.options.MaxNodesTotal; total > 0 { // the group's own size is taken for the cluster's
			if count = min(count, total-size); count < 1 {
				continue
			}
		}
		plan = append(plan, planned{group: g, current: size, size: size + count})
	}
	err := t.carryOut(plan)
	if err == nil && len(plan) > 0 {
		a.lastScaleUp = now
	}
	return err
}
