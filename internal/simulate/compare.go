package simulate

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Compare returns the differences between runs of one scenario: unchanged, with these options
// changed, and with further values of them. If one of the runs settles earlier, its final state counts
// up to the end of the last one, so that sums over time are for equal times.
func Compare(baseline, changed *v1alpha1.ScenarioReport, options []v1alpha1.ChangedOption,
	further ...*v1alpha1.ScenarioReport) *v1alpha1.ScenarioComparison {
	c := &v1alpha1.ScenarioComparison{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindScenarioComparison},
		ObjectMeta: baseline.ObjectMeta,
		Status:     v1alpha1.ScenarioComparisonStatus{Options: options, Baseline: baseline.Status, Changed: changed.Status},
	}
	left, right := &c.Status.Baseline, &c.Status.Changed
	end := max(left.End.Duration, right.End.Duration)
	for _, r := range further {
		c.Status.Further = append(c.Status.Further, r.Status)
		end = max(end, r.Status.End.Duration)
	}
	for _, f := range figures {
		a, b := f.of(left, end), f.of(right, end)
		if a == "" || b == "" {
			continue
		}
		row := v1alpha1.ComparedFigure{Name: f.name, Baseline: a, Changed: b, Difference: decimal(new(big.Rat).Sub(rational(b), rational(a)))}
		for i := range c.Status.Further {
			row.Further = append(row.Further, f.of(&c.Status.Further[i], end))
		}
		c.Status.Figures = append(c.Status.Figures, row)
	}
	for i, g := range left.Groups { // all list the groups of the scenario sorted by name
		after := right.Groups[i].After
		row := v1alpha1.ComparedGroup{Name: g.Name, Zone: g.Zone, Before: g.Before, Baseline: g.After, Changed: after,
			Difference: after - g.After}
		for k := range c.Status.Further {
			row.Further = append(row.Further, c.Status.Further[k].Groups[i].After)
		}
		c.Status.Groups = append(c.Status.Groups, row)
	}
	return c
}

// runStatus is what a report says about a run.
type runStatus = v1alpha1.ScenarioReportStatus

// figures are the compared figures; an empty number omits a figure.
var figures = []struct {
	name string
	of   func(s *runStatus, end time.Duration) json.Number
}{
	{"nodesOrdered", func(s *runStatus, _ time.Duration) json.Number { return whole(s.NodesOrdered) }},
	{"nodesRemoved", func(s *runStatus, _ time.Duration) json.Number { return whole(s.NodesRemoved) }},
	{"nodesAtEnd", func(s *runStatus, _ time.Duration) json.Number {
		nodes := 0
		for _, g := range s.Groups {
			nodes += g.After
		}
		return whole(nodes)
	}},
	{"nodesReadyAtMost", func(s *runStatus, _ time.Duration) json.Number {
		nodes := 0
		for _, row := range s.History {
			nodes = max(nodes, row.Nodes)
		}
		return whole(nodes)
	}},
	{"nodesOrderedUnused", func(s *runStatus, _ time.Duration) json.Number {
		unused := 0
		for i := range s.Nodes {
			if n := &s.Nodes[i]; n.Ordered != nil && n.Ready != nil && n.PodsAtMost == 0 {
				unused++
			}
		}
		return whole(unused)
	}},
	{"nodeHours", nodeHours},
	{"scaleUps", func(s *runStatus, _ time.Duration) json.Number { return whole(s.ScaleUps) }},
	{"increases", func(s *runStatus, _ time.Duration) json.Number {
		return whole(sumOf(s, v1alpha1.RowScaleUp, func(row *v1alpha1.TimelineRow) int { return len(row.Groups) }))
	}},
	{"cloudCalls", func(s *runStatus, _ time.Duration) json.Number { return whole(s.CloudCalls) }},
	{"podsMovedByScaleDown", func(s *runStatus, _ time.Duration) json.Number {
		return whole(sumOf(s, v1alpha1.RowScaleDown, func(row *v1alpha1.TimelineRow) int { return row.Pods }))
	}},
	{"podsEvicted", func(s *runStatus, _ time.Duration) json.Number {
		return whole(sumOf(s, v1alpha1.RowPods, func(row *v1alpha1.TimelineRow) int {
			if row.Reason != v1alpha1.PodsEvicted && row.Reason != v1alpha1.PodsPreempted {
				return 0
			}
			return row.Pods
		}))
	}},
	{"podsRunning", func(s *runStatus, _ time.Duration) json.Number { return whole(s.Running) }},
	{"podsPending", func(s *runStatus, _ time.Duration) json.Number { return whole(s.Pending) }},
	{"pendingPodSeconds", func(s *runStatus, end time.Duration) json.Number {
		more := time.Duration(s.Pending) * (end - s.End.Duration).Round(time.Second)
		return whole(int(s.PendingTime.PodSeconds + int64(more/time.Second)))
	}},
	{"pendingSecondsMedian", func(s *runStatus, _ time.Duration) json.Number { return inSeconds(s.PendingTime.Median) }},
	{"pendingSecondsP99", func(s *runStatus, _ time.Duration) json.Number { return inSeconds(s.PendingTime.P99) }},
	{"pendingSecondsLongest", func(s *runStatus, _ time.Duration) json.Number { return inSeconds(s.PendingTime.Longest) }},
	{"unevennessLargest", func(s *runStatus, _ time.Duration) json.Number { return whole(s.Unevenness.Largest) }},
	{"unevennessMean", meanUnevenness},
	{"unevennessAtEnd", func(s *runStatus, _ time.Duration) json.Number {
		worst := 0
		for _, set := range s.Unevenness.Sets {
			worst = max(worst, set.End)
		}
		return whole(worst)
	}},
	{"costTotal", totalCost},
	{"costPerHourAtEnd", func(s *runStatus, _ time.Duration) json.Number {
		if s.Cost == nil {
			return ""
		}
		return s.Cost.PerHour
	}},
}

// sumOf adds up what rows of one kind say.
func sumOf(s *runStatus, what string, of func(*v1alpha1.TimelineRow) int) (n int) {
	for i := range s.Timeline {
		if row := &s.Timeline[i]; row.What == what {
			n += of(row)
		}
	}
	return n
}

// nodeHours is the time that ready nodes were there, added up.
func nodeHours(s *runStatus, end time.Duration) json.Number {
	var sum time.Duration
	for i, row := range s.History {
		sum += time.Duration(row.Nodes) * rowLasted(s.History, i, end)
	}
	return decimal(big.NewRat(int64(sum), int64(time.Hour)))
}

func meanUnevenness(s *runStatus, end time.Duration) json.Number {
	if end == 0 || len(s.History) == 0 {
		return s.Unevenness.Mean
	}
	p := spread{}
	for i, row := range s.History {
		p.area += int64(row.Unevenness) * rowLasted(s.History, i, end).Milliseconds()
	}
	return p.mean(end.Milliseconds())
}

func totalCost(s *runStatus, end time.Duration) json.Number {
	if s.Cost == nil {
		return ""
	}
	more := big.NewRat(int64(end-s.End.Duration), int64(time.Hour))
	more.Mul(more, rational(s.Cost.PerHour))
	return decimal(more.Add(more, rational(s.Cost.Total)))
}

func whole(n int) json.Number { return json.Number(strconv.Itoa(n)) }

func inSeconds(d metav1.Duration) json.Number {
	return decimal(big.NewRat(int64(d.Duration), int64(time.Second)))
}

// rational parses a number of a report; invalid ones count as zero.
func rational(n json.Number) *big.Rat {
	if r, ok := new(big.Rat).SetString(n.String()); ok {
		return r
	}
	return new(big.Rat)
}

// decimal formats a number with up to six decimals.
func decimal(r *big.Rat) json.Number {
	text := r.FloatString(6)
	if strings.Trim(text, "-0.") == "" {
		return "0"
	}
	return json.Number(trimZeros(text))
}
