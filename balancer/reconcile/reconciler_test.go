package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is a reconciler with all that it works on.
type bench struct {
	*reconciler
	t        *testing.T
	server   *server
	clock    *clocktesting.FakePassiveClock
	recorder recorder
	registry *prometheus.Registry
	patches  int // of Balancers, status included
	// refuse answers the patches of a status, counted from 1; nil refuses none.
	refuse func(patch int) error
}

// recorder notes events, each with the object that it is about besides the Balancer.
type recorder struct{ *events.FakeRecorder }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if ref, ok := related.(*v1.ObjectReference); ok {
		note = fmt.Sprintf("(%s %s/%s) ", ref.Kind, ref.Namespace, ref.Name) + note
	}
	r.FakeRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	b := &bench{
		t: t, server: newServer(), clock: clocktesting.NewFakePassiveClock(start),
		recorder: recorder{events.NewFakeRecorder(100)}, registry: prometheus.NewRegistry(),
	}
	t.Cleanup(b.server.Close)
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Balancer{}).
		WithIndex(&v1alpha1.Balancer{}, byTargetName, targetNames).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				b.patches++
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				opts ...client.SubResourcePatchOption) error {
				b.patches++
				if err := ctx.Err(); err != nil {
					return err // as a client does that calls an API server
				}
				if b.refuse != nil {
					if err := b.refuse(b.patches); err != nil {
						return err
					}
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	scales, err := scale.New(b.server.config(), scale.Options{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := scale.NewWatcher(b.server.config(), scale.WatcherOptions{}) // it does not run: targets are polled
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMetrics(b.registry)
	if err != nil {
		t.Fatal(err)
	}
	b.reconciler = newReconciler(access{client: c, live: c, balancers: &balancers{cache: c}, scales: scales, watcher: watcher,
		events: passes.Recorder{EventRecorder: b.recorder, Action: action}}, m, b.clock)
	return b
}

// balancerOf shares replicas among targets equally.
func balancerOf(name string, replicas int32, targets ...string) *v1alpha1.Balancer {
	b := &v1alpha1.Balancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1},
		Spec: v1alpha1.BalancerSpec{
			Replicas: &replicas,
			Selector: v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "web"}},
			Policy: v1alpha1.BalancerPolicy{
				PolicyName: v1alpha1.ProportionalPolicyName, Proportions: &v1alpha1.ProportionalPolicy{TargetProportions: map[string]int32{}},
			},
		},
	}
	for _, t := range targets {
		b.Spec.Targets = append(b.Spec.Targets, v1alpha1.BalancerTarget{Name: t, ScaleTargetRef: v1alpha1.ScaleTargetReference{Kind: "Deployment",
			Name: t}})
		b.Spec.Policy.Proportions.TargetProportions[t] = 1
	}
	return b
}

// running is a pod that runs.
func running(name string, labels map[string]string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels, CreationTimestamp: metav1.Time{Time: start.Add(-time.Hour)}},
		Status:     v1.PodStatus{Phase: v1.PodRunning},
	}
}

func pods(target string, n int) (out []client.Object) {
	for i := range n {
		out = append(out, running(fmt.Sprintf("%s-%d", target, i), map[string]string{"app": "web", "target": target}))
	}
	return out
}

func (b *bench) pass(name string) time.Duration {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), passes.Request(balancerOf(name, 0)))
	if err != nil {
		b.t.Fatal(err)
	}
	return result.RequeueAfter
}

// restart has another controller take over, which knows nothing but what is stored.
func (b *bench) restart() {
	b.t.Helper()
	m, err := NewMetrics(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.reconciler = newReconciler(b.access, m, b.clock)
}

func (b *bench) get(name string) *v1alpha1.Balancer {
	b.t.Helper()
	var out v1alpha1.Balancer
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &out); err != nil {
		b.t.Fatal(err)
	}
	return &out
}

func (b *bench) wrote(want string) {
	b.t.Helper()
	if got := b.server.written(); got != want {
		b.t.Errorf("wrote %q, want %q", got, want)
	}
}

// told takes the events since it was last asked.
func (b *bench) told() string {
	var out []string
	for {
		select {
		case e := <-b.recorder.Events:
			out = append(out, e)
		default:
			return strings.Join(out, "\n")
		}
	}
}

func TestIdlePassesWriteNothing(t *testing.T) {
	b := newBench(t, append(append(pods("a", 5), pods("b", 5)...), balancerOf("web", 10, "a", "b"))...)
	b.server.deploy("a", 0)
	b.server.deploy("b", 0)
	if again := b.pass("web"); again != scale.PollInterval {
		t.Errorf("the next pass is in %s, want that of targets that are polled", again)
	}
	b.wrote("a=5 b=5")
	status := b.get("web").Status
	if status.Replicas != 10 || status.Selector != "app=web" || status.ObservedGeneration != 1 || status.Targets[0].Desired != 5 {
		t.Errorf("the status is %+v", status)
	}
	if told := b.told(); strings.Count(told, "Normal Rescaled") != 2 {
		t.Errorf("told %q", told)
	}
	b.pass("web") // finds the pods
	b.patches = 0
	b.told()
	for range 3 {
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
		b.pass("web")
	}
	b.wrote("")
	if told := b.told(); b.patches != 0 || told != "" {
		t.Errorf("%d writes of the Balancer and events %q, want none", b.patches, told)
	}
}

func TestScaleUpsComeBeforeScaleDowns(t *testing.T) {
	b := newBench(t, balancerOf("web", 9, "a", "b", "c"))
	b.server.deploy("a", 10)
	b.server.deploy("b", 4)
	b.server.deploy("c", 1)
	b.pass("web")
	b.wrote("c=3 a=3 b=3")
}

func TestFailedScaleUpHoldsBackScaleDown(t *testing.T) {
	b := newBench(t, balancerOf("web", 9, "a", "b", "c"))
	b.server.deploy("a", 10)
	b.server.deploy("b", 4)
	b.server.deploy("c", 1)
	b.server.change(func() { b.server.refuse["c"] = http.StatusForbidden })
	if again := b.pass("web"); again != passes.FirstRetry {
		t.Errorf("the next pass is in %s, want %s", again, passes.FirstRetry)
	}
	b.wrote("a=4") // of the 8 that were to go, 2 were to be replaced on c: b's one and one of a's
	status := b.get("web").Status
	balanced := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBalanced)
	if balanced.Status != metav1.ConditionFalse || balanced.Reason != reasonNotWritten || !strings.Contains(balanced.Message, "c: ") {
		t.Errorf("the condition is %+v", balanced)
	}
	for i, want := range []int32{4, 4, 1} {
		if status.Targets[i].Current != want {
			t.Errorf("target %s is said to have %d, want %d", status.Targets[i].Name, status.Targets[i].Current, want)
		}
	}
	if told := b.told(); !strings.Contains(told, "Warning NotWritten") || strings.Count(told, "Rescaled") != 1 {
		t.Errorf("told %q", told)
	}
	b.pass("web")
	b.patches = 0
	b.told()
	b.pass("web")
	if told := b.told(); b.patches != 0 || told != "" {
		t.Errorf("a pass that fails as the one before made %d writes of the Balancer and events %q", b.patches, told)
	}
	b.server.change(func() { clear(b.server.refuse) })
	b.pass("web")
	b.wrote("c=3 a=3 b=3")
}

func TestConflictIsRetriedOnFreshData(t *testing.T) {
	b := newBench(t, balancerOf("web", 4, "a", "b"))
	b.server.deploy("a", 0)
	b.server.deploy("b", 0)
	b.server.change(func() { b.server.refuse["a"] = http.StatusConflict })
	if again := b.pass("web"); again != passes.FirstRetry {
		t.Errorf("the next pass is in %s, want %s", again, passes.FirstRetry)
	}
	b.wrote("b=2")
	if told := b.told(); strings.Contains(told, "Warning") {
		t.Errorf("told %q, but a conflict is nobody's concern", told)
	}
	b.server.change(func() { clear(b.server.refuse) })
	b.pass("web")
	b.wrote("a=2")
}

// A target that changes again and again waits neither for the times that it changed before, nor for
// a target that cannot be read.
func TestConflictIsRetriedSoon(t *testing.T) {
	for name, other := range map[string]v1alpha1.ScaleTargetReference{
		"alone":             {Kind: "Deployment", Name: "b"},
		"beside a stranger": {APIVersion: "example.com/v1", Kind: "Gizmo", Name: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			balancer := balancerOf("web", 4, "a", "b")
			balancer.Spec.Targets[1].ScaleTargetRef = other
			b := newBench(t, balancer)
			b.server.deploy("a", 0)
			b.server.deploy("b", 2)
			b.server.change(func() { b.server.refuse["a"] = http.StatusConflict })
			for range 8 {
				if again := b.pass("web"); again != passes.FirstRetry {
					t.Errorf("the next pass is in %s, want %s", again, passes.FirstRetry)
				}
			}
		})
	}
}

// Between read and write, once, the status of a target changes, or its size, or it is deleted and
// created again. Only in the first case it is written at once.
func TestConflictAboutTheStatusIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*autoscalingv1.Scale)
		wrote     string
	}{
		"status":   {func(s *autoscalingv1.Scale) { s.Status.Replicas = 1 }, "a=2 b=2"},
		"size":     {func(s *autoscalingv1.Scale) { s.Spec.Replicas = 7 }, "b=2"},
		"recreate": {func(s *autoscalingv1.Scale) { s.UID = "2" }, "b=2"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, balancerOf("web", 4, "a", "b"))
			b.server.deploy("a", 0)
			b.server.deploy("b", 0)
			refused := false
			b.server.change(func() {
				b.server.gate = func(r *http.Request) {
					if !strings.Contains(r.URL.Path, "/a/") {
						return
					}
					b.server.change(func() {
						switch {
						case refused:
							clear(b.server.refuse)
						case r.Method == http.MethodPut:
							refused = true
							b.server.refuse["a"] = http.StatusConflict
							c.meanwhile(b.server.scales["a"])
						}
					})
				}
			})
			b.pass("web")
			b.wrote(c.wrote)
		})
	}
}

func TestUnreadableTargetStopsNoOther(t *testing.T) {
	b := newBench(t, balancerOf("web", 9, "a", "b", "c"))
	b.server.deploy("a", 0)
	b.server.deploy("b", 0)
	b.pass("web")
	b.wrote("a=5 b=4")
	status := b.get("web").Status
	if !meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionTargetsReadable) {
		t.Error("a target that is not there is said to be readable")
	}
	want := "# HELP evenkeel_balancer_missing_targets Targets that do not exist, by Balancer.\n# TYPE " +
		"evenkeel_balancer_missing_targets gauge\n" +
		"evenkeel_balancer_missing_targets{name=\"web\",namespace=\"shop\"} 1\n"
	if err := testutil.GatherAndCompare(b.registry, strings.NewReader(want), "evenkeel_balancer_missing_targets"); err != nil {
		t.Error(err)
	}
	b.server.deploy("c", 0)
	b.pass("web")
	if status := b.get("web").Status; !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionTargetsReadable) {
		t.Error("a target that came is said not to be readable")
	}
}

func TestSumFoundIsAdopted(t *testing.T) {
	web := balancerOf("web", 0, "a", "b")
	web.Spec.Replicas = nil
	b := newBench(t, web)
	b.server.deploy("a", 5)
	b.server.deploy("b", 2)
	b.pass("web")
	b.wrote("")
	if got := b.get("web").Spec.Replicas; got == nil || *got != 7 {
		t.Errorf("spec.replicas is %v, want 7", got)
	}
}

func TestInvalidSpecIsRefused(t *testing.T) {
	web := balancerOf("web", 4, "a")
	web.Spec.Policy.Proportions.TargetProportions["nobody"] = 1
	b := newBench(t, web)
	b.server.deploy("a", 0)
	b.pass("web")
	b.wrote("")
	if told := b.told(); !strings.Contains(told, "Warning InvalidSpec") {
		t.Errorf("told %q", told)
	}
	b.pass("web")
	if told := b.told(); told != "" {
		t.Errorf("told %q once more", told)
	}
}

// gauges is how many series there are of Balancers.
func (b *bench) gauges() (n int) {
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetType() == dto.MetricType_GAUGE && f.GetName() != "evenkeel_balancer_malformed" {
			n += len(f.GetMetric())
		}
	}
	return n
}

func TestBalancerThatIsGoneIsForgotten(t *testing.T) {
	b := newBench(t, balancerOf("web", 4, "nowhere"))
	b.pass("web")
	if b.gauges() != 7 {
		t.Error("the target is not counted")
	}
	if err := b.client.Delete(t.Context(), b.get("web")); err != nil {
		t.Fatal(err)
	}
	if again := b.pass("web"); again != 0 || b.gauges() != 0 ||
		b.retries.NumRequeues(passes.Request(balancerOf("web", 0)).NamespacedName) != 0 {
		t.Error("something is remembered")
	}
}

func TestStatusIsNotStoredOverAnother(t *testing.T) {
	b := newBench(t, balancerOf("web", 4, "a"))
	b.server.deploy("a", 4)
	stale := b.get("web")
	changed := b.get("web")
	changed.Labels = map[string]string{"x": "y"}
	if err := b.client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	result, err := b.reconciler.pass(t.Context(), client.ObjectKeyFromObject(stale), stale)
	if err != nil || result != (reconcile.Result{RequeueAfter: passes.FirstRetry}) {
		t.Errorf("the pass gave %v, %v, want another in %s", result, err, passes.FirstRetry)
	}
}

// Events of one pass that say the same of several targets are distinguished by what the targets
// are: else they would be taken for one.
func TestEventsTellTheirTargets(t *testing.T) {
	b := newBench(t, balancerOf("web", 4, "a", "b", "c"))
	b.server.deploy("a", 0)
	b.server.deploy("b", 0)
	b.pass("web")
	told := b.told()
	for _, want := range []string{
		"Normal Rescaled (Deployment shop/a) target a: ", "Normal Rescaled (Deployment shop/b) target b: ",
		"Warning TargetMissing (Deployment shop/c) target c: ",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("told %q, want %q in it", told, want)
		}
	}
}

func TestLongEventsAreCut(t *testing.T) {
	b := newBench(t)
	b.event(balancerOf("web", 1), "", v1.EventTypeNormal, "Long", strings.Repeat("é", 1024))
	b.event(balancerOf("web", 1), "", v1.EventTypeNormal, "Long", "x"+strings.Repeat("é", 1024))
	for _, want := range []int{1024, 1024 - 1} {
		if got := len(strings.TrimPrefix(<-b.recorder.Events, "Normal Long ")); got != want {
			t.Errorf("an event has %d bytes, want %d", got, want)
		}
	}
}

func TestMetricsAreSound(t *testing.T) {
	b := newBench(t)
	problems, err := testutil.GatherAndLint(b.registry)
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	b = newBench(t, balancerOf("web", 1, "a"))
	b.server.deploy("a", 1)
	b.pass("web")
	if problems, err = testutil.GatherAndLint(b.registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 10 {
		t.Errorf("there are %d metrics", len(families))
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "evenkeel_balancer_") {
			t.Errorf("a metric is called %s", f.GetName())
		}
	}
	if _, err := NewMetrics(b.registry); err == nil {
		t.Error("the same metrics were registered twice")
	}
}
