package simulate

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// zonalShiftOptions converts the options of the document. The package itself checks them.
func zonalShiftOptions(o *v1alpha1.ZonalShiftOptions, at *field.Path) (zonalshift.Options, *field.Error) {
	pace := zonalshift.Pace{
		Interval: zonalshift.DefaultReturnInterval, Nodes: zonalshift.DefaultReturnNodes, Percentage: zonalshift.DefaultReturnPercentage,
	}
	setDuration(&pace.Interval, o.ZonalShiftReturnInterval)
	for _, number := range []struct {
		to   *int
		from *int32
	}{{&pace.Nodes, o.ZonalShiftReturnNodes}, {&pace.Percentage, o.ZonalShiftReturnPercentage}} {
		if number.from != nil {
			*number.to = int(*number.from)
		}
	}
	out := zonalshift.Options{Pace: &pace, Detect: zonalshift.Detect{
		UnreadyPercentage: int(o.ZonalShiftDetectUnreadyPercentage), Refusals: o.ZonalShiftDetectRefusals,
	}}
	setDuration(&out.Detect.After, o.ZonalShiftDetectAfter)
	setDuration(&out.Detect.Calm, o.ZonalShiftDetectCalm)
	if _, err := zonalshift.New(out); err != nil {
		var wrong *apportion.InvalidError
		if errors.As(err, &wrong) {
			return out, field.Invalid(at.Child(zonalshift.OptionName(wrong.Path)), fmt.Sprint(wrong.Value), wrong.Reason)
		}
		return out, field.Invalid(at, field.OmitValueType{}, err.Error())
	}
	return out, nil
}

// zonalShifts are the shifts of a scenario, already checked, as users mark them.
func zonalShifts(faults []v1alpha1.ScenarioZonalShift) []zonalshift.Mark {
	var marks []zonalshift.Mark
	for i := range faults {
		f := &faults[i]
		for _, zone := range f.Zones {
			m := zonalshift.Mark{Domain: zonalshift.DomainOf(f.TopologyKey, zone), Reason: f.Reason, Since: epoch.Add(f.From.Duration)}
			if f.Until != nil {
				m.Until = epoch.Add(f.Until.Duration)
			}
			marks = append(marks, m)
		}
	}
	return marks
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
	var marks []zonalshift.Mark
	now := s.clock.Now()
	for _, m := range s.setup.Shifts {
		if !m.Since.After(now) && (m.Until.IsZero() || m.Until.After(now)) {
			marks = append(marks, m)
		}
	}
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
