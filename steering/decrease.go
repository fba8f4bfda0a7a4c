package steering

import (
	"fmt"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Decrease returns by how much a target size is lowered, as a negative number, and why. Cluster
// Autoscaler takes back all it has asked for, including what was not granted and what has come
// since, so the decrease is cut to nodes without an instance; 0 means that nothing must be done.
// The group's instances and target size are the present ones.
func (s *Machine) Decrease(id string, delta, target int, instances []cloudprovider.Instance) (cut int, reason string) {
	s.givenUp(id)
	missing := max(0, target-(&Group{Instances: instances}).existing())
	cut = max(delta, -missing)
	reason = fmt.Sprintf("cut to the %d nodes that have no instance", missing)
	if cut == 0 {
		s.state(id).Seen = false
		s.note(Decision{Call: "DecreaseTargetSize", Group: id, Asked: delta, Reason: reason})
	}
	return cut, reason
}

// givenUp records that Cluster Autoscaler takes an increase back. If it has received the answer to
// the last increase, it does so because the nodes did not come in time.
func (s *Machine) givenUp(id string) {
	b, g := s.state(id), s.view.group(id)
	if g == nil || !b.Seen || b.order != nil {
		return
	}
	if n := s.look().count(g, b).inFlight; n > 0 {
		s.undelivered(g, b, n, fmt.Sprintf("Cluster Autoscaler has given up %d nodes", n))
	}
}

// Decreased records the cloud's answer to a decrease.
func (s *Machine) Decreased(id string, delta int, reason string, err error) {
	b := s.state(id)
	b.Seen = false // taking back is what Cluster Autoscaler does before it backs a group off
	if err == nil {
		b.resize(delta)
		s.count(NodesGivenUp, -delta)
	}
	s.note(Decision{Call: "DecreaseTargetSize", Group: id, Asked: delta, Granted: delta, Reason: reason, Error: text(err)})
}
