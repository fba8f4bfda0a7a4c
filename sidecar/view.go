package sidecar

import (
	"cmp"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/steering"
)

// view is the cloud as it was read last. It never changes; the sizes that do are in the state.
type view struct {
	steering.Cloud
	took    time.Duration
	groups  []cloudprovider.NodeGroup // by id
	groupOf map[string]string         // of an instance, by its id
}

// newView makes a view of the groups that could be read; nil stands for one that could not.
func newView(began time.Time, took time.Duration, read []*steering.Group) *view {
	v := &view{Cloud: steering.Cloud{At: began, Groups: make(map[string]*steering.Group, len(read))}, took: took, groupOf: map[string]string{}}
	for _, g := range read {
		if g != nil {
			v.groups = append(v.groups, g.NodeGroup)
			v.Groups[g.ID] = g
		}
	}
	slices.SortFunc(v.groups, func(a, b cloudprovider.NodeGroup) int { return cmp.Compare(a.ID, b.ID) })
	for _, g := range v.groups {
		for _, instance := range slices.Concat(v.Groups[g.ID].Instances, v.Groups[g.ID].Failed) {
			v.groupOf[instance.ID] = g.ID
		}
	}
	return v
}
