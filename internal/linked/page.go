package linked

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// pageStatus is all that the page shows. As JSON it is for programs; every list is in a stable
// order and never null.
type pageStatus struct {
	page.Common
	Time         time.Time            `json:"time"`
	Compared     *pageComparison      `json:"compared,omitempty"` // missing until node groups were compared first
	Sets         []pageSet            `json:"sets"`               // all sets, also those of one group
	Incomparable []problem            `json:"incomparable"`
	Splits       []splitDecision      `json:"splits"` // newest first
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

type pageScaleDown struct {
	Time    time.Time        `json:"time,omitzero"` // of the last round
	Waiting []nodeDecision   `json:"waiting"`       // in the last round
	Rounds  []shrinkDecision `json:"rounds"`        // that removed nodes or let others wait than before; newest first
}

// ServeHTTP shows which node groups are similar and how large they are, why others are not and what would join them, what was
// decided lately, and what is held back: as a page, as JSON, or as events.
func (j *Journal) ServeHTTP(w http.ResponseWriter, r *http.Request) { j.page.ServeHTTP(w, r) }

// status turns what is remembered into what is shown.
func (h history) status(now time.Time) pageStatus {
	s := pageStatus{
		Time: now, Sets: []pageSet{}, Incomparable: problems(h.compared.Failed), Splits: []splitDecision{},
		ScaleDown: pageScaleDown{Time: h.last.Time, Waiting: shownNodes(h.last.Waiting), Rounds: []shrinkDecision{}},
		Common:    page.Common{Server: "cluster-autoscaler", Checks: []page.Check{}, Advice: h.advice()},
	}
	s.Held = h.held(s.ScaleDown.Waiting)
	if d := h.shift; len(d.Shifted)+len(d.Ignored) > 0 {
		s.ZonalShift = &pageZonalShift{append([]zonalshift.Shifted{}, d.Shifted...), append([]zonalshift.Ignored{}, d.Ignored...)}
	}
	if c := h.compared; !c.Time.IsZero() {
		s.Compared = &pageComparison{Time: c.Time, Took: c.Took.String(), Groups: c.Groups, Changed: c.Changed}
	}
	for _, set := range h.compared.Sets {
		s.Sets = append(s.Sets, shownSet(set, h.sizes))
	}
	for _, split := range slices.Backward(h.splits) {
		s.Splits = append(s.Splits, split)
	}
	for _, round := range slices.Backward(h.rounds) {
		s.ScaleDown.Rounds = append(s.ScaleDown.Rounds, shrinkDecision{round.Time, shownNodes(round.Removed), shownNodes(round.Waiting)})
	}
	if explain := h.compared.Explain; explain != nil {
		report, err := explain()
		if err != nil {
			s.ReportError = err.Error()
		} else {
			s.Report = &report
		}
	}
	return s
}

// advice is what to do about groups that take no part.
func (h history) advice() []page.Advice {
	out := []page.Advice{}
	if n := len(h.sizes.Failed); n > 0 {
		out = append(out, page.Advise("EvenkeelLinkedGroupsLeftOut", "the size of "+spelling.Count(n, "node group")+" is not known"))
	}
	if n := len(h.compared.Failed); n > 0 {
		out = append(out, page.Advise("EvenkeelLinkedGroupsNotCompared", spelling.Count(n, "node group")+" cannot be compared"))
	}
	return out
}

// held is what is held back: groups in zones that are shifted away, groups whose size is not known, and nodes that may go and
// wait.
func (h history) held(waiting []nodeDecision) []page.Held {
	out := []page.Held{}
	for _, zone := range h.shift.Shifted {
		for _, group := range zone.Groups {
			out = append(out, page.Held{What: group, Since: zone.Since, Why: fmt.Sprintf("does not grow: %s is shifted away", zone.Domain)})
		}
	}
	for _, p := range problems(h.sizes.Failed) {
		out = append(out, page.Held{What: p.Group, Why: "takes no part in splits: " + p.Error})
	}
	for _, d := range waiting {
		out = append(out, page.Held{What: d.Node, Since: d.Since, Why: "is not removed: " + d.why()})
	}
	return out
}

// why says why a node waits.
func (d nodeDecision) why() string {
	switch d.Reason {
	case reasonLevel:
		return d.Behind + " shrinks first"
	case reasonLimit:
		return "as many as may go at once go"
	}
	return d.Reason
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

// shownNodes orders nodes by set and group, those that wait longest first.
func shownNodes(all []nodeDecision) []nodeDecision {
	out := append([]nodeDecision{}, all...)
	slices.SortStableFunc(out, func(a, b nodeDecision) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Group, b.Group), a.Since.Compare(b.Since), cmp.Compare(a.Node, b.Node))
	})
	return out
}
