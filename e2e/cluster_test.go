package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
)

const manifests = "../configs/sidecar"

// The sidecar's side of the API server, with no more rights than the manifests give it.
func TestSidecarInTheCluster(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{Bare: true}) // nobody else changes nodes or leases
	t.Run("manifests", func(t *testing.T) {
		dryRun(ctx, t, plane, 58, "rbac", "deploy", "demo", "monitoring", "pod-conditions",
			"../expander/rbac", "../expander/deploy", "../expander/count-nodes", "../expander/monitoring")
	})
	t.Run("no rights", func(t *testing.T) { withoutRights(ctx, t, plane) })
	apply(ctx, t, plane, "rbac")
	t.Run("fencing", func(t *testing.T) { fencing(ctx, t, plane) })
	t.Run("nodes", func(t *testing.T) { watchedNodes(ctx, t, plane) })
	t.Run("events", func(t *testing.T) { publishedEvents(ctx, t, plane) })
	t.Run("pod conditions", func(t *testing.T) { conditionsOfPods(ctx, t, plane) })
	t.Run("events and status of the autoscaler", func(t *testing.T) { saidByTheAutoscaler(ctx, t, plane) })
	t.Run("metrics", func(t *testing.T) { metricsOfASidecar(ctx, t, plane) })
}

// serviceAccount reaches the API server as the pod of the manifests does.
func serviceAccount(plane *controlplane.ControlPlane) *rest.Config {
	config := rest.CopyConfig(plane.Config)
	config.Impersonate.UserName = "system:serviceaccount:kube-system:cluster-autoscaler"
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:authenticated"}
	return config
}

func join(ctx context.Context, t *testing.T, config *rest.Config, o cluster.Options) *cluster.Cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	c, err := cluster.New(ctx, config, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); c.Wait() })
	return c
}

// The API server accepts every manifest of some folders, so many at least, whose kind it knows. The
// kinds of the Prometheus operator and of cert-manager it does not.
func dryRun(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, least int, folders ...string) {
	accepted := 0
	for _, folder := range folders {
		for _, o := range read(t, folder) {
			if group, _, _ := strings.Cut(o.GetAPIVersion(), "/"); group == "monitoring.coreos.com" || group == "cert-manager.io" {
				continue
			}
			err := plane.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.DryRunAll, client.FieldOwner("e2e"),
				client.ForceOwnership)
			if err != nil {
				t.Errorf("%s: %s %s: %v", folder, o.GetKind(), o.GetName(), err)
			}
			accepted++
		}
	}
	if accepted < least {
		t.Errorf("only %d manifests were found", accepted)
	}
	t.Logf("%d manifests accepted", accepted)
}

func apply(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, folder string) {
	t.Helper()
	for _, o := range read(t, folder) {
		if err := plane.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("e2e"),
			client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the objects of a kustomization, as kubectl would apply them.
func read(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // what others need first
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(manifests, folder))
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		text, err := resource.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// Without the manifests the errors name the right that is missing.
func withoutRights(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	var refused atomic.Bool
	log := funcr.New(func(_, line string) {
		if strings.Contains(line, "no right to create events in namespace kube-system: apply configs/sidecar/rbac") {
			refused.Store(true)
		}
	}, funcr.Options{})
	c := join(ctx, t, serviceAccount(plane), cluster.Options{Lease: cluster.DefaultLease, Log: log})
	_, err := c.Journal.Load(ctx)
	if err == nil || !strings.Contains(err.Error(), "no right to get ConfigMap kube-system/evenkeel-sidecar: apply configs/sidecar/rbac") {
		t.Errorf("loading: %v", err)
	}
	until(ctx, t, "the nodes are refused", func() bool {
		err := c.Nodes.Problem()
		return err != nil && strings.Contains(err.Error(), "nodes: apply configs/sidecar/rbac")
	})
	c.Recorder.Event(false, "Granted", "x")
	until(ctx, t, "the event is refused", refused.Load)
}

// Whatever is paused or arrives late, a process whose text was read by a later one never changes it
// again; and a load succeeds for the holder of the lease only.
func fencing(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	w := &replicas{t: t, plane: plane, random: rand.New(rand.NewPCG(3, 36))}
	w.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: cluster.DefaultLease}}
	w.lease.Spec.LeaseTransitions = ptr.To[int32](0)
	w.hold("nobody")
	if err := plane.Client.Create(ctx, w.lease); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		w.all = append(w.all, w.start(ctx, i))
	}
	// The API server learns of new rights with a delay.
	until(ctx, w.t, "the rights are known", func() bool {
		_, err := w.all[0].journal.Load(ctx)
		return errors.Is(err, sidecar.ErrNotLeader)
	})
	const steps = 900
	for i := range steps {
		w.step(ctx)
		if i == steps/3 || i == 2*steps/3 {
			if err := plane.Restart(ctx, controlplane.APIServer); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, r := range w.all {
		w.finish(r)
	}
	t.Logf("%d loads, %d saves, %d refused, %d of them after a pause", w.loads, w.saves, w.refused, w.late)
	if w.loads < 20 || w.saves < 40 || w.late < 20 {
		t.Error("the draw says little")
	}
}

type replicas struct {
	t      *testing.T
	plane  *controlplane.ControlPlane
	random *rand.Rand
	lease  *coordinationv1.Lease
	all    []*oneReplica

	loaded                      *oneReplica // the last that has loaded
	text                        string      // that is stored
	texts                       int
	loads, saves, refused, late int
}

type oneReplica struct {
	name    string
	number  int
	journal *cluster.Journal
	gate    *gate
	pending chan error // of a save that is paused; nil if none is
	text    string     // of that save
}

func (w *replicas) start(ctx context.Context, number int) *oneReplica {
	r := &oneReplica{name: fmt.Sprint("cluster-autoscaler-", number), number: number, gate: &gate{}}
	config := serviceAccount(w.plane)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { r.gate.next = next; return r.gate })
	r.journal = join(ctx, w.t, config, cluster.Options{Lease: cluster.DefaultLease, Identity: r.name, Timeout: time.Minute}).Journal
	return r
}

// hold makes somebody the holder of the lease, in a new term.
func (w *replicas) hold(name string) {
	w.lease.Spec.HolderIdentity = ptr.To(name)
	w.lease.Spec.LeaseTransitions = ptr.To(*w.lease.Spec.LeaseTransitions + 1)
	w.lease.Spec.LeaseDurationSeconds = ptr.To[int32](3600)
	w.lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
}

func (w *replicas) step(ctx context.Context) {
	w.t.Helper()
	r := w.all[w.random.IntN(len(w.all))]
	if i := slices.IndexFunc(w.all, func(r *oneReplica) bool { return r.name == *w.lease.Spec.HolderIdentity }); i >= 0 &&
		w.random.IntN(3) == 0 {
		r = w.all[i] // who leads does more
	}
	if w.loaded != nil && w.random.IntN(3) == 0 {
		r = w.loaded
	}
	switch do := w.random.IntN(24); {
	case do == 0:
		w.hold(r.name)
		if err := w.plane.Client.Update(ctx, w.lease); err != nil {
			w.t.Fatal(err)
		}
	case do == 1:
		// Its count begins anew.
		if err := w.plane.Client.Delete(ctx, w.lease); err != nil {
			w.t.Fatal(err)
		}
		w.lease.ObjectMeta = metav1.ObjectMeta{Namespace: "kube-system", Name: cluster.DefaultLease}
		w.lease.Spec.LeaseTransitions = ptr.To[int32](-1)
		w.hold(r.name)
		if err := w.plane.Client.Create(ctx, w.lease); err != nil {
			w.t.Fatal(err)
		}
	case do == 2 && len(w.all) < 12:
		// The old process and what it has sent live on for a while.
		w.all = append(w.all, w.start(ctx, r.number))
	case r.pending != nil:
		if do < 12 {
			w.finish(r)
		}
	case do < 8:
		w.load(ctx, r)
	case do < 18:
		w.texts++
		text := fmt.Sprint("text-", w.texts)
		w.judge(r, text, r.journal.Save(ctx, []byte(text)))
	default:
		w.pause(ctx, r)
	}
}

func (w *replicas) load(ctx context.Context, r *oneReplica) {
	w.t.Helper()
	text, err := r.journal.Load(ctx)
	leads := *w.lease.Spec.HolderIdentity == r.name
	switch {
	case err != nil && (leads || !errors.Is(err, sidecar.ErrNotLeader)):
		w.t.Fatalf("%s, leading: %v: %v", r.name, leads, err)
	case err == nil && !leads:
		w.t.Fatalf("%s has loaded and does not lead", r.name)
	case err == nil && string(text) != w.text:
		w.t.Fatalf("%s has loaded %q, stored is %q", r.name, text, w.text)
	case err == nil:
		w.loads++
		w.loaded = r
	}
}

// pause begins a save and stops it between its look at the lease and its write, if it comes so far.
func (w *replicas) pause(ctx context.Context, r *oneReplica) {
	w.texts++
	r.text, r.pending = fmt.Sprint("text-", w.texts), make(chan error, 1)
	reached := r.gate.shut()
	go func() { r.pending <- r.journal.Save(ctx, []byte(r.text)) }()
	select {
	case <-reached:
	case err := <-r.pending:
		r.pending <- err
	}
}

func (w *replicas) finish(r *oneReplica) {
	if r.pending == nil {
		return
	}
	r.gate.open()
	err := <-r.pending
	r.pending = nil
	if err != nil {
		w.late++
	}
	w.judge(r, r.text, err)
}

func (w *replicas) judge(r *oneReplica, text string, err error) {
	w.t.Helper()
	switch {
	case err == nil && r != w.loaded:
		w.t.Fatalf("%s has saved and was not the last to load", r.name)
	case err == nil:
		w.saves++
		w.text = text
	case errors.Is(err, sidecar.ErrNotLeader), errors.Is(err, cluster.ErrStale):
		w.refused++
	default:
		w.t.Fatalf("%s: %v", r.name, err)
	}
}

// A gate holds writes up on their way to the API server.
type gate struct {
	next http.RoundTripper

	mu      sync.Mutex
	closed  chan struct{} // nil while open
	reached chan struct{}
}

func (g *gate) shut() (reached <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.reached = make(chan struct{}), make(chan struct{})
	return g.reached
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed)
	g.closed = nil
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	closed, reached := g.closed, g.reached
	g.mu.Unlock()
	if closed != nil && r.Method == http.MethodPut {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		close(reached)
		<-closed
	}
	return g.next.RoundTrip(r)
}

// What happens to nodes is seen, across restarts of the API server too.
func watchedNodes(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	c := join(ctx, t, serviceAccount(plane), cluster.Options{})
	seen := func(want ...string) {
		t.Helper()
		until(ctx, t, fmt.Sprint("the nodes are ", want), func() bool {
			nodes, ok := c.Nodes.List()
			got := []string{}
			for _, n := range nodes {
				got = append(got, fmt.Sprintf("%s %s %v", n.Name, n.ProviderID, n.Ready))
			}
			slices.Sort(got)
			return ok && slices.Equal(got, append([]string{}, want...))
		})
	}
	seen()
	a := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.NodeSpec{ProviderID: "fake://a"}}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(plane.Client.Create(ctx, a))
	seen("a fake://a false")
	a.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	do(plane.Client.Status().Update(ctx, a))
	a.Spec.Taints = nil // a new node has that of a node that is not ready
	do(plane.Client.Update(ctx, a))
	seen("a fake://a true")
	a.Spec.Taints = []v1.Taint{{Key: "startup-taint.cluster-autoscaler.kubernetes.io/disk", Effect: v1.TaintEffectNoSchedule}}
	do(plane.Client.Update(ctx, a))
	seen("a fake://a false")
	do(plane.Restart(ctx, controlplane.APIServer))
	do(plane.Client.Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1.NodeSpec{ProviderID: "fake://b"}}))
	a.Spec.Taints = nil
	do(plane.Client.Update(ctx, a))
	seen("a fake://a true", "b fake://b false")
	do(plane.Client.Delete(ctx, a))
	seen("b fake://b false")
}

// Events are there to be read with kubectl describe, equal ones as one.
func publishedEvents(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	about := func(o cluster.Options, kind, name string) {
		c := join(ctx, t, serviceAccount(plane), o)
		for range 3 {
			c.Recorder.Event(true, "SetBackedOff", "No member of the set of "+name+" can grow")
		}
		until(ctx, t, "there is an event about "+name, func() bool {
			var events v1.EventList
			if err := plane.Client.List(ctx, &events, client.InNamespace("kube-system")); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(events.Items, func(e v1.Event) bool {
				return e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && string(e.InvolvedObject.UID) == o.PodUID &&
					e.Type == v1.EventTypeWarning && e.Reason == "SetBackedOff" && e.Count == 3
			})
		})
	}
	about(cluster.Options{PodName: "cluster-autoscaler-0", PodUID: "0a1b"}, "Pod", "cluster-autoscaler-0")
	about(cluster.Options{}, "ConfigMap", "evenkeel-sidecar")
}

func until(ctx context.Context, t *testing.T, what string, wanted func() bool) {
	t.Helper()
	polled(ctx, t, pollInterval, what, wanted)
}

// untilBriefly is until for a state that may not last: it reads ten times as often.
func untilBriefly(ctx context.Context, t *testing.T, what string, wanted func() bool) {
	t.Helper()
	polled(ctx, t, pollInterval/10, what, wanted)
}

func polled(ctx context.Context, t *testing.T, every time.Duration, what string, wanted func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, every, settledWithin, true, func(context.Context) (bool, error) { return wanted(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}
