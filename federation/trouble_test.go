package federation

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// troubles lead to what a user may see, by the words of the page.
var troubles = map[string]func(*fakeFleet){
	"44 replicas of 50 have no cluster that is able to run them, or may (at maxReplicas: a, b, c)": func(w *fakeFleet) {
		w.in.Spec.Preferences = everywhere(entry(-1, 2, 1))
	},
	`the entry "c" has no weight, which means 0: it has no replicas`: func(w *fakeFleet) {
		w.in.Spec.Preferences.Clusters["c"] = entry(-1, 20, -1)
	},
	"no entry of the preferences applies to it": func(w *fakeFleet) {
		w.converge()
		w.in.Spec.Preferences = weighted(map[string]int32{"a": 1, "b": 1})
	},
	"10 replicas have not started in time": func(w *fakeFleet) {
		w.converge()
		w.place("c").able = 6
		w.converge()
		w.in.Now = w.in.Now.Add(act + time.Second)
	},
	"10 replicas have no pod": func(w *fakeFleet) {
		w.place("c").quota = 6
		w.converge()
		w.in.Now = w.in.Now.Add(act + time.Second)
	},
	"c did not take 16 replicas, 1 time so far: admission webhook says no": func(w *fakeFleet) {
		w.place("c").refuses = "admission webhook says no"
	},
	"it has not answered for a short time and keeps what it has": func(w *fakeFleet) {
		w.converge()
		w.place("c").Reach = NotAnswering
	},
	"its replicas run elsewhere, and nothing is deleted there": func(w *fakeFleet) {
		w.converge()
		w.place("c").Reach = Lost
	},
	"it is marked NoSchedule and keeps what it has": func(w *fakeFleet) {
		w.converge()
		w.place("c").NoSchedule = true
		w.in.Spec.Replicas = new(int32(80))
	},
	"replicas stay where they are": func(w *fakeFleet) {
		w.in.Spec.Preferences.Rebalance = false
		w.place("c").Reach = Lost
		w.converge()
		w.place("c").Reach = Reachable
	},
	"16 replicas will leave when others run instead": func(w *fakeFleet) {
		w.place("c").Reach = Lost
		w.converge()
		w.place("c").Reach = Reachable
		w.pass()
	},
	"something else also writes its ReplicaSet, 3 times so far": func(w *fakeFleet) {
		w.converge()
		for range 3 {
			w.place("c").Local.Replicas = 40
			w.pass()
			w.run()
			w.in.Now = w.in.Now.Add(time.Second)
		}
	},
	"clusters[eu-1].weight: Invalid value: -1: must be between 0 and 1000000000": func(w *fakeFleet) {
		w.in.Spec.Preferences, w.in.Annotations = nil,
			map[string]string{AnnotationReplicaSetPreferences: `{"clusters": {"eu-1": {"weight": -1}}}`}
	},
}

// The page has a row for every trouble, with words that the status or an event has then.
func TestTroublesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/federation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## My replicas are not where I want them\n")
	if !found {
		t.Fatal("the page has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| [^|]*`([^`|]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	for seen, happens := range troubles {
		if !slices.Contains(documented, seen) {
			t.Errorf("the page does not have %q", seen)
		}
		w := newFakeFleet(t, specOf(50, everywhere(entry(-1, -1, 1))), "a", "b", "c")
		w.in.Key = inNameOrder
		happens(w)
		w.pass()
		text := w.explain()
		for _, e := range w.events {
			text += e.Message + "\n"
		}
		if !strings.Contains(text, seen) {
			t.Errorf("%q is not in\n%s", seen, text)
		}
	}
	for _, seen := range documented {
		if troubles[seen] == nil {
			t.Errorf("no trouble leads to %q", seen)
		}
	}
}
