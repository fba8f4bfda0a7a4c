package steering

import (
	"time"
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

// Called records a call of Cluster Autoscaler's loop before it is answered, the connection it came
// on, and the group it is about.
func (s *Machine) Called(connection string, call Call, group string) {
	a := s.unconfirmed
	s.unconfirmed = nil
	if a != nil && (a.increase || call != RefreshCall) && (s.now.Sub(a.at) >= silence || connection != a.connection) {
		s.state(a.group).Seen = false
	}
	if call == TemplateCall || call == OptionsCall && a != nil && a.increase && a.group == group {
		s.unconfirmed = &answer{group, s.now, connection, false}
	}
}
