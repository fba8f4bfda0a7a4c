package linked

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/backoff"
)

const deadlineFile = `
apiVersion: evenkeel.dev/v1alpha1
kind: NodeGroupPolicies
spec:
  sets:
  - name: web
    policy: Priority
    startupDeadline: 5m
    portions:
    - {name: spot, selector: {matchLabels: {bought: spot}}}
    - {name: on-demand, groups: [a, b]}
`

// deadlineWorld is groups a and b on demand, c and d on spot, whose nodes have five minutes.
type deadlineWorld struct {
	t         *testing.T
	cloud     *testCloud
	sets      *Sets[*testTemplate, *testGroup]
	deadlines *Deadlines[*testGroup]
	clock     *clocktesting.FakeClock
	away      map[string]string
}

func newDeadlineWorld(t *testing.T) *deadlineWorld {
	t.Helper()
	w := &deadlineWorld{t: t, cloud: newCloud(), sets: newSets(t), clock: clocktesting.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)), away: map[string]string{}}
	w.sets.journal.clock = w.clock
	boughtCloud(w.cloud)
	followed(t, w.sets)(deadlineFile)
	w.cloud.similar(w.sets, "c")
	w.deadlines = NewDeadlines(w.sets.Declared, func(id string) string { return w.away[id] }, backoff.Options{}, w.sets.journal)
	return w
}

// up shares nodes among groups, the first of which is the chosen one, and checks all sizes.
func (w *deadlineWorld) up(nodes int, groups string, want ...int) {
	w.t.Helper()
	up := ScaleUp[*testGroup]{Asked: nodes, Declared: w.sets.Declared, Deadlines: w.deadlines}
	for _, id := range strings.Fields(groups) {
		up.Groups = append(up.Groups, w.cloud.find(id))
	}
	grown, err := up.Split(w.sets.journal)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, g := range grown {
		g.Group.size = g.NewSize
	}
	var got []int
	for _, id := range []string{"a", "b", "c", "d"} {
		got = append(got, w.cloud.find(id).size)
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("sizes %v after %d nodes among %s, want %v", got, nodes, groups, want)
	}
}

// ready is a node that became ready just now, of the group before the hyphen.
func (w *deadlineWorld) ready(name string) *v1.Node {
	if w.cloud.groupOf == nil {
		w.cloud.groupOf = map[string]string{}
	}
	w.cloud.groupOf[name], _, _ = strings.Cut(name, "-")
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(w.clock.Now())}}
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return node
}

func (w *deadlineWorld) patience(group string, want time.Duration) {
	w.t.Helper()
	if got := w.deadlines.Patience(group, 15*time.Minute); got != want {
		w.t.Errorf("patience with %s: %s, want %s", group, got, want)
	}
}

// TestStartupDeadlineOfASet: it is the provision time where others can take the nodes. A group that
// has missed it gets one node once it may grow again, and its share after that has come.
func TestStartupDeadlineOfASet(t *testing.T) {
	w := newDeadlineWorld(t)
	told := eventsOf(w.sets.journal)
	w.patience("c", 5*time.Minute)
	w.patience("x", 15*time.Minute)
	w.up(4, "c a b d", 0, 0, 2, 2)
	<-told // of the split
	for _, late := range []string{"c", "d"} {
		w.deadlines.Failed(late, "timed out", true)
		w.cloud.find(late).size = 0
		if e := <-told; !strings.Contains(e, "StartupDeadlineMissed Nodes ordered in "+late+" were not ready within 5m0s, the start-up deadline of set web") {
			t.Error(e)
		}
	}
	w.patience("a", 5*time.Minute) // b is well
	w.up(4, "a b", 2, 2, 0, 0)
	w.deadlines.Failed("a", "refused", false)
	w.patience("b", 15*time.Minute)
	w.clock.Step(5 * time.Minute)
	w.up(6, "c a b d", 4, 4, 1, 1) // one of each
	w.up(2, "c a b d", 5, 5, 1, 1) // which has not come yet
	w.deadlines.Failed("c", "timed out", true)
	w.cloud.find("c").size = 0
	w.clock.Step(6 * time.Minute) // c is left alone for ten minutes
	w.up(2, "d a b", 6, 6, 0, 1)
	came := []*v1.Node{w.ready("d-1")}
	for i := range 6 {
		came = append(came, w.ready(fmt.Sprintf("a-%d", i)), w.ready(fmt.Sprintf("b-%d", i)))
	}
	w.deadlines.Look(came, w.cloud)
	w.up(3, "d a b", 6, 6, 0, 4)
	w.clock.Step(5 * time.Minute)
	w.up(3, "c a b d", 6, 6, 1, 6) // one of c, which others make up for
}

// TestStartupDeadlineHoldsWhereOthersCanTakeTheNodes and not where nobody else can.
func TestStartupDeadlineHoldsWhereOthersCanTakeTheNodes(t *testing.T) {
	w := newDeadlineWorld(t)
	w.up(2, "c d", 0, 0, 1, 1) // the pods run on spot only
	w.patience("c", 5*time.Minute)
	w.cloud.find("d").size = w.cloud.find("d").max
	w.patience("c", 15*time.Minute)
	w.cloud.find("d").size = 1
	w.away["d"] = "its zone is shifted away"
	w.patience("c", 15*time.Minute)
	delete(w.away, "d")
	w.deadlines.Failed("d", "timed out", true)
	w.patience("c", 15*time.Minute)
	w.clock.Step(time.Hour)
	w.patience("c", 15*time.Minute) // d is on trial
	w.up(2, "c a b d", 0, 0, 2, 2)
	w.patience("c", 5*time.Minute) // any of them
}

// TestStartupDeadlineOfNodesOrderedOneAfterTheOther: the autoscaler counts the time of all nodes of a
// group from the last order on, and says nothing when it takes the first ones back.
func TestStartupDeadlineOfNodesOrderedOneAfterTheOther(t *testing.T) {
	w := newDeadlineWorld(t)
	w.up(4, "c d", 0, 0, 2, 2)
	w.clock.Step(time.Minute)
	came := []*v1.Node{w.ready("d-1"), w.ready("d-2")}
	w.deadlines.Look(came, w.cloud)
	w.clock.Step(3 * time.Minute)
	w.up(2, "c d a b", 0, 0, 3, 3)
	w.clock.Step(time.Minute + time.Second)
	w.deadlines.Look(came, w.cloud)
	if _, tried := w.deadlines.trial("c"); !tried {
		t.Error("c has not brought the first nodes in time, and is not on trial")
	}
	if _, tried := w.deadlines.trial("d"); tried {
		t.Error("d has brought its first nodes in time, and is on trial")
	}
	w.cloud.find("c").size = 1     // the autoscaler has taken them back
	w.up(3, "c d a b", 0, 0, 1, 6) // c is left alone, though the autoscaler does not know that it is late
	w.clock.Step(5 * time.Minute)
	w.up(3, "c d a b", 0, 0, 2, 8)
}
