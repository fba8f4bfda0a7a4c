package apportion

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
)

// target is a Target with all defaults filled in.
type target struct {
	index    int // in the request
	weight   int64
	min, max int64
	capacity int64 // the capacity; MaxReplicas if none is known
	current  int64
	taken    int64 // -1 if it keeps only its own share
	known    bool  // whether the capacity is known
}

// inOrder are the targets in the order of the list under Priority, else in the tie order.
func (r *Request) inOrder() []target {
	order := make([]int, len(r.Targets))
	for i := range order {
		order[i] = i
	}
	switch {
	case r.Policy == Priority:
	case r.TieBreak == Hash:
		sortByHash(order, r.Targets, r.Key)
	default:
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(r.Targets[a].Name, r.Targets[b].Name) })
	}
	targets := make([]target, len(order))
	for place, i := range order {
		t := &r.Targets[i]
		targets[place] = target{
			index:    i,
			weight:   or(t.Weight, 1),
			min:      t.Min,
			max:      or(t.Max, MaxReplicas),
			capacity: or(t.Capacity, MaxReplicas),
			known:    t.Capacity != nil,
			current:  t.Current,
			taken:    or(t.Taken, -1),
		}
	}
	return targets
}

func or(value *int64, otherwise int64) int64 {
	if value == nil {
		return otherwise
	}
	return *value
}

// sortByHash is rendezvous hashing: the place of a target among others depends only on the key and
// its name.
func sortByHash(order []int, targets []Target, key string) {
	prefix := append([]byte(key), 0)
	digests := make([][sha256.Size]byte, len(targets))
	for i, t := range targets {
		digests[i] = sha256.Sum256(append(prefix, t.Name...))
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(digests[b][:], digests[a][:]) })
}

// grantingOrder is the order in which minimums are granted if the total does not suffice for all:
// the list under Priority, else descending weight and then the tie order.
func grantingOrder(targets []target, p Policy) []int {
	order := make([]int, len(targets))
	for i := range order {
		order[i] = i
	}
	if p != Priority {
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Compare(targets[b].weight, targets[a].weight)
		})
	}
	return order
}
