package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// The size of the fleet, and of what is done with it.
// fleetBalancers is how many there are; make nightly has five hundred.
var fleetBalancers = flag.Int("balancers", 60, "how many Balancers the fleet has")

const (
	fleetNamespaces = 10
	fleetNodes      = 10
	// fleetMost and fleetLeast bound the replicas of a Balancer: what its targets can have, and
	// what they must.
	fleetLeast, fleetMost = 4, 7
	// fleetMemory is what the controller may take, in bytes.
	fleetMemory = 150 << 20
)

// fleetTargets are the names of the targets of each Balancer.
var fleetTargets = [...]string{"a", "b", "c", "d"}

// Balancers of four Deployments each, whose pods run: their replicas are changed one by one and all
// at once, and between that nothing is changed.
func TestFleetOfBalancers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	if testing.Short() {
		t.Skip("a load; whether replicas are right is shown by TestBalancer")
	}
	f := newFleet(ctx, t)
	for _, phase := range []struct {
		name string
		run  func(context.Context, *testing.T)
	}{{"created", f.created}, {"one by one", f.oneByOne}, {"idle", f.idle},
		{"memory", f.memory}, {"all at once", f.allAtOnce}} {
		if !t.Run(phase.name, func(t *testing.T) { phase.run(ctx, t) }) {
			t.FailNow()
		}
	}
}

// balancerFleet is the Balancers and what is around them.
type balancerFleet struct {
	*balancerCluster
	process   *evenkeel.Controller
	balancers []*v1alpha1.Balancer // as they were asked for last
	sizes     *sizes
	random    *rand.Rand
}

func newFleet(ctx context.Context, t *testing.T) *balancerFleet {
	f := &balancerFleet{balancerCluster: newBalancerCluster(ctx, t), random: rand.New(rand.NewPCG(7, 8))}
	for i := range fleetNodes {
		if err := f.plane.AddNodes(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range fleetNamespaces {
		if err := f.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fleet-%d", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	f.sizes = watchSizes(ctx, t, f.plane.Config, deployments)
	// The leader is not to lose its lease where a busy machine keeps it waiting.
	f.process = f.controller(t, "--leader-elect-lease-duration=3m", "--leader-elect-renew-deadline=2m")
	return f
}

// created creates everything, and waits until the pods run.
func (f *balancerFleet) created(ctx context.Context, t *testing.T) {
	mark := f.mark(t)
	began := time.Now()
	for i := range *fleetBalancers {
		f.balancers = append(f.balancers, fleetBalancer(i, f.replicas()))
	}
	f.atOnce(t, func(b *v1alpha1.Balancer) error {
		for _, target := range fleetTargets {
			if err := f.Create(ctx, fleetDeployment(b, target)); err != nil {
				return err
			}
		}
		return f.Create(ctx, b)
	})
	t.Logf("%d Balancers of %d targets created in %s", len(f.balancers), len(fleetTargets), time.Since(began).Round(time.Millisecond))
	last := f.exact(ctx, t, f.balancers)
	t.Logf("every sum exact %s after the first was created", last.Sub(began).Round(time.Millisecond))
	pods := f.settled(ctx, t)
	t.Logf("%d pods run, and all is quiet, %s after the first Balancer was created", pods, time.Since(began).Round(time.Second))
	f.judge(t, mark, nil)
	f.logMemory(t)
}

// oneByOne changes the replicas of one Balancer at a time, and of none twice.
func (f *balancerFleet) oneByOne(ctx context.Context, t *testing.T) {
	mark := f.mark(t)
	var took []time.Duration
	changes := map[*v1alpha1.Balancer]fleetLayout{}
	for _, i := range f.random.Perm(len(f.balancers))[:len(f.balancers)/5] {
		b := f.balancers[i]
		changes[b] = layoutOf(b)
		if err := f.ask(ctx, b, f.another(b)); err != nil {
			t.Fatal(err)
		}
		accepted := time.Now()
		took = append(took, max(0, f.exact(ctx, t, []*v1alpha1.Balancer{b}).Sub(accepted)))
	}
	t.Logf("from a change of replicas to all targets written: %s", percentiles(took))
	f.settled(ctx, t)
	f.exact(ctx, t, f.balancers)
	f.judge(t, mark, changes)
}

// idle sees to it that nothing is written while nothing changes.
func (f *balancerFleet) idle(ctx context.Context, t *testing.T) {
	mark := f.mark(t)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, time.Second, false, func(context.Context) (bool, error) {
		return len(f.written(t, mark)) > 0, nil
	})
	if err == nil {
		t.Errorf("written while nothing changed: %+v", f.written(t, mark))
	}
}

// memory holds the controller to its bound. Its peak was when the fleet was created or changed one
// by one.
func (f *balancerFleet) memory(_ context.Context, t *testing.T) {
	peak, present := f.logMemory(t)
	if max(peak, present) > fleetMemory {
		t.Errorf("the controller took %d MiB, more than %d", peak>>20, fleetMemory>>20)
	}
}

// allAtOnce changes the replicas of all Balancers.
func (f *balancerFleet) allAtOnce(ctx context.Context, t *testing.T) {
	mark := f.mark(t)
	changes, replicas := map[*v1alpha1.Balancer]fleetLayout{}, map[*v1alpha1.Balancer]int32{}
	for _, b := range f.balancers {
		changes[b], replicas[b] = layoutOf(b), f.another(b)
	}
	began := time.Now()
	f.atOnce(t, func(b *v1alpha1.Balancer) error { return f.ask(ctx, b, replicas[b]) })
	accepted := time.Now()
	last := f.exact(ctx, t, f.balancers)
	t.Logf("%d changes accepted within %s, every sum exact %s after the first", len(f.balancers), accepted.Sub(began).Round(time.Millisecond),
		last.Sub(began).Round(time.Millisecond))
	f.settled(ctx, t)
	f.exact(ctx, t, f.balancers)
	f.judge(t, mark, changes)
	f.logMemory(t)
}

// replicas is a number of replicas for a Balancer.
func (f *balancerFleet) replicas() int32 { return fleetLeast + f.random.Int32N(fleetMost-fleetLeast+1) }

// another is another number of replicas than a Balancer is asked for.
func (f *balancerFleet) another(b *v1alpha1.Balancer) int32 {
	for {
		if replicas := f.replicas(); replicas != *b.Spec.Replicas {
			return replicas
		}
	}
}

// ask asks a Balancer for so many replicas.
func (f *balancerFleet) ask(ctx context.Context, b *v1alpha1.Balancer, replicas int32) error {
	before := client.MergeFrom(b.DeepCopy())
	b.Spec.Replicas = &replicas
	return f.Patch(ctx, b, before)
}

// atOnce does something with every Balancer, as fast as the API server takes it.
func (f *balancerFleet) atOnce(t *testing.T, do func(*v1alpha1.Balancer) error) {
	t.Helper()
	inParallel(t, f.balancers, do)
}

// exact waits until the targets of Balancers have exactly what they should, and says when the last
// of them got it.
func (f *balancerFleet) exact(ctx context.Context, t *testing.T, of []*v1alpha1.Balancer) time.Time {
	t.Helper()
	want := map[types.NamespacedName]int32{}
	for _, b := range of {
		for i, replicas := range layoutOf(b) {
			want[types.NamespacedName{Namespace: b.Namespace, Name: fleetName(b, fleetTargets[i])}] = replicas
		}
	}
	last, err := f.sizes.await(ctx, want)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// settled waits until the pods of every Balancer run and the controller has nothing more to write.
// It counts the pods.
func (f *balancerFleet) settled(ctx context.Context, t *testing.T) int32 {
	t.Helper()
	var pods int32
	mark := f.mark(t)
	err := wait.PollUntilContextCancel(ctx, 2*time.Second, false, func(ctx context.Context) (bool, error) {
		since := mark
		mark = f.mark(t)
		if len(f.written(t, since)) > 0 {
			return false, nil
		}
		var list v1alpha1.BalancerList
		if err := f.List(ctx, &list); err != nil {
			return false, err
		}
		pods = 0
		for i := range list.Items {
			if !asAsked(&list.Items[i]) {
				return false, nil
			}
			pods += list.Items[i].Status.Replicas
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("waiting until all pods run and nothing is written: %v", err)
	}
	return pods
}

// asAsked reports whether a Balancer says that all it asks for runs, and nothing else is there.
func asAsked(b *v1alpha1.Balancer) bool {
	if b.Status.ObservedGeneration != b.Generation || b.Status.Replicas != *b.Spec.Replicas {
		return false
	}
	return !slices.ContainsFunc(b.Status.Targets, func(s v1alpha1.BalancerTargetStatus) bool { return s.Running != s.Desired })
}

func (f *balancerFleet) mark(t *testing.T) controlplane.Mark {
	t.Helper()
	mark, err := f.plane.Mark()
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// written is what the controller wrote, but for its lease, and what it told of that.
func (f *balancerFleet) written(t *testing.T, since controlplane.Mark) []controlplane.Write {
	t.Helper()
	writes, err := f.plane.Writes(controllerUser, since)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(writes, func(w controlplane.Write) bool { return w.Namespace == "evenkeel-system" })
}

// logMemory says how much memory the controller took at most, and takes, in bytes; 0 if the system
// does not tell.
func (f *balancerFleet) logMemory(t *testing.T) (peak, present int64) {
	t.Helper()
	return memoryOf(t, f.process)
}

// memoryOf says how much memory a controller took at most, and takes, in bytes; 0 if the system does
// not tell.
func memoryOf(t *testing.T, process *evenkeel.Controller) (peak, present int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.PID()))
	if err != nil {
		t.Logf("the memory of the controller is not known: %v", err)
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmHWM":
			peak = kilobytes << 10
		case "VmRSS":
			present = kilobytes << 10
		}
	}
	t.Logf("the controller takes %d MiB, and took %d MiB at most", present>>20, peak>>20)
	return peak, present
}

// fleetBalancer is one of the fleet: every other is proportional, and the rest go by priority.
func fleetBalancer(i int, replicas int32) *v1alpha1.Balancer {
	b := &v1alpha1.Balancer{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("fleet-%d", i%fleetNamespaces),
		Name: fmt.Sprintf("web-%d", i)}}
	b.Spec.Replicas = &replicas
	b.Spec.Selector.MatchLabels = map[string]v1alpha1.LabelValue{"app": v1alpha1.LabelValue(b.Name)}
	for _, name := range fleetTargets {
		b.Spec.Targets = append(b.Spec.Targets, v1alpha1.BalancerTarget{
			Name: name, ScaleTargetRef: v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: fleetName(b, name)},
		})
	}
	if i/fleetNamespaces%2 == 0 {
		b.Spec.Policy.PolicyName = v1alpha1.ProportionalPolicyName
		b.Spec.Policy.Proportions = &v1alpha1.ProportionalPolicy{TargetProportions: map[string]int32{"a": 1, "b": 1, "c": 1, "d": 2}}
		return b
	}
	b.Spec.Policy.PolicyName = v1alpha1.PriorityPolicyName
	b.Spec.Policy.Priorities = &v1alpha1.PriorityPolicy{TargetOrder: []string{"b", "a", "c"}}
	b.Spec.Targets[0].MaxReplicas = ptr.To[int32](2)
	b.Spec.Targets[1].MaxReplicas = ptr.To[int32](2)
	b.Spec.Targets[2].MinReplicas = ptr.To[int32](1)
	b.Spec.Targets[3].MinReplicas = ptr.To[int32](1)
	return b
}

// fleetName is the name of the Deployment that is a target of a Balancer.
func fleetName(b *v1alpha1.Balancer, target string) string { return b.Name + "-" + target }

func fleetDeployment(b *v1alpha1.Balancer, target string) *appsv1.Deployment {
	d := emptyDeployment(b.Namespace, fleetName(b, target))
	d.Spec.Selector.MatchLabels["app"] = b.Name // its template has the same map
	return d
}

// fleetLayout is what the targets of a Balancer are to have.
type fleetLayout [len(fleetTargets)]int32

// layoutOf says what the targets of a Balancer of the fleet are to have.
func layoutOf(b *v1alpha1.Balancer) fleetLayout {
	replicas := *b.Spec.Replicas
	if b.Spec.Policy.PolicyName == v1alpha1.ProportionalPolicyName {
		// One after the other gets the next of every five: whose share exceeds what it has most,
		// then by name.
		l := fleetLayout{replicas / 5, replicas / 5, replicas / 5, replicas / 5 * 2}
		for _, i := range []int{3, 0, 1, 2}[:replicas%5] {
			l[i]++
		}
		return l
	}
	// c and d have their minimum, b is filled up, then a, and c gets the rest.
	rest := replicas - 2
	b2 := min(2, rest)
	a := min(2, rest-b2)
	return fleetLayout{a, b2, 1 + rest - b2 - a, 1}
}
