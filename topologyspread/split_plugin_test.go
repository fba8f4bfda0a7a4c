package topologyspread_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/topologyspread"
)

var splits = flag.Int("splits", 200, "how many random splits are placed by the scheduler's plugins")

// aSplit is a random request of a size that no brute force reaches.
func aSplit(r *rand.Rand) topologyspread.SplitRequest {
	request := topologyspread.SplitRequest{
		Pods: 1 + r.Int64N(80), MaxSkew: 1 + r.Int64N(3), PodsPerNode: 1 + r.Int64N(6),
	}
	domains := 2 + r.IntN(4)
	if r.IntN(3) == 0 {
		request.MinDomains = 1 + r.Int64N(int64(domains+1))
	}
	for d := range domains {
		domain := topologyspread.SplitDomain{Name: fmt.Sprintf("z%d", d), Active: r.IntN(3) > 0}
		if domain.Active {
			domain.MatchingPods, domain.FreeSlots = r.Int64N(8), r.Int64N(6)
		}
		request.Domains = append(request.Domains, domain)
		for g := range r.IntN(3) {
			size := r.Int64N(5)
			request.Groups = append(request.Groups, topologyspread.SplitGroup{Name: fmt.Sprintf("z%d-%d", d, g), Domain: domain.Name, Size: size,
				Max: size + r.Int64N(12)})
		}
	}
	return request
}

// nodeWith is a node of a zone on which so many pods run, and that has room for others.
func nodeWith(name, zone string, pods, room int64) topologyspread.Node {
	n := topologyspread.Node{Node: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(pods+room, resource.DecimalSI),
			v1.ResourcePods: resource.MustParse("1k")}},
	}}
	for range pods {
		n.Pods = append(n.Pods, onePod(nil))
	}
	return n
}

func onePod(constraints []v1.TopologySpreadConstraint) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": "web"}}, Spec: v1.PodSpec{
		TopologySpreadConstraints: constraints,
		Containers:                []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}},
	}}
}

// clusterOf is the cluster of a request in which so many nodes were added to each group.
func clusterOf(request *topologyspread.SplitRequest, added []int64) (nodes []topologyspread.Node) {
	for _, d := range request.Domains {
		if d.Active {
			nodes = append(nodes, nodeWith("of-"+d.Name, d.Name, d.MatchingPods, d.FreeSlots))
		}
	}
	for i, g := range request.Groups {
		for n := range added[i] {
			nodes = append(nodes, nodeWith(fmt.Sprintf("%s-new-%d", g.Name, n), g.Domain, 0, request.PodsPerNode))
		}
	}
	return nodes
}

// placeOneByOne has the scheduler's plugins place pods until none fits any more, each on a random node
// of those that they allow, and returns how many were placed.
func (p *plugin) placeOneByOne(t *testing.T, request *topologyspread.SplitRequest, nodes []topologyspread.Node, r *rand.Rand) int64 {
	t.Helper()
	constraint := v1.TopologySpreadConstraint{
		MaxSkew: int32(request.MaxSkew), TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
	if request.MinDomains > 0 {
		constraint.MinDomains = ptr.To(int32(request.MinDomains))
	}
	pod := onePod([]v1.TopologySpreadConstraint{constraint})
	p.seen.show(nodes)
	for placed := range request.Pods {
		fits, err := p.fits(pod)
		if err != nil {
			t.Fatal(err)
		}
		var open []int
		for i, fit := range fits {
			if fit && len(noderesources.Fits(pod, p.seen.infos[i], nil, noderesources.ResourceRequestsOptions{})) == 0 {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return placed
		}
		info, err := framework.NewPodInfo(onePod(nil))
		if err != nil {
			t.Fatal(err)
		}
		p.seen.infos[open[r.IntN(len(open))]].AddPodInfo(info)
	}
	return request.Pods
}

// With the nodes that a split orders the scheduler places as many pods as it says, in any order, and
// with one node fewer in any group it does not. A slot more in a domain that binds lets it place one
// more pod, and in another domain it does not.
func TestTheSchedulerPlacesWhatASplitPromises(t *testing.T) {
	p := newPlugin(t)
	whole, partly, spared, bound := 0, 0, 0, 0
	for seed := range uint64(*splits) {
		r := rand.New(rand.NewPCG(seed, 12))
		request := aSplit(r)
		result, err := topologyspread.Split(request)
		if err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, request, err)
		}
		if result.Placed+result.Unplaced != request.Pods {
			t.Fatalf("seed %d: %d placed and %d not of %d pods", seed, result.Placed, result.Unplaced, request.Pods)
		}
		added := make([]int64, len(request.Groups))
		for i, g := range result.Groups {
			added[i] = g.NewSize - g.Size
		}
		place := func(nodes []topologyspread.Node) int64 { return p.placeOneByOne(t, &request, nodes, r) }
		for range 2 {
			if got := place(clusterOf(&request, added)); got != result.Placed {
				t.Fatalf("seed %d: the scheduler places %d pods on the nodes of the split\n%+v\n%+v", seed, got, request, result)
			}
		}
		for i := range added {
			if added[i] == 0 {
				continue
			}
			fewer := slices.Clone(added)
			fewer[i]--
			if got := place(clusterOf(&request, fewer)); got >= result.Placed {
				t.Fatalf("seed %d: the scheduler places %d pods without a node of %s\n%+v\n%+v", seed, got, request.Groups[i].Name, request, result)
			}
			spared++
		}
		if result.Unplaced == 0 {
			whole++
			continue
		}
		partly++
		for _, d := range request.Domains {
			opened := func(n topologyspread.Node) bool { return n.Node.Labels["zone"] == d.Name }
			if !slices.ContainsFunc(clusterOf(&request, added), opened) {
				continue
			}
			more := append(clusterOf(&request, added), nodeWith("more", d.Name, 0, 1))
			if got, binds := place(more), slices.Contains(result.Binding, d.Name); (got > result.Placed) != binds {
				t.Fatalf("seed %d: a slot more in %s: %d pods instead of %d\n%+v\n%+v", seed, d.Name, got, result.Placed, request, result)
			}
			bound++
		}
	}
	t.Logf("%d splits for all pods, %d for some; %d nodes left out, %d slots added", whole, partly, spared, bound)
	if whole == 0 || partly == 0 || spared == 0 || bound == 0 {
		t.Error("a case never occurred")
	}
}
