package steering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Event is something that happens. Each is a value of one of the types of this package that say which
// fields of the Answer they set.
type Event interface {
	// apply changes the state, in which the time of the event is known.
	apply(*State) Answer
}

// Answer is what must be done for an event, or be answered to it. What an event does not mention is
// zero.
type Answer struct {
	Group     string     // of Asked, to grow; none if empty
	Save      bool       // of Asked: the journal must be saved, since it does not hold the answer
	Nodes     int        // of Increase and Order, to order from the cloud; of Decrease, by which to lower the target size, negative
	Hide      bool       // of Increase and Order: a failure of the order is kept from Cluster Autoscaler
	TakeBacks []TakeBack // of Failed, Overdue and Late
	Reason    string     // of Decrease
	Err       error
}

// Equal reports whether two answers say the same.
func (a *Answer) Equal(b *Answer) bool {
	same := func(a, b TakeBack) bool {
		return a.Group.ID == b.Group.ID && a.Missing == b.Missing && len(a.Nodes) == len(b.Nodes) && a.Counter == b.Counter
	}
	return a.Group == b.Group && a.Save == b.Save && a.Nodes == b.Nodes && a.Hide == b.Hide && a.Reason == b.Reason &&
		text(a.Err) == text(b.Err) && slices.EqualFunc(a.TakeBacks, b.TakeBacks, same)
}

// String says what is answered.
func (a *Answer) String() string {
	var out []string
	if a.Group != "" {
		out = append(out, "group "+a.Group)
	}
	if a.Nodes != 0 {
		out = append(out, fmt.Sprintf("%d nodes", a.Nodes))
	}
	for _, t := range a.TakeBacks {
		out = append(out, fmt.Sprintf("take back %d nodes of %s", len(t.Nodes)+t.Missing, t.Group.ID))
	}
	if a.Reason != "" {
		out = append(out, a.Reason)
	}
	if a.Err != nil {
		out = append(out, "error: "+a.Err.Error())
	}
	if a.Save {
		out = append(out, "save the journal")
	}
	if a.Hide {
		out = append(out, "hide a failure")
	}
	return cmp.Or(strings.Join(out, ", "), "nothing")
}

// Step applies an event that happens at a given time. Times must not go back.
func (s *State) Step(at time.Time, e Event) (Answer, Effects) {
	s.now = at
	answer := e.apply(s)
	out := s.out
	s.out = Effects{}
	return answer, out
}
