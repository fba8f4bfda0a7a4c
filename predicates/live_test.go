package predicates

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func never() bool { return false }

// liveHarness is a cluster that changes at random, and the oracle about it: the scheduler's plugins asked
// from scratch about every node.
type liveHarness struct {
	*dice
	t      *testing.T
	node   func() Node // draws one
	o      *naive
	l      *Live
	w      naiveCluster
	asked  int
	passed int
}

func (x *liveHarness) set(i int) {
	x.w[i].Pods = x.w[i].Pods[:len(x.w[i].Pods):len(x.w[i].Pods)]
	if err := x.l.Set(x.w[i]); err != nil {
		x.t.Fatal(err)
	}
}

// setOr sets a node anew, or only what has changed of it.
func (x *liveHarness) setOr(i int, change func()) {
	if x.one(2) {
		x.set(i)
	} else {
		change()
	}
}

// event changes a node, the pods on one, or which nodes there are.
func (x *liveHarness) event(pod func() *v1.Pod) {
	if len(x.w) == 0 || x.one(6) {
		x.w = append(x.w, x.node())
		x.set(len(x.w) - 1)
		return
	}
	i := x.IntN(len(x.w))
	n := &x.w[i]
	switch {
	case x.one(8):
		if x.one(2) {
			x.l.SetNode(n.Node.Name, nil)
		} else {
			x.l.Remove(n.Node.Name)
		}
		if x.one(3) { // it comes back as another one
			n.Node = n.Node.DeepCopy()
			n.Node.Labels["pool"], n.Pods = x.of("a", "b"), nil
			x.set(i)
			return
		}
		x.w = append(x.w[:i:i], x.w[i+1:]...)
	case x.one(3):
		changed := x.node().Node
		changed.Name = n.Node.Name
		changed.Labels[v1.LabelHostname] = n.Node.Labels[v1.LabelHostname]
		if x.one(8) {
			delete(changed.Labels, v1.LabelHostname)
		}
		if x.one(4) {
			changed.Labels = n.Node.Labels
		}
		n.Node = changed
		x.setOr(i, func() { x.l.SetNode(changed.Name, changed) })
	case len(n.Pods) > 0 && x.one(2):
		at := x.IntN(len(n.Pods))
		gone := n.Pods[at]
		n.Pods = append(n.Pods[:at:at], n.Pods[at+1:]...)
		x.setOr(i, func() { x.l.RemovePod(n.Node.Name, gone) })
	default:
		p := pod()
		p.Spec.NodeName = n.Node.Name
		n.Pods = append(n.Pods, p)
		x.setOr(i, func() { x.l.AddPod(n.Node.Name, p) })
	}
}

// ask compares one answer.
func (x *liveHarness) ask(p *v1.Pod) {
	name, err := x.l.Find(p, never)
	if err != nil {
		x.t.Fatal(err)
	}
	x.asked++
	if name == "" {
		if i := x.o.first(x.w, p, 0, len(x.w)); i >= 0 {
			x.t.Fatalf("pod %s finds no node, but passes %s\n%s", p.Name, x.w[i].Node.Name, describe(p))
		}
	}
	for i, n := range x.w {
		if n.Node.Name == name {
			if !x.o.fits(x.w, p, i) {
				x.t.Fatalf("pod %s finds %s, which it does not pass\n%s", p.Name, name, describe(p))
			}
			x.passed++
			return
		}
	}
	if name != "" {
		x.t.Fatalf("pod %s finds %s, which does not exist", p.Name, name)
	}
}

// askOn compares the answer about one node more.
func (x *liveHarness) askOn(p *v1.Pod) {
	more := x.node()
	got, err := x.l.FindOn(more, p, never)
	if err != nil {
		x.t.Fatal(err)
	}
	with := append(x.w.copy(), more)
	if want := x.o.fits(with, p, len(with)-1); got != want {
		x.t.Fatalf("pod %s on one node more: %t, want %t\n%s", p.Name, got, want, describe(p))
	}
}

// TestLiveEqualsThePluginsFromScratch: after any sequence of changes a pod finds a node exactly if it
// passes the plugins on some node, and it passes them on the one that it finds.
func TestLiveEqualsThePluginsFromScratch(t *testing.T) {
	t.Parallel()
	o, c := newNaive(t, owners()...), newChecker(t, Options{Objects: owners()})
	asked, passed := 0, 0
	for seed := range uint64(rounds(t, 600)) {
		d := newDice(8e6 + seed)
		t.Logf("seed %d", seed)
		x := &liveHarness{dice: d, t: t, o: o, l: c.Live(), node: func() Node { return d.nodes(1)[0] }}
		if seed%3 == 0 { // keys are dropped all the time
			x.l.minKeys, x.l.mostKeys = 2, 2
		}
		for _, n := range d.nodes(d.IntN(5)) {
			x.w = append(x.w, n)
			x.set(len(x.w) - 1)
		}
		known := []*v1.Pod{d.scheduled(), d.scheduled()}
		for range 10 {
			for range d.IntN(4) {
				x.event(d.pod)
			}
			if d.one(3) {
				known = append(known, d.scheduled())
			}
			p := known[d.IntN(len(known))].DeepCopy()
			x.ask(p)
			if d.one(3) {
				x.askOn(p)
			}
		}
		asked, passed = asked+x.asked, passed+x.passed
	}
	t.Logf("%d answers, %d of them a node", asked, passed)
	if passed == 0 || passed == asked {
		t.Error("nothing compared")
	}
}

// TestLiveKnowsVolumes: the same with claims, volumes and limits of drivers that come and go.
func TestLiveKnowsVolumes(t *testing.T) {
	t.Parallel()
	asked, passed := 0, 0
	for seed := range uint64(rounds(t, 250)) {
		d := &volumeDice{dice: newDice(9e6 + seed)}
		t.Logf("seed %d", seed)
		d.classes()
		d.shared = []string{"shared-a", "shared-b"}
		for _, name := range d.shared {
			d.claim(name)
		}
		o, c := newNaive(t), newChecker(t, Options{})
		x := &liveHarness{dice: d.dice, t: t, o: o, l: c.Live()}
		put := func() {
			for _, object := range d.objects {
				o.add(t, asRead(object))
			}
			if err := x.l.Put(d.objects...); err != nil {
				t.Fatal(err)
			}
			d.objects = nil
		}
		x.node = func() Node {
			n := d.node(d.name("node"), d.IntN(2))
			if zone := n.Node.Labels[v1.LabelTopologyZone]; zone != "" {
				n.Node.Labels[v1.LabelFailureDomainBetaZone] = zone // as the cloud's controller does
			}
			if !d.one(4) {
				d.add(d.csiNode(n.Node.Name))
			}
			put()
			return n
		}
		with := func() *v1.Pod {
			p := d.pod()
			p.Spec.NodeName = ""
			d.attach(p)
			put()
			return p
		}
		for range 2 + d.IntN(3) {
			x.w = append(x.w, x.node())
			x.set(len(x.w) - 1)
		}
		var last []runtime.Object
		for range 8 {
			x.event(with)
			p := with()
			x.ask(p)
			if d.one(4) {
				d.claim("fresh")
				last = append(last[:0:0], d.objects...)
				put()
				p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "fresh", VolumeSource: v1.VolumeSource{
					PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "fresh"}}})
				x.ask(p)
				for _, object := range last {
					if err := informerFor(o.objects, object).GetIndexer().Delete(object); err != nil {
						t.Fatal(err)
					}
				}
				if err := x.l.Drop(last...); err != nil {
					t.Fatal(err)
				}
				x.ask(p)
			}
		}
		asked, passed = asked+x.asked, passed+x.passed
	}
	t.Logf("%d answers, %d of them a node", asked, passed)
	if passed == 0 || passed == asked {
		t.Error("nothing compared")
	}
}

// TestLiveStopsAndGoesOn: an answer that takes too long is given up, and what was done for it is not
// lost.
func TestLiveStopsAndGoesOn(t *testing.T) {
	l := newChecker(t, Options{}).Live()
	for _, n := range benchNodes(100, 5) {
		if err := l.Set(n); err != nil {
			t.Fatal(err)
		}
	}
	p := benchPod(0, 1)
	stops := 0
	for {
		left := 30
		name, err := l.Find(p, func() bool { left--; return left < 0 })
		if err == nil {
			if name == "" {
				t.Error("no node for the pod")
			}
			break
		}
		if !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		stops++
	}
	if stops < 3 || stops > 5 {
		t.Errorf("stopped %d times for 100 nodes, 30 at a time", stops)
	}
}

// TestLiveForgetsWhatIsGone: pods, kinds of pods and nodes that have gone are not kept.
func TestLiveForgetsWhatIsGone(t *testing.T) {
	l := newChecker(t, Options{}).Live()
	for i := range 20_000 {
		n := benchNode(fmt.Sprintf("node-%d", i%50), 1)
		p := benchPod(i, i)
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(1+i), resource.DecimalSI)
		n.Pods = []*v1.Pod{p}
		if err := l.Set(n); err != nil {
			t.Fatal(err)
		}
		if i%50 == 7 {
			l.Remove(n.Node.Name)
		}
		if i%10 == 0 {
			if _, err := l.Find(p, never); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Sync(never); err != nil {
		t.Fatal(err)
	}
	if got := len(l.s.u.known); got > 50 {
		t.Errorf("%d pods are known, 50 exist", got)
	}
	if got := len(l.s.u.boundPods); got > 4*50+maxGonePods {
		t.Errorf("%d kinds on nodes are known, 50 exist", got)
	}
	if got := len(l.s.u.kinds); got > 4*50+maxGonePods {
		t.Errorf("%d kinds to place are known, 50 exist", got)
	}
	if len(l.s.entries) > 51 {
		t.Errorf("%d entries for 50 nodes", len(l.s.entries))
	}
}

// Pods of anybody, which are gone again, leave nothing behind: neither memory nor a longer answer to everybody else.
func TestLiveForgetsTheLabelsOfPodsThatAreGone(t *testing.T) {
	l := newChecker(t, Options{}).Live()
	n := newDice(1).nodes(1)[0]
	if err := l.Set(n); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * minLiveKeys {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "attack", Name: fmt.Sprint("pod-", i)}}
		key := fmt.Sprint("key-", i)
		p.Spec.Affinity = &v1.Affinity{
			NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1,
				Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpExists}}}}}},
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey:   v1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: "Exists"}}}}}},
		}
		if _, err := l.Find(p, never); err != nil {
			t.Fatal(err)
		}
		l.AddPod(n.Node.Name, p)
		l.RemovePod(n.Node.Name, p)
		if keys := l.s.u.nodeKeys.Len() + l.s.u.podKeys.Len(); keys > minLiveKeys {
			t.Fatalf("after %d pods %d keys are remembered", i+1, keys)
		}
	}
}
