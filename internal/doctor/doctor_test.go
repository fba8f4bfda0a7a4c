package doctor

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/explain"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// deployment is a Cluster Autoscaler that runs.
func deployment(image string, flags ...string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler"},
		Spec: appsv1.DeploymentSpec{Template: v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{
			{Name: "cluster-autoscaler", Image: image, Command: append([]string{"./cluster-autoscaler"}, flags...)},
		}}}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
	}
}

func evenkeel(command string) *appsv1.Deployment {
	d := deployment("registry.example.com/evenkeel:v1")
	d.Name, d.Spec.Template.Spec.Containers[0].Command = "evenkeel", []string{"/evenkeel", command}
	return d
}

// node is a node of a group, in the zone of the group's last letter.
func node(group string, number int, labels ...string) *v1.Node {
	name := fmt.Sprintf("%s-%d", group, number)
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1.LabelHostname: name, v1.LabelTopologyZone: group[len(group)-1:], v1.LabelInstanceTypeStable: "m1",
		"eks.amazonaws.com/nodegroup": group,
	}}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		n.Labels[key] = value
	}
	n.Spec.ProviderID = "aws:///" + name
	n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"),
		"pods": resource.MustParse("110")}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return n
}

// A cluster has groups of sizes, with bounds 0 and 10.
func cluster(sizes map[string]int, by ...any) *Observation {
	o := &Observation{Label: "eks.amazonaws.com/nodegroup", Status: &autoscalerstatus.Status{Time: noon, Running: true},
		Now: noon.Add(time.Second)}
	for _, object := range by {
		o.AddWorkload(object)
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		size := sizes[name]
		g := Group{Name: name, Known: name}
		for i := range size {
			g.Nodes = append(g.Nodes, node(name, i))
		}
		g.Template = &cloudprovider.Template{Node: node(name, 0)}
		o.Nodes = append(o.Nodes, g.Nodes...)
		o.Groups = append(o.Groups, g)
		o.Status.Groups = append(o.Status.Groups, autoscalerstatus.Group{Name: name, Target: size, MaxSize: 10, Ready: size, Healthy: true,
			ScaleUp: autoscalerstatus.NoActivity})
	}
	return o
}

func (o *Observation) group(name string) *Group {
	return &o.Groups[slices.IndexFunc(o.Groups, func(g Group) bool { return g.Name == name })]
}

func (o *Observation) inStatus(name string) *autoscalerstatus.Group {
	return &o.Status.Groups[slices.IndexFunc(o.Status.Groups, func(g autoscalerstatus.Group) bool { return g.Name == name })]
}

const (
	current  = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1"
	balanced = "--balance-similar-node-groups=true"
)

var uneven = map[string]int{"a": 7, "b": 2, "c": 2}

// TestFindings has a case for every reason.
func TestFindings(t *testing.T) {
	label := func(o *Observation, group, label string) {
		g := o.group(group)
		key, value, _ := strings.Cut(label, "=")
		for _, n := range append(slices.Clone(g.Nodes), g.Template.Node) {
			n.Labels[key] = value
		}
	}
	tainted := func(o *Observation) {
		o.group("t").Template.Node.Spec.Taints = []v1.Taint{{Key: "tenant", Effect: v1.TaintEffectNoSchedule}}
	}
	for name, c := range map[string]struct {
		o       *Observation
		change  func(o *Observation)
		want    map[Reason]int // nodes apart
		way     Way
		flags   []string
		without []string
	}{
		"all is well": {o: cluster(map[string]int{"a": 3, "b": 2, "c": 3}, deployment(current, balanced)), way: WayNothing},
		"the flag is off": {
			o: cluster(uneven, deployment(current, "--cloud-provider=aws")), want: map[Reason]int{BalancingOff: 3}, way: WayAutoscaler,
			flags: []string{balanced},
		},
		"the flag is off and nothing is similar": {
			o: cluster(uneven, deployment(current)), change: func(o *Observation) {
				label(o, "a", "team=1")
				label(o, "b", "team=2")
				label(o, "c",
					"team=3")
			},
			way: WayNothing,
		},
		"a label of the cloud differs": {
			o: cluster(uneven, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				label(o, "a", "eks.amazonaws.com/sourceLaunchTemplateId=lt-1")
				label(o, "b", "eks.amazonaws.com/sourceLaunchTemplateId=lt-2")
			},
			want: map[Reason]int{NotSimilar: 3}, way: WayAutoscaler,
			flags: []string{"--balancing-ignore-label=eks.amazonaws.com/sourceLaunchTemplateId"},
		},
		"the same is ignored": {
			o: cluster(map[string]int{"a": 2, "b": 2},
				deployment(current, balanced, "--cloud-provider=aws", "--balancing-ignore-label=eks.amazonaws.com/sourceLaunchTemplateId")),
			change: func(o *Observation) {
				label(o, "a", "eks.amazonaws.com/sourceLaunchTemplateId=lt-1")
			},
			way: WayNothing,
		},
		"the cloud's template of an empty group lacks a label": {
			o: cluster(map[string]int{"a": 2, "b": 0}, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				label(o, "a", "example.com/driver=1")
			},
			want: map[Reason]int{NotSimilar: 1}, way: WayAutoscaler, flags: []string{"--balancing-ignore-label=example.com/driver"},
		},
		"the cloud's template of an empty group lacks a resource": {
			o: cluster(map[string]int{"a": 2, "b": 0}, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				n := o.group("a").Template.Node
				n.Status.Capacity = maps.Clone(n.Status.Capacity)
				n.Status.Capacity["ephemeral-storage"] = resource.MustParse("100Gi")
				delete(n.Labels, v1.LabelInstanceTypeStable)
				delete(o.group("b").Template.Node.Labels, v1.LabelInstanceTypeStable)
			},
			want: map[Reason]int{NotSimilar: 1}, way: WayExpander,
		},
		"a label decides that is not on all": {
			o: cluster(uneven, deployment(current, balanced, "--balancing-label=pool", "--cloud-provider=aws")), want: map[Reason]int{NotSimilar: 3},
			way: WayAutoscaler, without: []string{"--balancing-label=pool"},
		},
		"flags that the release ignores": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(strings.Replace(current, "1.36", "1.37", 1), balanced, "--cloud-provider=oci",
				"--balancing-ignore-label=eks.amazonaws.com/nodegroup")),
			want: map[Reason]int{IgnoredFlags: 0, NotSimilar: 0}, way: WayAutoscaler,
			flags:   []string{"--balancing-label=node.kubernetes.io/instance-type"},
			without: []string{"--balancing-ignore-label=eks.amazonaws.com/nodegroup"},
		},
		"a label of places that an old patch compares": {
			o: cluster(uneven, deployment("x/cluster-autoscaler:v1.33.2", balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				label(o, "a", "topology.k8s.aws/zone-id=1")
				label(o, "b", "topology.k8s.aws/zone-id=2")
			},
			want: map[Reason]int{NotSimilar: 3, OldVersion: 0}, way: WayAutoscaler,
			flags: []string{"--balancing-ignore-label=topology.k8s.aws/zone-id"},
		},
		"the same after its mend": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment("x/cluster-autoscaler:v1.33.4", balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				label(o, "a", "topology.k8s.aws/zone-id=1")
				label(o, "b", "topology.k8s.aws/zone-id=2")
			}, way: WayNothing,
		},
		"pods with a spread wait for an old release": {
			o:      cluster(map[string]int{"a": 2, "b": 2}, deployment("x/cluster-autoscaler:v1.33.4", balanced, "--cloud-provider=aws")),
			change: func(o *Observation) { o.Pending = []explain.PendingSpread{{Pods: []string{"d/q"}}} },
			want:   map[Reason]int{OldVersion: 0}, way: WayNothing,
		},
		"a taint is not compared": {
			o:      cluster(map[string]int{"a": 2, "b": 2, "t": 2}, deployment(current, balanced, "--cloud-provider=aws")),
			change: tainted,
			want:   map[Reason]int{JoinedWrongly: 0}, way: WayExpander,
			flags: []string{"--expander=grpc,least-waste", "--grpc-expander-url=HOST:8087", "--grpc-expander-cert=FILE",
				"--balance-similar-node-groups=false", "--max-nodes-per-scaleup=1"},
		},
		"the flag is off and would join what differs by a taint": {
			o: cluster(map[string]int{"a": 4, "b": 2, "t": 2}, deployment("x/cluster-autoscaler:1.29", "--cloud-provider=aws",
				"--expander=price")),
			change: tainted,
			want:   map[Reason]int{BalancingOff: 1, OldVersion: 0}, way: WayExpander,
			flags: []string{"--expander=price,grpc,least-waste", "--grpc-expander-url=HOST:8087", "--grpc-expander-cert=FILE",
				"--balance-similar-node-groups=false", "--max-nodes-per-scaleup=1", "--frequent-loops-enabled=true"},
		},
		"a taint is not compared, on Azure": {
			o:      cluster(map[string]int{"a": 2, "b": 2, "t": 2}, deployment(current, balanced, "--cloud-provider=azure")),
			change: tainted,
			want:   map[Reason]int{NotSimilar: 0}, way: WayExpander,
			flags: []string{"--expander=grpc,least-waste", "--grpc-expander-url=HOST:8087", "--grpc-expander-cert=FILE",
				"--balance-similar-node-groups=false", "--max-nodes-per-scaleup=5"},
		},
		"prices come before evenkeel": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, "--expander=price,grpc", "--grpc-expander-url=e:80",
				"--max-nodes-per-scaleup=1"), evenkeel("expander")), way: WayNothing,
		},
		"an expander beside an old release whose loops are apart": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment("x/cluster-autoscaler:v1.34.5", "--expander=grpc,least-waste",
				"--grpc-expander-url=e:80", "--max-nodes-per-scaleup=1", "--balance-similar-node-groups=false", "--cloud-provider=aws"),
				evenkeel("expander")),
			want: map[Reason]int{SlowLoops: 0}, way: WayNothing,
		},
		"all or nothing, of few pods": {
			o: cluster(map[string]int{"a": 2, "b": 2, "t": 2},
				deployment(current, balanced, "--cloud-provider=aws", "--enable-provisioning-requests")),
			change: func(o *Observation) { tainted(o); o.Requests = []Request{{"d/small", 3}, {"d/large", 12}} },
			want:   map[Reason]int{JoinedWrongly: 0}, way: WayExpander,
			flags: []string{"--expander=grpc,least-waste", "--grpc-expander-url=HOST:8087", "--grpc-expander-cert=FILE",
				"--balance-similar-node-groups=false", "--max-nodes-per-scaleup=12"},
		},
		"all or nothing, of many pods": {
			o: cluster(map[string]int{"a": 2, "b": 2, "t": 2},
				deployment(current, balanced, "--cloud-provider=aws", "--enable-provisioning-requests", "--max-nodes-per-scaleup=50")),
			change: func(o *Observation) { tainted(o); o.Requests = []Request{{"d/large", 120}} },
			want:   map[Reason]int{JoinedWrongly: 0}, way: WayLinked, flags: []string{}, without: []string{"--max-nodes-per-scaleup=50"},
		},
		"all or nothing, none seen, with an external provider": {
			o: cluster(map[string]int{"a": 2, "b": 2, "t": 2}, deployment(current, balanced, "--cloud-provider=externalgrpc",
				"--enable-provisioning-requests=true", "--balancing-ignore-label=eks.amazonaws.com/nodegroup")),
			change: tainted, want: map[Reason]int{JoinedWrongly: 0}, way: WaySidecar,
		},
		"all or nothing, where Cluster Autoscaler does not look at it": {
			o:      cluster(map[string]int{"a": 2, "b": 2, "t": 2}, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) { tainted(o); o.Requests = []Request{{"d/large", 120}} },
			want:   map[Reason]int{JoinedWrongly: 0}, way: WayExpander,
			flags: []string{"--expander=grpc,least-waste", "--grpc-expander-url=HOST:8087", "--grpc-expander-cert=FILE",
				"--balance-similar-node-groups=false", "--max-nodes-per-scaleup=1"},
		},
		"all or nothing, more than evenkeel expander lets pass": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, "--expander=grpc", "--grpc-expander-url=e:80",
				"--enable-provisioning-requests", "--max-nodes-per-scaleup=5"), evenkeel("expander")),
			change: func(o *Observation) { o.Requests = []Request{{"d/large", 12}} }, want: map[Reason]int{RequestTooLarge: 0}, way: WayNothing,
		},
		"all or nothing, too large for evenkeel expander": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, "--expander=grpc", "--grpc-expander-url=e:80",
				"--enable-provisioning-requests", "--max-nodes-per-scaleup=5"), evenkeel("expander")),
			change: func(o *Observation) { o.Requests = []Request{{"d/large", 120}} }, want: map[Reason]int{RequestTooLarge: 0}, way: WayLinked,
		},
		"all or nothing, with increases that are too large for evenkeel expander": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, "--expander=grpc", "--grpc-expander-url=e:80",
				"--enable-provisioning-requests"), evenkeel("expander")),
			want: map[Reason]int{LargeScaleUps: 0}, way: WayLinked,
		},
		"a node has a label of its own": {
			o:      cluster(uneven, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) { o.group("b").Nodes[1].Labels["team"] = "red" },
			want:   map[Reason]int{NodesDiffer: 3}, way: WayAutoscaler, flags: []string{"--balancing-ignore-label=team"},
		},
		"the node that stands for a group has the label": {
			o: cluster(uneven, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				o.group("b").Nodes[0].Labels["team"], o.group("b").Template.Node.Labels["team"] = "red", "red"
			},
			want: map[Reason]int{NodesDiffer: 3}, way: WayAutoscaler, flags: []string{"--balancing-ignore-label=team"},
		},
		"the node that stands for a group is of another machine type": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				for _, n := range []*v1.Node{o.group("b").Nodes[0], o.group("b").Template.Node} {
					n.Labels[v1.LabelInstanceTypeStable] = "m2"
				}
			},
			want: map[Reason]int{NodesDiffer: 0}, way: WayNothing,
		},
		"the node that stands for a group has less memory": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				for _, n := range []*v1.Node{o.group("b").Nodes[0], o.group("b").Template.Node} {
					n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("12Gi"),
						"pods": resource.MustParse("110")}
					n.Status.Allocatable = n.Status.Capacity
				}
			},
			want: map[Reason]int{NodesDiffer: 0}, way: WayNothing,
		},
		"a label says no more than the zone": {
			o: cluster(uneven, deployment(current, balanced, "--cloud-provider=hetzner")),
			change: func(o *Observation) {
				for name := range uneven {
					label(o, name, "csi.example.com/location=east-"+name)
				}
			},
			want: map[Reason]int{NotSimilar: 3}, way: WayAutoscaler,
			flags: []string{"--balancing-ignore-label=csi.example.com/location", "--balancing-ignore-label=eks.amazonaws.com/nodegroup"},
		},
		"a label follows the zone, and is not named after places": {
			o: cluster(uneven, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				for name := range uneven {
					label(o, name, "role="+name)
				}
			},
			want: map[Reason]int{}, way: WayNothing,
		},
		"a group has several machine types": {
			o: cluster(uneven, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				o.group("b").Nodes[1].Labels[v1.LabelInstanceTypeStable] = "m2"
			},
			want: map[Reason]int{NodesDiffer: 3}, way: WayNothing,
		},
		"a set is uneven for no reason": {
			o: cluster(uneven, deployment(current, balanced, "--cloud-provider=aws")), want: map[Reason]int{Uneven: 3}, way: WayLinked,
		},
		"the same with an external provider": {
			o: cluster(uneven, deployment(current, balanced, "--cloud-provider=externalgrpc",
				"--balancing-ignore-label=eks.amazonaws.com/nodegroup")), want: map[Reason]int{Uneven: 3}, way: WaySidecar,
		},
		"the same without scale-downs": {
			o: cluster(uneven, deployment(current, balanced, "--cloud-provider=aws", "--scale-down-enabled=false")), want: map[Reason]int{Uneven: 3},
			way: WayNothing,
		},
		"a set is nearly even": {o: cluster(map[string]int{"a": 8, "b": 6, "c": 6}, deployment(current, balanced, "--cloud-provider=aws")),
			way: WayNothing},
		"evenkeel is not asked": {
			o:    cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced, "--cloud-provider=aws"), evenkeel("expander")),
			want: map[Reason]int{NotAsked: 0}, way: WayNothing,
		},
		"evenkeel is asked last": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, "--expander=most-pods,grpc", "--grpc-expander-url=e:80",
				"--max-nodes-per-scaleup=1"), evenkeel("expander")),
			want: map[Reason]int{AskedLate: 0}, way: WayNothing,
		},
		"evenkeel as the expander of large scale-ups": {
			o:    cluster(map[string]int{"a": 2, "b": 2}, deployment(current, "--expander=grpc", "--grpc-expander-url=e:80"), evenkeel("expander")),
			want: map[Reason]int{LargeScaleUps: 0}, way: WayNothing,
		},
		"evenkeel as the expander of one that balances": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced, "--expander=grpc", "--grpc-expander-url=e:80"),
				evenkeel("expander")), way: WayNothing,
		},
		"evenkeel is asked": {o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, "--expander=grpc", "--grpc-expander-url=e:80"),
			evenkeel("sidecar")), way: WayNothing},
		"evenkeel is linked": {
			o:      cluster(map[string]int{"a": 2, "b": 2}, deployment("r/evenkeel/cluster-autoscaler:v1.36", balanced)),
			change: func(o *Observation) { label(o, "a", "kwok-nodegroup=x") }, way: WayNothing,
		},
		"a member is full": {
			o:      cluster(map[string]int{"a": 6, "b": 2, "c": 6}, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) { o.inStatus("b").MaxSize = 2 }, want: map[Reason]int{AtMaximum: 2}, way: WayNothing,
		},
		"quotas are reached": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced, "--cloud-provider=aws", "--max-nodes-total=4",
				"--cores-total=0:16", "--memory-total=0:65")),
			want: map[Reason]int{QuotaReached: 0}, way: WayNothing,
		},
		"a backoff": {
			o:      cluster(uneven, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) { o.inStatus("b").Backoff = &autoscalerstatus.Backoff{Code: "QUOTA", Since: noon} },
			want:   map[Reason]int{Backoff: 3}, way: WayNothing,
		},
		"nodes that did not come, and unready ones": {
			o:      cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) { o.inStatus("a").LongUnregistered, o.inStatus("b").Unready = 1, 2 },
			want:   map[Reason]int{NodesMissing: 0, NodesUnready: 0}, way: WayNothing,
		},
		"a group over zones": {
			o:      cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) { o.group("a").Zones = []string{"a", "b"} }, want: map[Reason]int{SeveralZones: 0}, way: WayNothing,
		},
		"pods that no group helps": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced, "--cloud-provider=aws")),
			change: func(o *Observation) {
				domain := explain.SpreadDomain{Name: "b",
					Groups: []explain.GroupRejection{{Group: "b", Blocked: true, Reason: "it is at its maximum of 2"}}}
				o.Pending = []explain.PendingSpread{
					{Pods: []string{"d/p-0", "d/p-1"}, Binding: []string{"b"}, Domains: []explain.SpreadDomain{domain},
						Answer: "d/p-0 and 1 more wait for b"},
					{Pods: []string{"d/q"}, Binding: []string{"a"},
						Domains: []explain.SpreadDomain{{Name: "a", Groups: []explain.GroupRejection{{Group: "a"}}}}},
					{Pods: []string{"d/r"}, Soft: true, Binding: []string{"b"}, Domains: []explain.SpreadDomain{domain}},
				}
			},
			want: map[Reason]int{SpreadHeld: 0}, way: WayNothing,
		},
		"no rights": {o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced)),
			change: func(o *Observation) { o.Missing = []string{"no services"} }, want: map[Reason]int{MissingRights: 0}, way: WayNothing},
		"an old status": {o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced)),
			change: func(o *Observation) { o.Now = noon.Add(time.Hour) }, want: map[Reason]int{OldStatus: 0}, way: WayNothing},
		"the first loop": {o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced)),
			change: func(o *Observation) { o.Status.Running = false }, want: map[Reason]int{OldStatus: 0}, way: WayNothing},
		"no status": {o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced)), change: func(o *Observation) { o.Status = nil },
			want: map[Reason]int{NoStatus: 0}, way: WayNothing},
		"no status is written": {
			o:      cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced, "--write-status-configmap=false")),
			change: func(o *Observation) { o.Status = nil }, way: WayNothing,
		},
		"a status without a time": {
			o:      cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced)),
			change: func(o *Observation) { o.Now, o.Status.Time = noon.Add(time.Hour), time.Time{} }, way: WayNothing,
		},
		"it is down": {
			o:    cluster(map[string]int{"a": 2, "b": 2}, func() any { d := deployment(current, balanced); d.Status.ReadyReplicas = 0; return d }()),
			want: map[Reason]int{AutoscalerDown: 0}, way: WayNothing,
		},
		"two of them": {
			o: cluster(map[string]int{"a": 2, "b": 2}, deployment(current, balanced),
				func() any { d := deployment(current); d.Name = "second"; return d }()),
			want: map[Reason]int{SeveralAutoscalers: 0}, way: WayNothing,
		},
		"none":   {o: cluster(uneven), change: func(o *Observation) { o.Status = nil }, want: map[Reason]int{NoAutoscaler: 0}, way: WayNothing},
		"hidden": {o: cluster(uneven), want: map[Reason]int{BalancingOff: 3}, way: WayAutoscaler},
		"no groups": {
			o: cluster(nil, deployment(current, balanced)), want: map[Reason]int{NoGroups: 0}, way: WayNothing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.o)
			}
			d, err := Diagnose(c.o)
			if err != nil {
				t.Fatal(err)
			}
			got := map[Reason]int{}
			for _, f := range d.Status.Findings {
				got[f.Reason] = f.Apart
				seen[f.Reason] = true
				if f.Message == "" || f.Remedy == "" || strings.HasSuffix(f.Message, ".") || strings.HasSuffix(f.Remedy, ".") {
					t.Errorf("%s: %q, remedy %q", f.Reason, f.Message, f.Remedy)
				}
			}
			if c.want == nil {
				c.want = map[Reason]int{}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, d.Status.Findings)
			}
			r := d.Status.Recommendation
			if r.Way != c.way || c.flags != nil && !slices.Equal(r.Flags, c.flags) || c.without != nil && !slices.Equal(r.Without, c.without) {
				t.Errorf("recommends %+v, want %s %q, without %q", r, c.way, c.flags, c.without)
			}
		})
	}
	for _, r := range reasons {
		if !seen[r] {
			t.Errorf("no case finds %s", r)
		}
	}
}

var seen = map[Reason]bool{}

// reasons are all of them.
var reasons = []Reason{
	NoAutoscaler, SeveralAutoscalers, AutoscalerDown, NoStatus, OldStatus, NoGroups, OldVersion, IgnoredFlags, BalancingOff, NotSimilar,
	JoinedWrongly, NodesDiffer,
	NotAsked, AskedLate, LargeScaleUps, SlowLoops, RequestTooLarge, Uneven, AtMaximum, QuotaReached, Backoff, NodesMissing, NodesUnready,
	SeveralZones, SpreadHeld, MissingRights,
}

func TestTheManualListsAllReasons(t *testing.T) {
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Findings")
	table, _, _ = strings.Cut(table, "## ")
	var rows []Reason
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		rows = append(rows, Reason(match[1]))
	}
	slices.Sort(rows)
	if diff := cmp.Diff(slices.Sorted(slices.Values(reasons)), rows); diff != "" {
		t.Errorf("docs/doctor.md (-reasons +rows):\n%s", diff)
	}
}

// A group that is backed off leaves its share to others of its set only if there are others that grow.
func TestBackoffOfAllGroups(t *testing.T) {
	for _, names := range []string{"b", "ab", "abc", "ab full"} {
		o := cluster(map[string]int{"a": 2, "b": 2, "c": 2}, deployment(current, balanced, "--cloud-provider=aws"))
		names, full := strings.CutSuffix(names, " full")
		if full {
			o.inStatus("c").MaxSize = 2
		}
		for _, name := range strings.Split(names, "") {
			o.inStatus(name).Backoff = &autoscalerstatus.Backoff{Code: "QUOTA", Since: noon}
		}
		d, err := Diagnose(o)
		if err != nil || len(d.Status.Findings) != len(names) {
			t.Fatalf("%s: %+v, %v", names, d.Status.Findings, err)
		}
		for _, f := range d.Status.Findings {
			if shared := strings.Contains(f.Remedy, "the others take its share"); shared != (names != "abc" && !full) {
				t.Errorf("%s, the others full %t: %s", names, full, f.Remedy)
			}
		}
	}
}
