package steering

import (
	"fmt"
	"strings"
)

// grantedInFull has everybody notice that a group has got all that was asked of its set: the set may
// have become uneven.
func (s *State) grantedInFull(d *Decision) {
	why := strings.TrimPrefix(d.Reason, "in full: ")
	d.InFull, s.state(d.Group).inFull = true, why
	s.count(GrantsInFull, 1)
	s.alarm("GrantedInFull", fmt.Sprintf("Node group %s gets all %d nodes, and its set may become uneven: %s", d.Group, d.Granted, why))
}

// hasPeers reports whether a group is in a set with others.
func (s *State) hasPeers(id string) bool {
	first := s.firstOf()
	for other := range s.view.Groups {
		if other != id && first[id] != "" && first[other] == first[id] {
			return true
		}
	}
	return false
}

// firstOf returns the first member of the set of each group: as Cluster Autoscaler has shown them
// last, and before it has, by the templates of the cloud.
func (s *State) firstOf() map[string]string {
	if len(s.sets.index.Names()) == 0 {
		return s.catalogueSets(s.now)
	}
	return s.sets.first
}
