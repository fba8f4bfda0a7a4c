package steering

import (
	"time"
)

// answer is one without which Cluster Autoscaler does not count the nodes of a group that are on their way: to an increase, to
// the question for the group's options that follows it and tells how long they may take, and to that for its template.
type answer struct {
	group      string
	at         time.Time
	connection string
	increase   bool
}

// silence is how long after such an answer Cluster Autoscaler calls again at the latest when it has heard it. Where it has not, it
// waits for its deadline first.
const silence = 3 * time.Second

// A Call of Cluster Autoscaler's loop.
type Call int

const (
	OtherCall   Call = iota
	RefreshCall      // begins a loop: after an increase it follows at once; else it takes its time
	TemplateCall
	OptionsCall
)

// Called is told of every call of Cluster Autoscaler's loop before it is answered, of the connection it came on, and of the group
// it is about.
func (s *Machine) Called(connection string, call Call, group string) {
	a := s.unconfirmed
	s.unconfirmed = nil
	if a != nil && (a.increase || call != RefreshCall) && (s.now.Sub(a.at) >= silence || connection != a.connection) {
		s.state(a.group).seen = false
	}
	if call == TemplateCall || call == OptionsCall && a != nil && a.increase && a.group == group {
		s.unconfirmed = &answer{group, s.now, connection, false}
	}
}
