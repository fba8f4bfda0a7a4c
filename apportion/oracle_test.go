package apportion

import (
	"bytes"
	"crypto/sha256"
	"math/big"
	"slices"
	"sort"
)

// This file says the specification of Spread, Fill and Distribute once more, as plainly and slowly
// as possible: unit by unit, with exact fractions, step by step.

// oracleSpread is Spread or, with priority, Fill.
func oracleSpread(total int64, claims []Claim, r Rounding, priority bool) []int64 {
	values := make([]int64, len(claims))
	for i, c := range claims {
		values[i] = c.normal().Low
	}
	for _, weightless := range []bool{false, true} {
		var among []int
		var rest []Claim
		for i, c := range claims {
			c = c.normal()
			if (c.Weight == 0) == weightless && c.High > c.Low {
				c.Weight = max(c.Weight, 1)
				among = append(among, i)
				rest = append(rest, c)
			}
		}
		left := new(big.Int).SetInt64(total)
		for _, v := range values {
			left.Sub(left, big.NewInt(v))
		}
		if left.Sign() <= 0 {
			break
		}
		var got []int64
		switch {
		case priority:
			got = oracleFill(left.Int64(), rest)
		case r == Webster:
			got = oracleDivisor(left.Int64(), rest, func(s int64) int64 { return 2*s + 1 })
		case r == DHondt:
			got = oracleDivisor(left.Int64(), rest, func(s int64) int64 { return s + 1 })
		default:
			got = oracleLargestRemainder(left.Int64(), rest)
		}
		for k, i := range among {
			values[i] = got[k]
		}
	}
	return values
}

// oracleFill gives out units one by one, each to the first claim below its High.
func oracleFill(left int64, claims []Claim) []int64 {
	values := make([]int64, len(claims))
	for i, c := range claims {
		values[i] = c.Low
	}
	for ; left > 0; left-- {
		i := -1
		for k, c := range claims {
			if values[k] < c.High {
				i = k
				break
			}
		}
		if i < 0 {
			break
		}
		values[i]++
	}
	return values
}

// oracleDivisor gives out units one by one to the greatest quotient.
func oracleDivisor(left int64, claims []Claim, divisor func(seats int64) int64) []int64 {
	values := make([]int64, len(claims))
	for i, c := range claims {
		values[i] = c.Low
	}
	for ; left > 0; left-- {
		best := -1
		var greatest *big.Rat
		for i, c := range claims {
			if values[i] == c.High {
				continue
			}
			quotient := big.NewRat(c.Weight, divisor(values[i]-c.Offset))
			if best < 0 || quotient.Cmp(greatest) > 0 {
				best, greatest = i, quotient
			}
		}
		if best < 0 {
			break
		}
		values[best]++
	}
	return values
}

// oracleShares are the exact water-filled values: share in proportion, let those who break a bound
// leave at the bound, repeat with the rest.
func oracleShares(left int64, claims []Claim) []*big.Rat {
	exact := make([]*big.Rat, len(claims))
	remaining := new(big.Rat).SetInt64(left)
	room := new(big.Rat)
	for _, c := range claims {
		remaining.Add(remaining, new(big.Rat).SetInt64(c.Low))
		room.Add(room, new(big.Rat).SetInt64(c.High))
	}
	if remaining.Cmp(room) > 0 {
		remaining = room
	}
	for {
		weights, offsets := new(big.Rat), new(big.Rat)
		for i, c := range claims {
			if exact[i] == nil {
				weights.Add(weights, new(big.Rat).SetInt64(c.Weight))
				offsets.Add(offsets, new(big.Rat).SetInt64(c.Offset))
			}
		}
		if weights.Sign() == 0 {
			return exact
		}
		level := new(big.Rat).Sub(remaining, offsets)
		level.Quo(level, weights)
		shares := make([]*big.Rat, len(claims))
		beyond := new(big.Rat) // what clamping would add to the sum
		for i, c := range claims {
			if exact[i] == nil {
				shares[i] = new(big.Rat).Mul(level, new(big.Rat).SetInt64(c.Weight))
				shares[i].Add(shares[i], new(big.Rat).SetInt64(c.Offset))
				beyond.Add(beyond, new(big.Rat).Sub(clampRat(shares[i], c), shares[i]))
			}
		}
		for i, c := range claims {
			if exact[i] != nil {
				continue
			}
			bound := clampRat(shares[i], c)
			if cmp := bound.Cmp(shares[i]); beyond.Sign() == 0 || cmp != 0 && cmp == beyond.Sign() {
				exact[i] = bound
				remaining.Sub(remaining, bound)
			}
		}
	}
}

func clampRat(r *big.Rat, c Claim) *big.Rat {
	low, high := new(big.Rat).SetInt64(c.Low), new(big.Rat).SetInt64(c.High)
	if r.Cmp(low) < 0 {
		return low
	}
	if r.Cmp(high) > 0 {
		return high
	}
	return r
}

func floorRat(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64()
}

func oracleLargestRemainder(left int64, claims []Claim) []int64 {
	exact := oracleShares(left, claims)
	values := make([]int64, len(claims))
	sum := new(big.Rat)
	fractions := make([]*big.Rat, len(claims))
	order := make([]int, len(claims))
	for i, t := range exact {
		values[i] = floorRat(t)
		fractions[i] = new(big.Rat).Sub(t, new(big.Rat).SetInt64(values[i]))
		sum.Add(sum, fractions[i])
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return fractions[order[a]].Cmp(fractions[order[b]]) > 0 })
	for _, i := range order[:floorRat(sum)] {
		values[i]++
	}
	return values
}

// oracleTarget is a target of oracleDistribute; infinite stands for no capacity.
type oracleTarget struct {
	Target
	w, max, capacity, current int64
}

const infinite = int64(1) << 60

// oracleLayouts are P, Q, what is assigned, T, and the order of all of them.
type oracleLayouts struct {
	desired, runnable, assigned []int64
	total                       int64
	targets                     []oracleTarget
}

// oracleDistribute is section 2 of the engine's specification, line by line.
func oracleDistribute(r Request) Result {
	l := oracleSolve(r)
	result := Result{Unplaced: l.total, Excess: l.total - r.Replicas, Targets: make([]TargetResult, len(r.Targets))}
	for i, t := range l.targets {
		var pending int64
		if t.capacity != infinite && r.Pending != Trim {
			pending = max(0, l.assigned[i]-t.capacity)
		}
		at := slices.IndexFunc(r.Targets, func(other Target) bool { return other.Name == t.Name })
		result.Targets[at] = TargetResult{Name: t.Name, Replicas: l.runnable[i] + pending, Pending: pending}
		result.Unplaced -= l.runnable[i]
	}
	return result
}

func oracleTargets(r Request) []oracleTarget {
	var targets []oracleTarget
	for _, t := range r.Targets {
		o := oracleTarget{Target: t, w: 1, max: MaxReplicas, capacity: infinite}
		if t.Weight != nil {
			o.w = *t.Weight
		}
		if t.Max != nil {
			o.max = *t.Max
		}
		if t.Capacity != nil {
			o.capacity = *t.Capacity
		}
		if r.Rebalance != nil && !*r.Rebalance {
			o.current = t.Current
		}
		targets = append(targets, o)
	}
	if r.Policy != Priority {
		sort.Slice(targets, func(i, j int) bool {
			a, b := targets[i].Name, targets[j].Name
			if r.TieBreak == Hash {
				x, y := sha256.Sum256([]byte(r.Key+"\x00"+a)), sha256.Sum256([]byte(r.Key+"\x00"+b))
				return bytes.Compare(x[:], y[:]) > 0
			}
			return a < b
		})
	}
	return targets
}

func oracleSolve(r Request) oracleLayouts {
	targets := oracleTargets(r)
	k := len(targets)
	spread := func(total int64, low, high []int64) []int64 {
		var claims []Claim
		for i, t := range targets {
			c := Claim{Weight: t.w, Low: low[i], High: high[i]}
			if r.MinMode == Additive {
				c.Offset = t.Min
			}
			claims = append(claims, c)
		}
		return oracleSpread(total, claims, r.Rounding, r.Policy == Priority)
	}
	granting := make([]int, k)
	for i := range granting {
		granting[i] = i
	}
	if r.Policy != Priority {
		sort.SliceStable(granting, func(a, b int) bool { return targets[granting[a]].w > targets[granting[b]].w })
	}

	// 1. total to work for, granted minimums
	total := r.Replicas
	m := make([]int64, k)
	if r.Shortage == TotalWins {
		left := total
		for round := range 2 {
			for _, i := range granting {
				goal := targets[i].Min
				if round == 0 {
					goal = min(goal, targets[i].current)
				}
				for left > 0 && m[i] < goal {
					m[i]++
					left--
				}
			}
		}
	} else {
		for i, t := range targets {
			m[i] = t.Min
		}
		total = max(total, sum(m))
	}

	// 2. desired layout
	keep, high, low := make([]int64, k), make([]int64, k), make([]int64, k)
	for i, t := range targets {
		keep[i] = min(max(t.current, m[i]), t.max)
	}
	if total >= sum(keep) {
		for i, t := range targets {
			low[i], high[i] = keep[i], t.max
			if t.w == 0 {
				high[i] = low[i]
			}
		}
	} else {
		copy(low, m)
		copy(high, keep)
	}
	desired := spread(total, low, high)
	if r.Relief == LaterOnly {
		return oracleLaterOnly(total, targets, desired)
	}

	// 3. own share that runs, 4. runnable layout
	base, keepQ := make([]int64, k), make([]int64, k)
	for i, t := range targets {
		base[i] = min(desired[i], t.capacity)
		keepQ[i] = min(keep[i], t.capacity)
	}
	up := total >= sum(keepQ)
	goal := make([]int64, k)
	for i, t := range targets {
		closed := r.Relief == HealthyOnly && t.capacity != infinite
		switch {
		case !up:
			low[i], high[i] = base[i], keepQ[i]
			goal[i] = min(t.Min, t.max, t.capacity, keepQ[i])
		case closed:
			low[i] = max(base[i], keepQ[i])
			high[i] = low[i]
			if taken := t.Taken; taken != nil {
				high[i] = max(low[i], min(*taken, t.max, t.capacity))
			}
			goal[i] = min(t.Min, high[i])
		default:
			low[i], high[i] = max(base[i], keepQ[i]), min(t.max, t.capacity)
			goal[i] = min(t.Min, t.max, t.capacity)
		}
	}
	for _, i := range granting {
		for sum(low) < total && low[i] < goal[i] {
			low[i]++
		}
	}
	for i, t := range targets {
		if up && t.w == 0 {
			high[i] = low[i]
		}
	}
	runnable := spread(total, low, high)

	// 5. what is assigned
	assigned := slices.Clone(desired)
	if r.Policy == Priority && r.Relief != HealthyOnly {
		for i, t := range targets {
			offered := total - sum(runnable[:i]) - sum(low[i+1:])
			bound := t.max
			if !up {
				bound = keep[i]
			}
			if t.w == 0 {
				bound = desired[i]
			}
			assigned[i] = max(desired[i], min(bound, offered))
		}
	}
	return oracleLayouts{desired, runnable, assigned, total, targets}
}

func oracleLaterOnly(total int64, targets []oracleTarget, desired []int64) oracleLayouts {
	l := oracleLayouts{desired: desired, total: total, targets: targets}
	var carry int64
	for i, t := range targets {
		bound := t.max
		if t.w == 0 {
			bound = max(t.Min, desired[i])
		}
		assigned := min(bound, desired[i]+carry)
		runs := min(assigned, t.capacity)
		carry += desired[i] - runs
		l.assigned = append(l.assigned, assigned)
		l.runnable = append(l.runnable, runs)
	}
	return l
}
