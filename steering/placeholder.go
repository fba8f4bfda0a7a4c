package steering

import (
	"fmt"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Cluster Autoscaler takes a group without any instance to be unhealthy, and does not let it grow,
// unless exactly its target size is what it has asked for. A member that was granted less is like
// that until the cloud lists the first of its instances. Until then placeholders stand for them: they
// are instances without a node, which Cluster Autoscaler expects as it does those to come.

const placeholderPrefix = "evenkeel://ordered/"

// Placeholders returns instances that stand for nodes that are ordered and not listed yet, for a
// group without any instance. They are shown for half the provision time at most, however often the
// group is ordered again: Cluster Autoscaler deletes instances that have not registered after it.
func (s *State) Placeholders(g *Group, now time.Time) []cloudprovider.Instance {
	b := s.known(g.ID)
	late := b.empty.IsZero() || now.Sub(b.empty) >= s.o.MaxNodeProvisionTime/2
	if late || len(g.Instances) > 0 || g.Err != nil || b.off.missing > 0 || !s.HidesFailures() {
		return nil
	}
	var out []cloudprovider.Instance
	for i := range b.target - g.existing() {
		out = append(out, cloudprovider.Instance{ID: fmt.Sprint(placeholderPrefix, g.ID, "/", i), State: cloudprovider.InstanceCreating})
	}
	return out
}

// watchEmpty notes since when a group has nodes on order and no instance.
func (b *groupState) watchEmpty(g *Group, now time.Time) {
	watchSince(&b.empty, g.existing() == 0 && b.target != 0, now)
}

// PlaceholderOf returns the group of a placeholder, by its id; ok is false for an instance of the
// cloud.
func PlaceholderOf(id string) (group string, ok bool) {
	rest, ok := strings.CutPrefix(id, placeholderPrefix)
	if !ok {
		return "", false
	}
	return rest[:max(0, strings.LastIndexByte(rest, '/'))], true
}
