package steering

import (
	"fmt"
	"math"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// GroupSize is what is known of a group from elsewhere than its cloud: from the status that Cluster Autoscaler
// writes, or from the nodes there are.
type GroupSize struct {
	Name string
	// Target is the target size, or how many nodes there are.
	Target int
	// MinSize and MaxSize are the bounds; MaxSize is 0 if they are not known.
	MinSize, MaxSize int
	// Ready and Unready count registered nodes: those that are ready, and those that are not any more or have not
	// become so in time. Lost counts instances that have not become nodes in time.
	Ready, Unready, Lost int
	// BackedOff is why Cluster Autoscaler leaves the group alone; empty if it does not.
	BackedOff string
	// Refused reports that it does because the cloud has refused an increase, and not since nodes have not come.
	Refused bool
}

// Sizes are the sizes of all groups, for a state that is ExpanderOnly. Nodes of its own answers that they do not
// show yet are added.
type Sizes struct {
	// Began names the loop of Cluster Autoscaler whose sizes these are, by the time at which it began. Sizes of the
	// same loop change nothing.
	Began  time.Time
	Groups []GroupSize
	// Counted reports that nodes were counted, since there is no status: what is ordered shows only when it has come.
	Counted bool
}

func (e Sizes) apply(s *State) Answer {
	if !e.Counted && s.view != nil && !s.caller.counted && e.Began.Equal(s.view.At) {
		return Answer{}
	}
	v := &Cloud{At: e.Began, Groups: make(map[string]*Group, len(e.Groups))}
	for i := range e.Groups {
		v.Groups[e.Groups[i].Name] = s.sized(&e.Groups[i], e.Counted)
	}
	s.noticeOthers(v)
	s.caller.last = given{} // what others do from now on says nothing about that answer
	s.caller.counted = e.Counted
	for id, g := range v.Groups {
		b := s.state(id)
		over := e.Began.After(b.answeredAt) || b.statuses+1 >= answeredStatuses
		if e.Counted {
			over = s.now.Sub(b.answeredAt) >= s.o.MaxNodeProvisionTime
		}
		s.reported(g, over)
		g.Target, g.Revision = g.Reported.Target+b.ahead, b.revision
	}
	return LoopBegins{Began: s.now, Reading: v}.apply(s)
}

// sized makes a group of what is known of it.
func (s *State) sized(size *GroupSize, counted bool) *Group {
	g := &Group{NodeGroup: cloudprovider.NodeGroup{ID: size.Name, MinSize: size.MinSize, MaxSize: size.MaxSize}, Reported: size}
	if size.MaxSize == 0 && counted {
		g.MaxSize = math.MaxInt32
	}
	return g
}

// answeredStatuses is after how many statuses nodes of an answer do not count any more, whether they show or not. A status
// has the sizes of the end of its loop, so the first is that of the answer's loop, or still that of the loop before. Nodes
// that a cloud refuses never show.
const answeredStatuses = 2

// reported takes in the size of a group. What it shows of the nodes of earlier answers is not added any more, nor is
// anything when their time is over.
func (s *State) reported(g *Group, over bool) {
	b, size := s.state(g.ID), g.Reported
	if b.ahead > 0 {
		b.statuses++
		b.ahead -= min(b.ahead, max(0, size.Target-b.shown))
		if size.BackedOff != "" || over {
			b.ahead = 0
		}
	}
	lost := size.Lost - b.lost
	b.shown, b.lost = size.Target, size.Lost
	switch {
	case size.BackedOff != "":
		b.onTrial, b.readyBefore = b.onTrial || !size.Refused, size.Ready // that the cloud takes orders shows at once
	case lost > 0: // Cluster Autoscaler deletes them, and may ask for the group again at once
		b.readyBefore = size.Ready
		if _, _, off := s.failures.backoff.Active(g.ID, s.now); !off {
			s.fail(g.ID, byBoot, fmt.Sprintf("%d instances did not become nodes in time", lost), true)
		}
	case b.onTrial && size.Ready > b.readyBefore:
		b.onTrial = false
		s.failures.backoff.Ended(g.ID, s.now)
	default:
		b.readyBefore = min(b.readyBefore, size.Ready)
	}
}

// answered counts the nodes that Cluster Autoscaler is going to order in a group. It writes its status at the end of the
// loop, and may ask again in the same one.
func (s *State) answered(id string, nodes int) {
	b := s.state(id)
	b.ahead, b.statuses, b.answeredAt = b.ahead+nodes, 0, s.now
	b.resize(nodes)
	s.caller.last = given{id, nodes}
}

// given is an answer of an expander.
type given struct {
	group string
	nodes int
}

// unheard takes the nodes of the last answer back, which has not arrived.
func (s *State) unheard() {
	if last := s.caller.last; last.nodes > 0 {
		b := s.state(last.group)
		n := min(b.ahead, last.nodes)
		b.ahead -= n
		b.resize(-n)
	}
	s.caller.last = given{}
}

// addUnknown adds the groups of a question of which nothing is known: they have the nodes of earlier answers.
func (s *State) addUnknown(q *Question) {
	if s.view == nil {
		s.show(&Cloud{Groups: map[string]*Group{}})
	}
	for i := range q.Options {
		id := q.Options[i].Group
		if s.view.Groups[id] == nil {
			s.view.Groups[id] = s.sized(&GroupSize{Name: id}, true)
		}
	}
}

// noticeOthers learns whether Cluster Autoscaler balances by itself: a member of a set then grows that was not the answer.
func (s *State) noticeOthers(v *Cloud) {
	if s.view == nil || s.caller.counted || s.caller.balancing == byItself {
		return
	}
	last := s.caller.last
	before := s.view.Groups[last.group]
	if last.nodes < 2 || before == nil || before.Reported == nil {
		return
	}
	for id, g := range v.Groups {
		was := s.view.Groups[id]
		if id == last.group || s.set(id) != s.set(last.group) || was == nil || was.Reported == nil || s.state(id).ahead > 0 {
			continue
		}
		if g.Reported.Target > was.Reported.Target && g.Reported.Target > g.MinSize {
			s.caller.balancing = byItself
			s.warn("AutoscalerBalances", "Cluster Autoscaler splits increases by itself (--balance-similar-node-groups): "+
				"evenkeel chooses the set, and does not decide how its nodes are split")
			return
		}
	}
}

// largeIncrease is above how many nodes at once in one group of a set its sizes end far apart.
const largeIncrease = 20

// noticeLarge warns of increases that nobody splits.
func (s *State) noticeLarge(p *pick, nodes int) {
	if nodes > largeIncrease && s.caller.balancing != byItself && p.split != nil && len(p.split.members) > 1 {
		s.warn("LargeIncrease", fmt.Sprintf("Cluster Autoscaler adds %d nodes to one node group of a set at once: "+
			"start it with --max-nodes-per-scaleup=1, or with a few nodes more in large fleets", nodes))
	}
}

// noticeUnsplit notes that a group grows by more than its share at once.
func (s *State) noticeUnsplit(p *pick) {
	if s.caller.balancing != byItself && p.count > p.Shares[p.Group] {
		s.state(p.Group).unsplit = p.count
	}
}

// leftAlone is why Cluster Autoscaler leaves a group alone, as far as it says so; empty if it does not.
func (g *Group) leftAlone() string {
	if g.Reported == nil {
		return ""
	}
	return g.Reported.BackedOff
}

// count returns the numbers of nodes for a target size.
func (size *GroupSize) count(target int) counted {
	n := counted{ready: size.Ready, broken: size.Unready}
	n.expected = max(0, target-size.Ready-size.Unready-size.Lost)
	n.inFlight = n.expected
	return n
}
