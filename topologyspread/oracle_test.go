package topologyspread_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/topologyspread"
)

var clusters = flag.Int("clusters", 5_000, "how many random clusters are compared with the scheduler's plugin")

// cluster is a pod looking for a node of a fleet.
type cluster struct {
	pod   *v1.Pod
	nodes []topologyspread.Node
	seed  uint64
}

// plugin is the PodTopologySpread plugin of the scheduler itself.
type plugin struct {
	*podtopologyspread.PodTopologySpread
	ctx  context.Context
	seen *fleet
}

// fleet is what the plugin sees; the framework keeps one lister for its life.
type fleet struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	infos []fwk.NodeInfo
}

func (f *fleet) NodeInfos() fwk.NodeInfoLister    { return f }
func (f *fleet) List() ([]fwk.NodeInfo, error)    { return f.infos, nil }
func (f *fleet) show(nodes []topologyspread.Node) { f.infos = infosOf(nodes) }

func infosOf(nodes []topologyspread.Node) []fwk.NodeInfo {
	infos := make([]fwk.NodeInfo, len(nodes))
	for i, n := range nodes {
		// The scheduler's cache holds no finished pods.
		pods := slices.DeleteFunc(slices.Clone(n.Pods), func(p *v1.Pod) bool {
			return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
		})
		info := framework.NewNodeInfo(pods...)
		info.SetNode(n.Node)
		infos[i] = info
	}
	return infos
}

func newPlugin(tb testing.TB) *plugin {
	tb.Helper()
	metrics.InitMetrics()
	p := &plugin{ctx: klog.NewContext(context.Background(), logr.Discard()), seen: &fleet{}}
	ended, cancel := context.WithCancel(p.ctx)
	cancel()
	handle, err := frameworkruntime.NewFramework(ended, nil, nil, frameworkruntime.WithSnapshotSharedLister(p.seen),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(nil, 0)), frameworkruntime.WithLogger(logr.Discard()))
	if err != nil {
		tb.Fatal(err)
	}
	built, err := podtopologyspread.New(p.ctx, &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}, handle,
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		tb.Fatal(err)
	}
	p.PodTopologySpread = built.(*podtopologyspread.PodTopologySpread)
	return p
}

// fits answers for each node which the plugin lets the pod onto.
func (p *plugin) fits(pod *v1.Pod) ([]bool, error) {
	state := framework.NewCycleState()
	fits := make([]bool, len(p.seen.infos))
	_, status := p.PreFilter(p.ctx, state, pod, p.seen.infos)
	if !status.IsSuccess() && !status.IsSkip() {
		return nil, status.AsError()
	}
	for i, n := range p.seen.infos {
		fits[i] = status.IsSkip() || p.Filter(p.ctx, state, pod, n).IsSuccess()
	}
	return fits, nil
}

// scores gives the candidates their scores; nil if the plugin does not score.
func (p *plugin) scores(pod *v1.Pod, candidates []int) ([]int64, error) {
	state := framework.NewCycleState()
	infos := make([]fwk.NodeInfo, len(candidates))
	for i, n := range candidates {
		infos[i] = p.seen.infos[n]
	}
	if status := p.PreScore(p.ctx, state, pod, infos); status.IsSkip() {
		return nil, nil
	} else if !status.IsSuccess() {
		return nil, status.AsError()
	}
	list := make(fwk.NodeScoreList, len(candidates))
	for i, n := range infos {
		score, status := p.Score(p.ctx, state, pod, n)
		if !status.IsSuccess() {
			return nil, status.AsError()
		}
		list[i] = fwk.NodeScore{Name: n.Node().Name, Score: score}
	}
	if status := p.NormalizeScore(p.ctx, state, pod, list); !status.IsSuccess() {
		return nil, status.AsError()
	}
	scores := make([]int64, len(list))
	for i := range list {
		scores[i] = list[i].Score
	}
	return scores, nil
}

// The candidates of the score are those that fit, and then any others too: other filters decide on
// them. Some pods are placed one after the other, so that the counts kept are compared with new
// ones.
func TestFitsAndScoresEqualThoseOfTheScheduler(t *testing.T) {
	p := newPlugin(t)
	scored, refused := 0, 0
	for seed := range uint64(*clusters) {
		c := aCluster(seed)
		difference, n := differs(p, c)
		if difference != "" {
			c = shrunk(p, c)
			difference, _ = differs(p, c)
			t.Fatalf("seed %d: %s\n%s", seed, difference, c)
		}
		scored, refused = scored+n.scored, refused+n.refused
	}
	if scored < *clusters || refused < *clusters {
		t.Errorf("%d nodes scored between the ends and %d refused in %d clusters: they say little", scored, refused, *clusters)
	}
}

// seen is how much a cluster has shown.
type seen struct{ scored, refused int }

// differs says how the table differs from the plugin; empty where it does not.
func differs(p *plugin, c cluster) (string, seen) {
	var n seen
	d := rand.New(rand.NewPCG(c.seed, 1))
	nodes := slices.Clone(c.nodes)
	table, err := topologyspread.NewTable(c.pod, nodes)
	for step := range 4 {
		p.seen.show(nodes)
		want, wantErr := p.fits(c.pod)
		if (err != nil) != (wantErr != nil) {
			return fmt.Sprintf("error %v, want %v", err, wantErr), n
		}
		if err != nil {
			return "", n
		}
		var candidates []int
		for i := range nodes {
			if table.Fits(i) != want[i] {
				return fmt.Sprintf("after %d placed: fits %s %t, want %t", step, nodes[i].Node.Name, !want[i], want[i]), n
			}
			if refusals := table.Refusals(i); (len(refusals) == 0) != want[i] {
				return fmt.Sprintf("after %d placed: %s refused by %v, fits %t", step, nodes[i].Node.Name, refusals, want[i]), n
			}
			if want[i] && d.IntN(5) > 0 || d.IntN(10) == 0 {
				candidates = append(candidates, i)
			}
			if !want[i] {
				n.refused++
			}
		}
		scores, err := p.scores(c.pod, candidates)
		if err != nil {
			return err.Error(), n
		}
		if len(nodes) > 0 && (scores != nil) != table.Scored() {
			return fmt.Sprintf("scored %t, want %t", table.Scored(), scores != nil), n
		}
		if got := table.Scores(candidates); scores != nil && !slices.Equal(got, scores) {
			return fmt.Sprintf("after %d placed: scores of %v %v, want %v", step, candidates, got, scores), n
		}
		for _, s := range scores {
			if 0 < s && s < topologyspread.MaxScore {
				n.scored++
			}
		}
		if len(nodes) == 0 {
			break
		}
		at := d.IntN(len(nodes))
		table.Place(at)
		placed := c.pod.DeepCopy()
		placed.Spec.NodeName = nodes[at].Node.Name
		nodes[at].Pods = append(slices.Clip(nodes[at].Pods), placed)
	}
	return "", n
}

// shrunk leaves out of a cluster what it can differ without.
func shrunk(p *plugin, c cluster) cluster {
	smaller := func() (all []cluster) {
		for i, n := range c.nodes {
			all = append(all, cluster{c.pod, slices.Delete(slices.Clone(c.nodes), i, i+1), c.seed})
			for j := range n.Pods {
				nodes := slices.Clone(c.nodes)
				nodes[i].Pods = slices.Delete(slices.Clone(n.Pods), j, j+1)
				all = append(all, cluster{c.pod, nodes, c.seed})
			}
		}
		for i := range c.pod.Spec.TopologySpreadConstraints {
			pod := c.pod.DeepCopy()
			pod.Spec.TopologySpreadConstraints = slices.Delete(pod.Spec.TopologySpreadConstraints, i, i+1)
			all = append(all, cluster{pod, c.nodes, c.seed})
		}
		return all
	}
	for {
		all := smaller()
		i := slices.IndexFunc(all, func(one cluster) bool {
			difference, _ := differs(p, one)
			return difference != ""
		})
		if i < 0 {
			return c
		}
		c = all[i]
	}
}

func (c cluster) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod of %s %v, selector %v, affinity %v, tolerations %v\n", c.pod.Namespace, c.pod.Labels, c.pod.Spec.NodeSelector,
		c.pod.Spec.Affinity, c.pod.Spec.Tolerations)
	for _, s := range c.pod.Spec.TopologySpreadConstraints {
		fmt.Fprintf(&b, "  %+v\n", s)
	}
	for _, n := range c.nodes {
		fmt.Fprintf(&b, "node %s %v %v\n", n.Node.Name, n.Node.Labels, n.Node.Spec.Taints)
		for _, p := range n.Pods {
			fmt.Fprintf(&b, "  pod of %s %v %s terminating=%t\n", p.Namespace, p.Labels, p.Status.Phase, p.DeletionTimestamp != nil)
		}
	}
	return b.String()
}

// dice makes random clusters: few values of everything, so that much coincides.
type dice struct{ *rand.Rand }

func (d dice) of(values ...string) string { return values[d.IntN(len(values))] }

func (d dice) one(in int) bool { return d.IntN(in) == 0 }

func aCluster(seed uint64) cluster {
	d := dice{rand.New(rand.NewPCG(seed, 0))}
	c := cluster{pod: d.pod(), seed: seed}
	for _, key := range []string{v1.LabelHostname, "zone", "rack"} {
		for _, action := range []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway} {
			if d.one(2) {
				c.pod.Spec.TopologySpreadConstraints = append(c.pod.Spec.TopologySpreadConstraints, d.constraint(key, action))
			}
		}
	}
	d.Shuffle(len(c.pod.Spec.TopologySpreadConstraints), func(i, j int) {
		all := c.pod.Spec.TopologySpreadConstraints
		all[i], all[j] = all[j], all[i]
	})
	d.where(c.pod)
	for i := range d.IntN(9) {
		n := topologyspread.Node{Node: d.node(i)}
		for range d.IntN(5) * d.IntN(3) {
			p := d.pod()
			if d.one(8) {
				p.DeletionTimestamp = &metav1.Time{}
			}
			if d.one(8) {
				p.Status.Phase = v1.PodPhase(d.of(string(v1.PodSucceeded), string(v1.PodFailed), string(v1.PodRunning)))
			}
			n.Pods = append(n.Pods, p)
		}
		c.nodes = append(c.nodes, n)
	}
	return c
}

func (d dice) pod() *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.of("default", "default", "default", "other"), Labels: map[string]string{}}}
	for key, values := range map[string][]string{"app": {"web", "web", "db"}, "rev": {"1", "2"}, "tier": {"", "front"}} {
		if value := d.of(values...); !d.one(6) {
			p.Labels[key] = value
		}
	}
	return p
}

func (d dice) node(i int) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}}
	if !d.one(8) {
		n.Labels[v1.LabelHostname] = n.Name
		if d.one(10) {
			n.Labels[v1.LabelHostname] = "n0" // two of a name
		}
	}
	if !d.one(8) {
		n.Labels["zone"] = d.of("a", "b", "c", "")
	}
	if !d.one(8) {
		n.Labels["rack"] = d.of("1", "2", "3", "4", "5")
	}
	if d.one(2) {
		n.Labels["disk"] = d.of("ssd", "hdd")
	}
	if d.one(4) {
		n.Spec.Taints = []v1.Taint{{Key: d.of("x", "y"), Value: d.of("1", "2"),
			Effect: v1.TaintEffect(d.of("NoSchedule", "PreferNoSchedule", "NoExecute"))}}
	}
	n.Spec.Unschedulable = d.one(8)
	return n
}

func (d dice) constraint(key string, action v1.UnsatisfiableConstraintAction) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{MaxSkew: int32(1 + d.IntN(4)), TopologyKey: key, WhenUnsatisfiable: action, LabelSelector: d.selector()}
	if action == v1.DoNotSchedule && d.one(3) {
		c.MinDomains = ptr.To(int32(1 + d.IntN(5)))
	}
	for _, policy := range []**v1.NodeInclusionPolicy{&c.NodeAffinityPolicy, &c.NodeTaintsPolicy} {
		if d.one(2) {
			*policy = ptr.To(v1.NodeInclusionPolicy(d.of("Honor", "Ignore")))
		}
	}
	if d.one(3) {
		c.MatchLabelKeys = []string{d.of("rev", "tier", "missing")}
	}
	return c
}

func (d dice) selector() *metav1.LabelSelector {
	switch d.IntN(12) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}}
	case 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn,
			Values: []string{"db"}}}}
	case 4:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "rev": "1"}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": d.of("web", "web", "db")}}
}

// where says which nodes the pod may run on.
func (d dice) where(p *v1.Pod) {
	if d.one(4) {
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	if d.one(4) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: d.of("zone", "rack"), Operator: v1.NodeSelectorOperator(d.of("In", "NotIn")), Values: []string{"a", "1"}}}}},
		}}}
	}
	if d.one(2) {
		p.Spec.Tolerations = []v1.Toleration{{Key: d.of("x", ""), Operator: v1.TolerationOpExists,
			Effect: v1.TaintEffect(d.of("", "NoSchedule"))}}
	}
}
