package members

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// aNode is ready, with eight cores.
func aNode(name string, change ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1.NodeStatus{
			Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("32Gi"),
				v1.ResourcePods: resource.MustParse("110")},
			Conditions: []v1.NodeCondition{{Type: v1.NodeMemoryPressure}, {Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

// using puts a pod on a node, with requests.
func using(node, cores string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		p.Spec.NodeName = node
		p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cores)}}}}
		p.Labels = map[string]string{v1alpha1.LabelFederated: "true"}
	}
}

// fix says whether the nodes of a cluster are all that it has.
func (w *hostHarness) fix(name string, fixed bool) {
	w.t.Helper()
	synctest.Wait() // no status is being stored between the read and the write
	m := w.get(name)
	m.Spec.FixedNodes = fixed
	if err := w.host.Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
	w.poke(name)
}

// free is what a cluster has left: "n-1:8000/110".
func (w *hostHarness) free(name string) string {
	room, known := w.members.Get(name).Room()
	if !known {
		return "unknown"
	}
	var out []string
	for _, n := range room.Nodes {
		out = append(out, fmt.Sprintf("%s:%d/%d", n.Object.Name, n.Free[v1.ResourceCPU], n.Free[v1.ResourcePods]))
	}
	return fmt.Sprint(strings.Join(out, " "), " ", room.Bound)
}

func (w *hostHarness) roomCondition(name string) (status metav1.ConditionStatus, reason, message string) {
	c := meta.FindStatusCondition(w.get(name).Status.Conditions, v1alpha1.ConditionRoomKnown)
	if c == nil {
		return "", "", ""
	}
	return c.Status, c.Reason, c.Message
}

// The room of a cluster with fixed nodes follows its nodes and all of its pods.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostHarness(t, Options{})
		defer w.end()
		paris := w.server("paris")
		paris.put("nodes", aNode("n-1"))
		paris.put("nodes", aNode("n-2", func(n *v1.Node) { n.Spec.Unschedulable = true }))
		paris.put("nodes", aNode("n-3", func(n *v1.Node) { n.Status.Conditions[1].Status = v1.ConditionUnknown }))
		paris.put("pods", aPod("a", "web", using("n-1", "500m")))
		w.after(time.Second)
		want := func(when, free string) {
			t.Helper()
			w.after(time.Second)
			if got := w.free("paris"); got != free {
				t.Errorf("%s: %s, want %s", when, got, free)
			}
		}
		want("not asked for", "unknown")
		if status, _, _ := w.roomCondition("paris"); status != "" || paris.called("GET /api/v1/nodes") != 0 {
			t.Errorf("nodes are read without being asked for: %s", status)
		}
		w.fix("paris", true)
		want("asked for", "n-1:7500/109 map[shop/web:1]")
		if status, reason, _ := w.roomCondition("paris"); status != metav1.ConditionTrue || reason != v1alpha1.ReasonNodesRead {
			t.Errorf("%s %s", status, reason)
		}
		paris.put("pods", aPod("b", "web-7f9", using("n-1", "2"), func(p *v1.Pod) { p.Labels["pod-template-hash"] = "7f9" }))
		paris.put("pods", aPod("c", "other", using("n-1", "1"), func(p *v1.Pod) { p.Labels = nil }))
		want("a pod of a Deployment, and one of another owner", "n-1:4500/107 map[shop/web:2]")
		paris.put("pods", aPod("a", "web", using("n-1", "500m"), func(p *v1.Pod) { p.DeletionTimestamp = ptrTo(metav1.NewTime(noon)) }))
		want("about to end", "n-1:4500/107 map[shop/web:1]")
		paris.put("pods", aPod("a", "web", using("n-1", "500m"), func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }))
		want("failed", "n-1:5000/108 map[shop/web:1]")
		paris.put("nodes", aNode("n-2"))
		want("another node", "n-1:5000/108 n-2:8000/110 map[shop/web:1]")
		w.fix("paris", false)
		want("not asked for any more", "unknown")
		if status, _, _ := w.roomCondition("paris"); status != "" {
			t.Errorf("the condition stays: %s", status)
		}
		w.says("paris", fine)
	})
}

func ptrTo[T any](v T) *T { return &v }

// A cluster whose nodes may not be read stays reachable, and says what to do.
func TestRoomThatMayNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostHarness(t, Options{})
		defer w.end()
		paris := w.server("paris")
		paris.put("nodes", aNode("n-1"))
		paris.set(func(s *server) { s.denies = "/nodes" })
		w.fix("paris", true)
		w.after(time.Second)
		status, reason, message := w.roomCondition("paris")
		if status != metav1.ConditionFalse || reason != v1alpha1.ReasonForbidden ||
			!strings.Contains(message, "list and watch nodes: evenkeel cluster join with --fixed-nodes") {
			t.Errorf("%s %s %s", status, reason, message)
		}
		w.says("paris", fine)
		if got := w.free("paris"); got != "unknown" {
			t.Error(got)
		}
		paris.set(func(s *server) { s.denies = "" })
		w.after(2 * time.Minute)
		if got := w.free("paris"); got != "n-1:8000/110 map[]" {
			t.Error(got)
		}
		if status, _, _ = w.roomCondition("paris"); status != metav1.ConditionTrue {
			t.Error(status)
		}
	})
}

// The nodes of a cluster that comes back are read later than all else. Until then its room is the last one that was known:
// if it was unknown, objects that are decided meanwhile would get replicas there by their weights alone.
func TestRoomIsKnownAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostHarness(t, Options{})
		defer w.end()
		paris := w.server("paris")
		paris.put("nodes", aNode("n-1"))
		w.fix("paris", true)
		w.after(time.Second)
		release := paris.hang()
		w.after(15 * time.Second) // a probe has failed
		paris.put("nodes", aNode("n-2"))
		paris.set(func(s *server) { s.slow, s.late = "/nodes", 3*time.Second })
		release()
		for range 100 {
			w.after(100 * time.Millisecond)
			if got := w.free("paris"); got != "n-1:8000/110 map[]" && got != "n-1:8000/110 n-2:8000/110 map[]" {
				t.Fatalf("%s, in state %v", got, w.members.Get("paris").View().State)
			}
		}
		w.after(time.Minute)
		if got := w.free("paris"); got != "n-1:8000/110 n-2:8000/110 map[]" {
			t.Error(got)
		}
		w.says("paris", fine)
	})
}

// A cluster of which only the nodes cannot be read stays reachable.
func TestUnreadableNodesDoNotMakeAClusterLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostHarness(t, Options{})
		defer w.end()
		paris := w.server("paris")
		paris.put("nodes", aNode("n-1"))
		paris.set(func(s *server) { s.slow, s.late = "/nodes", time.Hour })
		w.fix("paris", true)
		for range 10 {
			w.after(time.Minute)
			w.says("paris", fine)
			if status, reason, _ := w.roomCondition("paris"); w.free("paris") != "unknown" || status != metav1.ConditionFalse {
				t.Errorf("%s: %s %s", w.free("paris"), status, reason)
			}
		}
	})
}

// Clusters are many and their pods more: what is kept of 10,000 pods is less than 10 MiB.
func TestRoomKeepsLittleOfAPod(t *testing.T) {
	const pods = 10_000
	kept := make([]any, 0, pods)
	before := heap()
	for i := range pods {
		pod := aPod(fmt.Sprintf("web-7f9c5d8b6-%05d", i), "web", using(fmt.Sprintf("node-%03d", i%200), "500m"))
		pod.Annotations = map[string]string{"checksum/config": strings.Repeat("x", 64)}
		pod.Spec.Volumes = make([]v1.Volume, 3)
		trimmed, err := trimPod(true)(pod)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, trimmed)
	}
	each := (heap() - before) / pods
	t.Logf("%d bytes for each pod", each)
	if each > 1000 {
		t.Errorf("%d bytes for each pod", each)
	}
	runtime.KeepAlive(kept)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) // less than that
}

// What is left after a pod came, in a cluster with many.
func BenchmarkRoom(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := &caches{cluster: newCluster(&v1alpha1.MemberCluster{}, New(Options{})), tally: newTally(), denied: map[string]bool{}}
			for i := range nodes {
				c.nodeChanged(nil, aNode(fmt.Sprintf("n-%d", i)))
			}
			kept, err := trimPod(true)(aPod("a", "web", using("n-1", "500m")))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				c.podChanged(nil, kept.(*pod))
				c.room()
			}
		})
	}
}
