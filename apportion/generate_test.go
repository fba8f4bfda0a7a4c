package apportion

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// dice gives a number from 0 to n-1. Random cases are built from dice alone, so that the same
// builders serve volume runs, rapid (which shrinks) and fuzzing.
type dice func(n int) int

// forAll checks a property on many random cases: first on some of rapid's, which shrinks what
// fails, then on the volume, which is the same in every run.
func forAll(t *testing.T, cases int, property func(d dice) error) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		d := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "dice") }
		if err := property(d); err != nil {
			rt.Fatal(err)
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	for i := range cases {
		if err := property(random.IntN); err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
	}
}

// fromBytes is a dice for fuzz targets; when the bytes are used up it gives 0.
func fromBytes(data []byte) dice {
	return func(n int) int {
		value := 0
		for reach := 1; reach < n && len(data) > 0; reach <<= 8 {
			value = value<<8 | int(data[0])
			data = data[1:]
		}
		return int(uint(value) % uint(n))
	}
}

func pick[T any](d dice, values ...T) T { return values[d(len(values))] }

// count is a number from 0 to limit; small ones, round ones and the limit are likely.
func (d dice) count(limit int64) int64 {
	var n int64
	switch d(6) {
	case 0:
		n = int64(d(4))
	case 1:
		n = int64(d(100))
	case 2:
		n = limit - int64(d(3))
	case 3:
		n = limit / int64(1+d(5))
	default:
		n = int64(d(math.MaxInt64)) >> d(63)
	}
	return min(max(n, 0), limit)
}

// levelling is a small case for Level; quotas are of all kinds.
func (d dice) levelling() (n int64, bins []Bin, quotas []Quota) {
	bins = make([]Bin, d(7))
	for i := range bins {
		b := Bin{Size: int64(d(12)), Max: int64(d(16))}
		if d(4) == 0 {
			b.Min = int64(d(int(b.Max) + 1))
		}
		bins[i] = b
	}
	for range d(4) {
		c := Quota{Limit: int64(d(40))}
		weighted := d(2) == 0
		for i := range bins {
			if d(2) == 0 {
				c.Members = append(c.Members, i)
				if weighted {
					c.Units = append(c.Units, int64(d(5)))
				}
			}
		}
		quotas = append(quotas, c)
	}
	return int64(d(60)), bins, quotas
}

// nestedQuotas are quotas any two of which are disjoint or one within the other.
func (d dice) nestedQuotas(bins int) []Quota {
	groups := [][]int{}
	for i := range bins {
		groups = append(groups, []int{i})
	}
	var quotas []Quota
	for len(groups) > 0 {
		at := d(len(groups))
		if d(2) == 0 {
			quotas = append(quotas, Quota{Members: groups[at], Limit: int64(d(8))})
		}
		joined := append([]int{}, groups[at]...)
		groups = append(groups[:at], groups[at+1:]...)
		if len(groups) == 0 {
			break
		}
		other := d(len(groups))
		groups[other] = append(joined, groups[other]...)
	}
	return quotas
}

// weight is 0, small, or huge.
func (d dice) weight() int64 {
	switch d(8) {
	case 0:
		return 0
	case 1:
		return math.MaxInt64 - int64(d(3))
	case 2:
		return 1 + int64(d(math.MaxInt64))>>d(62)
	default:
		return 1 + int64(d(9))
	}
}

// request is any valid request; counts reach up to limit, minimums are small enough relative to it
// to leave something to share.
func (d dice) request(limit int) Request {
	r := Request{
		Replicas: int64(d(limit + 1)),
		Policy:   pick(d, Proportional, Proportional, Priority),
		Rounding: pick(d, "", LargestRemainder, Webster, DHondt),
		MinMode:  pick(d, "", Floor, Additive),
		Shortage: pick(d, "", GuaranteeMin, TotalWins),
		Pending:  pick(d, "", Keep, Trim),
		Relief:   pick(d, "", Any, HealthyOnly),
		TieBreak: pick(d, "", Name, Hash),
		Key:      pick(d, "", "default/web", "\x00"),
	}
	if r.Policy == Priority && d(3) == 0 {
		r.Relief = LaterOnly
	}
	if d(2) == 0 {
		r.Rebalance = new(d(4) == 0)
	}
	names := []string{"a", "b", "c", "d", "e", "f", "ä", "aa"}
	some := func(n int) int64 { return int64(d(1 + n)) }
	for i := range d(6) {
		at := i + d(len(names)-i)
		names[i], names[at] = names[at], names[i]
		target := Target{Name: names[i]}
		if d(3) > 0 {
			target.Weight = new(d.weight())
		}
		if d(3) == 0 {
			target.Min = some(limit / 3)
		}
		if d(3) == 0 {
			target.Max = new(target.Min + some(limit/2))
		}
		if d(3) == 0 {
			target.Capacity = new(some(limit / 2))
			if d(3) == 0 {
				target.Taken = new(some(limit / 2))
			}
		}
		if d(2) == 0 {
			target.Current = some(limit / 2)
		}
		r.Targets = append(r.Targets, target)
	}
	return r
}

// claims are any claims with values up to limit, some out of order.
func (d dice) claims(limit int) (total int64, claims []Claim) {
	count := d(7)
	if d(20) == 0 {
		count = d(40)
	}
	for range count {
		c := Claim{Weight: d.weight(), Low: int64(d(limit / 4)), High: int64(d(limit))}
		if d(3) == 0 {
			c.Offset = int64(d(limit / 4))
		}
		if d(20) == 0 {
			c.Weight, c.Low, c.Offset = -c.Weight, -c.Low, -c.Offset
		}
		claims = append(claims, c)
	}
	return int64(d(3*limit)) - int64(limit/10), claims
}

// describe prints a request with what its pointers point to.
func describe(r Request) string {
	text := fmt.Sprintf("replicas %d %s %s %s %s rebalance %v %s %s %q %s", r.Replicas, r.Policy, r.Rounding,
		r.MinMode, r.Shortage, r.Rebalance == nil || *r.Rebalance, r.Pending, r.Relief, r.Key, r.TieBreak)
	show := func(name string, value *int64) {
		if value != nil {
			text += fmt.Sprintf(" %s %d", name, *value)
		}
	}
	for _, t := range r.Targets {
		text += fmt.Sprintf("; %s min %d current %d", t.Name, t.Min, t.Current)
		show("weight", t.Weight)
		show("max", t.Max)
		show("capacity", t.Capacity)
		show("taken", t.Taken)
	}
	return text
}
