package e2e

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/internal/controller"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// A webhook server that is killed in the middle costs tries and no pod: the counts are exact.
func killedServer(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "killed", zone{"a", 1000}, zone{"b", 1000})
	m.spread(ctx, t, m.bounded("Deployment", "a 60", "b"))
	m.create(ctx, t, m.web(150))
	untilBriefly(ctx, t, "some pods are there", func() bool { return len(m.replicas(ctx, t)) > 20 })
	w.servers[0].Kill()
	w.service.remove(w.servers[0].webhooks)
	m.filledUp(ctx, t, "after a webhook server was killed")
	w.start(ctx, t, w.servers[0])
}

// filledUp waits until all 150 pods run. They are in their subsets, and the status counts them. A pod that
// was counted and whose creation got lost keeps its place for a while, so that others are in b: as many as were on their
// way, which are 32 for a ReplicaSet that has not got 63 pods.
func (m *market) filledUp(ctx context.Context, t *testing.T, when string) {
	t.Helper()
	until(ctx, t, "all pods run "+when, func() bool { return m.running(ctx, t) == 150 })
	got := m.inSubsets(ctx, t)
	if got["a"] < 60-32 || got["a"]+got["b"] != 150 {
		t.Errorf("%s the subsets have %v", when, got)
	}
	m.counts(ctx, t, when, got)
	m.never(t, map[string]int{"": 0, "a": 60})
}

// start starts a controller again.
func (w *spreadCluster) start(ctx context.Context, t *testing.T, s *server) {
	t.Helper()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Await(ctx); err != nil {
		t.Fatal(err)
	}
	w.service.add(s.webhooks)
}

// The API server restarts while pods are counted.
func restartedWhileCounting(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "restarted", zone{"a", 1000}, zone{"b", 1000})
	m.spread(ctx, t, m.bounded("Deployment", "a 60", "b"))
	m.create(ctx, t, m.web(150))
	untilBriefly(ctx, t, "some pods are there", func() bool { return len(m.replicas(ctx, t)) > 20 })
	if err := w.plane.Restart(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	m.filledUp(ctx, t, "after the API server restarted")
	m.watchedAgain(ctx, t)
	for _, s := range w.servers { // a leader that could not renew its lease has ended, to be restarted
		if !s.Runs() {
			w.service.remove(s.webhooks)
			w.start(ctx, t, s)
		}
	}
}

// watchedAgain waits until the ReplicaSet controller knows of a pod that it creates now. It watches pods again some time after the API
// server is back, and of pods that have come and gone until then it waits for the news for five minutes before it creates others.
func (m *market) watchedAgain(ctx context.Context, t *testing.T) {
	t.Helper()
	d, of := m.web(1), map[string]string{"app": "witness"}
	d.Name, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = "witness", of, of
	m.create(ctx, t, d)
	until(ctx, t, "a pod is known that was created after the restart", func() bool {
		return m.Get(ctx, client.ObjectKeyFromObject(d), d) == nil && d.Status.ReadyReplicas == 1
	})
}

// The leader is killed when it has stored that pods move on: the other one finishes, and nothing is
// counted twice.
func killedWhileMoving(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "moving", zone{"a", 0}, zone{"b", 110})
	m.spread(ctx, t, adaptive(m.bounded("Deployment", "a 8", "b"), 2, 120))
	m.create(ctx, t, m.web(10))
	o := &v1alpha1.WorkloadSpread{}
	untilBriefly(ctx, t, "pods move on", func() bool {
		return m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "web"}, o) == nil && o.Status.Reschedules != nil
	})
	leader := w.leads(ctx, t)
	leader.Kill()
	w.service.remove(leader.webhooks)
	m.counts(ctx, t, "after the leader was killed", map[string]int{"b": 10})
	if err := m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "web"}, o); err != nil || o.Status.Reschedules.Count > 16 {
		t.Errorf("moves were counted twice: %v %v", o.Status.Reschedules, err)
	}
	w.start(ctx, t, leader)
}

// leads is what the metrics of the leader say.
var leads = regexp.MustCompile(`(?m)^leader_election_master_status\{.*\} 1$`)

// leading reports whether a controller leads.
func leading(ctx context.Context, t *testing.T, c *evenkeel.Controller) bool {
	t.Helper()
	_, text := scrape(ctx, t, "http://"+c.Address+"/metrics", "", nil)
	return leads.MatchString(text)
}

func untilLeading(ctx context.Context, t *testing.T, c *evenkeel.Controller) {
	t.Helper()
	until(ctx, t, "it leads", func() bool { return leading(ctx, t, c) })
}

// leads is the controller that says so in its metrics.
func (w *spreadCluster) leads(ctx context.Context, t *testing.T) *server {
	t.Helper()
	var leader *server
	until(ctx, t, "somebody leads", func() bool {
		i := slices.IndexFunc(w.servers, func(s *server) bool {
			return leading(ctx, t, s.Controller)
		})
		if i >= 0 {
			leader = w.servers[i]
		}
		return i >= 0
	})
	return leader
}

// While nobody leads, webhook servers count by themselves: pods get their seats, also those of pods that have
// gone, and they go in the order of the subsets, since they have their costs from the beginning.
func nobodyLeads(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "leaderless", zone{"a", 110}, zone{"b", 110}, zone{"c", 110})
	for _, s := range w.servers {
		s.Kill()
		w.service.remove(s.webhooks)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "evenkeel-system", Name: controller.DefaultLease}}
	if err := client.IgnoreNotFound(m.Delete(ctx, lease)); err != nil {
		t.Fatal(err)
	}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To("nobody"), LeaseDurationSeconds: ptr.To[int32](3600),
		AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro())}
	m.create(ctx, t, lease)
	for _, s := range w.servers {
		w.start(ctx, t, s)
	}
	m.spread(ctx, t, m.bounded("Deployment", "a 20", "b"))
	m.create(ctx, t, m.web(40))
	until(ctx, t, "40 pods run", func() bool { return m.running(ctx, t) == 40 })
	late, _ := m.unanswered(ctx, t)
	if got := m.inSubsets(ctx, t); elsewhere(got, map[string]int{"a": 20, "b": 20}) > late {
		t.Errorf("with 40: %v", got)
	}
	begin := time.Now()
	until(ctx, t, "no pod is new", func() bool { return time.Since(begin) > 4*time.Second })
	for i, p := range m.replicas(ctx, t) {
		if a, _ := workloadspread.AssignmentOf(&p); a.Subset == "a" && i%2 == 0 {
			if err := m.Delete(ctx, &p); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(ctx, t, "they are replaced", func() bool { return m.running(ctx, t) == 40 })
	// On a busy machine a server may be asked about a pod before it has seen that the one before has gone.
	replaced := m.inSubsets(ctx, t)
	if replaced["a"] < 17 || replaced["a"]+replaced["b"] != 40 {
		t.Errorf("when some were replaced: %v", replaced)
	}
	m.scaleTo(ctx, t, 20)
	until(ctx, t, "20 pods are left", func() bool { got := m.inSubsets(ctx, t); return got["a"]+got["b"] == 20 })
	if got := m.inSubsets(ctx, t); got["a"] != replaced["a"] {
		t.Errorf("with 20: %v", got)
	}
	m.never(t, map[string]int{"": 0, "a": 20})
	if err := m.Delete(ctx, lease); err != nil {
		t.Fatal(err)
	}
}

// While no webhook server answers and the failure policy is Ignore, pods are created as they are. They
// are found and counted later, and the status says so.
func nobodyAnswers(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "nobody", zone{"a", 110}, zone{"b", 110})
	m.spread(ctx, t, m.bounded("Deployment", "a 4", "b"))
	configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooksName}}
	if err := m.Patch(ctx, configuration, client.RawPatch("application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`))); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.servers {
		s.Kill()
		w.service.remove(s.webhooks)
	}
	d := m.web(6)
	d.Spec.Template.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: m.node("a")}
	m.create(ctx, t, d)
	until(ctx, t, "all pods run", func() bool { return m.running(ctx, t) == 6 })
	if got := m.inSubsets(ctx, t); got[""] != 6 {
		t.Errorf("without webhooks the subsets have %v", got)
	}
	for _, s := range w.servers {
		w.start(ctx, t, s)
	}
	o := &v1alpha1.WorkloadSpread{}
	until(ctx, t, "the pods are counted", func() bool {
		err := m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "web"}, o)
		return err == nil && o.Status.Filled == "a 6/4, b 0/-"
	})
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionAllInSubsets); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("the condition is %v", c)
	}
}
