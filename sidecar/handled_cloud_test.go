package sidecar_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// shifting is a cloud whose groups come, go and change their bounds, or do not answer.
type shifting struct {
	*fake.Cloud
	groups func(cloudprovider.NodeGroup) (now cloudprovider.NodeGroup, exists bool) // nil leaves them as they are
	broken func(method string, id string) bool                                      // nil is never
}

func (c *shifting) NodeGroups(ctx context.Context) ([]cloudprovider.NodeGroup, error) {
	if c.broken != nil && c.broken(fake.MethodNodeGroups, "") {
		return nil, fmt.Errorf("list: %w", cloudprovider.ErrUnavailable)
	}
	groups, err := c.Cloud.NodeGroups(ctx)
	if c.groups == nil {
		return groups, err
	}
	var out []cloudprovider.NodeGroup
	for _, g := range groups {
		if now, exists := c.groups(g); exists {
			out = append(out, now)
		}
	}
	return out, err
}

func (c *shifting) check(method, id string) error {
	if c.broken != nil && c.broken(method, id) {
		return fmt.Errorf("%s of %s: %w", method, id, cloudprovider.ErrUnavailable)
	}
	if c.groups != nil {
		if _, exists := c.groups(cloudprovider.NodeGroup{ID: id}); !exists {
			return fmt.Errorf("node group %q: %w", id, cloudprovider.ErrNotFound)
		}
	}
	return nil
}

func (c *shifting) TargetSize(ctx context.Context, id string) (int, error) {
	if err := c.check(fake.MethodTargetSize, id); err != nil {
		return 0, err
	}
	return c.Cloud.TargetSize(ctx, id)
}

func (c *shifting) Nodes(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
	if err := c.check(fake.MethodNodes, id); err != nil {
		return nil, err
	}
	return c.Cloud.Nodes(ctx, id)
}

func (c *shifting) Template(ctx context.Context, id string) (cloudprovider.Template, error) {
	if err := c.check(fake.MethodTemplate, id); err != nil {
		return cloudprovider.Template{}, err
	}
	return c.Cloud.Template(ctx, id)
}

func (c *shifting) NodeGroupForNode(ctx context.Context, node *v1.Node) (string, bool, error) {
	id, ok, err := c.Cloud.NodeGroupForNode(ctx, node)
	if err == nil && ok && c.groups != nil {
		_, ok = c.groups(cloudprovider.NodeGroup{ID: id})
	}
	return id, ok, err
}

// TestGroupsChange: what a cloud does to its groups after the first of three has been granted its
// ten nodes.
func TestGroupsChange(t *testing.T) {
	tests := map[string]struct {
		shift func(g cloudprovider.NodeGroup, after bool) (cloudprovider.NodeGroup, bool)
		want  []int
	}{
		"one appears": {func(g cloudprovider.NodeGroup, after bool) (cloudprovider.NodeGroup, bool) {
			return g, after || g.ID != "c"
		}, []int{15, 8, 7}},
		"one goes": {func(g cloudprovider.NodeGroup, after bool) (cloudprovider.NodeGroup, bool) {
			return g, !after || g.ID != "c"
		}, []int{15, 15, 0}},
		"one may have less": {func(g cloudprovider.NodeGroup, after bool) (cloudprovider.NodeGroup, bool) {
			if after && g.ID == "b" {
				g.MaxSize = 4
			}
			return g, true
		}, []int{13, 4, 13}},
		"one is above its maximum": {func(g cloudprovider.NodeGroup, after bool) (cloudprovider.NodeGroup, bool) {
			if after && g.ID == "a" {
				g.MaxSize = 4
			}
			return g, true
		}, []int{10, 10, 10}},
		"one has to have more": {func(g cloudprovider.NodeGroup, after bool) (cloudprovider.NodeGroup, bool) {
			if after && g.ID == "b" {
				g.MinSize = 14
			}
			return g, true
		}, []int{10, 14, 6}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, passed := ten(), false
			s.fault = after(1, func(*harness) { passed = true })
			got, w := trial{setup: s, prepare: func(w *harness) {
				w.startSidecar(&shifting{Cloud: w.cloud, groups: func(g cloudprovider.NodeGroup) (cloudprovider.NodeGroup,
					bool) {
					return tt.shift(g, passed)
				}})
			}}.run(t)
			if !slices.Equal(got, tt.want) {
				t.Errorf("sizes %v, want %v\n%s", got, tt.want, w.log())
			}
		})
	}
}

// TestOneGroupDoesNotAnswer: the others go on. One that was never read is left out; of one that
// was, the last reading counts.
func TestOneGroupDoesNotAnswer(t *testing.T) {
	for _, method := range []string{fake.MethodTargetSize, fake.MethodNodes, fake.MethodTemplate} {
		for moment, want := range map[string][]int{"from the start": {15, 0, 15}, "later": {10, 10, 10}} {
			t.Run(fmt.Sprint(method, " ", moment), func(t *testing.T) {
				s, passed := ten(), false
				s.fault = after(1, func(*harness) { passed = true })
				got, w := trial{setup: s, prepare: func(w *harness) {
					w.startSidecar(&shifting{Cloud: w.cloud, broken: func(m string, id string) bool {
						return m == method && id == "b" && (passed || moment == "from the start")
					}})
				}}.run(t)
				if !slices.Equal(sorted(got), sorted(want)) {
					t.Errorf("sizes %v, want %v\n%s", got, want, w.log())
				}
				groups := w.front.Status().Groups
				if i := slices.IndexFunc(groups, func(g steering.GroupStatus) bool { return g.Name == "b" }); i < 0 {
					if moment == "later" || method == fake.MethodTemplate {
						t.Errorf("b is gone: %+v", groups)
					}
				} else if method != fake.MethodTemplate && !strings.Contains(groups[i].Problem, method) {
					t.Errorf("problem of b: %q", groups[i].Problem)
				}
			})
		}
	}
}

// Where no member of a set can grow, the set is left out of the answers, told of once, and others
// are served. It gets its nodes when its time has come.
func TestASetWithoutMembersThatCanGrow(t *testing.T) {
	groups := slow(zones(0, 0, 0, 0))
	var pods []*v1.Pod
	for i, machine := range []string{"big", "big", "small", "small"} {
		groups[i].Template.Node.Labels[v1.LabelInstanceTypeStable] = machine
	}
	for _, machine := range []string{"big", "small"} {
		for _, pod := range podsOf(machine, 8, 1) {
			pod.Spec.NodeSelector = map[string]string{v1.LabelInstanceTypeStable: machine}
			pods = append(pods, pod)
		}
	}
	events := told{}
	w := newHarness(t, setup{
		seed: 1, sidecar: sidecar.Options{Recorder: events}, batches: []batch{{Pods: pods}},
		cloud: fake.Config{Groups: groups, StockOuts: []v1alpha1.StockOut{{Groups: []string{"a", "b"}, FaultWindow: during(0, 2*time.Minute)}}},
	})
	w.ca.Run(2 * time.Minute)
	if state := w.ca.State(); !slices.Equal(state.Sizes(), []int{0, 0, 4, 4}) || events["SetBackedOff"] != 1 || events["MemberBackedOff"] < 2 {
		t.Errorf("sizes %v, events %v\n%s", state.Sizes(), events, w.log())
	}
	hidden(t, w)
	if state := w.settle(time.Hour); !slices.Equal(state.Sizes(), []int{4, 4, 4, 4}) || events["SetBackedOff"] != 1 {
		t.Errorf("later sizes %v, events %v\n%s", state.Sizes(), events, w.log())
	}
}

// changes are the calls that change the cloud.
func (w *harness) changes() []string {
	var out []string
	for _, c := range w.cloud.Calls() {
		if slices.Contains([]string{fake.MethodIncreaseSize, fake.MethodDecreaseTargetSize, fake.MethodDeleteNodes}, c.Method) {
			out = append(out, fmt.Sprint(c.At.Sub(start), " ", c.Method, " ", c.Group, " ", c.Delta, " ", slices.Sorted(slices.Values(c.Nodes)), " ",
				c.Error))
		}
	}
	return out
}

// A dry run changes nothing: the cloud gets the calls it gets from Cluster Autoscaler alone, with
// all that goes wrong.
func TestDryRun(t *testing.T) {
	disturbed := func() setup {
		s := ten()
		s.ca.Removal, s.ca.ProvisionTime = emptyNodes(3*time.Minute), 5*time.Minute
		s.batches = append(s.batches, late(7))
		s.cloud.StockOuts = []v1alpha1.StockOut{
			{Groups: []string{"a"}, Mode: v1alpha1.StockOutSilent, Left: 20},
			{Groups: []string{"b"}, Mode: v1alpha1.StockOutFail, Left: 2, FailAfter: lasting(20 * time.Second)},
			{Groups: []string{"c"}, Mode: v1alpha1.StockOutSilent, Left: 3},
		}
		return s
	}
	for seed := range uint64(2) {
		s := disturbed()
		s.seed = seed
		alone := newHarness(t, s)
		alone.connect(s, always(autoscaler.Connection{Provider: alone.cloud}))
		alone.ca.Run(20 * time.Minute)
		s = disturbed()
		s.seed, s.sidecar.DryRun = seed, true
		watched := newHarness(t, s)
		watched.ca.Run(20 * time.Minute)
		got, want := watched.changes(), alone.changes()
		if !slices.Equal(got, want) || len(want) < 4 {
			t.Errorf("seed %d: with the sidecar\n%s\nwithout\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		would := slices.ContainsFunc(watched.front.Status().Decisions, func(d steering.Decision) bool {
			return d.Call == "BestOptions" && strings.HasPrefix(d.Reason, "would: ")
		})
		if !would {
			t.Errorf("seed %d: nothing is told of what would be done\n%s", seed, watched.log())
		}
		mode("DryRun", "--dry-run")(t, watched)
	}
}

// When the sidecar is removed, Cluster Autoscaler is started anew and talks to the cloud itself.
// What it orders then is what it orders after any restart: nothing where the nodes are there, and
// no more than it would have forgotten alone.
func TestTheSidecarIsRemoved(t *testing.T) {
	removed := func(s setup, when func(*harness) bool) (sizes []int, w *harness) {
		w = newHarness(t, s)
		direct := false
		w.connect(s, func(process int) autoscaler.Connection {
			c := w.unasked(process)
			c.Expander = w.front
			if direct {
				c.Provider, c.Expander = w.cloud, nil
			}
			return c
		})
		for !when(w) {
			w.ca.Step()
		}
		direct = true
		restart(w)
		return w.settle(time.Hour).Sizes(), w
	}
	ready := func(w *harness) bool { s := w.ca.State(); return s.Ordered() == 30 && s.Pending == 0 }
	if got, w := removed(ten(), ready); !slices.Equal(got, []int{10, 10, 10}) {
		t.Errorf("at rest: sizes %v\n%s", got, w.log())
	}
	for grants := 1; grants <= 3; grants++ {
		got, w := removed(ten(), func(w *harness) bool { return w.ca.saw(fake.MethodIncreaseSize) == grants })
		forgotten := 10 * grants
		if n := total(got); n < 30 || n > 30+forgotten {
			t.Errorf("after %d grants: sizes %v\n%s", grants, got, w.log())
		}
	}
}

// Cluster Autoscaler takes an unanswered question for its groups for the end of all groups, and
// with them of all it has asked for. A sidecar that starts while the cloud cannot be read has to
// allow for that: what it has ordered counts for a while, and pods run soon.
func TestTheSidecarRestartsWithinALoop(t *testing.T) {
	s := ten()
	increases, refreshes, down := 0, 0, false
	s.fault = func(w *harness, c caCall) callFault {
		switch {
		case c.Method == fake.MethodIncreaseSize:
			increases++
		case c.Method == fake.MethodRefresh:
			down = false
			if increases == 2 {
				refreshes++
			}
		case c.Method == fake.MethodNodeGroups && refreshes == 1 && !down:
			down = true
			w.startSidecar(&shifting{Cloud: w.cloud, broken: func(m string, _ string) bool { return down && m == fake.MethodNodeGroups }})
		}
		return callFault{}
	}
	if got, w := (trial{setup: s}).run(t); total(got) > 40 || slices.Min(got) < 10 {
		t.Errorf("sizes %v\n%s", got, w.log())
	}
}

// TestInferredReadiness: without a watch of nodes the sizes are the same.
func TestInferredReadiness(t *testing.T) {
	out := func(mode string, failAfter time.Duration) func(*setup) {
		return func(s *setup) {
			s.cloud.StockOuts = []v1alpha1.StockOut{{Groups: []string{"b"}, Mode: mode, FailAfter: lasting(failAfter)}}
		}
	}
	tests := map[string]struct {
		change func(*setup)
		want   []int
	}{
		"uneven sizes":   {func(s *setup) { s.cloud.Groups = slow(zones(1, 3, 6)) }, []int{13, 13, 14}},
		"one refuses":    {out(v1alpha1.StockOutRefuse, 0), []int{15, 0, 15}},
		"one fails late": {out(v1alpha1.StockOutFail, 5*time.Second), []int{15, 0, 15}},
		"one is silent":  {out(v1alpha1.StockOutSilent, 0), []int{15, 0, 15}},
		"autoscaler restarts after the last grant": {func(s *setup) { s.fault = crashAfter(3) }, []int{10, 10, 10}},
		"sidecar restarts after the first grant":   {func(s *setup) { s.fault = after(1, func(w *harness) { inferred(w) }) }, []int{10, 10, 10}},
		"sidecar restarts after the second grant":  {func(s *setup) { s.fault = after(2, func(w *harness) { inferred(w) }) }, []int{10, 10, 10}},
		"an answer is lost":                        {func(s *setup) { s.fault = lose(1) }, []int{10, 10, 10}},
		"sidecar restarts among ready nodes": {func(s *setup) { s.batches = append(s.batches, late(9)); s.fault = after(3, inferred) },
			[]int{13, 13, 13}},
		"autoscaler restarts among ready nodes": {restartAmongReady, []int{13, 13, 13}},
		"a second need while nodes become ready": {func(s *setup) {
			s.batches = append(s.batches, batch{At: 80 * time.Second, Pods: podsOf("more", 9, 1)})
		}, []int{13, 13, 13}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := ten()
			tt.change(&s)
			got, w := trial{setup: s, prepare: inferred}.run(t)
			if !slices.Equal(sorted(got), sorted(tt.want)) {
				t.Errorf("sizes %v, want %v\n%s", got, tt.want, w.log())
			}
		})
	}
}

// restartAmongReady restarts Cluster Autoscaler when some nodes are ready and more are needed.
func restartAmongReady(s *setup) {
	s.batches = append(s.batches, late(9))
	done := false
	s.fault = func(w *harness, c caCall) callFault {
		if done || w.clock.Since(start) < late(0).At {
			return callFault{}
		}
		done = true
		return callFault{Crash: true}
	}
}

// Cluster Autoscaler gives a request up before the sidecar does, where --max-node-provision-time
// differs: it takes back all it has asked for, and what is there stays.
func TestARequestTimesOut(t *testing.T) {
	s := ten()
	s.ca.ProvisionTime = 5 * time.Minute
	s.cloud.StockOuts = []v1alpha1.StockOut{{Groups: []string{"a"}, Mode: v1alpha1.StockOutSilent, Left: 4}}
	w := newHarness(t, s)
	state := w.settle(2 * time.Hour)
	if got := state.Sizes(); !slices.Equal(got, []int{4, 13, 13}) || state.Pending > 0 {
		t.Errorf("sizes %v, %d pods pending\n%s", got, state.Pending, w.log())
	}
	for _, c := range w.ca.changes {
		if c.Method == fake.MethodDecreaseTargetSize && (c.Delta != -30 || c.Err != nil) {
			t.Errorf("%s", c)
		}
	}
	if w.ca.saw(fake.MethodDecreaseTargetSize) == 0 {
		t.Errorf("nothing was taken back\n%s", w.log())
	}
}
