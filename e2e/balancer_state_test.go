package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// A state is what a shop is to come to.
type state struct {
	// sizes is spec.replicas of the targets, and what the status says of them.
	sizes map[string]int32
	// running is how many pods run where that is not the size, and desired how many are to.
	running, desired map[string]int32
	// holds are the conditions that are True, in alphabetical order, but for Available and
	// Progressing; nil means Balanced and TargetsReadable.
	holds []string
	// says has a part of the message of a condition, by its type, or of a target, by its name.
	says map[string]string
}

// conditionTypes in alphabetical order.
var conditionTypes = []string{
	v1alpha1.ConditionAvailable, v1alpha1.ConditionBalanced, v1alpha1.ConditionFallbackActive, v1alpha1.ConditionMinimumsExceedReplicas,
	v1alpha1.ConditionOverflow, v1alpha1.ConditionProgressing, v1alpha1.ConditionTargetsReadable,
}

// settles waits until the shop is as wanted, with the sizes that the engine makes of what the status knows: that a target had no room
// is in it for a moment longer than the pods that started late.
func (s *shop) settles(ctx context.Context, t *testing.T, when string, want state) *v1alpha1.Balancer {
	t.Helper()
	if want.holds == nil {
		want.holds = []string{v1alpha1.ConditionBalanced, v1alpha1.ConditionTargetsReadable}
	}
	var b *v1alpha1.Balancer
	var differs string
	err := wait.PollUntilContextTimeout(ctx, pollInterval, settledWithin, true, func(context.Context) (bool, error) {
		b = s.get(ctx, t)
		if differs = cmp.Or(want.statusDiffers(b), s.targetsDiffer(ctx, t, b, want)); differs == "" {
			differs = unfair(b)
		}
		return differs == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %s\n%s", when, differs, describe(b))
	}
	return b
}

// describe says what a Balancer asks for and what its status says.
func describe(b *v1alpha1.Balancer) string {
	text, err := yaml.Marshal(v1alpha1.Balancer{Spec: b.Spec, Status: b.Status})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// statusDiffers says in what the status of a Balancer is not as wanted; empty if it is.
func (want *state) statusDiffers(b *v1alpha1.Balancer) string {
	if b.Status.ObservedGeneration != b.Generation {
		return fmt.Sprintf("the status answers generation %d of %d", b.Status.ObservedGeneration, b.Generation)
	}
	var holds, types []string
	for _, kind := range conditionTypes {
		c := meta.FindStatusCondition(b.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != b.Generation {
			return kind + " is missing or old"
		}
		types = append(types, c.Type)
		holding := c.Status == metav1.ConditionTrue
		switch {
		case kind == v1alpha1.ConditionAvailable:
			if asked := b.Spec.Replicas; asked != nil && holding != (b.Status.Running >= *asked) {
				return fmt.Sprintf("%d of %d run, and Available is %s", b.Status.Running, *asked, c.Status)
			}
		case kind == v1alpha1.ConditionProgressing:
		case holding:
			holds = append(holds, c.Type)
		}
		if !strings.Contains(c.Message, want.says[kind]) {
			return fmt.Sprintf("%s says %q, not %q", kind, c.Message, want.says[kind])
		}
	}
	if !slices.Equal(holds, want.holds) || len(types) != len(b.Status.Conditions) {
		return fmt.Sprintf("these hold: %v, not %v", holds, want.holds)
	}
	for _, is := range b.Status.Targets {
		size, known := want.sizes[is.Name], is.Reason != balancer.ReasonUnreadable // else it is what was found last
		desired := size
		if other, ok := want.desired[is.Name]; ok {
			desired = other
		}
		if is.Desired != desired || is.Current != size || known && is.Running != want.runs(is.Name) {
			return fmt.Sprintf("the status of %s is %d desired, %d current, %d running; wanted %d, of which %d run",
				is.Name, is.Desired, is.Current, is.Running, size, want.runs(is.Name))
		}
		if !strings.Contains(is.Message, want.says[is.Name]) {
			return fmt.Sprintf("%s says %q, not %q", is.Name, is.Message, want.says[is.Name])
		}
	}
	if len(b.Status.Targets) != len(b.Spec.Targets) || len(b.Spec.Targets) != len(want.sizes) {
		return fmt.Sprintf("the status has %d targets, the spec %d, wanted are %d", len(b.Status.Targets), len(b.Spec.Targets), len(want.sizes))
	}
	return ""
}

// runs is how many pods of a target are wanted to run.
func (want *state) runs(target string) int32 {
	if n, ok := want.running[target]; ok {
		return n
	}
	return want.sizes[target]
}

// targetsDiffer says in what the targets and their pods are not as wanted.
func (s *shop) targetsDiffer(ctx context.Context, t *testing.T, b *v1alpha1.Balancer, want state) string {
	t.Helper()
	running := map[string]int32{}
	var pods v1.PodList
	if err := s.List(ctx, &pods, client.InNamespace(s.namespace), client.MatchingLabels{"app": balancerName}); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			return pods.Items[i].Name + " is about to go"
		}
		if runs(&pods.Items[i]) {
			running[pods.Items[i].Labels[targetLabel]]++
		}
	}
	for _, target := range b.Spec.Targets {
		size, found := s.size(ctx, t, target.ScaleTargetRef)
		if found && size != want.sizes[target.Name] {
			return fmt.Sprintf("%s asks for %d replicas, wanted are %d", target.Name, size, want.sizes[target.Name])
		}
		if running[target.Name] != want.runs(target.Name) {
			return fmt.Sprintf("%d pods of %s run, wanted are %d", running[target.Name], target.Name, want.runs(target.Name))
		}
	}
	if n := int32(len(pods.Items)); b.Status.Replicas != n {
		return fmt.Sprintf("the status counts %d pods, there are %d", b.Status.Replicas, n)
	}
	return ""
}

// size reads spec.replicas of what a reference refers to, if there is such a thing.
func (s *shop) size(ctx context.Context, t *testing.T, ref v1alpha1.ScaleTargetReference) (int32, bool) {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(cmp.Or(ref.APIVersion, "apps/v1"))
	o.SetKind(ref.Kind)
	err := s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: ref.Name}, o)
	if meta.IsNoMatchError(err) || client.IgnoreNotFound(err) == nil && err != nil {
		return 0, false
	}
	if err != nil {
		t.Fatal(err)
	}
	n, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if err != nil {
		t.Fatal(err)
	}
	return int32(n), found
}

// runs reports whether a pod does what it is there for.
func runs(pod *v1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == v1.PodRunning && slices.ContainsFunc(pod.Status.Conditions,
		func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

// leftAlone are the reasons of targets that keep what they have.
var leftAlone = []string{balancer.ReasonUnreadable, balancer.ReasonUnknown, balancer.ReasonMissing, balancer.ReasonConflict}

// unfair says in what the sizes in a status are not what the engine makes of the spec and of what
// is known of the targets: their capacities, and the sizes of those that are left alone. A target
// that is held by its capacity has one more, a probe.
func unfair(b *v1alpha1.Balancer) string {
	policy := &b.Spec.Policy
	r := apportion.Request{Replicas: int64(*b.Spec.Replicas), Policy: apportion.Proportional}
	order := slices.Clone(b.Status.Targets)
	weight := func(name string) int64 { return int64(policy.Proportions.TargetProportions[name]) }
	if policy.Priorities != nil {
		r.Policy = apportion.Priority
		named := policy.Priorities.TargetOrder
		place := func(s v1alpha1.BalancerTargetStatus) int {
			if i := slices.Index(named, s.Name); i >= 0 {
				return i
			}
			return len(named)
		}
		slices.SortStableFunc(order, func(a, b v1alpha1.BalancerTargetStatus) int { return cmp.Compare(place(a), place(b)) })
		weight = func(name string) int64 { return int64(min(1, 1+slices.Index(named, name))) }
	}
	for _, s := range order {
		r.Targets = append(r.Targets, asked(b, s, weight(s.Name)))
	}
	result, err := apportion.Distribute(r)
	if err != nil {
		return err.Error()
	}
	for i, due := range result.Targets {
		size := due.Replicas
		if due.Reason == apportion.ReasonCapacity && due.Pending == 0 && due.Replicas < *r.Targets[i].Max &&
			!slices.Contains(leftAlone, order[i].Reason) {
			size++
		}
		waits := int64(order[i].Desired) > size && due.Reason == apportion.ReasonCapacity && int64(order[i].Desired) <= size+result.Unplaced
		if int64(order[i].Desired) != size && !waits {
			return fmt.Sprintf("%s is to have %d, its due is %d", order[i].Name, order[i].Desired, size)
		}
	}
	for kind, n := range map[string]int64{v1alpha1.ConditionOverflow: result.Unplaced,
		v1alpha1.ConditionMinimumsExceedReplicas: result.Excess} {
		c := meta.FindStatusCondition(b.Status.Conditions, kind)
		if n == 0 && c.Status == metav1.ConditionTrue || n > 0 &&
			(c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, fmt.Sprint(n))) {
			return fmt.Sprintf("%s is %s (%s), its number is %d", kind, c.Status, c.Message, n)
		}
	}
	return ""
}

// asked is a target as the engine must see it.
func asked(b *v1alpha1.Balancer, s v1alpha1.BalancerTargetStatus, weight int64) apportion.Target {
	spec := b.Spec.Targets[slices.IndexFunc(b.Spec.Targets, func(t v1alpha1.BalancerTarget) bool { return t.Name == s.Name })]
	t := apportion.Target{Name: s.Name, Weight: &weight, Max: new(apportion.MaxReplicas)}
	switch {
	case slices.Contains(leftAlone, s.Reason):
		t.Min, *t.Max = int64(s.Current), int64(s.Current)
		return t
	case spec.MinReplicas != nil:
		t.Min = int64(*spec.MinReplicas)
	}
	if spec.MaxReplicas != nil {
		*t.Max = int64(*spec.MaxReplicas)
	}
	if s.Reason == balancer.ReasonSecondWriter { // it counts with no more than it has
		*t.Max = min(*t.Max, int64(s.Current))
	}
	if s.Capacity != nil {
		t.Capacity = new(int64(*s.Capacity))
	}
	return t
}

// cost is what the controller wrote for a Balancer.
type cost struct {
	// sizes is how often a size was written, by the name of the object.
	sizes map[string]int
	// statuses is how often the status was stored.
	statuses int
	// conflicts is how often one of them was refused because the object had changed.
	conflicts int
	// rest is what should not be, as text. Events are not in it, nor is the lease.
	rest []string
	// took is from the first to the last of these writes.
	took time.Duration
}

// cost counts what was written since the last change. All sizes of the namespace are taken to be of
// its Balancer.
func (s *shop) cost(t *testing.T) cost {
	t.Helper()
	var writes []controlplane.Write
	ended := map[int]bool{} // indexes of what each controller wrote last
	for _, user := range s.users {
		its, err := s.plane.Writes(user, s.mark)
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, its...)
		ended[len(writes)-1] = true
	}
	c := cost{sizes: map[string]int{}}
	var first, last time.Time
	for i, w := range writes {
		status := w.Resource == "balancers" && w.Subresource == "status" && w.Verb == "patch"
		size := w.Subresource == "scale" && w.Verb == "update"
		switch {
		case w.Namespace != s.namespace || w.Resource == "events" || w.Resource == "leases" || status && w.Name != s.name:
			continue
		case size && w.Code == http.StatusOK:
			c.sizes[w.Name]++
		case status && w.Code == http.StatusOK:
			c.statuses++
		case (size || status) && w.Code == http.StatusConflict:
			c.conflicts++
		case w.Code == http.StatusGatewayTimeout, w.Code == http.StatusInternalServerError &&
			ended[i]: // the controller was killed before the answer
		default:
			c.rest = append(c.rest, fmt.Sprintf("%+v", w))
		}
		if first.IsZero() || w.At.Before(first) {
			first = w.At
		}
		if w.At.After(last) {
			last = w.At
		}
	}
	c.took = last.Sub(first)
	return c
}

// wrote checks that since the last change the sizes of these targets were written, each once, and
// nothing more than the status beside them. On a busy machine pods come and go one after the other, and a change
// may take a write more; a target that is to stay as it is takes none.
func (s *shop) wrote(ctx context.Context, t *testing.T, when string, targets ...string) {
	t.Helper()
	c := s.news(ctx, t, when)
	most := 0
	for _, n := range c.sizes {
		most = max(most, n)
	}
	if written := slices.Sorted(maps.Keys(c.sizes)); !slices.Equal(written, slices.Sorted(slices.Values(targets))) || most > 2 {
		t.Errorf("%s: sizes were written %v times, wanted once: %v", when, c.sizes, targets)
	}
	s.calm(t, when, c)
}

// news checks that since the last change no status was stored that says nothing new.
func (s *shop) news(ctx context.Context, t *testing.T, when string) cost {
	t.Helper()
	var c cost
	var told int
	err := wait.PollUntilContextTimeout(ctx, pollInterval, settledWithin, true, func(context.Context) (bool, error) {
		told, c = s.ledger.told(s.name), s.cost(t)
		return c.statuses == told, nil // a long answer is in the log a moment later, and so is the news of it here
	})
	if err != nil {
		t.Errorf("%s: the status was written %d times and changed %d times", when, c.statuses, told)
	}
	return c
}

// calm checks what holds for whatever was written: it is sizes and statuses and nothing else, and
// statuses not all the time. There is a new one when the spec is answered, and then when pods have
// come, run or gone since the one before, of which as many are taken together as change within a
// tenth of a second.
func (s *shop) calm(t *testing.T, when string, c cost) {
	t.Helper()
	t.Logf("%s: sizes %v, %d statuses, %d conflicts in %v", when, c.sizes, c.statuses, c.conflicts, c.took.Round(time.Millisecond))
	if len(c.rest) > 0 {
		t.Errorf("%s: these were written, too: %v", when, c.rest)
	}
	if most := 3 + int(c.took/(100*time.Millisecond)); c.statuses > most {
		t.Errorf("%s: %d statuses were written within %v, wanted at most %d", when, c.statuses, c.took, most)
	}
}

// begin has what is written from now on counted, and the fewest pods that run.
func (s *shop) begin(t *testing.T) {
	t.Helper()
	mark, err := s.plane.Mark()
	if err != nil {
		t.Fatal(err)
	}
	s.mark = mark
	s.ledger.begin()
}

// quiet checks that the controller writes nothing but its lease, for two renewals of it.
func (w *balancerCluster) quiet(ctx context.Context, t *testing.T) {
	t.Helper()
	mark, err := w.plane.Mark()
	if err != nil {
		t.Fatal(err)
	}
	var other []controlplane.Write
	until(ctx, t, "the lease is renewed twice", func() bool {
		writes, err := w.plane.Writes(controllerUser, mark)
		if err != nil {
			t.Fatal(err)
		}
		leases := 0
		other = slices.DeleteFunc(writes, func(w controlplane.Write) bool {
			if w.Resource == "leases" {
				leases++
			}
			return w.Resource == "leases"
		})
		return leases >= 2
	})
	if len(other) > 0 {
		t.Errorf("nothing changes, and this is written: %+v", other)
	}
}
