package steering

import (
	"fmt"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Decrease is Cluster Autoscaler lowering a target size by a negative Delta. The answer has as Nodes by
// how much it is lowered, again as a negative number, and why: Cluster Autoscaler takes back all it has
// asked for, including what was not granted and what has come since, so the decrease is cut to nodes
// without an instance; with 0 nothing must be done. Target and Instances are the present ones.
type Decrease struct {
	Group         string
	Delta, Target int
	Instances     []cloudprovider.Instance
}

func (e Decrease) apply(s *State) Answer {
	s.givenUp(e.Group)
	missing := max(0, e.Target-(&Group{Instances: e.Instances}).existing())
	cut := Answer{Nodes: max(e.Delta, -missing), Reason: fmt.Sprintf("cut to the %d nodes that have no instance", missing)}
	if cut.Nodes == 0 {
		s.state(e.Group).seen = false
		s.note(Decision{Call: "DecreaseTargetSize", Group: e.Group, Asked: e.Delta, Reason: cut.Reason})
	}
	return cut
}

// givenUp records that Cluster Autoscaler takes an increase back. If it has received the answer to
// the last increase, it does so because the nodes did not come in time.
func (s *State) givenUp(id string) {
	b, g := s.state(id), s.view.group(id)
	if g == nil || !b.seen || b.order != nil {
		return
	}
	if n := s.observe().count(g, b).inFlight; n > 0 {
		s.undelivered(g, b, n, fmt.Sprintf("Cluster Autoscaler has given up %d nodes", n))
	}
}

// Decreased is the cloud's answer to a decrease.
type Decreased struct {
	Group  string
	Delta  int
	Reason string
	Err    error
}

func (e Decreased) apply(s *State) Answer {
	b := s.state(e.Group)
	b.seen = false // taking back is what Cluster Autoscaler does before it backs a group off
	if e.Err == nil {
		b.resize(e.Delta)
		s.count(NodesGivenUp, -e.Delta)
	}
	s.note(Decision{Call: "DecreaseTargetSize", Group: e.Group, Asked: e.Delta, Granted: e.Delta, Reason: e.Reason, Error: text(e.Err)})
	return Answer{}
}
