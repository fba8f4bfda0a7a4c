package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// clusterNames are the members, in the order of all numbers.
var clusterNames = []string{"amsterdam", "berlin", "cork"}

// A stage is one FederatedReplicaSet, web, with a namespace and nodes of its own: stages do not
// disturb one another.
type stage struct {
	*federation
	namespace string
	nodes     int
	marks     map[*controlplane.ControlPlane]controlplane.Mark
	before    []*appsv1.Deployment // the local objects when writes were last counted
}

// anyRoom is more than any stage needs.
const anyRoom = 1000

// open begins a stage with a node in each cluster, on which that many pods of it can run; 0 means
// no node.
func (w *federation) open(ctx context.Context, t *testing.T, namespace string, rooms ...int) *stage {
	t.Helper()
	s := &stage{federation: w, namespace: namespace}
	for _, plane := range w.planes() {
		if err := plane.Client.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, room := range rooms {
		if room > 0 {
			s.addNode(ctx, t, clusterNames[i], room)
		}
	}
	return s
}

// planes are the host and the members.
func (w *federation) planes() []*controlplane.ControlPlane {
	return append([]*controlplane.ControlPlane{w.host}, w.members[clusterNames[0]], w.members[clusterNames[1]], w.members[clusterNames[2]])
}

// addNode adds a node for the pods of the stage, and returns its name.
func (s *stage) addNode(ctx context.Context, t *testing.T, cluster string, room int) string {
	t.Helper()
	s.nodes++
	n := roomy(fmt.Sprintf("%s-%d", s.namespace, s.nodes))
	n.Labels = map[string]string{"stage": s.namespace}
	cpus := *resource.NewQuantity(int64(room), resource.DecimalSI)
	n.Status.Allocatable[v1.ResourceCPU], n.Status.Capacity[v1.ResourceCPU] = cpus, cpus
	if err := s.members[cluster].AddNodes(ctx, n); err != nil {
		t.Fatal(err)
	}
	return n.Name
}

// roomy is a node with room for a hundred pods that ask for a CPU each, and more that do not.
func roomy(name string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("100"), v1.ResourceMemory: resource.MustParse("100Gi"), v1.ResourcePods: resource.MustParse("1000"),
	}
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	return n
}

// pods is the pod of the stage.
func (s *stage) pods(t *testing.T, image string) []byte {
	t.Helper()
	spec, err := json.Marshal(map[string]any{
		"terminationGracePeriodSeconds": 0, "nodeSelector": map[string]string{"stage": s.namespace},
		"containers": []any{map[string]any{"name": "web", "image": image,
			"resources": map[string]any{"requests": map[string]string{"cpu": "1000m"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// create creates the object. Pods have the time to start; with a timeout of 0 they have any time.
func (s *stage) create(ctx context.Context, t *testing.T, replicas int32, startup time.Duration, p v1alpha1.FederatedPreferences) {
	t.Helper()
	f := &v1alpha1.FederatedReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	labels := map[string]v1alpha1.LabelValue{"app": "web"}
	f.Spec.Replicas, f.Spec.LocalKind, f.Spec.Cascade = &replicas, v1alpha1.LocalDeployment, v1alpha1.CascadeDelete
	f.Spec.Selector.MatchLabels, f.Spec.Template.Metadata.Labels = labels, labels
	f.Spec.Template.Spec.Raw = s.pods(t, "web:1")
	f.Spec.Preferences = &p
	if startup == 0 {
		startup = time.Hour
	}
	of := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	f.Spec.Fallback = v1alpha1.FederatedFallback{NormalTime: of(startup / 3), StartupTimeout: of(startup),
		StabilizationTime: of(3 * time.Second)}
	s.begin(ctx, t)
	if err := s.client.Create(ctx, f); err != nil {
		t.Fatal(err)
	}
}

// close deletes the object and all that runs for it.
func (s *stage) close(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := s.client.Delete(ctx, s.get(ctx, t)); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, t, "the local objects are gone", func() bool {
		sizes, _ := s.sizes(ctx)
		return slices.Equal(sizes, []int32{-1, -1, -1})
	})
}

// change changes the object, and has what is written from then on counted.
func (s *stage) change(ctx context.Context, t *testing.T, change func(*v1alpha1.FederatedReplicaSetSpec)) {
	t.Helper()
	s.begin(ctx, t)
	s.edit(ctx, t, change)
}

// edit changes the object.
func (s *stage) edit(ctx context.Context, t *testing.T, change func(*v1alpha1.FederatedReplicaSetSpec)) {
	t.Helper()
	f := s.get(ctx, t)
	before := f.DeepCopy()
	change(&f.Spec)
	if err := s.client.Patch(ctx, f, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) get(ctx context.Context, t *testing.T) *v1alpha1.FederatedReplicaSet {
	t.Helper()
	f := &v1alpha1.FederatedReplicaSet{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "web"}, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// local is the local object in a member; nil if there is none or it cannot be read.
func (s *stage) local(ctx context.Context, name string) *appsv1.Deployment {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	d := &appsv1.Deployment{}
	if err := s.members[name].Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "web"}, d); err != nil {
		return nil
	}
	return d
}

// sizes are the numbers of replicas, and of those that are ready; -1 where there is no local object.
func (s *stage) sizes(ctx context.Context) (sizes, ready []int32) {
	for _, name := range clusterNames {
		size, runs := int32(-1), int32(-1)
		if d := s.local(ctx, name); d != nil {
			size, runs = *d.Spec.Replicas, d.Status.ReadyReplicas
		}
		sizes, ready = append(sizes, size), append(ready, runs)
	}
	return sizes, ready
}

// until waits. Many stages wait at the same time.
func (s *stage) until(ctx context.Context, t *testing.T, what string, wanted func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, pollInterval, settledWithin, true, func(context.Context) (bool, error) { return wanted(), nil })
	if err != nil {
		s.explain(ctx, t)
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func (s *stage) explain(ctx context.Context, t *testing.T) {
	t.Helper()
	f := s.get(ctx, t)
	for _, c := range f.Status.Clusters {
		t.Logf("%+v", c)
	}
	for _, c := range f.Status.Conditions {
		t.Logf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	sizes, ready := s.sizes(ctx)
	t.Logf("sizes %v, ready %v", sizes, ready)
}

// apportioned is how many replicas should run in each cluster, by package apportion, if some
// clusters have no more capacity than that, and these replicas are there already. As replicas that
// are left over go to any cluster, the numbers must be the documented ones in any order.
func (s *stage) apportioned(ctx context.Context, t *testing.T, capacities map[string]int64, current []int64, documented ...int32) []int32 {
	t.Helper()
	spec := s.get(ctx, t).Spec
	r := apportion.Request{
		Replicas: int64(*spec.Replicas), Rounding: apportion.Rounding(spec.Rounding), Shortage: apportion.TotalWins, Pending: apportion.Trim,
		Rebalance: &spec.Preferences.Rebalance, TieBreak: apportion.Hash, Key: s.namespace + "/web",
	}
	for i, name := range clusterNames {
		p, ok := spec.Preferences.Clusters[name]
		if !ok {
			if p, ok = spec.Preferences.Clusters["*"]; !ok && spec.Preferences.Clusters == nil {
				p.Weight = ptr.To[int32](1)
			}
		}
		target := apportion.Target{Name: name, Weight: ptr.To(int64(ptr.Deref(p.Weight, 0))), Min: int64(ptr.Deref(p.MinReplicas, 0))}
		if p.MaxReplicas != nil {
			target.Max = ptr.To(int64(*p.MaxReplicas))
		}
		if n, ok := capacities[name]; ok {
			target.Capacity = &n
		}
		if current != nil {
			target.Current = current[i]
		}
		r.Targets = append(r.Targets, target)
	}
	result, err := apportion.Distribute(r)
	if err != nil {
		t.Fatal(err)
	}
	var runs []int32
	for _, target := range result.Targets {
		runs = append(runs, int32(target.Replicas)) // a few
	}
	if got := slices.Sorted(slices.Values(runs)); !slices.Equal(got, slices.Sorted(slices.Values(documented))) {
		t.Errorf("apportion says %v, documented is %v", runs, documented)
	}
	return runs
}

// settles waits until that many replicas run in each cluster, with the probe beyond them, and the
// object says that it is settled. Then it expects that nothing is written any more.
func (s *stage) settles(ctx context.Context, t *testing.T, runs []int32, probe map[string]int32) {
	t.Helper()
	want := slices.Clone(runs)
	var sum int32
	for i, name := range clusterNames {
		want[i] += probe[name]
		sum += max(0, runs[i])
	}
	absent := func(n int32) int32 { return max(n, 0) } // a cluster without replicas may have no object
	s.until(ctx, t, fmt.Sprintf("the sizes are %v, of which %v run", want, runs), func() bool {
		sizes, ready := s.sizes(ctx)
		for i := range sizes {
			if want[i] == 0 {
				sizes[i], ready[i] = absent(sizes[i]), absent(ready[i])
			}
		}
		return slices.Equal(sizes, want) && slices.Equal(ready, runs) && s.rolledOut(ctx) && s.settled(ctx, t)
	})
	s.quiet(ctx, t)
	s.until(ctx, t, fmt.Sprintf("the status says %d of %d ready, and the others unplaced", sum, *s.get(ctx, t).Spec.Replicas), func() bool {
		f := s.get(ctx, t)
		return f.Status.ReadyReplicas == sum && f.Status.Unplaced == max(0, *f.Spec.Replicas-sum)
	})
}

// rolledOut reports whether Kubernetes has made all pods of the local objects that it makes, from their newest templates.
func (s *stage) rolledOut(ctx context.Context) bool {
	for _, name := range clusterNames {
		d := s.local(ctx, name)
		if d != nil && (d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != d.Status.Replicas) {
			return false
		}
	}
	return true
}

// settled reports whether the object says that it is settled, and that all replicas are ready that
// have a place.
func (s *stage) settled(ctx context.Context, t *testing.T) bool {
	t.Helper()
	f := s.get(ctx, t)
	return f.Status.ObservedGeneration == f.Generation && meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionSettled) &&
		f.Status.ReadyReplicas+f.Status.Unplaced == *f.Spec.Replicas
}

// begin has what is written from now on counted, and the fewest and the most pods.
func (s *stage) begin(ctx context.Context, t *testing.T) {
	t.Helper()
	s.marks, s.before = s.mark(t), nil
	for _, name := range clusterNames {
		s.before = append(s.before, s.local(ctx, name))
	}
	s.ledger.begin(s.namespace)
}

func (w *federation) mark(t *testing.T) map[*controlplane.ControlPlane]controlplane.Mark {
	t.Helper()
	marks := map[*controlplane.ControlPlane]controlplane.Mark{}
	for _, plane := range w.planes() {
		mark, err := plane.Mark()
		if err != nil {
			t.Fatal(err)
		}
		marks[plane] = mark
	}
	return marks
}

// written is what the controllers wrote in the namespace since the marks, events apart.
func (s *stage) written(t *testing.T, since map[*controlplane.ControlPlane]controlplane.Mark,
	plane *controlplane.ControlPlane) []controlplane.Write {
	t.Helper()
	user := memberAccount
	if plane == s.host {
		user = controllerAccount
	}
	writes, err := plane.Writes(user, since[plane])
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(writes, func(w controlplane.Write) bool { return w.Namespace != s.namespace || w.Resource == "events" })
}

// quiet waits until nothing is written for two seconds. Local objects should not be written any more from the
// beginning; the status may be once more, since on a busy machine what controllers and kubelets report comes late.
func (s *stage) quiet(ctx context.Context, t *testing.T) {
	t.Helper()
	began, last, marks := time.Now(), time.Now(), s.mark(t)
	s.until(ctx, t, "nothing is written any more", func() bool {
		for _, plane := range s.planes() {
			for _, write := range s.written(t, marks, plane) {
				if plane != s.host && !write.At.Before(began) { // or else the log is behind: it is the write that settled the object
					t.Fatalf("nothing changes, and this is written: %+v", write)
				}
				if write.At.After(last) {
					last = write.At
				}
			}
		}
		return time.Since(last) > 2*time.Second
	})
}

// wrote checks how often each local object was written since the last change, and that every write
// changed what the object asks for. On a busy machine pods start one after the other, and a change
// may take two writes more; an object that is to stay as it is takes none.
func (s *stage) wrote(ctx context.Context, t *testing.T, when string, want ...int) {
	t.Helper()
	for i, n := range s.counted(ctx, t, when) {
		if n < want[i] || n > want[i]+2*min(1, want[i]) {
			t.Errorf("%s: the local object in %s was written %d times, want %d", when, clusterNames[i], n, want[i])
		}
	}
}

// wroteAtMost is wrote where it depends on the time what can be written at once.
func (s *stage) wroteAtMost(ctx context.Context, t *testing.T, when string, most int) {
	t.Helper()
	if got := s.counted(ctx, t, when); slices.Max(got) > most {
		t.Errorf("%s: local objects were written %v times, want %d at most", when, got, most)
	}
}

// counted is how often each local object was written since the last change.
func (s *stage) counted(ctx context.Context, t *testing.T, when string) (got []int) {
	t.Helper()
	for i, name := range clusterNames {
		n := 0
		writes := s.written(t, s.marks, s.members[name])
		for _, write := range writes {
			if write.Code == http.StatusConflict {
				continue // its controller wrote the status
			}
			if write.Code >= http.StatusBadRequest {
				t.Errorf("%s: %s: %+v", when, name, write)
				continue
			}
			n++
		}
		got = append(got, n)
		var changes int64
		if now := s.local(ctx, name); now != nil {
			changes = now.Generation
			if before := s.before[i]; before != nil && before.UID == now.UID {
				changes -= before.Generation
			}
		}
		if int64(n) != changes {
			t.Errorf("%s: %s was written %d times and changed %d times: %+v", when, name, n, changes, writes)
		}
	}
	statuses := len(s.written(t, s.marks, s.host))
	t.Logf("%s: local objects were written %v times, the status %d times", when, got, statuses)
	return got
}
