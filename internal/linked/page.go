package linked

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// pageStatus is all that the page shows. As JSON it is for programs; every list is in a stable
// order and never null.
type pageStatus struct {
	Time         time.Time            `json:"time"`
	Compared     *pageComparison      `json:"compared,omitempty"` // missing until node groups were compared first
	Sets         []pageSet            `json:"sets"`               // all sets, also those of one group
	Incomparable []pageProblem        `json:"incomparable"`
	Splits       []pageSplit          `json:"splits"` // newest first
	ScaleDown    pageScaleDown        `json:"scaleDown"`
	ZonalShift   *pageZonalShift      `json:"zonalShift,omitempty"` // missing while no zone is shifted away
	Report       *nodegroupset.Report `json:"report,omitempty"`
	ReportError  string               `json:"reportError,omitempty"`
}

type pageZonalShift struct {
	Shifted []zonalshift.Shifted `json:"shifted"`
	Ignored []zonalshift.Ignored `json:"ignored"`
}

type pageComparison struct {
	Time    time.Time `json:"time"`
	Took    string    `json:"took"`
	Groups  int       `json:"groups"`
	Changed int       `json:"changed"`
}

type pageSet struct {
	Groups []pageGroup `json:"groups"`
	Spread int         `json:"spread"` // between the sizes that are known
}

type pageGroup struct {
	Name  string `json:"name"`
	Size  *int   `json:"size,omitempty"` // target size at the end of the last loop; missing where it is not known
	Error string `json:"error,omitempty"`
}

type pageProblem struct {
	Group string `json:"group"`
	Error string `json:"error"`
}

type pageSplit struct {
	Time     time.Time     `json:"time"`
	Chosen   string        `json:"chosen"`
	Need     int           `json:"need"`
	Asked    int           `json:"asked"`
	Given    int64         `json:"given"`
	Unplaced int           `json:"unplaced"`
	Pods     int           `json:"pods,omitempty"`     // planned for all pods at once: those that have room then
	PodsLeft int           `json:"podsLeft,omitempty"` // and those that do not
	Groups   []pageMember  `json:"groups"`
	LeftOut  []pageProblem `json:"leftOut"`
	Quotas   []string      `json:"quotas"`
}

type pageMember struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	NewSize int64  `json:"newSize"`
	Why     string `json:"why,omitempty"` // what held it where it is
}

type pageScaleDown struct {
	Time    time.Time        `json:"time,omitzero"` // of the last round
	Waiting []nodeDecision   `json:"waiting"`       // in the last round
	Rounds  []shrinkDecision `json:"rounds"`        // that removed nodes or let others wait than before; newest first
}

// status turns what is remembered into what is shown.
func (h history) status(now time.Time) pageStatus {
	s := pageStatus{
		Time: now, Sets: []pageSet{}, Incomparable: problems(h.compared.is.Failed), Splits: []pageSplit{},
		ScaleDown: pageScaleDown{Time: h.last.Time, Waiting: shownNodes(h.last.Waiting), Rounds: []shrinkDecision{}},
	}
	if d := h.shift; len(d.Shifted)+len(d.Ignored) > 0 {
		s.ZonalShift = &pageZonalShift{append([]zonalshift.Shifted{}, d.Shifted...), append([]zonalshift.Ignored{}, d.Ignored...)}
	}
	if c := h.compared; !c.at.IsZero() {
		s.Compared = &pageComparison{Time: c.at, Took: c.is.Took.String(), Groups: c.is.Groups, Changed: c.is.Changed}
	}
	for _, set := range h.compared.is.Sets {
		s.Sets = append(s.Sets, shownSet(set, h.sizes.is))
	}
	for _, split := range slices.Backward(h.splits) {
		s.Splits = append(s.Splits, shownSplit(split))
	}
	for _, round := range slices.Backward(h.rounds) {
		s.ScaleDown.Rounds = append(s.ScaleDown.Rounds, shrinkDecision{round.Time, shownNodes(round.Removed), shownNodes(round.Waiting)})
	}
	if explain := h.compared.is.Explain; explain != nil {
		report, err := explain()
		if err != nil {
			s.ReportError = err.Error()
		} else {
			s.Report = &report
		}
	}
	return s
}

func shownSet(set []string, sizes sizeReading) pageSet {
	out := pageSet{Spread: spread(set, sizes.Sizes)}
	for _, id := range set {
		group := pageGroup{Name: id, Error: sizes.Failed[id]}
		if size, known := sizes.Sizes[id]; known {
			group.Size = &size
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

func shownSplit(d dated[splitDecision]) pageSplit {
	out := pageSplit{
		Time: d.at, Chosen: d.is.Chosen, Need: d.is.Need, Asked: d.is.Asked, Given: d.is.nodes(),
		Unplaced: d.is.Unplaced, Pods: d.is.Pods, PodsLeft: d.is.PodsLeft,
		Groups: []pageMember{}, LeftOut: problems(d.is.Failed), Quotas: append([]string{}, d.is.Quotas...),
	}
	for _, g := range d.is.Groups {
		out.Groups = append(out.Groups, pageMember{Name: g.Name, Size: g.Size, NewSize: g.NewSize, Why: held(g)})
	}
	return out
}

// shownNodes orders nodes by set and group, those that wait longest first.
func shownNodes(all []nodeDecision) []nodeDecision {
	out := append([]nodeDecision{}, all...)
	slices.SortStableFunc(out, func(a, b nodeDecision) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Group, b.Group), a.Since.Compare(b.Since), cmp.Compare(a.Node, b.Node))
	})
	return out
}

// problems are errors by group, in name order.
func problems(failed map[string]string) []pageProblem {
	out := []pageProblem{}
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		out = append(out, pageProblem{id, failed[id]})
	}
	return out
}
