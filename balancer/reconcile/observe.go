package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

const readsAtATime = 8

type observation struct {
	input  balancer.Input
	scales map[string]scale.Scale // the Scales that could be read, by target
	// failed reports that something could not be read which may be readable later, without an event
	// that would say so.
	failed bool
	timer  podhealth.Timer // when the next pass is made at the latest, if no event announces it
	// interval is how long to wait at least until targets are polled again.
	interval time.Duration
}

// retryAfter is how long to wait until a retry. The limit of polls applies once the back-off has reached its end.
func (o *observation) retryAfter(backOff time.Duration) time.Duration {
	if backOff < passes.LastRetry {
		return backOff
	}
	return max(backOff, o.interval)
}

// soon requests the next pass within d, unless d is 0.
func (o *observation) soon(d time.Duration) { o.timer.At(o.timer.Now.Add(d)) }

// conflict leaves a target alone. The first reason counts.
func (o *observation) conflict(target, format string, args ...any) {
	if _, ok := o.input.Conflicts[target]; !ok {
		o.input.Conflicts[target] = fmt.Sprintf(format, args...)
	}
}

// overlap leaves two targets alone that select the same pods.
func (o *observation) overlap(one, other, format, what string) {
	const remedy = "; give them selectors that have no pod in common"
	o.conflict(one, format+remedy, what, other)
	o.conflict(other, format+remedy, what, one)
}

// observe reads all that a decision about the Balancer depends on. A target that cannot be read is
// not an error.
func (r *reconciler) observe(ctx context.Context, b *v1alpha1.Balancer) (observation, error) {
	o := observation{
		input: balancer.Input{
			Key: client.ObjectKeyFromObject(b).String(), Generation: b.Generation, Spec: b.Spec, Status: b.Status,
			Conflicts: map[string]string{}, Now: r.clock.Now(),
		},
		scales: map[string]scale.Scale{}, timer: podhealth.Timer{Now: r.clock.Now()},
	}
	if len(balancer.Validate(o.input.Key, &b.Spec)) > 0 {
		o.input.Pods = b.Status.Replicas // the decision refuses the spec and changes nothing
		return o, nil
	}
	r.read(ctx, b, &o)
	if err := ctx.Err(); err != nil {
		return o, err // the errors of the targets mean nothing
	}
	if err := errors.Join(r.claims(ctx, b, &o), r.cycles(ctx, b, &o), r.pods(ctx, b, &o)); err != nil {
		return o, err
	}
	r.memory(client.ObjectKeyFromObject(b)).sizes.observe(o.input.Targets, &o.timer)
	return o, nil
}

// sizes are what was read of the sizes of targets, by name.
type sizes map[string]*replica.Sizes

// observe notes how many pods of each target stay for sure. A Scale does not say what its workload controller has
// done: its pods do.
func (s sizes) observe(targets []balancer.TargetObservation, timer *podhealth.Timer) {
	maps.DeleteFunc(s, func(name string, _ *replica.Sizes) bool {
		return !slices.ContainsFunc(targets, func(t balancer.TargetObservation) bool { return t.Name == name })
	})
	for i := range targets {
		t := &targets[i]
		if s[t.Name] == nil {
			s[t.Name] = &replica.Sizes{}
		}
		if t.Err == nil {
			s[t.Name].Read(t.Replicas, func(smaller int32) bool { return len(t.Pods) <= int(smaller) }, timer.Now)
		}
		t.Staying = s[t.Name].Staying(timer)
	}
}

type reading struct {
	balancer.TargetObservation
	scale  scale.Scale
	failed bool
	again  time.Duration // in which the target must be read again; 0 if an event announces its changes
}

// read reads the targets, several at a time, because each read waits for the API server.
func (r *reconciler) read(ctx context.Context, b *v1alpha1.Balancer, o *observation) {
	readings := make([]reading, len(b.Spec.Targets))
	var group errgroup.Group
	group.SetLimit(readsAtATime)
	for i := range readings {
		group.Go(func() error {
			readings[i] = r.readOne(ctx, b.Namespace, b.Spec.Targets[i].ScaleTargetRef)
			return nil // an error belongs to its target and stops no other
		})
	}
	_ = group.Wait()
	key := client.ObjectKeyFromObject(b)
	polled := 0 // a pass that only polls reads all targets
	if slices.ContainsFunc(readings, func(r reading) bool { return r.again > 0 || r.failed }) {
		polled = len(readings)
	}
	o.interval = r.polls.note(key, polled)
	for i, got := range readings {
		t := got.TargetObservation
		t.Name, t.Replicas = b.Spec.Targets[i].Name, got.scale.Replicas
		if size, ok := r.memory(key).unstored[t.Name]; ok {
			t.Written = &size
		}
		if t.Err == nil {
			o.scales[t.Name] = got.scale
		}
		o.input.Targets = append(o.input.Targets, t)
		o.failed = o.failed || got.failed
		if got.again > 0 {
			o.soon(max(got.again, o.interval))
		}
	}
}

// readOne reads the Scale of a target and watches the target.
func (r *reconciler) readOne(ctx context.Context, namespace string, ref v1alpha1.ScaleTargetReference) (out reading) {
	out.scale, out.Err = r.scales.Get(ctx, namespace, ref)
	if out.Err == nil {
		out.again = r.watcher.Watch(out.scale.Resource, out.scale.Namespace)
		return out
	}
	switch scale.ReasonOf(out.Err) {
	case scale.ReasonInvalidReference: // until the Balancer is changed
	case scale.ReasonNotFound:
		resource, err := r.scales.Resolve(ref)
		if err != nil {
			out.failed = true
			break
		}
		out.Missing = true
		out.again = r.watcher.Watch(resource, namespace)
	default:
		out.failed = true
	}
	return out
}

// pods finds the pods of each target that was read. A pod that several targets select belongs to
// the first of them.
func (r *reconciler) pods(ctx context.Context, b *v1alpha1.Balancer, o *observation) error {
	selector, err := b.Spec.Selector.AsSelector()
	if err != nil {
		return fmt.Errorf("reading the selector: %w", err)
	}
	all, err := r.list(ctx, b.Namespace, selector)
	if err != nil {
		return err
	}
	o.input.Pods = int32(len(all))
	owner := map[string]string{}  // the target of a pod, by the name of the pod
	chosen := map[string]string{} // the target of a selector
	for i := range o.input.Targets {
		t := &o.input.Targets[i]
		s, ok := o.scales[t.Name]
		if !ok {
			continue
		}
		text := s.Selector.String()
		if first, taken := chosen[text]; taken {
			o.overlap(t.Name, first, "it has selector %s, as target %s has", text)
		}
		chosen[text] = t.Name
		pods, err := r.list(ctx, b.Namespace, s.Selector)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if first, taken := owner[pod.Name]; taken {
				o.overlap(t.Name, first, "it selects pod %s, as target %s does", pod.Name)
				continue
			}
			owner[pod.Name] = t.Name
			t.Pods = append(t.Pods, podhealth.Assess(pod))
			if !selector.Matches(labels.Set(pod.Labels)) {
				o.conflict(t.Name, "its pod %s is not selected by the Balancer; give the pods of all targets the labels of spec.selector", pod.Name)
				o.soon(scale.PollInterval) // there are no events for changes of such a pod
			}
		}
	}
	for _, pod := range all {
		if owner[pod.Name] == "" && len(o.scales) == len(o.input.Targets) {
			o.input.Strays = append(o.input.Strays, pod.Name)
		}
	}
	return nil
}

// list returns pods sorted by name, without those that have ended or are being deleted: they no
// longer count for any target. The pods are shared with the cache and must not be changed.
func (r *reconciler) list(ctx context.Context, namespace string, selector labels.Selector) ([]*v1.Pod, error) {
	var list v1.PodList
	err := r.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the pods that %s selects: %w", selector, err)
	}
	pods := make([]*v1.Pod, 0, len(list.Items))
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods, nil
}

// selects reports whether a selector matches labels. It compiles the selector only if its simple
// labels match.
func selects(s *v1alpha1.LabelSelector, of map[string]string) bool {
	for key, value := range s.MatchLabels {
		if has, ok := of[key]; !ok || has != string(value) {
			return false
		}
	}
	if len(s.MatchExpressions) == 0 {
		return len(s.MatchLabels) > 0
	}
	selector, err := s.AsSelector()
	return err == nil && selector.Matches(labels.Set(of))
}

// perPoll is the time between two reads of all Balancers together that only poll: ten reads a
// second.
const perPoll = 100 * time.Millisecond

// polls limits how often the API server is asked about the Balancers that are polled, because a
// target cannot be watched or read. The namespaces share the reads equally, so that many Balancers of one tenant do not
// make those of others wait. It holds how many reads a pass over each of them takes. The zero value holds none.
type polls struct {
	mu    sync.Mutex
	reads map[types.NamespacedName]int
	total map[string]int // by namespace
}

// note sets how many reads a pass over a Balancer takes, 0 if it is not polled. It returns how long
// to wait at least until the next pass.
func (p *polls) note(key types.NamespacedName, reads int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.reads[key]
	switch {
	case reads == 0 && !known:
		return 0
	case p.reads == nil:
		p.reads, p.total = map[types.NamespacedName]int{}, map[string]int{}
	}
	p.total[key.Namespace] += reads - before
	if reads > 0 {
		p.reads[key] = reads
		return time.Duration(p.total[key.Namespace]*len(p.total)) * perPoll
	}
	if delete(p.reads, key); p.total[key.Namespace] == 0 {
		delete(p.total, key.Namespace)
	}
	return 0
}
