package federation

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/podhealth"
)

// asking is a pod with requests.
func asking(cpu, memory string) runtime.RawExtension {
	return runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"containers":[{"name":"web","image":"web:1","resources":{"requests":{"cpu":%q,"memory":%q}}}]}`, cpu, memory)}
}

// half is a pod that asks for half a core and a gigabyte.
var half = asking("500m", "1Gi")

// nodes are empty nodes with cores and gigabytes.
func nodes(n int, cores, gigabytes int64) Room {
	var r Room
	for i := range n {
		r.Nodes = append(r.Nodes, Node{
			Object:      &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%03d", i)}},
			Allocatable: podfit.Resources{v1.ResourceCPU: 1000 * cores, v1.ResourceMemory: gigabytes << 30, v1.ResourcePods: 110},
			Free:        podfit.Resources{v1.ResourceCPU: 1000 * cores, v1.ResourceMemory: gigabytes << 30, v1.ResourcePods: 110},
		})
	}
	return r
}

// schedule places pods as a scheduler does by default: each on the node that is the emptiest then.
// It returns how many fit nowhere. The room is changed.
func schedule(r *Room, pods []podfit.Resources) (left int) {
	for _, pod := range pods {
		best := -1
		for i, n := range r.Nodes {
			if n.Free.Takes(pod) > 0 && (best < 0 || n.unused(n.Free) > r.Nodes[best].unused(r.Nodes[best].Free)) {
				best = i
			}
		}
		if best < 0 {
			left++
			continue
		}
		r.Nodes[best].Free = r.Nodes[best].Free.Plus(-1, pod)
	}
	return left
}

// sweep decides about 500 new objects with four replicas each, one after the other, before any of
// their pods has a node. Every fifth has pods of two cores, and the others of half a core. It
// returns how many replicas have no place, and how many fit on no node when all are scheduled.
func sweep(t *testing.T, rooms map[string]Room,
	decide func(Input, map[string]Room) (Decision, error)) (given map[string]int32, unplaced, unscheduled int) {
	t.Helper()
	given = map[string]int32{}
	pods := map[string][]podfit.Resources{}
	for i := range 500 {
		spec := specOf(4, weighted(map[string]int32{"a": 6, "b": 3, "c": 1}))
		spec.Template.Spec = half
		if i%5 == 0 {
			spec.Template.Spec = asking("2", "1Gi")
		}
		s, _ := shapeOf(&spec.Template)
		d, err := decide(Input{Key: fmt.Sprintf("shop/web-%d", i), Spec: spec, Clusters: []Cluster{{Name: "a"}, {Name: "b"}, {Name: "c"}},
			Now: noon}, rooms)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range d.Writes {
			given[w.Cluster] += w.To
			for range w.To {
				pods[w.Cluster] = append(pods[w.Cluster], s.requests)
			}
		}
		unplaced += int(d.Status.Unplaced)
	}
	for cluster, room := range rooms {
		room.Nodes = slices.Clone(room.Nodes)
		unscheduled += schedule(&room, pods[cluster])
	}
	return given, unplaced, unscheduled
}

// 500 objects that are scaled in one sweep never all choose the same room: where all pods fit, none
// is left without a node.
func TestLedgerSharesTheRoomOfASweep(t *testing.T) {
	// The pods need 1600 cores and the clusters have 1900. By weight, a would get half of the pods.
	rooms := map[string]Room{"a": nodes(20, 16, 64), "b": nodes(60, 8, 64), "c": nodes(70, 16, 64)}
	ledger := &Ledger{}
	given, unplaced, unscheduled := sweep(t, rooms, ledger.Decide)
	t.Logf("with a ledger %v, %d without a node", given, unscheduled)
	if unplaced != 0 || unscheduled != 0 || given["a"]+given["b"]+given["c"] != 2000 {
		t.Errorf("%v, %d unplaced, %d without a node", given, unplaced, unscheduled)
	}
	given, _, unscheduled = sweep(t, rooms, func(in Input, rooms map[string]Room) (Decision, error) { return (&Ledger{}).Decide(in, rooms) })
	t.Logf("without %v, %d without a node", given, unscheduled)
	if unscheduled < 500 {
		t.Errorf("without a ledger %d have no node: the room suffices for all, and the test shows nothing", unscheduled)
	}
}

// Ten nodes with a core each have no room for a pod of four.
func TestLedgerCountsRoomByNode(t *testing.T) {
	for name, test := range map[string]struct {
		pod  string
		room Room
		want int32
	}{
		"too large":           {`{"containers":[{"name":"c","resources":{"requests":{"cpu":"4"}}}]}`, nodes(10, 1, 8), 0},
		"one on each":         {`{"containers":[{"name":"c","resources":{"requests":{"cpu":"600m"}}}]}`, nodes(10, 1, 8), 10},
		"asks for nothing":    {`{"containers":[{"name":"c"}]}`, nodes(2, 1, 8), 220},
		"a GPU":               {`{"containers":[{"name":"c","resources":{"requests":{"nvidia.com/gpu":"1"}}}]}`, nodes(10, 1, 8), 0},
		"selects nodes":       {`{"nodeSelector":{"disk":"ssd"},"containers":[{"name":"c"}]}`, nodes(10, 1, 8), 0},
		"does not tolerate":   {`{"containers":[{"name":"c"}]}`, tainted(nodes(1, 1, 8)), 0},
		"tolerates the taint": {`{"tolerations":[{"operator":"Exists"}],"containers":[{"name":"c"}]}`, tainted(nodes(1, 1, 8)), 110},
		"more than is free":   {`{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}`, nodes(1, -3, 8), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := shapeOf(&v1alpha1.PodTemplate{Spec: runtime.RawExtension{Raw: []byte(test.pod)}})
			if err != nil {
				t.Fatal(err)
			}
			free := (&Ledger{}).left(&test.room, "a", "x", noon)
			if got := s.count(test.room.Nodes, free); got != int64(test.want) {
				t.Errorf("room for %d", got)
			}
		})
	}
}

func tainted(r Room) Room {
	for _, n := range r.Nodes {
		n.Object.Spec.Taints = []v1.Taint{{Key: "dedicated", Effect: v1.TaintEffectNoSchedule}}
	}
	return r
}

// What has a node is no assumption any more, what gets none for long uses nothing, and what is
// deleted neither.
func TestLedgerForgets(t *testing.T) {
	room := nodes(1, 2, 100) // for four
	ledger := &Ledger{}
	place := func(key string, now time.Time) (placed int32) {
		t.Helper()
		spec := specOf(4, nil)
		spec.Template.Spec = half
		d, err := ledger.Decide(Input{Key: key, Spec: spec, Clusters: []Cluster{{Name: "a"}}, Now: now}, map[string]Room{"a": room})
		if err != nil {
			t.Fatal(err)
		}
		return 4 - d.Status.Unplaced
	}
	if a, b := place("x/1", noon), place("x/2", noon); a != 4 || b != 0 {
		t.Errorf("%d, %d", a, b)
	}
	if again := place("x/1", noon.Add(act-time.Second)); again != 4 {
		t.Errorf("its own assumption counts against it: %d", again)
	}
	if late := place("x/2", noon.Add(act)); late != 4 {
		t.Errorf("deciding the same again prolongs an assumption: %d", late)
	}
	ledger.Forget("x/2")
	if other := place("x/3", noon.Add(act)); other != 4 {
		t.Errorf("after the other is deleted %d", other)
	}
	// When the pods have nodes, these show it.
	room.Bound = map[string]int32{"x/3": 3}
	room.Nodes[0].Free = podfit.Resources{v1.ResourceCPU: 500, v1.ResourceMemory: 97 << 30, v1.ResourcePods: 107}
	if other := place("x/4", noon.Add(act)); other != 0 {
		t.Errorf("one of x/3 has no node yet, and %d of x/4 are placed", other)
	}
	room.Bound = map[string]int32{"x/3": 4}
	room.Nodes[0].Free = podfit.Resources{v1.ResourceCPU: 0, v1.ResourceMemory: 96 << 30, v1.ResourcePods: 106}
	place("x/3", noon.Add(act))
	if n := ledger.assumed["a"]["x/3"]; n != nil {
		t.Errorf("left %+v", n)
	}
}

// An object whose pods nothing creates, as a quota keeps them out, takes room from others for a while only, however long it says
// that they take to start, and however often it asks for another number.
func TestLedgerCountsPodsThatAreCreated(t *testing.T) {
	ledger := &Ledger{}
	room := nodes(1, 2, 100) // for four
	room.Created = map[string]int32{}
	place := func(key string, replicas int32, now time.Time) int32 {
		spec := specOf(replicas, nil)
		spec.Template.Spec, spec.Fallback.StartupTimeout.Duration = half, 10000*time.Hour
		d, err := ledger.Decide(Input{Key: key, Spec: spec, Clusters: []Cluster{{Name: "a"}}, Now: now}, map[string]Room{"a": room})
		if err != nil {
			t.Fatal(err)
		}
		return replicas - d.Status.Unplaced
	}
	place("x/greedy", 1000, noon)
	room.Created["x/greedy"] = 1
	if n := place("x/1", 4, noon.Add(creation-time.Second)); n != 0 {
		t.Errorf("%d are placed while pods of another object may still be created", n)
	}
	ledger.Forget("x/1")
	if n := place("x/1", 4, noon.Add(creation)); n != 3 {
		t.Errorf("%d are placed, want those for which a single pod leaves room", n)
	}
	ledger.Forget("x/1")
	place("x/greedy", 1001, noon.Add(creation)) // a pod has come since the last time: others may follow
	if n := place("x/1", 4, noon.Add(creation)); n != 0 {
		t.Errorf("%d are placed while more pods come", n)
	}
	ledger.Forget("x/1")
	place("x/greedy", 1002, noon.Add(2*creation-time.Second)) // none has
	if n := place("x/1", 4, noon.Add(2*creation)); n != 3 {
		t.Errorf("%d are placed once the other object asks again", n)
	}
}

// After a restart, what was given before is known from the status of the objects.
func TestLedgerRecalls(t *testing.T) {
	rooms := map[string]Room{"a": nodes(1, 2, 100)} // for four
	in := Input{Key: "x/1", Spec: specOf(3, nil), Clusters: []Cluster{{Name: "a"}}, Now: noon}
	in.Spec.Template.Spec = half
	first, err := (&Ledger{}).Decide(in, rooms)
	if err != nil {
		t.Fatal(err)
	}
	ledger := &Ledger{}
	ledger.Recall(in.Key, &in.Spec, &first.Status, noon)
	other := in
	other.Key = "x/2"
	second, err := ledger.Decide(other, rooms)
	if err != nil || second.Status.Unplaced != 2 {
		t.Errorf("%d unplaced, %v", second.Status.Unplaced, err)
	}
}

// Known room takes nothing away: neither when others use it up, nor while pods are about to end.
func TestRoomTakesNothingAway(t *testing.T) {
	spec := specOf(10, nil)
	spec.Template.Spec = half
	in := Input{Key: "x/1", Spec: spec, Clusters: []Cluster{{Name: "a"}, {Name: "b"}}, Now: noon}
	full := Room{Nodes: nodes(1, 0, 0).Nodes, Bound: map[string]int32{"x/1": 4}} // a fifth is about to end
	for i := range in.Clusters {
		five := podhealth.Counts{Timeout: act, Existing: 5, Running: 5, Ready: 5}
		in.Clusters[i].Local = Local{Exists: true, Replicas: 5, Written: new(int32(5)), Revision: Revision(&spec), RolledOut: true, Normal: five,
			Act: five}
	}
	d, err := (&Ledger{}).Decide(in, map[string]Room{"a": full})
	if err != nil || len(d.Writes) != 0 || d.Status.Unplaced != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Where nothing has room, a couple of replicas wait, so that pods of a higher priority get room, and
// it is looked again after a while.
func TestWithoutRoomACoupleWaits(t *testing.T) {
	spec := specOf(10, nil)
	spec.Template.Spec = half
	in := Input{Key: "x/1", Spec: spec, Clusters: []Cluster{{Name: "a"}}, Now: noon}
	d, err := (&Ledger{}).Decide(in, map[string]Room{"a": nodes(3, 1, 100)}) // for six
	if err != nil || len(d.Writes) != 1 || d.Writes[0].To != 8 || d.Status.Unplaced != 4 || d.Status.Clusters[0].Pending != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	if !d.Next.Equal(noon.Add(roomInterval)) {
		t.Errorf("next %s", d.Next)
	}
	// What waits is not taken for placed.
	in.Status = d.Status
	six := podhealth.Counts{Timeout: act, Existing: 8, Running: 6, Ready: 6}
	in.Clusters[0].Local = Local{Exists: true, Replicas: 8, Written: new(int32(8)), Revision: Revision(&spec), RolledOut: true, Normal: six,
		Act: six}
	full := nodes(3, 0, 100)
	full.Bound = map[string]int32{"x/1": 6}
	if d, err = (&Ledger{}).Decide(in, map[string]Room{"a": full}); err != nil || len(d.Writes) != 0 || d.Status.Unplaced != 4 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Pods are assumed to go where a scheduler puts them.
func TestAssumedPlacesAreThoseOfAScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := nodes(rapid.IntRange(0, 6).Draw(t, "nodes"), 8, 32)
		for i := range room.Nodes {
			room.Nodes[i].Free = room.Nodes[i].Free.Plus(1, podfit.Resources{v1.ResourceCPU: -room.Nodes[i].Free[v1.ResourceCPU]}).Plus(500,
				podfit.Resources{v1.ResourceCPU: rapid.Int64Range(-1, 16).Draw(t, "free")})
		}
		s, err := shapeOf(&v1alpha1.PodTemplate{Spec: asking(rapid.SampledFrom([]string{"500m", "1", "3"}).Draw(t, "cores"), "1Gi")})
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(0, 40).Draw(t, "pods")
		free := make([]podfit.Resources, len(room.Nodes))
		for i, node := range room.Nodes {
			free[i] = maps.Clone(node.Free)
		}
		able := s.count(room.Nodes, free)
		placed := int64(0)
		for node, pods := range s.place(int64(n), room.Nodes, free) {
			placed += pods
			i := slices.IndexFunc(room.Nodes, func(n Node) bool { return n.Object.Name == node })
			if want := room.Nodes[i].Free.Plus(-pods, s.requests); !reflect.DeepEqual(free[i], want) {
				t.Errorf("%d pods leave %+v, want %+v", pods, free[i], want)
			}
		}
		left := schedule(&room, slices.Repeat([]podfit.Resources{s.requests}, n))
		if placed != min(able, int64(n)) || int(placed)+left != n {
			t.Errorf("%d of %d placed, and %d left; room for %d", placed, n, left, able)
		}
		for i, node := range room.Nodes {
			if !reflect.DeepEqual(node.Free, free[i]) {
				t.Errorf("node %d: free %+v, want %+v", i, free[i], node.Free)
			}
		}
	})
}

// However objects come and their pods get nodes, no more are given than fit. Pods go to other nodes
// than was assumed, and no pass over their object follows.
func TestLedgerNeverGivesTheSameRoomTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := nodes(rapid.IntRange(1, 4).Draw(t, "nodes"), 2, 100) // each for four
		room.Bound = map[string]int32{}
		able := 4 * len(room.Nodes)
		ledger := &Ledger{}
		var waiting []string // objects of pods without a node
		given := 0
		s, err := shapeOf(&v1alpha1.PodTemplate{Spec: half})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			spec := specOf(rapid.Int32Range(1, 5).Draw(t, "replicas"), nil)
			spec.Template.Spec = half
			key := fmt.Sprint(i)
			d, err := ledger.Decide(Input{Key: key, Spec: spec, Clusters: []Cluster{{Name: "a"}}, Now: noon},
				map[string]Room{"a": {Nodes: slices.Clone(room.Nodes), Bound: maps.Clone(room.Bound)}})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range d.Status.Clusters {
				given += int(c.Written - c.Pending)
				for range c.Written - c.Pending {
					waiting = append(waiting, key)
				}
			}
			if given > able || given == 0 {
				t.Fatalf("%d are given, and %d fit", given, able)
			}
			for range rapid.IntRange(0, len(waiting)).Draw(t, "pods that get a node") {
				pod := rapid.IntRange(0, len(waiting)-1).Draw(t, "pod")
				node := rapid.IntRange(0, len(room.Nodes)-1).Draw(t, "node")
				for room.Nodes[node].Free.Takes(s.requests) == 0 {
					node = (node + 1) % len(room.Nodes)
				}
				room.Nodes[node].Free = room.Nodes[node].Free.Plus(-1, s.requests)
				room.Bound[waiting[pod]]++
				waiting = slices.Delete(waiting, pod, pod+1)
			}
		}
	})
}

func TestRequestsOf(t *testing.T) {
	s, err := shapeOf(&v1alpha1.PodTemplate{Spec: half})
	if got := s.requests; err != nil || !maps.Equal(got, podfit.Resources{v1.ResourceCPU: 500, v1.ResourceMemory: 1 << 30,
		v1.ResourcePods: 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := shapeOf(&v1alpha1.PodTemplate{Spec: runtime.RawExtension{Raw: []byte(`{"containers": 1}`)}}); err == nil {
		t.Error("a pod that is none has no error")
	}
}

// A decision in a sweep, when as many objects as given wait for their pods.
func BenchmarkLedger(b *testing.B) {
	for _, waiting := range []int{0, 100, 500} {
		b.Run(fmt.Sprintf("nodes=200/waiting=%d", waiting), func(b *testing.B) {
			rooms := map[string]Room{"a": nodes(200, 64, 256)}
			ledger := &Ledger{}
			in := Input{Spec: specOf(4, nil), Clusters: []Cluster{{Name: "a"}}, Now: noon}
			in.Spec.Template.Spec = half
			for i := range waiting {
				in.Key = fmt.Sprint(i)
				if _, err := ledger.Decide(in, rooms); err != nil {
					b.Fatal(err)
				}
			}
			in.Key = "x"
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ledger.Decide(in, rooms); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
