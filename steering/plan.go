package steering

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/podfit"
)

// planned is what is left of what Cluster Autoscaler has asked for: in the split in progress, and in this
// loop.
type planned struct {
	current  *plan
	question *question          // the last of this loop
	withheld question           // what the last loop's question did not get
	uneven   map[string]*uneven // sets, by first member
	sizes    map[string]int     // of groups when uneven sets were last looked for
	sets     []string           // of two and more groups, at that time, by first member
}

// plan is a split in progress. One member grows per loop of Cluster Autoscaler. What has a name in the
// journal survives the process; the pods that it was begun for do not.
type plan struct {
	Since   time.Time `json:"since"`
	Chosen  string    `json:"chosen"`
	why     string
	need    int // nodes of the split when it began
	granted int
	Left    int                `json:"left"`
	pods    map[types.UID]bool // that were pending when it began; nil if not known any more
	members []PlanMember
}

// has reports whether the group is a member of the split in progress.
func (p *plan) has(id string) bool {
	return p != nil && slices.ContainsFunc(p.members, func(m PlanMember) bool { return m.Name == id })
}

// leftFor returns how many nodes the split still has for a group with a given target size.
func (p *plan) leftFor(id string, target int) int {
	for _, m := range p.members {
		if m.Name == id {
			return max(0, m.NewSize-target)
		}
	}
	return 0
}

// question is what Cluster Autoscaler has asked for and not got.
type question struct {
	nodes, pods int
	asked       int      // nodes at first
	sets        []string // any of which may get them, by first member
}

// noticeAsked notes what Cluster Autoscaler asks for now.
func (c *choice) noticeAsked() {
	c.s.plan.question = nil
	if !c.s.HidesFailures() {
		return
	}
	var all split
	for _, name := range c.names {
		m := member{option: *c.options[name]}
		m.Name = name
		all.members = append(all.members, m)
	}
	nodes := all.asked()
	c.s.plan.question = &question{nodes: nodes, asked: nodes, pods: len(c.podsOf(c.names)), sets: c.setsOf()}
	c.notePinned(c.names)
}

// setsOf are the sets of the options.
func (c *choice) setsOf() (out []string) {
	for _, name := range c.names {
		if !slices.Contains(out, c.s.set(name)) {
			out = append(out, c.s.set(name))
		}
	}
	return out
}

// notePinned notes which members of the sets of groups that may grow have no option because none of the pods
// may run there.
func (c *choice) notePinned(names []string) {
	nowhere := map[string]bool{}
	for _, name := range names {
		if c.options[name] == nil {
			continue
		}
		for _, other := range c.similarTo(name) {
			if is, known := nowhere[other]; known && !is {
				continue
			}
			template := c.template(other)
			may := c.options[other] != nil || template == nil || slices.ContainsFunc(c.options[name].Pods, func(i int) bool {
				return podfit.RulesOf(c.request.Pods[i]).Select(template)
			})
			nowhere[other] = !may
		}
	}
	for id, is := range nowhere {
		c.s.state(id).pinned = is
	}
}

// noteWithheld notes what the questions of the loop that has ended did not get.
func (s *State) noteWithheld() {
	s.plan.withheld = question{}
	if q := s.plan.question; q != nil && q.nodes > 0 {
		s.plan.withheld = question{nodes: q.nodes, pods: ceilDiv(q.pods*q.nodes, q.asked), sets: q.sets}
	}
	s.plan.question = nil
}

// Why the pods themselves want members of different sizes.
const (
	boundTo = "some pods can run on some members only"
	pinned  = "no pod that needed nodes can run there"
	sparse  = "its nodes take fewer of the pods that needed some"
)

// held returns what kept a member from growing in the split.
func (s *split) held(m PlanMember) string {
	switch {
	case m.Why != "":
		return m.Why
	case s.bound:
		return boundTo
	}
	return ""
}
