package linked

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// ZonalShiftAnnotation on a Node shifts its zone away: with the value true until it is taken off, or
// with a time as in RFC 3339 until then.
const ZonalShiftAnnotation = "evenkeel.dev/zonal-shift"

// ZonalShift keeps node groups from growing while their zone is shifted away, and the members of
// their sets from shrinking. It is not safe for concurrent use.
type ZonalShift[G NodeGroup] struct {
	shifts   *zonalshift.Shifts
	setOf    func(group string) string
	termsOf  func(group string) *nodegroupset.Terms
	clock    clock.PassiveClock
	journal  *Journal
	decision zonalshift.Decision
	refused  map[string]bool // annotations that were logged
}

// NewZonalShift returns one without memory. The functions return the set of a group, empty for one
// that is alone, and how that shares nodes.
func NewZonalShift[G NodeGroup](setOf func(group string) string, termsOf func(group string) *nodegroupset.Terms, clock clock.PassiveClock,
	journal *Journal) (*ZonalShift[G], error) {
	shifts, err := zonalshift.New(zonalshift.Options{})
	if err != nil {
		return nil, err
	}
	return &ZonalShift[G]{shifts: shifts, setOf: setOf, termsOf: termsOf, clock: clock, journal: journal, refused: map[string]bool{}}, nil
}

// Look takes in the nodes, of which some may be annotated, and the node groups. The function returns
// the labels of a node of a group; nil where none is known.
func (z *ZonalShift[G]) Look(nodes []*v1.Node, cloud Cloud[G], labelsOf func(group string) map[string]string) {
	marks := z.marks(nodes)
	if len(marks) == 0 && !z.shifts.Watches() {
		return
	}
	var groups []zonalshift.Group
	for _, group := range cloud.NodeGroups() {
		size, err := group.TargetSize()
		if err != nil {
			size = 0 // it grows by no split, and counts for little
		}
		id := group.Id()
		groups = append(groups, zonalshift.Group{Name: id, Set: z.setOf(id), Portion: z.termsOf(id).PortionOf(id), Labels: labelsOf(id),
			Size: max(0, size), Max: max(0, group.MaxSize())})
	}
	z.decision = z.shifts.Advance(z.clock.Now(), marks, groups)
	if len(z.decision.Began)+len(z.decision.Ended)+len(z.decision.Ignored) > 0 {
		klog.InfoS("Zones are shifted away", "began", z.decision.Began, "ended", z.decision.Ended, "ignored", z.decision.Ignored)
	}
	z.journal.shifted(z.decision)
}

// marks are the zones of annotated nodes.
func (z *ZonalShift[G]) marks(nodes []*v1.Node) []zonalshift.Mark {
	var out []zonalshift.Mark
	for _, node := range nodes {
		value, annotated := node.Annotations[ZonalShiftAnnotation]
		zone := nodegroupset.ZoneOf(node)
		if !annotated || value == "false" || zone == "" {
			continue
		}
		m := zonalshift.Mark{Domain: zonalshift.Zone(zone), Reason: "annotation of node " + node.Name}
		if value != "true" {
			until, err := time.Parse(time.RFC3339, value)
			if err != nil {
				if key := node.Name + " " + value; !z.refused[key] {
					z.refused[key] = true
					klog.InfoS("Annotation is ignored: it must be true, false, or a time such as 2026-11-22T17:00:00Z", "node", node.Name, "annotation",
						ZonalShiftAnnotation, "value", value)
				}
				continue
			}
			m.Until = until
		}
		out = append(out, m)
	}
	return out
}

// Decision is what followed from the zones that were shifted away when they were last looked at.
func (z *ZonalShift[G]) Decision() zonalshift.Decision { return z.decision }

// Away says why a group must not grow; empty if it may.
func (z *ZonalShift[G]) Away(group string) string { return z.decision.Away[group] }

// Growing leaves out the groups that must not grow.
func (z *ZonalShift[G]) Growing(groups []G) []G {
	return slices.DeleteFunc(slices.Clone(groups), func(group G) bool { return z.Away(group.Id()) != "" })
}

// Lag is by how many nodes a group counts as larger in a split, since its zone has come back lately.
func (z *ZonalShift[G]) Lag(group string) int64 { return int64(z.decision.Lag[group]) }

// Removable leaves out the nodes of groups that must not shrink.
func (z *ZonalShift[G]) Removable(nodes []*v1.Node, cloud Cloud[G]) []*v1.Node {
	if len(z.decision.Held) == 0 {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(node *v1.Node) bool {
		group, ours := groupOf(cloud, node)
		return ours && z.decision.Held[group.Id()] != ""
	})
}

// raise makes groups count as larger in a split, and lower takes that back from its result.
func raise(request *nodegroupset.SplitRequest, lag func(group string) int64) (lower func(*nodegroupset.SplitResult)) {
	if lag == nil {
		return func(*nodegroupset.SplitResult) {}
	}
	by := map[string]int64{}
	for i := range request.Groups {
		g := &request.Groups[i]
		by[g.Name] = min(lag(g.Name), nodegroupset.MaxSize-max(g.Size, g.Max))
		g.Size, g.Max = g.Size+by[g.Name], g.Max+by[g.Name]
	}
	request.Quotas = slices.Clone(request.Quotas)
	for i := range request.Quotas {
		q := &request.Quotas[i]
		for k, name := range q.Groups {
			q.Limit += q.Units[k] * by[name]
		}
	}
	return func(result *nodegroupset.SplitResult) {
		for i := range result.Groups {
			g := &result.Groups[i]
			g.Size, g.NewSize = g.Size-by[g.Name], g.NewSize-by[g.Name]
		}
	}
}

// shifted records which zones are shifted away now.
func (j *Journal) shifted(d zonalshift.Decision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history.shift = d
	j.metrics.shifted(d)
	for i := range d.Began {
		began := &d.Began[i]
		j.announce(event{v1.EventTypeWarning, eventZoneShifted,
			fmt.Sprintf("%s: nothing grows there and no member of the sets shrinks: %s", began, shorten(began.Groups, strings.Clone))})
	}
	for _, ended := range d.Ended {
		j.announce(event{v1.EventTypeNormal, eventZoneReturned, fmt.Sprintf("%s has come back: %s", ended.Domain, ended.Reason)})
	}
}
