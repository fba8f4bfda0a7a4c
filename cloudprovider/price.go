package cloudprovider

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Pricing is implemented by providers that know what nodes cost. Both methods return
// ErrNotImplemented if no price is known.
type Pricing interface {
	// NodePrice is the price of running the node from start to end. The node may be the node of a
	// template.
	NodePrice(ctx context.Context, node *v1.Node, start, end time.Time) (Price, error)
	// PodPrice is what the pod's requests would cost from start to end on a
	// machine of exactly its size.
	PodPrice(ctx context.Context, pod *v1.Pod, start, end time.Time) (Price, error)
}

// Price is an amount of money in millionths of one unit of some currency, the
// same for all prices of a cloud. Cluster Autoscaler and its protocol use a
// float64 in whole units; integers make equal prices equal and sums independent
// of their order.
type Price int64

// PriceUnit is one whole unit of the currency.
const PriceUnit Price = 1_000_000

// Scale returns p * num / den, rounded to the nearest (halves up). On overflow it is the largest
// Price. If a factor is negative or den is zero, the result is zero.
func (p Price) Scale(num, den int64) Price {
	if p <= 0 || num <= 0 || den <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(p), uint64(num))
	lo, carry := bits.Add64(lo, uint64(den)/2, 0)
	hi += carry
	if hi >= uint64(den) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(hi, lo, uint64(den))
	return Price(min(quotient, math.MaxInt64))
}

// Over returns the cost of a price per hour over the duration d.
func (p Price) Over(d time.Duration) Price { return p.Scale(int64(d), int64(time.Hour)) }

// String returns the price in whole units with six decimals.
func (p Price) String() string {
	sign, amount := "", uint64(p)
	if p < 0 {
		sign, amount = "-", -uint64(p)
	}
	return fmt.Sprintf("%s%d.%06d", sign, amount/uint64(PriceUnit), amount%uint64(PriceUnit))
}
