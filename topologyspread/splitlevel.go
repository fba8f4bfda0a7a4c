package topologyspread

import "sort"

// box is a zone that gets at least and at most so many new nodes.
type box struct {
	groups      []group
	least, most int64
}

// reached is how many new nodes bring the groups up to a size.
func reached(groups []group, size int64) int64 {
	n := int64(0)
	for i := range groups {
		n += max(0, min(size, groups[i].top)-groups[i].size)
	}
	return n
}

// levelled levels n new nodes over groups, which are in the order of names, and returns their new sizes.
func levelled(groups []group, n int64) []int64 {
	sizes := make([]int64, len(groups))
	at := levelOf(groups, n)
	rest := n - reached(groups, at)
	for i, g := range groups {
		sizes[i] = max(g.size, min(at, g.top))
		if sizes[i] == at && g.top > at && rest > 0 {
			sizes[i]++
			rest--
		}
	}
	return sizes
}

// levelOf is the highest size that n nodes bring all groups to that have room for it.
func levelOf(groups []group, n int64) int64 {
	return highestSize(groups, func(size int64) bool { return reached(groups, size) <= n })
}

// highestSize is the highest size, up to one above all groups, that is allowed; all below it are.
func highestSize(groups []group, allowed func(size int64) bool) int64 {
	if len(groups) == 0 {
		return 0
	}
	low, high := groups[0].size, groups[0].top
	for _, g := range groups {
		low, high = min(low, g.size), max(high, g.top)
	}
	return low + int64(sort.Search(int(high-low)+1, func(i int) bool { return !allowed(low + 1 + int64(i)) }))
}

// levelBoxes levels n new nodes over zones within their bounds: the smallest sum of squares, and the
// first by name among equals. The sum of the lower bounds is at most n, and that of the upper ones
// at least.
func levelBoxes(boxes []box, n int64) []int64 {
	at := levelOfBoxes(boxes, n)
	nodes, more := make([]int64, len(boxes)), make([]int64, len(boxes))
	for i := range boxes {
		b := &boxes[i]
		nodes[i] = b.clamp(reached(b.groups, at))
		more[i] = max(0, min(b.most, reached(b.groups, at+1))-nodes[i])
		n -= nodes[i]
	}
	giveRest(boxes, nodes, more, at, n)
	return nodes
}

func (b *box) clamp(n int64) int64 { return max(b.least, min(b.most, n)) }

func levelOfBoxes(boxes []box, n int64) int64 {
	var all []group
	for i := range boxes {
		all = append(all, boxes[i].groups...)
	}
	return highestSize(all, func(size int64) bool {
		sum := int64(0)
		for i := range boxes {
			sum += boxes[i].clamp(reached(boxes[i].groups, size))
		}
		return sum <= n
	})
}

// giveRest gives the rest of the nodes to groups at the level in the order of their names. A zone
// takes more[i] of them.
func giveRest(boxes []box, nodes, more []int64, at, rest int64) {
	type next struct{ box, rank int }
	var queue []next
	for i := range boxes {
		b := &boxes[i]
		beyond := nodes[i] - reached(b.groups, at) // nodes of a lower bound above the level
		for _, g := range b.groups {
			if g.size > at || g.top <= at {
				continue
			}
			if beyond > 0 {
				beyond--
			} else if more[i] > 0 {
				queue = append(queue, next{i, g.rank})
				more[i]--
			}
		}
	}
	sort.Slice(queue, func(i, j int) bool { return queue[i].rank < queue[j].rank })
	for _, q := range queue[:min(rest, int64(len(queue)))] {
		nodes[q.box]++
	}
}
