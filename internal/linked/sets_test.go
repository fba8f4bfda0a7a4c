package linked

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func TestALoopReadsTheCloudOnce(t *testing.T) {
	f, s := newCloud(), newSets(t)
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
	f, s := newCloud(), newSets(t)
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
	f, s := newCloud(), newSets(t)
	f.group("a", "one")
	f.group("b", "one")
	f.group("other", "two")
	f.add("bare") // has no template
	f.group("broken", "one", func(n *v1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("-1") })
	f.add("whole")
	f.find("whole").whole = true
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
		if got := s.SetOf(id); got != want {
			t.Errorf("set of %s is %q, want %q", id, got, want)
		}
	}
}

func TestGroupsCreatedDuringAScaleUp(t *testing.T) {
	f, s := newCloud(), newSets(t)
	f.group("a", "one")
	f.template("candidate", "one")
	wantNames(t, f.similar(s, "candidate"), "a")
	f.add("created") // in the same loop: the map stays, as long as it was
	f.templates["created"] = f.templates["candidate"]
	delete(f.templates, "candidate")
	wantNames(t, f.similar(s, "created"), "a")
	f.group("extra", "one")
	wantNames(t, f.similar(s, "created"), "a", "extra")
}

// TestAnswersAreThoseOfAFreshIndex lets a fleet change at random from loop to loop: what is kept
// must never show.
func TestAnswersAreThoseOfAFreshIndex(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", "f"}
	rapid.Check(t, func(t *rapid.T) {
		f, kept := newCloud(), newSets(t)
		for range rapid.IntRange(1, 8).Draw(t, "loops") {
			f.next()
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				id := rapid.SampledFrom(ids).Draw(t, "group")
				switch rapid.IntRange(0, 3).Draw(t, "change") {
				case 0:
					f.remove(id)
					delete(f.templates, id)
				case 1:
					delete(f.templates, id)
				default:
					if f.find(id) == nil {
						f.add(id)
					}
					f.template(id, rapid.SampledFrom([]string{"one", "two"}).Draw(t, "pool"), randomChange(t))
				}
			}
			fresh := newSets(t)
			for id := range f.templates {
				if got, want := f.similar(kept, id), f.similar(fresh, id); !slices.Equal(got, want) {
					t.Fatalf("similar to %s: %v, a fresh index says %v", id, got, want)
				}
			}
			for _, id := range ids {
				if got, want := kept.SetOf(id), fresh.SetOf(id); len(f.templates) > 0 && got != want {
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

// Every group of a set gets the others in the same turn, which begins after it.
func TestPartnersAreInTurn(t *testing.T) {
	f, s := newCloud(), newSets(t)
	for _, id := range []string{"b", "d", "a", "c"} {
		f.group(id, "one")
	}
	f.template("b-planned", "one")
	for id, want := range map[string][]string{"a": {"b", "c", "d"}, "b": {"c", "d", "a"}, "d": {"a", "b", "c"},
		"b-planned": {"a", "b", "c", "d"}} {
		var got []string
		partners := s.Similar(id, f.templates, f)
		for _, group := range partners {
			got = append(got, group.id)
		}
		wantNames(t, got, want...)
		_ = append(partners, &testGroup{id: "x"}) // must not reach the others
	}
	wantNames(t, f.similar(s, "a"), "b", "c", "d")
}
