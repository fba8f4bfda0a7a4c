package e2e

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// The size of the load. make nightly has 200 objects in five clusters, and a minute without work.
var (
	loadObjects  = flag.Int("federated", 20, "how many FederatedReplicaSets there are under load")
	loadClusters = flag.Int("federated-clusters", 3, "how many member clusters they have")
	loadIdle     = flag.Duration("federated-idle", 5*time.Second, "for how long nothing may be written afterwards")
)

const (
	// loadEach is how many replicas an object has in each cluster, all of them pods that run, and
	// loadMore how many more of them in each cluster a change asks for.
	loadEach, loadMore = 20, 4
	// loadSample is how many objects are changed one at a time.
	loadSample = 40
	// loadMemory is what the controller may take, in bytes.
	loadMemory = 200 << 20
	// loadPause is how much longer the others may take while one cluster hangs.
	loadPause = 1.2
)

// FederatedReplicaSets over members that are API servers and nothing else: nobody but the test runs
// pods there. Their replicas are changed one by one, also while a member hangs, and all at once, and
// then nothing is changed.
func TestFederatedLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	if testing.Short() {
		t.Skip("a load; whether replicas are right is shown by TestFederatedReplicaSets")
	}
	l := newLoad(ctx, t)
	for _, phase := range []struct {
		name string
		run  func(context.Context, *testing.T)
	}{
		{"created", l.created},
		{"pods run", l.podsRun},
		{"one by one", l.oneByOne},
		{"all at once", l.allAtOnce},
		{"idle", l.idle},
		{"memory", l.memory},
		{"restarted", l.restarted},
		{"one hangs", l.hangs},
		{"nothing of a Secret is shown", l.nothingShown},
	} {
		if !t.Run(phase.name, func(t *testing.T) { phase.run(ctx, t) }) {
			t.FailNow()
		}
	}
}

// load is the objects and what is around them.
type load struct {
	*fleetOfClusters
	names   []string // of the clusters
	objects []*v1alpha1.FederatedReplicaSet
	sizes   map[string]*sizes
	next    int // the first object that was not changed yet
}

func newLoad(ctx context.Context, t *testing.T) *load {
	t.Helper()
	l := &load{sizes: map[string]*sizes{}}
	for i := range *loadClusters {
		l.names = append(l.names, fmt.Sprintf("member-%d", i))
	}
	l.fleetOfClusters = newClusters(ctx, t, controlplane.Options{Audit: true, Bare: true}, l.names...)
	// A member that hangs does not count as lost during the test, so that nothing moves. The leader
	// should not lose its lease where a busy machine keeps it waiting.
	l.control(t, "-v="+verbosity(), "--member-offline-after=10m", "--leader-elect-lease-duration=3m", "--leader-elect-renew-deadline=2m")
	for _, name := range l.names {
		l.join(t, name)
		l.sizes[name] = watchSizes(ctx, t, l.members[name].Config, replicaSets)
	}
	for _, name := range l.names {
		l.becomes(ctx, t, name, v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	}
	for i := range *loadObjects {
		f := &v1alpha1.FederatedReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("web-%03d", i)}}
		labels := map[string]v1alpha1.LabelValue{"app": v1alpha1.LabelValue(f.Name)}
		f.Spec.Replicas = new(int32(loadEach * *loadClusters))
		f.Spec.Selector.MatchLabels, f.Spec.Template.Metadata.Labels = labels, labels
		f.Spec.Template.Spec.Raw = []byte(`{"containers": [{"name": "web", "image": "registry.example.com/shop/web:1.27.3", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]}`)
		f.Spec.Preferences = &v1alpha1.FederatedPreferences{Rebalance: true}
		f.Spec.Fallback.StartupTimeout.Duration = time.Hour // replicas without a pod are not moved
		l.objects = append(l.objects, f)
	}
	return l
}

// verbosity is all there is to log, unless that would take time from what is measured.
func verbosity() string {
	if *loadObjects > 20 {
		return "0"
	}
	return "9"
}

// created creates the objects at once, and waits until all local objects are there.
func (l *load) created(ctx context.Context, t *testing.T) {
	began := time.Now()
	inParallel(t, l.objects, func(f *v1alpha1.FederatedReplicaSet) error { return l.client.Create(ctx, f) })
	accepted := time.Since(began)
	last := l.exact(ctx, t)
	t.Logf("%d objects accepted within %s, all %d local objects there after %s", len(l.objects), round(accepted), len(l.objects)*len(l.names),
		round(last.Sub(began)))
}

// podsRun plays the controllers and kubelets of the members.
func (l *load) podsRun(ctx context.Context, t *testing.T) {
	began := time.Now()
	for _, name := range l.names {
		config := rest.CopyConfig(l.members[name].Config)
		config.ContentType = runtime.ContentTypeProtobuf
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		all, err := c.AppsV1().ReplicaSets(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		inParallel(t, all.Items, func(r appsv1.ReplicaSet) error {
			for i := range loadEach {
				p := podOf(&r, i)
				status := p.Status
				p, err := c.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				p.Status = status
				if _, err := c.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	t.Logf("%d pods within %s", len(l.objects)*len(l.names)*loadEach, round(time.Since(began)))
	l.settled(ctx, t)
	t.Logf("all settled %s after the first pod", round(time.Since(began)))
	memoryOf(t, l.controller)
}

// podOf is a pod of a ReplicaSet as it runs.
func podOf(r *appsv1.ReplicaSet, i int) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: fmt.Sprintf("%s-%05d", r.Name, i), Labels: r.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}, Spec: *r.Spec.Template.Spec.DeepCopy()}
	p.Spec.NodeName = fmt.Sprintf("node-%d", i)
	now := metav1.Now()
	p.Status.Phase, p.Status.PodIP, p.Status.StartTime = v1.PodRunning, "10.1.2.3", &now
	for _, kind := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady,
		v1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: now})
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "web", Image: p.Spec.Containers[0].Image, ImageID: "registry.example.com/shop/web@sha256:" + strings.Repeat("4f", 32),
		ContainerID: "containerd://" + strings.Repeat("ab", 32),
		Ready:       true, Started: new(true), State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
	}}
	return p
}

// oneByOne changes one object at a time, and waits until all its local objects are written.
func (l *load) oneByOne(ctx context.Context, t *testing.T) {
	took := l.sample(ctx, t, l.names)
	t.Logf("from a change of replicas to all local objects written: %s", percentiles(took))
	l.exact(ctx, t)
}

// allAtOnce changes all objects.
func (l *load) allAtOnce(ctx context.Context, t *testing.T) {
	for _, more := range []int32{0, loadMore, 0} { // those that were changed before go back with the first
		var changed []*v1alpha1.FederatedReplicaSet
		began := map[types.NamespacedName]time.Time{}
		for _, f := range l.objects {
			if *f.Spec.Replicas != l.replicas(more) {
				changed = append(changed, f)
				began[client.ObjectKeyFromObject(f)] = time.Time{}
			}
		}
		var mu sync.Mutex
		before, spent, marks := l.metrics(ctx, t), l.processorTime(t), l.marks(t)
		first := time.Now()
		inParallel(t, changed, func(f *v1alpha1.FederatedReplicaSet) error {
			mu.Lock()
			began[client.ObjectKeyFromObject(f)] = time.Now()
			mu.Unlock()
			return l.ask(ctx, f, more)
		})
		accepted := time.Since(first)
		last := l.exact(ctx, t)
		var took []time.Duration
		for key, at := range began {
			took = append(took, l.latest(ctx, t, l.names, key, at).Sub(at))
		}
		t.Logf("%d changes accepted within %s, all written after %s, each after: %s", len(changed), round(accepted), round(last.Sub(first)),
			percentiles(took))
		l.quiet(ctx, t)
		after, writes := l.metrics(ctx, t), map[string]int{}
		for _, w := range l.written(t, marks) {
			writes[strings.TrimSuffix(w.Resource+"/"+w.Subresource, "/")]++
		}
		t.Logf("%s of processor time, %.0f passes, written: %v", l.processorTime(t)-spent,
			after.sum("controller_runtime_reconcile_total")-before.sum("controller_runtime_reconcile_total"), writes)
	}
	l.settled(ctx, t)
}

// idle expects that nothing is written but leases while nothing changes, and nothing is read but
// whether the members answer.
func (l *load) idle(ctx context.Context, t *testing.T) {
	l.quiet(ctx, t)
	marks := l.marks(t)
	before, spent := l.metrics(ctx, t), l.processorTime(t)
	pause, cancel := context.WithTimeout(ctx, *loadIdle)
	<-pause.Done()
	cancel()
	after := l.metrics(ctx, t)
	t.Logf("%s of processor time, %.0f calls of members, %.0f reads of the host, %.0f passes within %s", l.processorTime(t)-spent,
		after.sum("evenkeel_member_request_duration_seconds_count")-before.sum("evenkeel_member_request_duration_seconds_count"),
		after.sum("rest_client_requests_total", `method="GET"`)-before.sum("rest_client_requests_total", `method="GET"`),
		after.sum("controller_runtime_reconcile_total")-before.sum("controller_runtime_reconcile_total"), *loadIdle)
	for _, w := range l.written(t, marks) {
		t.Errorf("written while nothing changed: %+v", w)
	}
	for _, name := range l.names {
		of := `cluster="` + name + `"`
		if n := after.sum("evenkeel_member_request_duration_seconds_count", of) - before.sum("evenkeel_member_request_duration_seconds_count",
			of); n > 0 {
			t.Errorf("%s was called %.0f times", name, n)
		}
		if n := after.sum("evenkeel_member_probes_total", of) - before.sum("evenkeel_member_probes_total", of); n > 2+loadIdle.Seconds()/10 {
			t.Errorf("%s was asked %.0f times whether it answers", name, n)
		}
	}
}

// restarted has another process read everything anew. It writes that it has found the members, and
// nothing else, and takes no more memory.
func (l *load) restarted(ctx context.Context, t *testing.T) {
	if err := l.controller.Stop(); err != nil {
		t.Fatal(err)
	}
	marks := l.marks(t)
	if err := l.controller.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	until(ctx, t, "all members are read, and all objects were checked", func() bool {
		code, text := scrape(ctx, t, "http://"+l.controller.Address+"/metrics", "", nil)
		s := scraped(strings.Split(text, "\n"))
		return code == http.StatusOK && s.sum("evenkeel_member_state", `state="Ready"`) == float64(len(l.names)) &&
			s.sum("controller_runtime_reconcile_total", `controller="federation"`) >= float64(len(l.objects)) && s.sum("workqueue_depth") == 0
	})
	t.Logf("all is known %s after the start", round(time.Since(began)))
	l.quiet(ctx, t)
	for _, w := range l.written(t, marks) {
		if w.Resource != "memberclusters" {
			t.Errorf("written after the start: %+v", w)
		}
	}
	l.memory(ctx, t)
}

// marks are the present points in the histories of writes, of the host and the members.
func (l *load) marks(t *testing.T) map[*controlplane.ControlPlane]controlplane.Mark {
	t.Helper()
	marks := map[*controlplane.ControlPlane]controlplane.Mark{}
	for _, plane := range append(slices.Collect(maps.Values(l.members)), l.host) {
		mark, err := plane.Mark()
		if err != nil {
			t.Fatal(err)
		}
		marks[plane] = mark
	}
	return marks
}

// written is what the controllers wrote since then, but for their lease and the events about it.
func (l *load) written(t *testing.T, since map[*controlplane.ControlPlane]controlplane.Mark) (all []controlplane.Write) {
	t.Helper()
	for plane, mark := range since {
		for _, user := range []string{controllerAccount, memberAccount} {
			writes, err := plane.Writes(user, mark)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, slices.DeleteFunc(writes, func(w controlplane.Write) bool { return w.Namespace == "evenkeel-system" })...)
		}
	}
	return all
}

// quiet waits until nothing was written for two seconds.
func (l *load) quiet(ctx context.Context, t *testing.T) {
	t.Helper()
	marks := l.marks(t)
	err := wait.PollUntilContextCancel(ctx, 2*time.Second, false, func(context.Context) (bool, error) {
		since := marks
		marks = l.marks(t)
		return len(l.written(t, since)) == 0, nil
	})
	if err != nil {
		t.Fatalf("waiting until nothing is written: %v", err)
	}
}

// memory holds the controller to its bound.
func (l *load) memory(ctx context.Context, t *testing.T) {
	peak, present := memoryOf(t, l.controller)
	t.Logf("%.0f MiB of it is what is in use after a garbage collection", l.metrics(ctx, t).sum("go_memstats_next_gc_bytes")/2/(1<<20))
	if max(peak, present) > loadMemory {
		t.Errorf("the controller took %d MiB, more than %d", peak>>20, loadMemory>>20)
	}
}

// hangs has one member accept connections and never answer. The others do not wait for it: neither
// before that is noticed nor after.
func (l *load) hangs(ctx context.Context, t *testing.T) {
	silent, others := l.names[0], l.names[1:]
	before := l.sample(ctx, t, others)
	if err := l.members[silent].Process(controlplane.APIServer).Pause(); err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume := func() {
		if err := l.members[silent].Process(controlplane.APIServer).Resume(); !resumed && err != nil {
			t.Error(err)
		}
		resumed = true
	}
	t.Cleanup(resume)
	unnoticed := l.sample(ctx, t, others)
	l.becomes(ctx, t, silent, v1alpha1.ReasonNotAnswering, v1alpha1.ReasonAccepted)
	noticed := l.sample(ctx, t, others)
	resume()
	l.becomes(ctx, t, silent, v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	l.exact(ctx, t)
	after := l.sample(ctx, t, others)
	t.Logf("the others, before: %s", percentiles(before))
	t.Logf("while one hangs, unnoticed: %s", percentiles(unnoticed))
	t.Logf("while one hangs, noticed: %s", percentiles(noticed))
	t.Logf("the others, afterwards: %s", percentiles(after))
	usual := max(median(before), median(after))
	for name, took := range map[string][]time.Duration{"before it is noticed": unnoticed, "after it is noticed": noticed} {
		ratio := float64(median(took)) / float64(usual)
		t.Logf("while one hangs, %s, the others take %.2f times as long", name, ratio)
		if *loadObjects >= 200 && ratio > loadPause {
			t.Errorf("while one hangs, %s, the others take %.2f times as long, more than %.1f", name, ratio, loadPause)
		}
	}
}

// nothingShown expects that neither tokens nor addresses of members are in a log, a metric, a status or
// an event.
func (l *load) nothingShown(ctx context.Context, t *testing.T) {
	var secrets []string
	for _, name := range l.names {
		secrets = append(secrets, l.token(ctx, t, name), strings.TrimPrefix(l.members[name].Config.Host, "https://"))
	}
	noneIn(t, l.shown(ctx, t), secrets)
}

// sample changes some objects that were not changed yet, one after the other. It returns how long it
// took until their local objects in the clusters were written.
func (l *load) sample(ctx context.Context, t *testing.T, clusters []string) (took []time.Duration) {
	t.Helper()
	for range min(loadSample, len(l.objects)/5) {
		f := l.objects[l.next%len(l.objects)]
		more := int32(loadMore)
		if *f.Spec.Replicas != l.replicas(0) {
			more = 0
		}
		l.next++
		began := time.Now()
		if err := l.ask(ctx, f, more); err != nil {
			t.Fatal(err)
		}
		took = append(took, l.latest(ctx, t, clusters, client.ObjectKeyFromObject(f), began).Sub(began))
	}
	return took
}

// latest waits until the local objects of an object in the clusters have changed after a time, and
// returns when the last one did.
func (l *load) latest(ctx context.Context, t *testing.T, clusters []string, key types.NamespacedName, after time.Time) (last time.Time) {
	t.Helper()
	for _, name := range clusters {
		at, err := l.sizes[name].change(ctx, key, after)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

func (l *load) replicas(more int32) int32 { return (loadEach + more) * int32(len(l.names)) } // a few

// ask asks for more replicas in every cluster than there are pods.
func (l *load) ask(ctx context.Context, f *v1alpha1.FederatedReplicaSet, more int32) error {
	before := client.MergeFrom(f.DeepCopy())
	f.Spec.Replicas = new(l.replicas(more))
	return l.client.Patch(ctx, f, before)
}

// exact waits until every local object has its share, and says when the last of them got it.
func (l *load) exact(ctx context.Context, t *testing.T) (last time.Time) {
	t.Helper()
	want := map[types.NamespacedName]int32{}
	for _, f := range l.objects {
		want[client.ObjectKeyFromObject(f)] = *f.Spec.Replicas / int32(len(l.names)) // a few
	}
	for _, name := range l.names {
		at, err := l.sizes[name].await(ctx, want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

// settled waits until every object says that all its replicas run and nothing must be done.
func (l *load) settled(ctx context.Context, t *testing.T) {
	t.Helper()
	why := ""
	err := wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		var all v1alpha1.FederatedReplicaSetList
		if err := l.client.List(ctx, &all); err != nil {
			return false, err
		}
		at := slices.IndexFunc(all.Items, func(f v1alpha1.FederatedReplicaSet) bool {
			return f.Status.ObservedGeneration != f.Generation || f.Status.ReadyReplicas != *f.Spec.Replicas ||
				!meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionSettled)
		})
		if at >= 0 {
			why = fmt.Sprintf("%+v", all.Items[at].Status)
		}
		return at < 0, nil
	})
	if err != nil {
		t.Fatalf("waiting until all is settled: %v: %s", err, why)
	}
}
