package sidecar_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/steering"
)

// notices are what was said about pods, without pods that have a node: nobody writes that.
type notices struct {
	w    *harness
	said map[types.UID][]string
	all  int
}

func (n *notices) Set(notices []steering.Notice) {
	bound := map[types.UID]bool{}
	for _, pod := range n.w.ca.shown() {
		bound[pod.UID] = pod.Spec.NodeName != ""
	}
	for _, one := range notices {
		n.all++
		if bound[one.UID] {
			continue
		}
		text := map[bool]string{true: "acting", false: "given up"}[one.Acting]
		if one.Failed {
			text = "failed"
		}
		n.said[one.UID] = append(n.said[one.UID], text)
	}
}

// of are the sequences of notices about pods of a batch, with how many pods have each.
func (n *notices) of(prefix string) string {
	ways := map[string]int{}
	for uid, said := range n.said {
		if strings.HasPrefix(string(uid), prefix) {
			ways[strings.Join(said, ", ")]++
		}
	}
	text := ""
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		text += fmt.Sprintf("%d: %s; ", ways[way], way)
	}
	return text
}

func TestNoticesSayWhatIsDoneAboutPods(t *testing.T) {
	out := func(end time.Duration, groups ...string) fake.Config {
		return fake.Config{StockOuts: []v1alpha1.StockOut{{Groups: groups, FaultWindow: during(0, end)}}}
	}
	slow := zones(0, 0, 0)
	for i := range slow {
		slow[i].BootTime = 3 * time.Minute
	}
	for name, c := range map[string]struct {
		groups []fake.Group
		cloud  fake.Config
		off    bool // --balance-similar-node-groups=false
		want   string
	}{
		"nodes come":               {zones(0, 0, 0), fake.Config{}, false, "9: acting; "},
		"nodes come slowly":        {slow, fake.Config{}, false, "9: acting; "},
		"no sets":                  {zones(0, 0, 0), fake.Config{}, true, "9: acting; "},
		"a member refuses":         {zones(0, 0, 0), out(5*time.Minute, "a"), false, "9: failed, acting; "},
		"all refuse for some time": {zones(0, 0, 0), out(4*time.Minute, "a", "b", "c"), false, "9: failed, given up, acting; "},
	} {
		t.Run(name, func(t *testing.T) {
			s := setup{cloud: c.cloud, batches: []batch{{Pods: podsOf("p", 9, 1)}}}
			s.cloud.Groups = c.groups
			n := &notices{said: map[types.UID][]string{}}
			s.sidecar.NoticePods, s.sidecar.Notices, s.sidecar.NotBalanced = true, n, c.off
			w := newHarness(t, s)
			n.w = w
			if state := w.settle(40 * time.Minute); state.Pending > 0 {
				t.Fatalf("%d pods are pending\n%s", state.Pending, w.log())
			}
			if got := n.of("p-"); got != c.want {
				t.Errorf("%s, want %s\n%s", got, c.want, w.log())
			}
			if most := 9 * 8; n.all > most {
				t.Errorf("%d notices, want at most %d", n.all, most)
			}
		})
	}
}

func TestNoNoticesUnasked(t *testing.T) {
	for _, dry := range []bool{false, true} {
		n := &notices{said: map[types.UID][]string{}}
		s := setup{cloud: fake.Config{Groups: zones(0, 0)}, batches: []batch{{Pods: podsOf("p", 4, 1)}}}
		s.sidecar.Notices, s.sidecar.NoticePods, s.sidecar.DryRun = n, dry, dry
		w := newHarness(t, s)
		n.w = w
		if w.settle(20 * time.Minute); n.all > 0 {
			t.Errorf("dry run %t: %d notices", dry, n.all)
		}
	}
}
