package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

const (
	// startsWithin is longer than pods take to start on a machine that has much else to do: where they take longer
	// replicas come and go once more.
	startsWithin = 20 * time.Second
	stableAfter  = 10 * time.Second
)

// inFallback are the conditions that hold while a target runs replicas in place of another.
var inFallback = []string{v1alpha1.ConditionFallbackActive, v1alpha1.ConditionTargetsReadable}

// A zone loses its nodes. The others run all replicas, and give them back when there are nodes
// again.
func vanishingZone(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "vanishing", zone{"a", 20}, zone{"b", 20}, zone{"c", 20})
	level := state{sizes: map[string]int32{"a": 3, "b": 3, "c": 3}}
	s.balance(ctx, t, s.balancer(9, fallback(proportional(map[string]int32{"a": 1, "b": 1, "c": 1}), startsWithin, stableAfter)))
	s.settles(ctx, t, "at first", level)

	s.begin(t)
	if err := s.Delete(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node("a")}}); err != nil {
		t.Fatal(err)
	}
	b := s.settles(ctx, t, "without nodes", state{
		sizes: map[string]int32{"a": 3, "b": 5, "c": 4}, running: map[string]int32{"a": 0}, holds: inFallback,
		says: map[string]string{v1alpha1.ConditionFallbackActive: "replicas of a are started elsewhere", "a": "3 have not started in time"},
	})
	s.wrote(ctx, t, "without nodes", "b", "c")
	s.neverFewer(t, "without nodes", 6)
	s.patient(t, "without nodes", s.missing(ctx, t, b, "a"), startsWithin)

	s.begin(t)
	s.addNode(ctx, t, zone{"a", 20})
	s.settles(ctx, t, "with nodes again", level)
	s.wrote(ctx, t, "with nodes again", "b", "c")
	s.neverFewer(t, "with nodes again", 9)
	s.patient(t, "with nodes again", s.ready(ctx, t, "a"), stableAfter)
}

// patient checks that since the last change no size was written before so much time had gone by.
func (s *shop) patient(t *testing.T, when string, since time.Time, least time.Duration) {
	t.Helper()
	writes, err := s.plane.Writes(controllerUser, s.mark)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range writes {
		if w.Namespace != s.namespace || w.Subresource != "scale" {
			continue
		}
		if waited := w.At.Sub(since); waited < least {
			t.Errorf("%s: %s was scaled after %v, wanted is %v at least", when, w.Name, waited, least)
		} else {
			t.Logf("%s: %s was scaled after %v", when, w.Name, waited.Round(time.Millisecond))
		}
	}
}

// missing is since when the pods of a target have had their time to start: since the first was
// created, or since the target was seen to have too few, in whole seconds.
func (s *shop) missing(ctx context.Context, t *testing.T, b *v1alpha1.Balancer, target string) time.Time {
	t.Helper()
	i := slices.IndexFunc(b.Status.Targets, func(is v1alpha1.BalancerTargetStatus) bool { return is.Name == target })
	if b.Status.Targets[i].BelowSizeSince == nil {
		t.Fatalf("%s is not said to be below its size", target)
	}
	since := b.Status.Targets[i].BelowSizeSince.Time
	for _, pod := range s.podsOf(ctx, t, target) {
		if pod.CreationTimestamp.Time.Before(since) {
			since = pod.CreationTimestamp.Time
		}
	}
	return since
}

// ready is when the last pod of a target became ready, in whole seconds.
func (s *shop) ready(ctx context.Context, t *testing.T, target string) time.Time {
	t.Helper()
	var last time.Time
	for _, pod := range s.podsOf(ctx, t, target) {
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodReady && c.LastTransitionTime.After(last) {
				last = c.LastTransitionTime.Time
			}
		}
	}
	if last.IsZero() {
		t.Fatalf("no pod of %s is ready", target)
	}
	return last
}

func (s *shop) podsOf(ctx context.Context, t *testing.T, target string) []v1.Pod {
	t.Helper()
	var pods v1.PodList
	if err := s.List(ctx, &pods, client.InNamespace(s.namespace), client.MatchingLabels{targetLabel: target}); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// An admission refuses the pods of one target: there are none to be seen, and they count as not
// started.
func refusedPods(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "refused", zone{"a", 20}, zone{"b", 20})
	binding := s.refuse(ctx, t, "a")
	s.balance(ctx, t, s.balancer(4, fallback(priority("a", "b"), startsWithin, stableAfter)))
	s.settles(ctx, t, "refused", state{
		sizes: map[string]int32{"a": 4, "b": 4}, running: map[string]int32{"a": 0}, holds: inFallback,
		says: map[string]string{"a": "4 have not started in time"},
	})
	s.wrote(ctx, t, "refused", "a", "b")

	s.begin(t)
	if err := s.Delete(ctx, binding); err != nil {
		t.Fatal(err)
	}
	s.settles(ctx, t, "accepted", state{sizes: map[string]int32{"a": 4, "b": 0}})
	s.wrote(ctx, t, "accepted", "b")
	s.neverFewer(t, "accepted", 4)
}

// refuse has the API server create no pods of a target until the binding is deleted.
func (s *shop) refuse(ctx context.Context, t *testing.T, target string) *admissionv1.ValidatingAdmissionPolicyBinding {
	t.Helper()
	name := s.node(target)
	s.create(ctx, t, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{targetLabel: target}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "no pods of " + name}},
		},
	})
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelMetadataName: s.namespace}},
			},
		},
	}
	s.create(ctx, t, binding)
	_, template := s.template(target)
	pod := &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = s.namespace, "probe"
	until(ctx, t, "pods of "+name+" are refused", func() bool { return s.Create(ctx, pod.DeepCopy(), client.DryRunAll) != nil })
	return binding
}

// Pods that run crash again and again: they count as not started, until they do no more.
func crashLoop(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "crashing", zone{"a", 20}, zone{"b", 20})
	level := state{sizes: map[string]int32{"a": 4, "b": 4}}
	s.balance(ctx, t, s.balancer(8, fallback(proportional(map[string]int32{"a": 1, "b": 1}), startsWithin, stableAfter)))
	s.settles(ctx, t, "at first", level)

	pods := s.podsOf(ctx, t, "a")
	s.begin(t)
	for i := range 2 {
		s.crashes(ctx, t, &pods[i], true)
	}
	s.settles(ctx, t, "crashing", state{
		sizes: map[string]int32{"a": 4, "b": 6}, running: map[string]int32{"a": 2}, holds: inFallback,
		says: map[string]string{"a": "known to be able to run 2 replicas; 2 have not started in time"},
	})
	s.wrote(ctx, t, "crashing", "b")

	s.begin(t)
	for i := range 2 {
		s.crashes(ctx, t, &pods[i], false)
	}
	s.settles(ctx, t, "well again", level)
	s.wrote(ctx, t, "well again", "b")
	s.neverFewer(t, "well again", 6) // those that are well again come one by one
}

// crashes makes a pod crash again and again, or run well, as far as its status tells.
func (s *shop) crashes(ctx context.Context, t *testing.T, pod *v1.Pod, again bool) {
	t.Helper()
	before := client.MergeFrom(pod.DeepCopy())
	now := metav1.Now()
	c := &pod.Status.ContainerStatuses[0]
	c.Ready, c.RestartCount, c.State = true, 0, v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}}
	is := v1.ConditionTrue
	if again {
		is = v1.ConditionFalse
		c.Ready, c.RestartCount = false, 5
		c.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		c.LastTerminationState = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1, StartedAt: pod.CreationTimestamp,
			FinishedAt: now}}
	}
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == v1.PodReady || condition.Type == v1.ContainersReady {
			condition.Status, condition.LastTransitionTime = is, now
		}
	}
	if err := s.Status().Patch(ctx, pod, before); err != nil {
		t.Fatal(err)
	}
}

// A Balancer is changed again and again while pods come and go, and ends as it is asked to last.
func editedInFlight(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "edited", zone{"a", 40}, zone{"b", 40}, zone{"c", 40})
	const fewest = 10
	s.balance(ctx, t, s.balancer(fewest, proportional(map[string]int32{"a": 1, "b": 1, "c": 1})))
	s.settles(ctx, t, "at first", state{sizes: map[string]int32{"a": 4, "b": 3, "c": 3}})
	random := rand.New(rand.NewPCG(1, 5))
	s.begin(t)
	tick := clock.RealClock{}.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for i := range int32(30) {
		<-tick.C()
		s.edit(ctx, t, func(spec *v1alpha1.BalancerSpec) { anotherSpec(spec, random, fewest, fewest+i/2) })
	}
	s.edit(ctx, t, func(spec *v1alpha1.BalancerSpec) {
		spec.Replicas = ptr.To[int32](25)
		spec.Policy = fallback(proportional(map[string]int32{"a": 1, "b": 2, "c": 2}), time.Second, time.Second)
		bound(spec, "a", 1, 9)
		bound(spec, "b", 0, 8)
		bound(spec, "c", 0, -1)
	})
	s.settles(ctx, t, "at last", state{sizes: map[string]int32{"a": 6, "b": 8, "c": 11}})
	s.neverFewer(t, "edited", fewest)
	s.calm(t, "edited", s.news(ctx, t, "edited"))
}

// anotherSpec draws another spec for three targets, each of which can have at least fewest
// replicas.
func anotherSpec(spec *v1alpha1.BalancerSpec, random *rand.Rand, fewest, replicas int32) {
	spec.Replicas = ptr.To(replicas)
	order := []string{"a", "b", "c"}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	spec.Policy = priority(order...)
	if random.IntN(2) == 0 {
		spec.Policy = proportional(map[string]int32{"a": 1 + random.Int32N(3), "b": random.Int32N(3), "c": random.Int32N(3)})
	}
	if random.IntN(2) == 0 {
		spec.Policy = fallback(spec.Policy, time.Second, time.Second)
	}
	for _, name := range order {
		least := random.Int32N(3)
		bound(spec, name, least, least+fewest+random.Int32N(20))
	}
}
