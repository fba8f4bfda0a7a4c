package nodegroupset

import "slices"

// flow assigns nodes of classes to bins with room. What is assigned already moves on to other bins
// of its class where a further node needs the room.
type flow struct {
	members [][]int   // the bins of each class
	sent    [][]int64 // nodes of each class in each bin
	room    []int64   // of each bin
	// What a search for room has reached without finding any: no further search finds room there.
	full   []bool // bins
	stuck  []bool // classes
	search struct {
		queue   []int  // classes
		seen    []bool // classes
		reached []int  // bins
		via     []int  // of each bin: the class by which it was reached, or -1
		from    []int  // of each class: the bin by which it was reached
	}
}

func newFlow(members [][]int, bins int) *flow {
	f := &flow{
		members: members, sent: make([][]int64, len(members)),
		room: make([]int64, bins), full: make([]bool, bins), stuck: make([]bool, len(members)),
	}
	cells := make([]int64, len(members)*bins)
	for c := range f.sent {
		f.sent[c], cells = cells[:bins:bins], cells[bins:]
	}
	f.search.seen, f.search.from = make([]bool, len(members)), make([]int, len(members))
	f.search.via = slices.Repeat([]int{-1}, bins)
	return f
}

// begin takes back what was sent of some classes. From now on only some bins have room.
func (f *flow) begin(classes, bins []int, room func(bin int) int64) {
	for b := range f.room {
		f.full[b], f.room[b] = true, 0
	}
	for _, b := range bins {
		f.full[b], f.room[b] = false, room(b)
	}
	for _, c := range classes {
		f.stuck[c] = false
		clear(f.sent[c])
	}
}

// send assigns up to so many more nodes of a class, and returns how many have room. Nodes of these
// classes may move.
func (f *flow) send(class int, nodes int64, classes []int) int64 {
	left := nodes
	for _, b := range f.members[class] {
		left -= f.put(class, b, left)
	}
	for left > 0 && f.find(class, classes) {
		left -= f.shift(class, left)
	}
	return nodes - left
}

// put assigns up to so many nodes of a class to a bin.
func (f *flow) put(class, bin int, nodes int64) int64 {
	nodes = min(nodes, f.room[bin])
	f.sent[class][bin] += nodes
	f.room[bin] -= nodes
	return nodes
}

// find looks for a bin with room that nodes of a class reach, if others make way: the last one
// reached.
func (f *flow) find(class int, classes []int) bool {
	s := &f.search
	for _, b := range s.reached {
		s.via[b] = -1
	}
	for _, c := range s.queue {
		s.seen[c] = false
	}
	s.queue, s.reached = append(s.queue[:0], class), s.reached[:0]
	s.seen[class] = true
	for at := 0; at < len(s.queue); at++ {
		for _, b := range f.members[s.queue[at]] {
			if f.full[b] || s.via[b] >= 0 {
				continue
			}
			s.via[b] = s.queue[at]
			s.reached = append(s.reached, b)
			if f.room[b] > 0 {
				return true
			}
			for _, other := range classes {
				if f.sent[other][b] > 0 && !s.seen[other] {
					s.seen[other], s.from[other] = true, b
					s.queue = append(s.queue, other)
				}
			}
		}
	}
	for _, b := range s.reached {
		f.full[b] = true
	}
	for _, c := range s.queue {
		f.stuck[c] = true
	}
	return false
}

// shift moves up to so many nodes along the path that was found, so that as many of a class have
// room.
func (f *flow) shift(class int, nodes int64) int64 {
	s := &f.search
	end := s.reached[len(s.reached)-1]
	nodes = min(nodes, f.room[end])
	for c := s.via[end]; c != class; c = s.via[s.from[c]] {
		nodes = min(nodes, f.sent[c][s.from[c]])
	}
	f.room[end] -= nodes
	for b := end; ; {
		c := s.via[b]
		f.sent[c][b] += nodes
		if c == class {
			return nodes
		}
		b = s.from[c]
		f.sent[c][b] -= nodes
	}
}
