package linked

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Sized is a node group and its size.
type Sized[G NodeGroup] struct {
	NodeGroup G
	Group     nodegroupset.Group
}

// readSizes reads the sizes of groups. A group without a usable one is left out; the others go on. A group's minimum does not matter to
// a split: the autoscaler raises groups to it by --enforce-node-group-min-size.
func readSizes[G NodeGroup](groups []G) (sized []Sized[G], failed map[string]string) {
	failed = map[string]string{}
	for _, group := range groups {
		size, err := group.TargetSize()
		most := group.MaxSize()
		switch {
		case err != nil:
		case size < 0 || size > nodegroupset.MaxSize:
			err = fmt.Errorf("target size %d is not between 0 and %d", size, nodegroupset.MaxSize)
		case most < 0 || most > nodegroupset.MaxSize:
			err = fmt.Errorf("max size %d is not between 0 and %d", most, nodegroupset.MaxSize)
		}
		if err != nil {
			failed[group.Id()] = err.Error()
			continue
		}
		sized = append(sized, Sized[G]{group, nodegroupset.Group{Name: group.Id(), Size: int64(size), Max: int64(most)}})
	}
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		klog.InfoS("Node group is left out of a scale-up", "nodeGroup", id, "reason", failed[id])
	}
	return sized, failed
}

// knownSizes reads the sizes of groups, but for some.
func knownSizes[G NodeGroup](groups []G, but []nodegroupset.Group) func(name string) (size int64, known bool) {
	sized, _ := readSizes(slices.DeleteFunc(slices.Clone(groups), func(group G) bool {
		return slices.ContainsFunc(but, func(g nodegroupset.Group) bool { return g.Name == group.Id() })
	}))
	sizes := make(map[string]int64, len(sized))
	for _, one := range sized {
		sizes[one.Group.Name] = one.Group.Size
	}
	return func(name string) (size int64, known bool) {
		size, known = sizes[name]
		return size, known
	}
}

// ReadSizes reads at the end of a loop how large the groups are that have similar ones, since
// nothing else does in a loop without decisions. It is called in the autoscaler's own goroutine,
// because a cloud provider need not be safe for concurrent use.
func ReadSizes[G NodeGroup](journal *Journal, groups []G) {
	together := map[string]bool{}
	for _, set := range shared(journal.remembers().compared.Sets) {
		for _, id := range set {
			together[id] = true
		}
	}
	reading := sizeReading{Sizes: map[string]int{}, Failed: map[string]string{}}
	for _, group := range groups {
		id := group.Id()
		if !together[id] {
			continue
		}
		size, err := group.TargetSize()
		if err != nil {
			reading.Failed[id] = err.Error()
			continue
		}
		reading.Sizes[id] = size
	}
	journal.sized(reading)
}
