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

// deadlineCluster is groups a and b on demand, c and d on spot, whose nodes have five minutes.
type deadlineCluster struct {
	t         *testing.T
	cloud     *testCloud
	sets      *Sets[*testTemplate, *testGroup]
	deadlines *Deadlines[*testGroup]
	clock     *clocktesting.FakeClock
	away      map[string]string
}

func newDeadlineCluster(t *testing.T) *deadlineCluster {
	t.Helper()
	c := &deadlineCluster{t: t, cloud: newCloud(), sets: newSets(t),
		clock: clocktesting.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)), away: map[string]string{}}
	c.sets.journal.clock = c.clock
	boughtCloud(c.cloud)
	followed(t, c.sets)(deadlineFile)
	c.cloud.similar(c.sets, "c")
	c.deadlines = NewDeadlines(c.sets.Declared, func(id string) string { return c.away[id] }, backoff.Options{}, c.sets.journal)
	return c
}

// up shares nodes among groups, the first of which is the chosen one, and checks all sizes.
func (c *deadlineCluster) up(nodes int, groups string, want ...int) {
	c.t.Helper()
	up := ScaleUp[*testGroup]{Asked: nodes, Declared: c.sets.Declared, Deadlines: c.deadlines}
	for _, id := range strings.Fields(groups) {
		up.Groups = append(up.Groups, c.cloud.find(id))
	}
	grown, err := up.Split(c.sets.journal)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, g := range grown {
		g.Group.size = g.NewSize
	}
	var got []int
	for _, id := range []string{"a", "b", "c", "d"} {
		got = append(got, c.cloud.find(id).size)
	}
	if !slices.Equal(got, want) {
		c.t.Fatalf("sizes %v after %d nodes among %s, want %v", got, nodes, groups, want)
	}
}

// ready is a node that became ready just now, of the group before the hyphen.
func (c *deadlineCluster) ready(name string) *v1.Node {
	if c.cloud.groupOf == nil {
		c.cloud.groupOf = map[string]string{}
	}
	c.cloud.groupOf[name], _, _ = strings.Cut(name, "-")
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(c.clock.Now())}}
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return node
}

func (c *deadlineCluster) patience(group string, want time.Duration) {
	c.t.Helper()
	if got := c.deadlines.Patience(group, 15*time.Minute); got != want {
		c.t.Errorf("patience with %s: %s, want %s", group, got, want)
	}
}

// TestStartupDeadlineOfASet: it is the provision time where others can take the nodes. A group that
// has missed it gets one node once it may grow again, and its share after that has come.
func TestStartupDeadlineOfASet(t *testing.T) {
	c := newDeadlineCluster(t)
	told := eventsOf(c.sets.journal)
	c.patience("c", 5*time.Minute)
	c.patience("x", 15*time.Minute)
	c.up(4, "c a b d", 0, 0, 2, 2)
	<-told // of the split
	for _, late := range []string{"c", "d"} {
		c.deadlines.Failed(late, "timed out", true)
		c.cloud.find(late).size = 0
		if e := <-told; !strings.Contains(e, "StartupDeadlineMissed Nodes ordered in "+late+
			" were not ready within 5m0s, the start-up deadline of set web") {
			t.Error(e)
		}
	}
	c.patience("a", 5*time.Minute) // b is well
	c.up(4, "a b", 2, 2, 0, 0)
	c.deadlines.Failed("a", "refused", false)
	c.patience("b", 15*time.Minute)
	c.clock.Step(5 * time.Minute)
	c.up(6, "c a b d", 4, 4, 1, 1) // one of each
	c.up(2, "c a b d", 5, 5, 1, 1) // which has not come yet
	c.deadlines.Failed("c", "timed out", true)
	c.cloud.find("c").size = 0
	c.clock.Step(6 * time.Minute) // c is left alone for ten minutes
	c.up(2, "d a b", 6, 6, 0, 1)
	came := []*v1.Node{c.ready("d-1")}
	for i := range 6 {
		came = append(came, c.ready(fmt.Sprintf("a-%d", i)), c.ready(fmt.Sprintf("b-%d", i)))
	}
	c.deadlines.Look(came, c.cloud)
	c.up(3, "d a b", 6, 6, 0, 4)
	c.clock.Step(5 * time.Minute)
	c.up(3, "c a b d", 6, 6, 1, 6) // one of c, which others make up for
}

// TestStartupDeadlineHoldsWhereOthersCanTakeTheNodes and not where nobody else can.
func TestStartupDeadlineHoldsWhereOthersCanTakeTheNodes(t *testing.T) {
	c := newDeadlineCluster(t)
	c.up(2, "c d", 0, 0, 1, 1) // the pods run on spot only
	c.patience("c", 5*time.Minute)
	c.cloud.find("d").size = c.cloud.find("d").max
	c.patience("c", 15*time.Minute)
	c.cloud.find("d").size = 1
	c.away["d"] = "its zone is shifted away"
	c.patience("c", 15*time.Minute)
	delete(c.away, "d")
	c.deadlines.Failed("d", "timed out", true)
	c.patience("c", 15*time.Minute)
	c.clock.Step(time.Hour)
	c.patience("c", 15*time.Minute) // d is on trial
	c.up(2, "c a b d", 0, 0, 2, 2)
	c.patience("c", 5*time.Minute) // any of them
}

// TestStartupDeadlineOfNodesOrderedOneAfterTheOther: the autoscaler counts the time of all nodes of a
// group from the last order on, and says nothing when it takes the first ones back.
func TestStartupDeadlineOfNodesOrderedOneAfterTheOther(t *testing.T) {
	c := newDeadlineCluster(t)
	c.up(4, "c d", 0, 0, 2, 2)
	c.clock.Step(time.Minute)
	came := []*v1.Node{c.ready("d-1"), c.ready("d-2")}
	c.deadlines.Look(came, c.cloud)
	c.clock.Step(3 * time.Minute)
	c.up(2, "c d a b", 0, 0, 3, 3)
	c.clock.Step(time.Minute + time.Second)
	c.deadlines.Look(came, c.cloud)
	if _, tried := c.deadlines.trial("c"); !tried {
		t.Error("c has not brought the first nodes in time, and is not on trial")
	}
	if _, tried := c.deadlines.trial("d"); tried {
		t.Error("d has brought its first nodes in time, and is on trial")
	}
	c.cloud.find("c").size = 1     // the autoscaler has taken them back
	c.up(3, "c d a b", 0, 0, 1, 6) // c is left alone, though the autoscaler does not know that it is late
	c.clock.Step(5 * time.Minute)
	c.up(3, "c d a b", 0, 0, 2, 8)
}
