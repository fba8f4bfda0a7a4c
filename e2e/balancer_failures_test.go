package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/e2e/process"
)

// An autoscaler that never rests, and processes that fail. Every shop has controllers of its own,
// who look after nothing else.
func TestBalancerFailures(t *testing.T) {
	t.Parallel()
	ctx := t.Context() // each wait has a limit of its own
	w := newBalancerCluster(ctx, t)
	if err := w.Create(ctx, leaderRole()); err != nil {
		t.Fatal(err)
	}
	together(ctx, t, in(w, map[string]func(context.Context, *testing.T, *balancerCluster){
		"the leader is killed":  killedLeader,
		"the leader is stopped": stoppedLeader,
		"the leader is frozen":  frozenLeader,
		"a right is missing":    missingRights,
		"scaled every second":   scaledEverySecond,
	}))
	t.Run("the API server restarts", func(t *testing.T) { restartedServer(ctx, t, w) })
}

// leaderRole has the rights of a leader, in whatever namespace it is bound.
func leaderRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "leader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}
}

// hire starts a controller that looks after this shop only, as a user with two roles in its
// namespace.
func (s *shop) hire(ctx context.Context, t *testing.T, user, role string, args ...string) *evenkeel.Controller {
	t.Helper()
	for _, role := range []string{role, "leader"} {
		s.create(ctx, t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: user + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	}
	s.users = append(s.users, user)
	return evenkeel.StartController(t, evenkeel.ControllerOptions{
		Kubeconfig: s.plane.KubeconfigAs(t, user, "system:authenticated"),
		Args: append([]string{"--controllers=balancer", "--namespace=" + s.namespace, "--leader-elect-resource-namespace=" + s.namespace},
			args...),
	})
}

// ordinary is the role that the manifests give a controller.
const ordinary = "evenkeel-controller"

// scaled opens a shop with bounds that matter, whose Balancer asks for nothing yet.
func (w *balancerCluster) scaled(ctx context.Context, t *testing.T, namespace string) *shop {
	t.Helper()
	s := w.open(ctx, t, namespace, zone{"a", 60}, zone{"b", 60}, zone{"c", 60}, zone{"d", 60})
	s.users = nil
	b := s.balancer(0, proportional(map[string]int32{"a": 5, "b": 3, "c": 2, "d": 0}))
	bound(&b.Spec, "a", 0, 12)
	bound(&b.Spec, "b", 2, -1)
	bound(&b.Spec, "d", 1, -1)
	s.balance(ctx, t, b)
	return s
}

// due is what the shop comes to when so many replicas are asked for.
func (s *shop) due(ctx context.Context, t *testing.T, replicas int32) state {
	t.Helper()
	b := s.get(ctx, t)
	r := apportion.Request{Replicas: int64(replicas), Policy: apportion.Proportional}
	for _, name := range s.zones {
		rate := int64(b.Spec.Policy.Proportions.TargetProportions[name])
		r.Targets = append(r.Targets, asked(b, v1alpha1.BalancerTargetStatus{Name: name}, rate))
	}
	result, err := apportion.Distribute(r)
	if err != nil {
		t.Fatal(err)
	}
	want := state{sizes: map[string]int32{}, holds: []string{v1alpha1.ConditionBalanced, v1alpha1.ConditionTargetsReadable}}
	if result.Excess > 0 {
		want.holds = []string{v1alpha1.ConditionBalanced, v1alpha1.ConditionMinimumsExceedReplicas, v1alpha1.ConditionTargetsReadable}
	}
	for _, target := range result.Targets {
		want.sizes[target.Name] = int32(target.Replicas)
	}
	return want
}

// scale changes the number of replicas as an autoscaler does: by the Scale, without a look at the
// Balancer.
func (s *shop) scale(ctx context.Context, t *testing.T, replicas int32) {
	t.Helper()
	b := &v1alpha1.Balancer{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := s.SubResource("scale").Patch(ctx, b, patch); err != nil {
		t.Fatal(err)
	}
}

// sizes are what the targets ask for at one time.
func (s *shop) sizes(ctx context.Context, t *testing.T) (sizes map[string]int32, sum int32) {
	t.Helper()
	var list appsv1.DeploymentList
	if err := s.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	sizes = map[string]int32{}
	for _, d := range list.Items {
		sizes[d.Name] = *d.Spec.Replicas
		sum += *d.Spec.Replicas
	}
	return sizes, sum
}

// Another number is asked for every second, zero among them. The targets never ask for fewer
// together than was asked for since they last were as they should be. Each is written twice for a change at
// most: one that loses replicas may lose the last of them when those of another run.
func scaledEverySecond(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.scaled(ctx, t, "scaled")
	s.hire(ctx, t, "every-second", ordinary)
	s.settles(ctx, t, "at first", s.due(ctx, t, 0))
	s.begin(t)
	random := rand.New(rand.NewPCG(3, 14))
	tick := clock.RealClock{}.NewTicker(time.Second)
	defer tick.Stop()
	changes := 60
	if testing.Short() {
		changes = 20
	}
	asked, least, exact := int32(0), int32(0), 0
	for i := range changes {
		<-tick.C()
		asked = random.Int32N(41)
		if i%12 == 5 {
			asked = 0
		}
		least = min(least, asked)
		s.scale(ctx, t, asked)
		if s.reaches(ctx, t, s.due(ctx, t, asked).sizes, least, time.Second/2) {
			least = asked
			exact++
		}
	}
	s.settles(ctx, t, "at last", s.due(ctx, t, asked))
	t.Logf("%d of %d changes were carried out within half a second", exact, changes)
	c := s.cost(t)
	s.calm(t, "in all", c)
	for name, n := range c.sizes {
		if n > 2*changes {
			t.Errorf("%s was written %d times for %d changes", name, n, changes)
		}
	}
}

// reaches reports whether the targets come to these sizes in time, and checks that they never ask
// for fewer than least together.
func (s *shop) reaches(ctx context.Context, t *testing.T, want map[string]int32, least int32, within time.Duration) bool {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, within, true, func(context.Context) (bool, error) {
		sizes, sum := s.sizes(ctx, t)
		if sum < least {
			t.Errorf("the targets ask for %d replicas together (%v), at least %d were wanted all the time", sum, sizes, least)
		}
		return fmt.Sprint(sizes) == fmt.Sprint(want), nil
	})
	return err == nil
}

// untilWritten returns as soon as a controller has written something since the last change: it is
// about to write more.
func (s *shop) untilWritten(ctx context.Context, t *testing.T) {
	t.Helper()
	for ctx.Err() == nil {
		for i := range s.users {
			if len(s.writes(t, i)) > 0 {
				return
			}
		}
	}
	t.Fatal("nothing is written")
}

// The API server goes away and comes back in the midst of changes. The controller survives, and
// carries out the last.
func restartedServer(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.scaled(ctx, t, "restarted")
	// It is not to give up the leadership, however long the API server takes.
	c := s.hire(ctx, t, "survivor", ordinary, "--leader-elect-lease-duration=120s", "--leader-elect-renew-deadline=110s",
		"--leader-elect-retry-period=1s")
	s.settles(ctx, t, "at first", s.due(ctx, t, 0))
	s.begin(t)
	s.scale(ctx, t, 37)
	s.untilWritten(ctx, t)
	if err := s.plane.Restart(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	s.begin(t)
	s.scale(ctx, t, 22)
	s.settles(ctx, t, "afterwards", s.due(ctx, t, 22))
	s.calm(t, "afterwards", s.cost(t))
	if !process.Answers("http://" + c.Address + "/healthz")(ctx) {
		t.Error("the controller is not well")
	}
}

// brief is a lease that another controller takes over soon. A busy machine must not keep the leader waiting for so long.
var brief = []string{"--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=25s", "--leader-elect-retry-period=2s"}

// lead has two controllers, and returns the one that leads and the one that stands by.
func (s *shop) lead(ctx context.Context, t *testing.T, args ...string) (leads, standsBy *evenkeel.Controller) {
	t.Helper()
	leads = s.hire(ctx, t, s.namespace+"-1", ordinary, args...)
	until(ctx, t, "the first leads", func() bool { return s.leader(ctx) != "" })
	return leads, s.hire(ctx, t, s.namespace+"-2", ordinary, args...)
}

// leader is who holds the lease; empty if nobody does.
func (s *shop) leader(ctx context.Context) string {
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: s.namespace, Name: "evenkeel-controller"}
	if err := s.Get(ctx, key, &lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// writes are what a controller of the shop wrote to Balancers and targets since the last change.
func (s *shop) writes(t *testing.T, controller int) []controlplane.Write {
	t.Helper()
	all, err := s.plane.Writes(s.users[controller], s.mark)
	if err != nil {
		t.Fatal(err)
	}
	var out []controlplane.Write
	for _, w := range all {
		if w.Resource != "leases" && w.Resource != "events" {
			out = append(out, w)
		}
	}
	return out
}

// inTurn checks that both controllers wrote, and the second only when the first did no more.
func (s *shop) inTurn(t *testing.T) {
	t.Helper()
	first, second := s.writes(t, 0), s.writes(t, 1)
	if len(first) == 0 || len(second) == 0 {
		t.Fatalf("one wrote %d times, the other %d times", len(first), len(second))
	}
	for _, one := range first {
		for _, other := range second {
			if !one.At.Before(other.At) {
				t.Fatalf("both write: %+v and %+v", one, other)
			}
		}
	}
	t.Logf("%d writes of one, %d of the other", len(first), len(second))
}

// The leader is killed while it carries out a change. When its lease has run out the other one goes
// on.
func killedLeader(ctx context.Context, t *testing.T, w *balancerCluster) {
	var zones []zone // so many that the change takes a while; their pods find no node
	rates := map[string]int32{}
	for i := range 30 {
		zones = append(zones, zone{name: fmt.Sprintf("t%02d", i)})
		rates[zones[i].name] = 1
	}
	s := w.open(ctx, t, "killed", zones...)
	s.users = nil
	s.balance(ctx, t, s.balancer(0, proportional(rates)))
	due := func(replicas int32) state {
		want := s.due(ctx, t, replicas)
		want.running = map[string]int32{}
		for name := range rates {
			want.running[name] = 0
		}
		return want
	}
	leads, _ := s.lead(ctx, t, brief...)
	s.settles(ctx, t, "at first", due(0))
	before := s.leader(ctx)
	s.begin(t)
	s.scale(ctx, t, 60)
	s.untilWritten(ctx, t)
	leads.Kill()
	_, sum := s.sizes(ctx, t)
	t.Logf("killed when the targets had %d of 60 replicas", sum)
	for _, replicas := range []int32{3, 18, 40} {
		s.scale(ctx, t, replicas)
	}
	s.settles(ctx, t, "after the other took over", due(40))
	if after := s.leader(ctx); after == before || after == "" {
		t.Errorf("the leader is %q, it was %q", after, before)
	}
	s.inTurn(t)
	s.calm(t, "in all", s.cost(t))
}

// The leader is stopped while it carries out a change. It hands the lease over, and the other one
// does not wait for it to run out.
func stoppedLeader(ctx context.Context, t *testing.T, w *balancerCluster) {
	const lease = 10 * time.Minute
	s := w.scaled(ctx, t, "stopped")
	s.begin(t)
	leads, _ := s.lead(ctx, t, "--leader-elect-lease-duration="+lease.String(), "--leader-elect-renew-deadline=9m",
		"--leader-elect-retry-period=1s")
	s.settles(ctx, t, "at first", s.due(ctx, t, 0))
	before := s.leader(ctx)
	s.scale(ctx, t, 37)
	if err := leads.Stop(); err != nil {
		t.Fatal(err)
	}
	if code := leads.ExitCode(); code != 0 {
		t.Errorf("it exited with %d", code)
	}
	if now := s.leader(ctx); now == before {
		t.Error("it has ended and holds the lease")
	}
	until(ctx, t, "the other one leads", func() bool { return s.leader(ctx) != "" })
	s.scale(ctx, t, 14)
	s.settles(ctx, t, "after the other took over", s.due(ctx, t, 14))
	s.inTurn(t)
	s.calm(t, "in all", s.cost(t))
}

// The leader is frozen, with all of its connections, until the other one leads. When it goes on it
// finds that it leads no more, and ends.
func frozenLeader(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.scaled(ctx, t, "frozen")
	leads, _ := s.lead(ctx, t, brief...)
	s.settles(ctx, t, "at first", s.due(ctx, t, 0))
	before := s.leader(ctx)
	signal := func(what syscall.Signal) {
		if err := syscall.Kill(leads.PID(), what); err != nil {
			t.Fatal(err)
		}
	}
	s.begin(t)
	s.scale(ctx, t, 37)
	s.untilWritten(ctx, t)
	signal(syscall.SIGSTOP)
	s.scale(ctx, t, 21)
	s.settles(ctx, t, "after the other took over", s.due(ctx, t, 21))
	if after := s.leader(ctx); after == before || after == "" {
		t.Errorf("the leader is %q, it was %q", after, before)
	}
	s.scale(ctx, t, 30)
	signal(syscall.SIGCONT)
	well := process.Answers("http://" + leads.Address + "/healthz")
	until(ctx, t, "it has ended", func() bool { return !well(ctx) })
	if err := leads.Stop(); err != nil {
		t.Fatal(err)
	}
	if code := leads.ExitCode(); code != 1 {
		t.Errorf("it exited with %d", code)
	}
	s.settles(ctx, t, "after it has ended", s.due(ctx, t, 30))
	s.calm(t, "in all", s.cost(t))
}

// A right that is missing is named in the status, and the controller goes on as soon as it is
// granted.
func missingRights(ctx context.Context, t *testing.T, w *balancerCluster) {
	var role rbacv1.ClusterRole
	if err := w.Get(ctx, client.ObjectKey{Name: ordinary}, &role); err != nil {
		t.Fatal(err)
	}
	role.ObjectMeta = metav1.ObjectMeta{Name: "narrow"}
	scales := -1
	for i, rule := range role.Rules {
		if rule.Resources[0] == "deployments/scale" {
			scales = i
		}
	}
	grant := func(verbs ...string) {
		role.Rules[scales].Verbs = verbs
		if err := w.Update(ctx, &role); err != nil {
			t.Fatal(err)
		}
	}
	role.Rules[scales].Verbs = []string{"patch"} // of no use
	if err := w.Create(ctx, &role); err != nil {
		t.Fatal(err)
	}
	s := w.scaled(ctx, t, "narrow")
	s.begin(t)
	c := s.hire(ctx, t, "narrow", role.Name)
	s.scale(ctx, t, 20)
	zero := map[string]int32{"a": 0, "b": 0, "c": 0, "d": 0}
	s.says(ctx, t, v1alpha1.ConditionTargetsReadable, `a role has to allow "get" on resource "deployments/scale"`)
	if sizes, _ := s.sizes(ctx, t); fmt.Sprint(sizes) != fmt.Sprint(zero) {
		t.Errorf("without reading anything, the sizes were made %v", sizes)
	}
	grant("get")
	s.says(ctx, t, v1alpha1.ConditionBalanced, `a role has to allow "update" on resource "deployments/scale"`)
	if sizes, _ := s.sizes(ctx, t); fmt.Sprint(sizes) != fmt.Sprint(zero) {
		t.Errorf("without a right to write anything, the sizes were made %v", sizes)
	}
	grant("get", "update")
	s.settles(ctx, t, "with all rights", s.due(ctx, t, 20))
	if !process.Answers("http://" + c.Address + "/healthz")(ctx) {
		t.Error("the controller is not well")
	}
	refused := 0
	for _, w := range s.writes(t, 0) {
		if w.Code == 403 {
			refused++
		}
	}
	t.Logf("%d writes were refused", refused)
	if most := 4 * 20; refused > most {
		t.Errorf("%d writes were refused, which should be fewer and fewer a second", refused)
	}
}

// says waits until a condition is False and its message has a part.
func (s *shop) says(ctx context.Context, t *testing.T, kind, part string) {
	t.Helper()
	until(ctx, t, kind+" says "+part, func() bool {
		for _, c := range s.get(ctx, t).Status.Conditions {
			if c.Type == kind && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, part) {
				return true
			}
		}
		return false
	})
}
