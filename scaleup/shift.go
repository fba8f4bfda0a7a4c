package scaleup

import (
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// shift finds out which groups neither grow nor shrink because their zone, or that of another member
// of their set, is shifted away, and notes it in the world.
func (s *Scaler) shift(w *World, marks []zonalshift.Mark) error {
	if len(marks) == 0 && !s.shifts.Watches() {
		return nil
	}
	set, err := s.setsOf(w)
	if err != nil {
		return err
	}
	terms := s.opts.terms(w)
	groups := make([]zonalshift.Group, 0, len(w.Groups))
	for i := range w.Groups {
		g := &w.Groups[i]
		if g.Template == nil {
			continue
		}
		groups = append(groups, zonalshift.Group{
			Name: g.ID, Set: set[g.ID], Portion: terms[g.ID].PortionOf(g.ID), Labels: g.Template.Node.Labels, Size: g.Target, Max: g.Max,
			Ready: g.Ready, NotReady: g.Unready, Refuses: !g.BackedOffUntil.IsZero(),
		})
	}
	w.Shift = s.shifts.Advance(w.Now, marks, groups)
	s.away = w.Shift.Away
	for i := range w.Groups {
		g := &w.Groups[i]
		g.Away, g.Held, g.Lag = w.Shift.Away[g.ID], w.Shift.Held[g.ID], w.Shift.Lag[g.ID]
	}
	return nil
}

// setsOf are the sets of all groups with a template, those that cannot grow included: the first
// member of each group that is not alone.
func (s *Scaler) setsOf(w *World) (map[string]string, error) {
	index, err := nodegroupset.NewIndex(s.opts.Similarity)
	if err != nil || s.opts.DisableBalancing {
		return nil, err
	}
	for i := range w.Groups {
		if g := &w.Groups[i]; g.Template != nil && !g.AllOrNothing {
			if index.Set(g.ID, *g.Template) != nil {
				index.Delete(g.ID) // it is in no set; the plan reports what is wrong with it
			}
		}
	}
	return nodegroupset.FirstOf(index.Sets()), nil
}
