package reconcile

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
)

func TestTargetOfTwoBalancersIsWrittenByNeither(t *testing.T) {
	other := balancerOf("other", 8, "b", "d")
	other.Spec.Targets[0].ScaleTargetRef.APIVersion = "apps/v1" // says the same as none
	stranger := balancerOf("stranger", 8, "a")
	stranger.Spec.Targets[0].ScaleTargetRef.APIVersion = "example.com/v1" // another object of the same name
	b := newBench(t, balancerOf("web", 8, "a", "b"), other, stranger)
	for _, name := range []string{"a", "b", "d"} {
		b.server.deploy(name, 1)
	}
	b.pass("web")
	b.wrote("a=7")
	b.pass("other")
	b.wrote("d=7")
	for name, rival := range map[string]string{"web": "other", "other": "web"} {
		for _, s := range b.get(name).Status.Targets {
			if s.Name == "b" && (s.Reason != balancer.ReasonConflict || !strings.Contains(s.Message, "Balancer "+rival+";")) {
				t.Errorf("Balancer %s says of b: %s, %s", name, s.Reason, s.Message)
			}
		}
	}
	if err := b.client.Delete(t.Context(), b.get("other")); err != nil {
		t.Fatal(err)
	}
	b.pass("other")
	b.pass("web")
	b.wrote("b=4 a=4")
}

// Two Balancers of one selector count the pods of one another, and say so.
func TestSelectorOfTwoBalancers(t *testing.T) {
	b := newBench(t, append(append(pods("a", 2), pods("b", 3)...), balancerOf("web", 2, "a"), balancerOf("other", 3, "b"))...)
	b.server.deploy("a", 2)
	b.server.deploy("b", 3)
	says := func(name, want string) {
		t.Helper()
		b.pass(name)
		c := meta.FindStatusCondition(b.get(name).Status.Conditions, v1alpha1.ConditionTargetsReadable)
		if !strings.Contains(c.Message, want) {
			t.Errorf("Balancer %s says %q, want %q", name, c.Message, want)
		}
	}
	says("web", "3 in all, such as b-0")
	says("other", "2 in all, such as a-0")
	web := b.get("web")
	web.Spec.Selector.MatchLabels["target"] = "a"
	if err := b.client.Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	says("web", "every target can be read and written")
	if c := meta.FindStatusCondition(b.get("web").Status.Conditions, v1alpha1.ConditionTargetsReadable); strings.Contains(c.Message,
		"selector") {
		t.Errorf("Balancer web says %q", c.Message)
	}
	b.wrote("")
}

func TestOverlappingSelectors(t *testing.T) {
	ended := func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }
	leaving := func(p *v1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: start}, []string{"example.com/wait"}
	}
	for name, c := range map[string]struct {
		labels    map[string]string // of one more pod of a
		change    func(*v1.Pod)     // of that pod
		selectors string            // of b; also=b if empty
		of        []string          // the targets that are left alone
		pods      int32             // of the Balancer
	}{
		"sound": {labels: map[string]string{"app": "web", "target": "a"}, pods: 1},
		"two targets select": {labels: map[string]string{"app": "web", "target": "a", "also": "b"}, of: []string{"a", "b"},
			pods: 1},
		"not the Balancer's":                {labels: map[string]string{"app": "db", "target": "a"}, of: []string{"a"}},
		"two selected it before it ended":   {labels: map[string]string{"app": "web", "target": "a", "also": "b"}, change: ended},
		"not the Balancer's, and it leaves": {labels: map[string]string{"app": "db", "target": "a"}, change: leaving},
		"sound, and it leaves":              {labels: map[string]string{"app": "web", "target": "a"}, change: leaving},
		"equal selectors, and no pod has it so far": {labels: map[string]string{"app": "web", "target": "a"}, selectors: "target=c",
			of: []string{"b", "c"}, pods: 1},
	} {
		t.Run(name, func(t *testing.T) {
			pod := running("one", c.labels)
			if c.change != nil {
				c.change(pod)
			}
			b := newBench(t, balancerOf("web", 6, "a", "b", "c"), pod)
			for _, name := range []string{"a", "b", "c"} {
				b.server.deploy(name, 1)
			}
			b.server.change(func() { b.server.scales["b"].Status.Selector = cmp.Or(c.selectors, "also=b") })
			b.pass("web")
			alone := ""
			status := b.get("web").Status
			for _, s := range status.Targets {
				if s.Reason == balancer.ReasonConflict {
					alone += s.Name
				}
				if s.Name == "b" && s.Running != 0 {
					t.Error("the pod is counted twice")
				}
			}
			if want := strings.Join(c.of, ""); alone != want || status.Replicas != c.pods {
				t.Errorf("left alone %q, want %q; %d pods, want %d", alone, want, status.Replicas, c.pods)
			}
		})
	}
}

// A Balancer that waits for its end, because something else must be done first, writes nothing
// any more.
func TestBalancerThatIsAboutToGoClaimsNothing(t *testing.T) {
	leaving := balancerOf("leaving", 8, "b")
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: start}, []string{"example.com/wait"}
	b := newBench(t, balancerOf("web", 8, "a", "b"), leaving)
	b.server.deploy("a", 1)
	b.server.deploy("b", 1)
	b.pass("leaving")
	b.wrote("")
	b.pass("web")
	b.wrote("a=4 b=4")
}

func TestWayBack(t *testing.T) {
	for name, c := range map[string]struct {
		targets string // of Balancers, such as b:c,d
		want    string
	}{
		"none":             {"", ""},
		"elsewhere":        {"b:c c:d", ""},
		"at once":          {"b:a", "a b a"},
		"by one more":      {"b:c c:a", "a b c a"},
		"the shortest":     {"b:c,d c:e e:a d:a", "a b d a"},
		"a circle beside":  {"b:c c:d d:c", ""},
		"through a circle": {"b:c c:d d:c,e e:a", "a b c d e a"},
		"below itself":     {"b:b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			targets := map[string][]string{}
			for _, b := range strings.Fields(c.targets) {
				name, list, _ := strings.Cut(b, ":")
				targets[name] = strings.Split(list, ",")
			}
			got, err := wayBack("a", "b", func(name string) ([]string, error) { return targets[name], nil })
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("the way is %v, %v; want %s", got, err, c.want)
			}
		})
	}
	level := func(name string) ([]string, error) {
		n, _ := strconv.Atoi(name)
		return []string{strconv.Itoa(n + 1)}, nil
	}
	if way, err := wayBack("100", "1", level); err != nil || len(way) != mostBelow+1 {
		t.Errorf("%d levels: %v, %v", mostBelow, way, err)
	}
	if way, err := wayBack("a", "1", level); !errors.Is(err, errManyBelow) {
		t.Errorf("a chain without an end: %v, %v", way, err)
	}
	broken := errors.New("no cache")
	if _, err := wayBack("a", "b", func(string) ([]string, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

// A chain of any length costs a change of one of its Balancers one walk, and a pass over one of them a bounded one.
func TestLongChain(t *testing.T) {
	var all []*v1alpha1.Balancer
	var objects []client.Object
	for n := range 150 {
		all = append(all, over("b"+strconv.Itoa(n), 9, "b"+strconv.Itoa(n+1)))
		objects = append(objects, all[n])
	}
	all = append(all, balancerOf("beside", 9, "b149"))
	if got := allAbove("b149", all); got.Len() != 149 || got.Has("b149") || got.Has("beside") {
		t.Errorf("above the last: %v", got)
	}
	circle := slices.Concat(all[:3], []*v1alpha1.Balancer{over("b3", 9, "b0")})
	if got := allAbove("b2", circle); got.Len() != 4 {
		t.Errorf("above one of a circle of four: %v", got)
	}
	b := newBench(t, objects...)
	for name, want := range map[string]string{"b0": "more than 100 Balancers are below it", "b100": ""} {
		b.server.deploy(b.get(name).Spec.Targets[0].Name, 1)
		b.pass(name)
		if s := b.get(name).Status.Targets[0]; want != "" && (s.Reason != balancer.ReasonConflict || !strings.Contains(s.Message, want)) ||
			want == "" && s.Reason == balancer.ReasonConflict {
			t.Errorf("%s: %s, %q", name, s.Reason, s.Message)
		}
	}
}

// over has a Balancer as its first target.
func over(name string, replicas int32, below string, targets ...string) *v1alpha1.Balancer {
	b := balancerOf(name, replicas, append([]string{below}, targets...)...)
	b.Spec.Targets[0].ScaleTargetRef = v1alpha1.ScaleTargetReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindBalancer, Name: below}
	return b
}

func TestBalancerOfABalancer(t *testing.T) {
	b := newBench(t, over("region", 9, "zone", "a"), balancerOf("zone", 1, "b"))
	b.server.deploy("zone", 1)
	b.server.deploy("a", 1)
	b.pass("region")
	b.wrote("a=5 zone=4")
}

// Balancers that are targets of one another in a circle do not write one another, and say so; their
// other targets go on.
func TestCircleIsNotWrittenAround(t *testing.T) {
	b := newBench(t, over("one", 9, "two", "a"), over("two", 9, "three", "b"), over("three", 9, "one", "c"), over("top", 9, "one2", "d"))
	for _, name := range []string{"one", "two", "three", "a", "b", "c", "d"} {
		b.server.deploy(name, 4)
	}
	for name, want := range map[string]struct{ wrote, below, circle string }{
		"one":   {"a=5", "two", "one -> two -> three -> one;"},
		"two":   {"b=5", "three", "two -> three -> one -> two;"},
		"three": {"c=5", "one", "three -> one -> two -> three;"},
	} {
		b.pass(name)
		b.wrote(want.wrote)
		s := b.get(name).Status.Targets[0]
		if s.Name != want.below || s.Reason != balancer.ReasonConflict || !strings.Contains(s.Message, want.circle) ||
			!strings.Contains(s.Message, "remove a target") {
			t.Errorf("%s says of %s: %s, %s", name, s.Name, s.Reason, s.Message)
		}
	}
	one, two := b.get("one"), b.get("two")
	one.Spec.Replicas = new(int32(12))
	two.Spec.Targets[0].ScaleTargetRef.Kind = "Deployment"
	two.Spec.Targets[0].ScaleTargetRef.APIVersion = ""
	for _, changed := range []*v1alpha1.Balancer{one, two} {
		if err := b.client.Update(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
	}
	b.pass("one")
	b.wrote("two=6 a=6")
}
