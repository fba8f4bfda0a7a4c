package apportion

import (
	"cmp"
	"container/heap"
)

// divisors is a divisor method: the next unit goes where weight/divisor is greatest. The cost of a
// seat, divisor/weight, rises with the seats that a lot has. So the seats have one order, by cost
// and then by the order of the lots, and the first of them are given out.
type divisors struct {
	odd bool
}

var (
	allDivisors = divisors{}          // 1, 2, 3, ...: D'Hondt
	oddDivisors = divisors{odd: true} // 1, 3, 5, ...: Webster
)

// at is the divisor of the seat after this many seats.
func (d divisors) at(seats uint64) uint64 {
	if d.odd {
		return 2*seats + 1
	}
	return seats + 1
}

// seat is the seat of a claim after this many other seats.
type seat struct {
	claim         int
	weight, seats uint64
}

// compare orders seats by cost and then by claim.
func (d divisors) compare(a, b seat) int {
	if order := compareFractions(d.at(a.seats), a.weight, d.at(b.seats), b.weight); order != 0 {
		return order
	}
	return cmp.Compare(a.claim, b.claim)
}

// divide gives out the units, starting from the multiplier. The seats up to a cost are the first in
// the order. With the cost taken from the multiplier, their number differs from the units by less
// than the number of lots; these few are added or taken back one by one.
func (d divisors) divide(m multiplier, lots []lot, units uint64) extent {
	if d.odd {
		for i := range lots {
			// rounded to the nearest: the cost 2*L covers divisors up to 2*L*weight
			if l := &lots[i]; l.rest.compare(m.weights.minus(l.rest)) >= 0 {
				l.seats++
			}
		}
	}
	have := given(lots)
	switch {
	case have < units:
		d.add(lots, units-have)
	case have > units:
		d.takeBack(lots, have-units)
	}
	return d.reached(lots)
}

// add gives out the next units.
func (d divisors) add(lots []lot, units uint64) {
	next := func(i int) seat { return seat{i, lots[i].weight, lots[i].seats} }
	queue := &queue{before: func(i, j int) bool { return d.compare(next(i), next(j)) < 0 }}
	for i, l := range lots {
		if l.seats < l.end {
			queue.lots = append(queue.lots, i)
		}
	}
	queue.change(units, func(i int) bool {
		lots[i].seats++
		return lots[i].seats < lots[i].end
	})
}

// takeBack takes the last units given.
func (d divisors) takeBack(lots []lot, units uint64) {
	last := func(i int) seat { return seat{i, lots[i].weight, lots[i].seats - 1} }
	queue := &queue{before: func(i, j int) bool { return d.compare(last(i), last(j)) > 0 }}
	for i, l := range lots {
		if l.seats > l.start {
			queue.lots = append(queue.lots, i)
		}
	}
	queue.change(units, func(i int) bool {
		lots[i].seats--
		return lots[i].seats > lots[i].start
	})
}

// lastSeat is the last seat that a divisor method gave out.
type lastSeat struct {
	divisors
	seat
}

func (d divisors) reached(lots []lot) extent {
	last := lastSeat{divisors: d}
	for _, l := range lots {
		s := seat{l.claim, l.weight, l.seats - 1}
		if l.seats > l.start && (last.weight == 0 || d.compare(s, last.seat) > 0) {
			last.seat = s
		}
	}
	return last
}

// reaches reports whether the next seat comes before the last one given out.
func (l lastSeat) reaches(claim int, weight, seats uint64) bool {
	return l.compare(seat{claim, weight, seats}, l.seat) < 0
}

// queue is a heap of lots.
type queue struct {
	lots   []int
	before func(i, j int) bool
}

// change applies the change to the first lot this many times. A lot for which it returns false
// leaves the queue.
func (q *queue) change(times uint64, change func(lot int) (stays bool)) {
	heap.Init(q)
	for ; times > 0; times-- {
		if change(q.lots[0]) {
			heap.Fix(q, 0)
		} else {
			heap.Pop(q)
		}
	}
}

func (q *queue) Len() int           { return len(q.lots) }
func (q *queue) Less(i, j int) bool { return q.before(q.lots[i], q.lots[j]) }
func (q *queue) Swap(i, j int)      { q.lots[i], q.lots[j] = q.lots[j], q.lots[i] }
func (q *queue) Push(lot any)       { q.lots = append(q.lots, lot.(int)) }

// Pop drops the last lot; nothing reads it.
func (q *queue) Pop() any {
	q.lots = q.lots[:len(q.lots)-1]
	return nil
}
