package simulate

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// moment is what a look at the simulation itself shows.
type moment struct {
	at                      time.Duration
	pending, running, ready int
	stranded                int // pods whose node does not respond
	sizes                   map[string]int
	cost                    cloudprovider.Price
	nodeOf                  map[string]string // of the pods that run
}

func look(t *rapid.T, s *simulation) moment {
	m := moment{at: s.elapsed(), sizes: map[string]int{}, nodeOf: map[string]string{}}
	for _, p := range s.cluster.pods {
		switch {
		case p.node == nil:
			m.pending++
			continue
		case !p.node.ready && (!p.node.leaving || !template.IsReady(p.node.object)): // pods run while their node is drained
			m.stranded++
			continue
		}
		m.running++
		m.nodeOf[p.object.Namespace+"/"+p.object.Name] = p.node.object.Name
	}
	for _, n := range s.cluster.nodes {
		if n.ready {
			m.ready++
		}
	}
	for _, g := range s.setup.Cloud.Groups {
		m.sizes[g.ID] = sizeOf(t, s, g.ID)
		machines, err := s.cloud.Nodes(t.Context(), g.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, machine := range machines {
			if machine.State == cloudprovider.InstanceRunning && machine.Error == nil {
				m.cost += g.PricePerHour
			}
		}
	}
	return m
}

// unevenness by the definition: of every set the largest less the smallest.
func (m moment) unevenness(sets [][]string) int {
	worst := 0
	for _, set := range sets {
		for _, a := range set {
			for _, b := range set {
				worst = max(worst, m.sizes[a]-m.sizes[b])
			}
		}
	}
	return worst
}

// TestHistoryIsWhatHappened: at every instant the report says the same as a look
// at the simulation, and its figures are the sums of these looks.
func TestHistoryIsWhatHappened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSetup(t)
		setup.Cloud.Calls = nil // so that the cloud can be asked
		for i := range setup.Cloud.Groups {
			g := &setup.Cloud.Groups[i]
			g.PricePerHour = cloudprovider.Price(rapid.IntRange(0, 3).Draw(t, "price")) * cloudprovider.PriceUnit / 4
			g.TerminationTime = 0 // what is deleted is gone and costs nothing
		}
		var moments []moment
		report := play(t, setup, func(s *simulation) {
			if n := len(moments); n > 0 && moments[n-1].at == s.elapsed() {
				moments = moments[:n-1]
			}
			moments = append(moments, look(t, s))
		})
		status := &report.Status
		podSeconds, area, cost, end := 0.0, 0.0, 0.0, status.End.Duration
		for i, m := range moments {
			next := end
			if i+1 < len(moments) {
				next = moments[i+1].at
			}
			lasts := (next - m.at).Seconds()
			podSeconds += float64(m.pending+m.stranded) * lasts
			area += float64(m.unevenness(status.Sets)) * lasts
			cost += float64(m.cost) / float64(cloudprovider.PriceUnit) * lasts / 3600
			checkMoment(t, status, m)
		}
		if got := float64(status.PendingTime.PodSeconds); math.Abs(got-podSeconds) > 1 {
			t.Errorf("%v pod-seconds, want %v", got, podSeconds)
		}
		if got, err := status.Unevenness.Mean.Float64(); err != nil || end > 0 && math.Abs(got-area/end.Seconds()) > 0.001 {
			t.Errorf("unevenness is %v on average, want %v (%v)", got, area/end.Seconds(), err)
		}
		if status.Cost == nil {
			if cost > 0 {
				t.Errorf("no cost, want %v", cost)
			}
		} else if got, err := status.Cost.Total.Float64(); err != nil || math.Abs(got-cost) > 1e-4 {
			t.Errorf("cost %v, want %v (%v)", got, cost, err)
		}
	})
}

// checkMoment holds the report against one look.
func checkMoment(t *rapid.T, status *v1alpha1.ScenarioReportStatus, m moment) {
	row := status.History[0]
	for _, later := range status.History {
		if later.At.Duration <= m.at {
			row = later
		}
	}
	if row.Pending != m.pending || row.Running != m.running || row.Nodes != m.ready || row.Unevenness != m.unevenness(status.Sets) {
		t.Errorf("+%s: %+v, and it is %+v", m.at, row, m)
	}
	for _, g := range status.Groups {
		size := g.Before
		for _, s := range g.Sizes {
			if s.At.Duration <= m.at {
				size = s.Target
			}
		}
		if size != m.sizes[g.Name] {
			t.Errorf("+%s: %s has %d nodes, and it is %d", m.at, g.Name, size, m.sizes[g.Name])
		}
	}
	holds := func(s v1alpha1.Span) bool { return s.From.Duration <= m.at && (s.To == nil || m.at < s.To.Duration) }
	for _, p := range status.Pods {
		on := ""
		for _, r := range p.Runs {
			if holds(r.Span) {
				on = r.Node
			}
		}
		if on != m.nodeOf[p.Name] {
			t.Errorf("+%s: pod %s runs on %q, and it is %q", m.at, p.Name, on, m.nodeOf[p.Name])
		}
	}
}

// TestNodesLiveInOrder: a node is ordered, created, ready and gone one after the
// other, as many were ordered as the groups say, and the rows of the timeline about
// nodes add up to them.
func TestNodesLiveInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		report := play(t, randomSetup(t), nil)
		status := &report.Status
		alive := map[string]int{}
		for _, n := range status.Nodes {
			times := []time.Duration{}
			for _, at := range []*time.Duration{durationIfGiven(n.Ordered), durationIfGiven(n.Created), durationIfGiven(n.Ready),
				durationIfGiven(n.Gone)} {
				if at != nil {
					times = append(times, *at)
				}
			}
			if !slices.IsSorted(times) {
				t.Errorf("node %s lives in the order %v", n.Name, times)
			}
			if n.Gone != nil && n.Removed == nil && n.Lost == nil || n.Gone == nil && n.Lost != nil {
				t.Errorf("node %s: removed %v, lost %v, gone %v", n.Name, n.Removed, n.Lost, n.Gone)
			}
			if n.Removed == nil && n.Gone == nil {
				alive[n.Group]++
			}
		}
		for _, g := range status.Groups {
			if alive[g.Name] > g.After {
				t.Errorf("%s has %d nodes at the end, and its size is %d", g.Name, alive[g.Name], g.After)
			}
		}
		grown, shrunk := map[string]int{}, map[string]int{}
		for _, row := range status.Timeline {
			for _, c := range row.Groups {
				if c.From != nil && *c.From != *c.To {
					grown[c.Name] += max(0, *c.To-*c.From)
					shrunk[c.Name] += max(0, *c.From-*c.To)
				}
			}
		}
		for _, g := range status.Groups {
			if grown[g.Name] != g.Ordered || shrunk[g.Name] > g.Removed {
				t.Errorf("%s: %d ordered and %d removed, its rows say %d and %d", g.Name, g.Ordered, g.Removed, grown[g.Name], shrunk[g.Name])
			}
		}
	})
}
