package steering

import "time"

// caller is what is known of Cluster Autoscaler: where in its loop it is, and what it has been told in
// it.
type caller struct {
	loop        int             // counts refreshes
	pick        *pick           // the answer of the expander that waits for its increase
	stopped     bool            // the expander's last answer was to grow no group
	unread      bool            // the expander's last question could not be read
	skipped     int             // increases in a row that got nothing for that reason
	grant       *grant          // of the increase that is being answered; nil if none is
	unconfirmed *answer         // to the last increase, until Cluster Autoscaler calls again
	grown       map[string]bool // groups increased in this loop since the last choice
	raised      map[string]bool // groups increased with success in this loop that got other than was asked
	balancing   balancing
	ignored     bool      // it did not follow the last pick
	unasked     bool      // it scales up without asking the expander
	before136   bool      // it is of a release that counts nodes on their way whether it has asked for them or not
	process     time.Time // when its present process was first noticed
	renewed     bool      // that was before the first reading
	last        given     // answer of a state that is ExpanderOnly
	counted     bool      // its sizes are counted nodes
}

// pick is the expander's answer: the group that Cluster Autoscaler is going to increase. What has a name
// in the journal survives the process.
type pick struct {
	Group  string         `json:"group"`
	count  int            // nodes in its option
	full   bool           // not to be split
	why    string         // why not
	refuse string         // why the increase is refused; empty if it is not
	split  *split         // how the need should be split; nil if that was worked out by a process before this one
	Shares map[string]int `json:"shares,omitempty"` // of the members in the split
	from   *choice
}

// balancing is what is known of whether Cluster Autoscaler balances by itself.
type balancing string

const (
	byItself balancing = "Yes"
	byNobody balancing = "No"
)

// answer is an answer that Cluster Autoscaler needs to count the nodes of a group on their way: to
// an increase, to the call for the group's options that follows it, which says how long nodes may
// take, and to the call for its template.
type answer struct {
	group      string
	at         time.Time
	connection string
	increase   bool
}

// silence is the time after such an answer within which Cluster Autoscaler calls again if the
// answer has arrived. Otherwise it waits for its deadline first.
const silence = 3 * time.Second

// A Call of Cluster Autoscaler's loop.
type Call int

const (
	OtherCall   Call = iota
	RefreshCall      // begins a loop: after an increase it follows at once; else it takes its time
	TemplateCall
	OptionsCall
)

// Called is a call of Cluster Autoscaler's loop, before it is answered: the connection it came on, and
// the group it is about.
type Called struct {
	Connection string
	Call       Call
	Group      string
}

func (e Called) apply(s *State) Answer {
	a := s.caller.unconfirmed
	s.caller.unconfirmed = nil
	if a != nil && (a.increase || e.Call != RefreshCall) && (s.now.Sub(a.at) >= silence || e.Connection != a.connection) {
		s.state(a.group).seen = false
	}
	if e.Call == TemplateCall || e.Call == OptionsCall && a != nil && a.increase && a.group == e.Group {
		s.caller.unconfirmed = &answer{e.Group, s.now, e.Connection, false}
	}
	return Answer{}
}

// Released says whether Cluster Autoscaler is of a release before 1.36: it counts all nodes on their way
// that it is shown, and not only those of groups that it has a request for.
type Released struct{ Before136 bool }

func (e Released) apply(s *State) Answer {
	s.caller.before136 = e.Before136
	return Answer{}
}

// NewProcess is the first call of a process of Cluster Autoscaler: it knows of no node on its way. What
// the expander was asked before stands if Asked is true: the new process has asked it already, and is
// about to do as it was told.
type NewProcess struct{ Asked bool }

func (e NewProcess) apply(s *State) Answer {
	s.caller.process = s.now
	for _, b := range s.groups {
		b.seen, b.unshown = false, 0
	}
	if s.caller.renewed = s.view == nil; !s.caller.renewed {
		s.hide(s.observe())
	}
	if !e.Asked {
		s.plan.current, s.caller.pick, s.caller.stopped, s.caller.unread, s.caller.balancing, s.caller.unasked = nil, nil, false, false, "", false
	}
	s.note(Decision{Call: "GPULabel", Reason: "a new process of Cluster Autoscaler: it knows of no node that is on its way"})
	s.count(ProcessesNoticed, 1)
	return Answer{}
}
