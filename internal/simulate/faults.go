package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// faults are the faults of a scenario, to report which of them caused an event.
type faults struct {
	all     []v1alpha1.FaultReport
	zonesOf map[string][]string // by group
}

func newFaults(c *fake.Config, shifts []zonalshift.Mark) faults {
	f := faults{zonesOf: map[string][]string{}}
	for i := range c.Groups {
		f.zonesOf[c.Groups[i].ID] = c.Groups[i].ZoneNames()
	}
	for _, s := range c.StockOuts {
		f.all = append(f.all, v1alpha1.FaultReport{
			Kind: v1alpha1.FaultStockOut, Mode: cmp.Or(s.Mode, v1alpha1.StockOutRefuse), Groups: s.Groups, Zones: s.Zones,
			FaultWindow: s.FaultWindow,
		})
	}
	for _, o := range c.Outages {
		f.all = append(f.all, v1alpha1.FaultReport{
			Kind: v1alpha1.FaultOutage, Mode: cmp.Or(o.Mode, v1alpha1.OutageUnready), Zones: o.Zones, FaultWindow: o.FaultWindow,
		})
	}
	for _, call := range c.Calls {
		f.all = append(f.all, v1alpha1.FaultReport{
			Kind: v1alpha1.FaultCall, Methods: call.Methods, Groups: call.Groups, Delay: call.Delay, Error: call.Error,
			FaultWindow: call.FaultWindow,
		})
	}
	f.all = append(f.all, reportedShifts(shifts)...)
	return f
}

// ofCloud reports whether the cloud has fewer machines.
func ofCloud(r *v1alpha1.FaultReport) bool {
	return r.Kind == v1alpha1.FaultStockOut || r.Kind == v1alpha1.FaultOutage
}

// on are the stock-outs and outages of a group.
func (f *faults) on(at time.Duration, group string) []int {
	return f.positions(at, func(r *v1alpha1.FaultReport) bool {
		return ofCloud(r) && f.strikes(r, group)
	})
}

// outages are those of the zones of any of these groups.
func (f *faults) outages(at time.Duration, groups ...string) []int {
	return f.positions(at, func(r *v1alpha1.FaultReport) bool {
		return r.Kind == v1alpha1.FaultOutage && slices.ContainsFunc(groups, func(g string) bool { return f.strikes(r, g) })
	})
}

// behind returns the faults that caused an error of the cloud for these groups or, without groups,
// for all.
func (f *faults) behind(at time.Duration, err error, groups ...string) []int {
	return f.positions(at, func(r *v1alpha1.FaultReport) bool {
		caused := ofCloud(r) && errors.Is(err, cloudprovider.ErrOutOfResources) ||
			r.Kind == v1alpha1.FaultCall && r.Error != "" && strings.Contains(err.Error(), r.Error)
		return caused && (len(groups) == 0 || slices.ContainsFunc(groups, func(g string) bool { return f.strikes(r, g) }))
	})
}

func (f *faults) positions(at time.Duration, wanted func(*v1alpha1.FaultReport) bool) []int {
	var found []int
	for i := range f.all {
		r := &f.all[i]
		if r.Contains(at) && wanted(r) {
			found = append(found, i)
		}
	}
	return found
}

func (f *faults) strikes(r *v1alpha1.FaultReport, group string) bool {
	return len(r.Groups)+len(r.Zones) == 0 || slices.Contains(r.Groups, group) ||
		slices.ContainsFunc(f.zonesOf[group], func(zone string) bool { return slices.Contains(r.Zones, zone) })
}

// vanishes reports whether an outage removes nodes of a group now.
func (f *faults) vanishes(at time.Duration, group string) bool {
	return slices.ContainsFunc(f.outages(at, group), func(i int) bool { return f.all[i].Mode == v1alpha1.OutageVanish })
}

// reportedShifts are the shifts as they are reported among the faults.
func reportedShifts(marks []zonalshift.Mark) []v1alpha1.FaultReport {
	var all []v1alpha1.FaultReport
	for _, m := range marks {
		row := v1alpha1.FaultReport{
			Kind: v1alpha1.FaultZonalShift, Zones: []string{m.Value}, Reason: m.Reason,
			FaultWindow: v1alpha1.FaultWindow{From: metav1.Duration{Duration: m.Since.Sub(epoch)}},
		}
		if m.Key != zonalshift.Zone("").Key {
			row.TopologyKey = m.Key
		}
		if !m.Until.IsZero() {
			row.Until = &metav1.Duration{Duration: m.Until.Sub(epoch)}
		}
		all = append(all, row)
	}
	return all
}

// shiftsNow are the zones that users have shifted away by now.
func (s *simulation) shiftsNow() []zonalshift.Mark {
	now := s.clock.Now()
	marks, _ := partition(s.setup.Shifts, func(m zonalshift.Mark) bool {
		return !m.Since.After(now) &&
			(m.Until.IsZero() || m.Until.After(now))
	})
	return marks
}

// shiftEdges are the instants at which shifts begin and end.
func shiftEdges(marks []zonalshift.Mark) []time.Time {
	var at []time.Time
	for _, m := range marks {
		at = append(at, m.Since)
		if !m.Until.IsZero() {
			at = append(at, m.Until)
		}
	}
	return at
}

// narrateShift reports which zones are shifted away now, which have come back, and which shifts
// have no effect.
func (s *simulation) narrateShift(at time.Duration, r *autoscaler.ScaleUp) {
	shift := &r.Survey.Shift
	for i := range shift.Began {
		began := &shift.Began[i]
		text, until := began.String(), (*metav1.Duration)(nil)
		if !began.Until.IsZero() {
			until = &metav1.Duration{Duration: began.Until.Sub(epoch)}
			text += fmt.Sprintf(", until +%s", until.Duration)
		}
		row := s.timeline.add(at, v1alpha1.RowZoneShifted, "%s", text)
		row.Domain, row.Until, row.Reason = began.Value, until, began.Reason
		for _, name := range began.Groups {
			row.Groups = append(row.Groups, v1alpha1.GroupChange{Name: name})
		}
	}
	for _, ended := range shift.Ended {
		row := s.timeline.add(at, v1alpha1.RowZoneReturned, "%s has come back: %s", ended.Domain, ended.Reason)
		row.Domain, row.Reason = ended.Value, ended.Reason
	}
	for _, ignored := range shift.Ignored {
		s.timeline.once(at, v1alpha1.RowWarning, ignored.String()).Reason = ignored.Reason
	}
}
