package e2e

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/e2e/process"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// spreadCluster is a control plane with two controllers that answer the webhooks of WorkloadSpreads, with
// no more rights than the manifests give them.
type spreadCluster struct {
	*balancerCluster
	service *oneAddress
	servers []*server
}

// server is one of the controllers, and where it answers.
type server struct {
	*evenkeel.Controller
	webhooks string
}

func newSpreadCluster(ctx context.Context, t *testing.T) *spreadCluster {
	t.Helper()
	w := &spreadCluster{balancerCluster: newBalancerCluster(ctx, t), service: newOneAddress(ctx, t)}
	applyController(ctx, t, w.plane, "webhooks", "https://"+w.service.Addr().String())
	for range 2 {
		s := &server{webhooks: process.FreeAddress(t)}
		s.Controller = evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: w.kubeconfig, Args: append([]string{
			"--controllers=workloadspread", "--webhook-address=" + s.webhooks, "--webhook-host=" + process.Loopback, "--webhook-shutdown-delay=1s",
		}, brief...)})
		w.servers = append(w.servers, s)
		w.service.add(s.webhooks)
	}
	until(ctx, t, "the configurations are complete", func() bool { return len(mutating(ctx, t, w).Rules) == 1 })
	return w
}

// A market is a shop whose workload is spread over its zones by a WorkloadSpread, which is stored with
// the first call of spread.
type market struct {
	*shop
	most *spreadLedger
}

// market opens one, with a node for each zone.
func (w *spreadCluster) market(ctx context.Context, t *testing.T, namespace string, zones ...zone) *market {
	t.Helper()
	return &market{shop: w.open(ctx, t, namespace, zones...), most: followSubsets(ctx, t, w, namespace)}
}

// spread stores a WorkloadSpread, and waits until the API server asks about the pods of the namespace.
func (m *market) spread(ctx context.Context, t *testing.T, o client.Object) {
	t.Helper()
	m.create(ctx, t, o)
	refused := 0
	until(ctx, t, "pods of "+m.namespace+" are sent to the webhooks", func() bool {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: probe}}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "nobody", UID: "nobody",
			Controller: ptr.To(true)}}
		pod.Spec.Containers = []v1.Container{{Name: "main", Image: "none"}}
		err := m.Create(ctx, pod)
		if err == nil {
			_ = m.Delete(ctx, pod, client.GracePeriodSeconds(0))
		}
		if refused++; err == nil || !strings.Contains(err.Error(), webhookOfPods) { // else its owner is missing
			refused = 0
		}
		return refused == 5 // two servers answer, and one may learn of the WorkloadSpread later than the other
	})
}

// probe is the name of the pod that shows whether pods are sent to the webhooks.
const probe = "probe"

// webhookOfPods is the webhook that is asked about new pods.
const webhookOfPods = "create.pods.evenkeel.dev"

// bounded is a WorkloadSpread over subsets "zone" or "zone max", such as "a 8", "b 20%" and "c".
func (m *market) bounded(kind string, subsets ...string) *v1alpha1.WorkloadSpread {
	names := make([]string, len(subsets))
	for i, s := range subsets {
		names[i], _, _ = strings.Cut(s, " ")
	}
	o := m.spreadOver(names...)
	o.Spec.TargetRef.Kind = kind
	if kind == "Job" {
		o.Spec.TargetRef.APIVersion = "batch/v1"
	}
	for i, s := range subsets {
		if _, most, ok := strings.Cut(s, " "); ok {
			o.Spec.Subsets[i].MaxReplicas = ptr.To(intstr.Parse(most))
		}
	}
	return o
}

// web is a Deployment that may run in any zone.
func (m *market) web(replicas int32) *appsv1.Deployment {
	d := m.gated(replicas)
	d.Spec.Template.Spec.SchedulingGates = nil
	return d
}

// inSubsets are the pods of each subset by their annotations; those of none have the name "". A pod
// that runs in another zone than that of its subset is an error.
func (m *market) inSubsets(ctx context.Context, t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, p := range m.replicas(ctx, t) {
		if !workloadspread.Active(&p) {
			continue
		}
		a, _ := workloadspread.AssignmentOf(&p)
		if n[a.Subset]++; p.Spec.NodeName != "" && a.Subset != "" && p.Spec.NodeName != m.node(a.Subset) {
			t.Errorf("pod %s of subset %q runs on %s", p.Name, a.Subset, p.Spec.NodeName)
		}
	}
	return n
}

// unanswered is how many creations of pods the API server has given up because something did not answer in time, as on a
// very busy machine, and the first creation that failed for another reason.
func (m *market) unanswered(ctx context.Context, t *testing.T) (n int, refused string) {
	t.Helper()
	var events v1.EventList
	if err := m.List(ctx, &events, client.InNamespace(m.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		switch {
		case e.Reason != "FailedCreate":
		case strings.Contains(e.Message, context.DeadlineExceeded.Error()):
			n += max(1, int(e.Count))
		case refused == "":
			refused = e.Message
		}
	}
	return n, refused
}

// counts waits until so many pods of each subset, and no others, run; and until the status says so. Where a creation was
// not answered in time, its place is kept for a while, and the pod that comes instead may be in a later subset.
func (m *market) counts(ctx context.Context, t *testing.T, when string, want map[string]int) {
	t.Helper()
	want = maps.Clone(want)
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	var got map[string]int
	defer func() {
		if t.Failed() {
			n, refused := m.unanswered(ctx, t)
			t.Logf("%s had %v; %d creations were not answered in time; refused: %q", m.namespace, got, n, refused)
		}
	}()
	until(ctx, t, fmt.Sprint(m.namespace, " has ", want, " ", when), func() bool {
		got = m.inSubsets(ctx, t)
		for _, p := range m.replicas(ctx, t) {
			if !runs(&p) {
				return false
			}
		}
		if maps.Equal(got, want) {
			return true
		}
		n, _ := m.unanswered(ctx, t)
		return n > 0 && elsewhere(got, want) <= n
	})
	want = got
	o := &v1alpha1.WorkloadSpread{}
	until(ctx, t, fmt.Sprint("the status of ", m.namespace, " has ", want, " ", when), func() bool {
		if m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "web"}, o) != nil || o.Status.Unassigned > 0 {
			return false
		}
		for _, s := range o.Status.SubsetStatuses {
			if int(s.Replicas) != want[s.Name] || s.MaxReplicas >= 0 && s.MissingReplicas > s.MaxReplicas || s.MissingReplicas < -1 {
				return false
			}
		}
		for _, counts := range o.Status.VersionedSubsetStatuses {
			if slices.ContainsFunc(counts, func(c v1alpha1.WorkloadSubsetCount) bool { return len(c.CreatingPods) > 0 }) {
				return false
			}
		}
		return true
	})
}

// elsewhere is how many pods are in other subsets than they should; all of them if there are more or fewer pods.
func elsewhere(got, want map[string]int) (n int) {
	pods, missing := 0, 0
	for _, count := range got {
		pods += count
	}
	for subset, count := range want {
		pods -= count
		missing += max(0, count-got[subset])
	}
	if pods != 0 {
		return math.MaxInt
	}
	return missing
}

// costs waits until every pod of a subset has the deletion cost of it.
func (m *market) costs(ctx context.Context, t *testing.T, want map[string]int) {
	t.Helper()
	until(ctx, t, fmt.Sprint("the costs in ", m.namespace, " are ", want), func() bool {
		for _, p := range m.replicas(ctx, t) {
			a, _ := workloadspread.AssignmentOf(&p)
			if p.Annotations[workloadspread.AnnotationCost] != strconv.Itoa(want[a.Subset]) {
				return false
			}
		}
		return true
	})
}

// never fails if a subset had more pods at a time than these.
func (m *market) never(t *testing.T, most map[string]int) {
	t.Helper()
	m.most.mu.Lock()
	defer m.most.mu.Unlock()
	for subset, n := range most {
		if m.most.most[subset] > n {
			t.Errorf("%s: subset %q had %d pods at a time, want %d at most", m.namespace, subset, m.most.most[subset], n)
		}
	}
}

// A spreadLedger knows the most pods that a subset had at a time.
type spreadLedger struct {
	mu   sync.Mutex
	of   map[types.UID]string // of active pods
	now  map[string]int
	most map[string]int
}

// followSubsets follows a namespace until the test ends.
func followSubsets(ctx context.Context, t *testing.T, w client.WithWatch, namespace string) *spreadLedger {
	t.Helper()
	l := &spreadLedger{of: map[types.UID]string{}, now: map[string]int{}, most: map[string]int{}}
	followAll(ctx, t, w, namespace, &v1.PodList{}, func(e watch.Event) {
		if pod, ok := e.Object.(*v1.Pod); ok {
			l.see(pod, e.Type == watch.Deleted)
		}
	})
	return l
}

func (l *spreadLedger) see(pod *v1.Pod, gone bool) {
	if pod.Name == probe {
		return // it may be created before the servers know the WorkloadSpread
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.of[pod.UID]; ok {
		delete(l.of, pod.UID)
		l.now[before]--
	}
	if gone || !workloadspread.Active(pod) {
		return
	}
	a, _ := workloadspread.AssignmentOf(pod)
	l.of[pod.UID] = a.Subset
	l.now[a.Subset]++
	l.most[a.Subset] = max(l.most[a.Subset], l.now[a.Subset])
}
