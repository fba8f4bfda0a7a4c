package clusterautoscaler

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	ca_cloudprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

// cloudInLoops is a cloud that counts how often it is asked for its groups, and the templates of a loop.
type cloudInLoops struct {
	*testprovider.TestCloudProvider
	ctx       *ca_context.AutoscalingContext
	asked     int
	templates map[string]*framework.NodeInfo
	loop      int
}

func newCloud() *cloudInLoops {
	f := &cloudInLoops{TestCloudProvider: testprovider.NewTestCloudProviderBuilder().Build(), templates: map[string]*framework.NodeInfo{}}
	f.ctx = &ca_context.AutoscalingContext{CloudProvider: f}
	return f
}

func (f *cloudInLoops) NodeGroups() []ca_cloudprovider.NodeGroup {
	f.asked++
	return f.TestCloudProvider.NodeGroups()
}

// template makes the template of a group, with a name and hostname that no other has.
func (f *cloudInLoops) template(id, pool string, change ...func(*v1.Node)) {
	f.loop++
	node := test.BuildTestNode(fmt.Sprintf("template-%s-%d", id, f.loop), 4000, 16<<30)
	node.Labels[v1.LabelHostname] = node.Name
	node.Labels["pool"] = pool
	node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	for _, c := range change {
		c(node)
	}
	f.templates[id] = framework.NewTestNodeInfo(node)
}

func (f *cloudInLoops) group(id, pool string, change ...func(*v1.Node)) {
	f.AddNodeGroup(id, 0, 10, 1)
	f.template(id, pool, change...)
}

// next begins a loop: all templates are made anew, and so is their map.
func (f *cloudInLoops) next() {
	f.loop++
	templates := make(map[string]*framework.NodeInfo, len(f.templates))
	for id, info := range f.templates {
		info = info.DeepCopy()
		info.Node().Name = fmt.Sprintf("template-%s-%d", id, f.loop)
		info.Node().Labels[v1.LabelHostname] = info.Node().Name
		templates[id] = info
	}
	f.templates = templates
}

func (f *cloudInLoops) similar(s *sets, id string) []string {
	out := []string{}
	for _, group := range s.similar(f.ctx, id, f.templates) {
		out = append(out, group.Id())
	}
	return out
}

func balancer(t rapid.TB, change ...func(*config.AutoscalingOptions)) *Balancer {
	t.Helper()
	options := config.AutoscalingOptions{BalanceSimilarNodeGroups: true, NodeGroupSetRatios: config.NewDefaultNodeGroupDifferenceRatios()}
	for _, c := range change {
		c(&options)
	}
	b, err := New(options, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestALoopReadsTheCloudOnce(t *testing.T) {
	f, s := newCloud(), balancer(t).sets
	for _, id := range []string{"a", "b", "c", "d"} {
		f.group(id, "one")
	}
	for range 3 {
		f.next()
		f.asked = 0
		for range 2 {
			for id := range f.templates {
				wantNames(t, f.similar(s, id), slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(other string) bool { return other == id })...)
			}
		}
		if f.asked > 2 {
			t.Errorf("the cloud was asked %d times for its groups", f.asked)
		}
	}
}

func TestUnchangedTemplatesAreNotReadAgain(t *testing.T) {
	f, s := newCloud(), balancer(t).sets
	f.group("a", "one")
	f.group("b", "one", func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}
	})
	f.similar(s, "a")
	before := s.groups["b"].template.Node
	f.next()
	f.similar(s, "a")
	if s.groups["b"].template.Node != before {
		t.Error("a template that only has another name was read again")
	}
	if s.groups["b"].info != f.templates["b"] {
		t.Error("the autoscaler's newest template is not the one that is known")
	}
}

func TestWhatIsNeverAPartner(t *testing.T) {
	f, s := newCloud(), balancer(t).sets
	f.group("a", "one")
	f.group("b", "one")
	f.group("other", "two")
	f.AddNodeGroup("bare", 0, 10, 0) // has no template
	f.group("broken", "one", func(n *v1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("-1") })
	f.AddNodeGroupWithCustomOptions("whole", 0, 10, 0, &config.NodeGroupAutoscalingOptions{ZeroOrMaxNodeScaling: true})
	f.template("whole", "one")
	f.template("yet-to-be-created", "one") // not among the cloud's groups

	wantNames(t, f.similar(s, "a"), "b")
	wantNames(t, f.similar(s, "yet-to-be-created"), "a", "b")
	wantNames(t, f.similar(s, "broken"))
	wantNames(t, f.similar(s, "whole"))
	if got := slices.Sorted(maps.Keys(s.failed)); !slices.Equal(got, []string{"bare", "broken"}) {
		t.Errorf("failed: %v", s.failed)
	}
	for id, want := range map[string]string{"a": "a", "b": "a", "other": "", "bare": "", "whole": "", "unknown": ""} {
		if got := s.setOf(id); got != want {
			t.Errorf("set of %s is %q, want %q", id, got, want)
		}
	}
}

func TestGroupsCreatedDuringAScaleUp(t *testing.T) {
	f, s := newCloud(), balancer(t).sets
	f.group("a", "one")
	f.template("candidate", "one")
	wantNames(t, f.similar(s, "candidate"), "a")
	f.AddNodeGroup("created", 0, 10, 0) // in the same loop: the map stays, as long as it was
	f.templates["created"] = f.templates["candidate"]
	delete(f.templates, "candidate")
	wantNames(t, f.similar(s, "created"), "a")
	f.group("extra", "one")
	wantNames(t, f.similar(s, "created"), "a", "extra")
}

// TestAnswersAreThoseOfAFreshIndex lets a fleet change at random from loop to loop: what is kept must never show.
func TestAnswersAreThoseOfAFreshIndex(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", "f"}
	rapid.Check(t, func(t *rapid.T) {
		f, kept := newCloud(), balancer(t)
		for range rapid.IntRange(1, 8).Draw(t, "loops") {
			f.next()
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				id := rapid.SampledFrom(ids).Draw(t, "group")
				switch rapid.IntRange(0, 3).Draw(t, "change") {
				case 0:
					f.DeleteNodeGroup(id)
					delete(f.templates, id)
				case 1:
					delete(f.templates, id)
				default:
					if f.GetNodeGroup(id) == nil {
						f.AddNodeGroup(id, 0, 10, 0)
					}
					f.template(id, rapid.SampledFrom([]string{"one", "two"}).Draw(t, "pool"), randomChange(t))
				}
			}
			fresh := balancer(t)
			for id := range f.templates {
				if got, want := f.similar(kept.sets, id), f.similar(fresh.sets, id); !slices.Equal(got, want) {
					t.Fatalf("similar to %s: %v, a fresh index says %v", id, got, want)
				}
			}
			for _, id := range ids {
				if got, want := kept.sets.setOf(id), fresh.sets.setOf(id); len(f.templates) > 0 && got != want {
					t.Fatalf("set of %s: %q, a fresh index says %q", id, got, want)
				}
			}
		}
	})
}

func randomChange(t *rapid.T) func(*v1.Node) {
	return []func(*v1.Node){
		func(*v1.Node) {},
		func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}} },
		func(n *v1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("8") },
		func(n *v1.Node) { n.Status.Allocatable["memory"] = resource.MustParse("15Gi") },
		func(n *v1.Node) { n.Labels["zone-of-test"] = "z" },
		func(n *v1.Node) { n.Status.Capacity = nil },
		func(n *v1.Node) { n.Status.NodeInfo.KubeletVersion = "" },
		func(n *v1.Node) { n.Status.NodeInfo.KubeletVersion = ""; delete(n.Status.Capacity, "pods") },
	}[rapid.IntRange(0, 7).Draw(t, "what")]
}
