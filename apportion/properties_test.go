package apportion

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"testing"
)

// propertyCases is how many random requests each property is checked on.
const propertyCases = 20_000

func must(r Request) Result {
	result, err := Distribute(r)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", describe(r), err))
	}
	return result
}

// running is what runs on each target, by name.
func running(r Result) map[string]int64 {
	runs := map[string]int64{}
	for _, t := range r.Targets {
		runs[t.Name] = t.Replicas - t.Pending
	}
	return runs
}

func weightOf(t Target) int64   { return or(t.Weight, 1) }
func maxOf(t Target) int64      { return or(t.Max, MaxReplicas) }
func capacityOf(t Target) int64 { return or(t.Capacity, MaxReplicas) }
func stays(r Request) bool      { return r.Rebalance != nil && !*r.Rebalance }
func proportional(r Request) bool {
	return r.Policy != Priority
}
func divisorMethod(r Request) bool {
	return proportional(r) && (r.Rounding == Webster || r.Rounding == DHondt)
}
func reliefAny(r Request) bool { return r.Relief == "" || r.Relief == Any }

// minimumsFit reports whether the replicas suffice for all minimums.
func minimumsFit(r Request) bool {
	var minimums int64
	for _, t := range r.Targets {
		minimums += t.Min
	}
	return minimums <= r.Replicas
}

// changed is a copy whose targets can be changed.
func changed(r Request, change func(r *Request)) Request {
	r.Targets = slices.Clone(r.Targets)
	change(&r)
	return r
}

// settled is the request with what runs as what is there, and nothing to move.
func settled(r Request, result Result) Request {
	return changed(r, func(r *Request) {
		r.Rebalance = new(false)
		for i, t := range result.Targets {
			r.Targets[i].Current = t.Replicas - t.Pending
		}
	})
}

// compareRequests says what happened between two requests.
func compareRequests(what string, a, b Request) error {
	return fmt.Errorf("%s\n%s\n  %+v\n%s\n  %+v", what, describe(a), must(a), describe(b), must(b))
}

func TestSum(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		got := must(r)
		var runs int64
		for _, n := range running(got) {
			runs += n
		}
		if runs+got.Unplaced != r.Replicas+got.Excess || got.Unplaced < 0 || got.Excess < 0 ||
			got.Excess > 0 && r.Shortage == TotalWins {
			return fmt.Errorf("%s: %+v", describe(r), got)
		}
		return nil
	})
}

func TestBounds(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		got := must(r)
		for i, target := range r.Targets {
			a := got.Targets[i]
			runs := a.Replicas - a.Pending
			least := target.Min
			if r.Pending == Trim {
				least = min(least, capacityOf(target))
			}
			switch {
			case a.Pending < 0 || runs < 0 || a.Replicas > maxOf(target) || runs > capacityOf(target),
				a.Pending > 0 && runs != capacityOf(target),
				a.Pending > 0 && r.Pending == Trim,
				a.Replicas < least && r.Shortage != TotalWins:
				return fmt.Errorf("%s: %+v", describe(r), got)
			}
		}
		return nil
	})
}

func TestNoWaste(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		got := must(r)
		if !reliefAny(r) || got.Unplaced == 0 {
			return nil
		}
		for i, target := range r.Targets {
			a := got.Targets[i]
			if weightOf(target) > 0 && a.Replicas-a.Pending != min(maxOf(target), capacityOf(target)) {
				return fmt.Errorf("%s: %+v", describe(r), got)
			}
		}
		return nil
	})
}

// exactRequest is a request without capacities to rebalance by largest remainder.
func (d dice) exactRequest(limit int) Request {
	r := d.request(limit)
	r.Policy, r.Rounding, r.Rebalance, r.Shortage, r.Relief = Proportional, LargestRemainder, nil, GuaranteeMin, Any
	r.Targets = r.Targets[:min(len(r.Targets), 4)]
	for i := range r.Targets {
		r.Targets[i].Capacity = nil
	}
	return r
}

// exactShares are the water-filled targets t of such a request, and its total.
func exactShares(r Request) (shares []*big.Rat, total int64) {
	total = r.Replicas
	var minimums int64
	for _, t := range r.Targets {
		minimums += t.Min
	}
	total = max(total, minimums)
	shares = make([]*big.Rat, len(r.Targets))
	var claims []Claim
	var among []int
	for i, t := range r.Targets {
		if weightOf(t) == 0 {
			shares[i] = new(big.Rat).SetInt64(t.Min)
			continue
		}
		c := Claim{Weight: weightOf(t), Low: t.Min, High: maxOf(t)}
		if r.MinMode == Additive {
			c.Offset = t.Min
		}
		claims, among = append(claims, c), append(among, i)
	}
	for k, share := range oracleShares(total-minimums, claims) {
		shares[among[k]] = share
	}
	return shares, total
}

func distance(a int64, share *big.Rat) *big.Rat {
	gap := new(big.Rat).SetInt64(a)
	return gap.Abs(gap.Sub(gap, share))
}

func TestMinimax(t *testing.T) {
	forAll(t, 4_000, func(d dice) error {
		r := d.exactRequest(12)
		if len(r.Targets) == 0 {
			return nil
		}
		got := must(r)
		shares, total := exactShares(r)
		worst := new(big.Rat)
		for i, a := range got.Targets {
			if gap := distance(a.Replicas, shares[i]); gap.Cmp(worst) > 0 {
				worst = gap
			}
		}
		if worst.Cmp(big.NewRat(1, 1)) >= 0 {
			return fmt.Errorf("%s: %+v is %v away from %v", describe(r), got, worst, shares)
		}
		// Every other layout within the bounds has one target at least as far away.
		var better func(i int, left int64) bool
		better = func(i int, left int64) bool {
			if i == len(r.Targets) {
				return left == 0
			}
			target := r.Targets[i]
			most := maxOf(target)
			if weightOf(target) == 0 {
				most = target.Min
			}
			for a := target.Min; a <= min(most, left); a++ {
				if distance(a, shares[i]).Cmp(worst) < 0 && better(i+1, left-a) {
					return true
				}
			}
			return false
		}
		if better(0, total-got.Unplaced) {
			return fmt.Errorf("%s: %+v is %v away from %v, there is better", describe(r), got, worst, shares)
		}
		return nil
	})
}

func TestQuota(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.exactRequest(pick(d, 12, 60, math.MaxInt32/2))
		got := must(r)
		shares, _ := exactShares(r)
		for i, a := range got.Targets {
			low := floorRat(shares[i])
			if a.Replicas < low || a.Replicas > low && (shares[i].IsInt() || a.Replicas > low+1) {
				return fmt.Errorf("%s: %+v, exact shares %v", describe(r), got, shares)
			}
		}
		return nil
	})
}

func TestDeterministic(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		if first, second := must(r), must(r); !reflect.DeepEqual(first, second) {
			return fmt.Errorf("%s: %+v, then %+v", describe(r), first, second)
		}
		return nil
	})
}

func TestDeterministicPermutingTheInputPermutesTheOutput(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		if !proportional(r) {
			return nil
		}
		shuffled := changed(r, func(r *Request) {
			for i := range r.Targets {
				at := i + d(len(r.Targets)-i)
				r.Targets[i], r.Targets[at] = r.Targets[at], r.Targets[i]
			}
		})
		byName := map[string]TargetResult{}
		got := must(r)
		for _, a := range got.Targets {
			byName[a.Name] = a
		}
		other := must(shuffled)
		for i, a := range other.Targets {
			if a != byName[a.Name] || a.Name != shuffled.Targets[i].Name {
				return compareRequests("order matters", r, shuffled)
			}
		}
		if got.Unplaced != other.Unplaced || got.Excess != other.Excess {
			return compareRequests("order matters", r, shuffled)
		}
		return nil
	})
}

// Names decide which of equal claims gets the one replica that cannot be shared.
func TestDeterministicRenamingOnlyPermutesTies(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		r.Shortage = GuaranteeMin
		for i := range r.Targets {
			r.Targets[i].Capacity = nil
		}
		renamed := changed(r, func(r *Request) {
			for i := range r.Targets {
				r.Targets[i].Name = string(rune('z'-d(3)*6-i)) + r.Targets[i].Name
			}
		})
		before, after := must(r), must(renamed)
		for i, a := range before.Targets {
			moved := a.Replicas - after.Targets[i].Replicas
			if moved < -1 || moved > 1 || moved != 0 && !proportional(r) {
				return compareRequests("renaming moved replicas", r, renamed)
			}
		}
		return nil
	})
}

func TestDeterministicScalingAllWeightsChangesNothing(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := changed(d.request(40), func(r *Request) {
			for i := range r.Targets {
				r.Targets[i].Weight = new(int64(d(1000)))
			}
		})
		factor := int64(1 + d(math.MaxInt64/1000))
		scaled := changed(r, func(r *Request) {
			for i, target := range r.Targets {
				r.Targets[i].Weight = new(*target.Weight * factor)
			}
		})
		if !reflect.DeepEqual(must(r), must(scaled)) {
			return compareRequests("the scale of the weights matters", r, scaled)
		}
		return nil
	})
}

func TestSymmetry(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		if !proportional(r) || len(r.Targets) < 2 {
			return nil
		}
		r.Rebalance, r.Shortage = nil, GuaranteeMin
		name := r.Targets[1].Name
		r.Targets[1] = r.Targets[0]
		r.Targets[1].Name = name
		got := must(r)
		a, b := got.Targets[0], got.Targets[1]
		if gap := a.Replicas - b.Replicas; gap < -1 || gap > 1 {
			return fmt.Errorf("%s: %+v", describe(r), got)
		}
		if gap := (a.Replicas - a.Pending) - (b.Replicas - b.Pending); gap < -1 || gap > 1 {
			return fmt.Errorf("%s: %+v", describe(r), got)
		}
		return nil
	})
}

// mayNotLose fails where a target that is in both requests runs less in the second.
func mayNotLose(what string, before, after Request) error {
	runs := running(must(after))
	for name, n := range running(must(before)) {
		if later, ok := runs[name]; ok && later < n {
			return compareRequests(what+" takes from "+name, before, after)
		}
	}
	return nil
}
