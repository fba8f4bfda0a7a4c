package steering

import "time"

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

// Step applies an event that happens at a given time. Times must not go back.
func (s *State) Step(at time.Time, e Event) (Answer, Effects) {
	s.now = at
	answer := e.apply(s)
	out := s.out
	s.out = Effects{}
	return answer, out
}
