package linked

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

const policiesFile = `
apiVersion: evenkeel.dev/v1alpha1
kind: NodeGroupPolicies
spec:
  sets:
  - name: web
    policy: Proportional
    portions:
    - {name: on-demand, groups: [a, b], base: 2, weight: 20}
    - {name: spot, selector: {matchLabels: {bought: spot}}, weight: 80}
`

// boughtCloud has groups a and b on demand, c and d on spot, and x of another kind.
func boughtCloud(f *testCloud) {
	for _, id := range []string{"a", "b", "c", "d"} {
		f.group(id, "one", func(n *v1.Node) {
			n.Labels["bought"] = map[bool]string{true: "on-demand", false: "spot"}[id < "c"]
		})
		f.find(id).max = 100
	}
	f.group("x", "one")
}

// followed writes a file of policies and hands it to sets, as the flag does.
func followed(t *testing.T, s *Sets[*testTemplate, *testGroup]) (write func(string)) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "policies.yaml")
	write = func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(policiesFile)
	policies, file, err := OwnFlags{NodeGroupPolicies: name}.Policies()
	if err != nil {
		t.Fatal(err)
	}
	s.Declare(policies, file)
	return write
}

func TestDeclaredSetSharesByItsPolicy(t *testing.T) {
	f, s := newCloud(), newSets(t)
	boughtCloud(f)
	followed(t, s)
	wantNames(t, f.similar(s, "c"), "a", "b", "d")
	wantNames(t, f.similar(s, "x"))
	split := func(nodes int, groups ...string) {
		t.Helper()
		up := ScaleUp[*testGroup]{Asked: nodes, Declared: s.Declared}
		for _, id := range groups {
			up.Groups = append(up.Groups, f.find(id))
		}
		grown, err := up.Split(s.journal)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range grown {
			g.Group.size = g.NewSize
		}
	}
	want := func(sizes ...int) {
		t.Helper()
		var got []int
		for _, id := range []string{"a", "b", "c", "d"} {
			got = append(got, f.find(id).size)
		}
		if !slices.Equal(got, sizes) {
			t.Errorf("sizes %v, want %v", got, sizes)
		}
	}
	split(12, "a", "b", "c", "d")
	want(2, 2, 4, 4)
	split(2, "c", "a") // the others take none of the pods, and count all the same
	want(2, 2, 6, 4)
	split(8, "b", "a") // no spot for these
	want(6, 6, 6, 4)
	if got := s.journal.remembers().splits; !strings.HasPrefix(got[0].Policy, "set web, Proportional: on-demand 20") ||
		len(got[1].Groups) != 2 {
		t.Errorf("journal: %+v", got)
	}
}

func TestChangedPoliciesAreUsedOnceTheySuit(t *testing.T) {
	f, s := newCloud(), newSets(t)
	boughtCloud(f)
	write := followed(t, s)
	events := &recorded{}
	s.journal.WriteEvents(events)
	f.similar(s, "a")
	for _, wrong := range []string{strings.Replace(policiesFile, "[a, b]", "[a, z]", 1), strings.Replace(policiesFile, "weight", "wait", 1)} {
		write(wrong)
		for range 2 {
			f.next()
			wantNames(t, f.similar(s, "c"), "a", "b", "d")
		}
	}
	if len(*events) != 2 || !strings.Contains((*events)[0], "spec.sets[0].portions[0].groups[1]") ||
		!strings.Contains((*events)[1], "spec.sets[0].portions[0].wait") {
		t.Errorf("events: %q", *events)
	}
	write(strings.Replace(policiesFile, "[a, b]", "[a, b, x]", 1))
	f.next()
	wantNames(t, f.similar(s, "c"), "a", "b", "d", "x")
	if terms := s.TermsOf("x"); terms == nil || terms.Set != "web" || s.declared.refused != "" {
		t.Errorf("terms of x: %v, refused: %q", terms, s.declared.refused)
	}
}

// recorded are the reasons and texts of events.
type recorded []string

func (r *recorded) Eventf(_, reason, format string, args ...any) {
	*r = append(*r, reason+" "+format+" "+args[0].(string))
}

func TestScaleDownKeepsTheRatio(t *testing.T) {
	terms := &nodegroupset.Terms{Set: "s", Policy: nodegroupset.Proportional, Portions: []nodegroupset.Portion{
		{Name: "on-demand", Groups: []string{"a"}, Base: 1, Weight: 1}, {Name: "spot", Groups: []string{"b"}, Weight: 1},
	}}
	c := &testCloud{groupOf: map[string]string{}, groups: []*testGroup{{id: "a", size: 4, max: 9}, {id: "b", size: 3, max: 9}}}
	var nodes []Removable
	for _, name := range []string{"a1", "a2", "b1", "b2"} {
		c.groupOf[name] = name[:1]
		n := &v1.Node{}
		n.Name = name
		nodes = append(nodes, Removable{Node: n})
	}
	down := NewScaleDown(time.Minute, NewJournal(clock.RealClock{}))
	decision := Round[*testGroup]{
		Cloud: c, SetOf: func(string) string { return "s" }, TermsOf: func(string) *nodegroupset.Terms { return terms }, Nodes: nodes,
		Limits: func([]int) (int, int) { return 3, 3 },
	}.Decide(down)
	var gone []string
	for _, i := range decision.Go {
		gone = append(gone, nodes[i].Node.Name)
	}
	// 1 and half of the rest: of 7 nodes 4 are on demand, of 6 4 or 3 (4 first), of 5 3, of 4 3 or 2.
	if got := strings.Join(gone, " "); got != "b1 a1 b2" {
		t.Errorf("%s go, want b1 a1 b2", got)
	}
}

func TestPoliciesFlagIsRefusedByName(t *testing.T) {
	_, _, err := OwnFlags{NodeGroupPolicies: "/nowhere"}.Policies()
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), `invalid argument "/nowhere" for --node-group-policies`) {
		t.Error(err)
	}
}
