package predicates

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
)

// owners are controllers and a service that random pods belong to.
func owners() []runtime.Object {
	selector := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	return []runtime.Object{
		&appsv1.ReplicaSet{ObjectMeta: meta("web"), Spec: appsv1.ReplicaSetSpec{Selector: selector("web")}},
		&appsv1.StatefulSet{ObjectMeta: meta("db"), Spec: appsv1.StatefulSetSpec{Selector: selector("db")}},
		&v1.Service{ObjectMeta: meta("front"), Spec: v1.ServiceSpec{Selector: map[string]string{"tier": "front"}}},
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "a"}}},
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"team": "b"}}},
	}
}

// control gives a pod the controller that goes with its app.
func control(p *v1.Pod) {
	app := p.Labels["app"]
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Name: app, Controller: ptr.To(true),
		Kind: map[string]string{"web": "ReplicaSet", "db": "StatefulSet"}[app]}}
}

// scheduled draws a pod with preferences and an owner.
func (d *dice) scheduled() *v1.Pod {
	p := d.pod()
	if d.one(2) {
		control(p)
	}
	p.Spec.NodeName = ""
	if d.one(4) {
		p.Spec.Priority = ptr.To(int32(d.IntN(3)))
	}
	if d.one(3) {
		d.affinity(p).NodeAffinity = d.preferredNodes(d.affinity(p).NodeAffinity)
	}
	if d.one(4) {
		d.affinity(p).PodAffinity = ptr.To(ptr.Deref(d.affinity(p).PodAffinity, v1.PodAffinity{}))
		p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = d.weighted()
	}
	if d.one(4) {
		d.affinity(p).PodAntiAffinity = ptr.To(ptr.Deref(d.affinity(p).PodAntiAffinity, v1.PodAntiAffinity{}))
		p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = d.weighted()
	}
	if d.one(6) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "slow", Operator: v1.TolerationOpExists,
			Effect: v1.TaintEffectPreferNoSchedule})
	}
	return p
}

func (d *dice) affinity(p *v1.Pod) *v1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	return p.Spec.Affinity
}

func (d *dice) preferredNodes(with *v1.NodeAffinity) *v1.NodeAffinity {
	if with == nil {
		with = &v1.NodeAffinity{}
	}
	for range 1 + d.IntN(2) {
		with.PreferredDuringSchedulingIgnoredDuringExecution = append(with.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{
				Weight: int32(1 + d.IntN(100)), Preference: d.nodeAffinity().RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0],
			})
	}
	return with
}

func (d *dice) weighted() []v1.WeightedPodAffinityTerm {
	var terms []v1.WeightedPodAffinityTerm
	for range 1 + d.IntN(2) {
		t := d.term()
		if d.one(5) {
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": d.of("a", "b")}}
		}
		terms = append(terms, v1.WeightedPodAffinityTerm{Weight: int32(1 + d.IntN(100)), PodAffinityTerm: t})
	}
	return terms
}

// population draws a cluster whose nodes and pods have preferences.
func (d *dice) population() naiveCluster {
	w := naiveCluster(d.nodes(1 + d.IntN(9)))
	for i := range w {
		if d.one(4) {
			w[i].Node.Spec.Taints = append(w[i].Node.Spec.Taints,
				v1.Taint{Key: "slow", Value: d.of("x", "y"), Effect: v1.TaintEffectPreferNoSchedule})
		}
		if d.one(8) {
			w[i].Node.Spec.Taints = append(w[i].Node.Spec.Taints, v1.Taint{Key: "old", Effect: v1.TaintEffectPreferNoSchedule})
		}
		for range d.IntN(3) {
			w[i].Pods = append(w[i].Pods, d.scheduled())
		}
	}
	return w
}

// asked is what the plugins say about a pod: the scores of the nodes that pass.
func (o *naive) asked(w naiveCluster, pod *v1.Pod) map[string]fwk.NodePluginScores {
	snap := o.show(w)
	state := framework.NewCycleState()
	result, status, _ := o.fw.RunPreFilterPlugins(o.ctx, state, pod)
	if !status.IsSuccess() {
		return nil
	}
	var passed []fwk.NodeInfo
	for _, n := range w {
		info, err := snap.Get(n.Node.Name)
		if err != nil || !result.AllNodes() && !result.NodeNames.Has(n.Node.Name) {
			continue
		}
		if o.fw.RunFilterPlugins(o.ctx, state, pod, info).IsSuccess() {
			passed = append(passed, info)
		}
	}
	scores := map[string]fwk.NodePluginScores{}
	if len(passed) == 0 || !o.fw.RunPreScorePlugins(o.ctx, state, pod, passed).IsSuccess() {
		return scores
	}
	list, _ := o.fw.RunScorePlugins(o.ctx, state, pod, passed)
	for _, n := range list {
		scores[n.Name] = n
	}
	return scores
}

// scoresOf are the same by the tables of the Scheduler.
func (s *Scheduler) scoresOf(t *testing.T, w naiveCluster, p *v1.Pod) map[string]map[string]int64 {
	t.Helper()
	queue, err := s.begin(w, nil, []*v1.Pod{p})
	if err != nil {
		t.Fatal(err)
	}
	if len(queue) == 0 || queue[0].exact != nil {
		return nil
	}
	r := s.table(queue[0].kind, 0, len(s.nodes))
	scores := map[string]map[string]int64{}
	if !r.weigh() {
		return scores
	}
	for i, node := range s.nodes {
		if !r.takes(i) {
			continue
		}
		st := &r.buckets[r.bucket[i]]
		least, balanced := r.k.resources(node)
		scores[s.entries[i].name] = map[string]int64{
			names.TaintToleration: taintWeight * st.taints, names.NodeAffinity: affinityWeight * st.affinity,
			names.PodTopologySpread: spreadWeight * st.spread, names.InterPodAffinity: podsWeight * st.pods,
			names.NodeResourcesFit: least, names.NodeResourcesBalancedAllocation: balanced, names.ImageLocality: 0,
		}
	}
	return scores
}

// compareScores compares the scores of every node and plugin, and returns how
// many nodes were compared.
func compareScores(t *testing.T, w naiveCluster, p *v1.Pod, want map[string]fwk.NodePluginScores, got map[string]map[string]int64) int {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("pod %s passes %d nodes, want %d\n%s", p.Name, len(got), len(want), describe(p))
	}
	for name, n := range want {
		sum := int64(0)
		for _, plugin := range n.Scores {
			if g := got[name][plugin.Name]; g != plugin.Score {
				t.Fatalf("pod %s on %s: %s scores %d, want %d\n%s\n%d nodes", p.Name, name, plugin.Name, g, plugin.Score, describe(p), len(w))
			}
		}
		for _, score := range got[name] {
			sum += score
		}
		if sum != n.TotalScore {
			t.Fatalf("pod %s on %s scores %d, want %d", p.Name, name, sum, n.TotalScore)
		}
	}
	return len(want)
}

// TestScoresEqualTheSchedulersPlugins: on random clusters the nodes that pass,
// the score of every plugin and their sum are those of the default profile, pod
// after pod, and every pod goes to a node that scores highest.
func TestScoresEqualTheSchedulersPlugins(t *testing.T) {
	t.Parallel()
	o, c := newNaive(t, owners()...), newChecker(t, Options{Objects: owners()})
	pairs, tabled, placed := 0, 0, 0
	for seed := range uint64(rounds(t, 750)) {
		d := newDice(5e6 + seed)
		t.Logf("seed %d", seed)
		w, s := d.population(), c.Scheduler()
		for range 5 {
			pods := []*v1.Pod{d.scheduled()}
			for range d.IntN(3) {
				pods = append(pods, pods[0])
			}
			if d.one(6) { // the cluster changes by other hands
				w = w[:len(w)-1].copy()
				w = append(w, d.nodes(1)...)
			}
			for _, p := range pods {
				want := o.asked(w, p)
				if got := s.scoresOf(t, w, p); got != nil {
					tabled++
					pairs += compareScores(t, w, p, want, got)
				}
				at, err := s.Bind(w, nil, []*v1.Pod{p})
				if err != nil {
					t.Fatal(err)
				}
				if at[0] < 0 {
					if len(want) > 0 {
						t.Fatalf("pod %s is not bound, %d nodes pass", p.Name, len(want))
					}
					continue
				}
				placed++
				name := w[at[0]].Node.Name
				for other, n := range want {
					if n.TotalScore > want[name].TotalScore {
						t.Fatalf("pod %s is bound to %s, which scores %d; %s scores %d", p.Name, name, want[name].TotalScore, other, n.TotalScore)
					}
				}
				if _, passes := want[name]; !passes {
					t.Fatalf("pod %s is bound to %s, which it does not pass", p.Name, name)
				}
				bound := *p
				bound.Spec.NodeName = name
				w[at[0]].Pods = append(w[at[0]].Pods[:len(w[at[0]].Pods):len(w[at[0]].Pods)], &bound)
			}
		}
	}
	t.Logf("%d scores of pods on nodes compared, %d pods by tables, %d placed", pairs, tabled, placed)
	if pairs == 0 || placed == 0 {
		t.Error("nothing compared")
	}
}
