package topologyspread

import "math"

// MaxScore is the score of the best node; the least is 0.
const MaxScore = 100

// Weight returns how much a matching pod counts for a soft constraint, by how many domains of its
// key there are among the candidates. Over hostnames each candidate is one.
func Weight(domains int) float64 { return math.Log(float64(domains + 2)) }

// Cost returns what a soft constraint adds to the cost of a node: the more, the more matching pods
// its domain has. The sum over the constraints, in their order, is rounded by math.Round.
func (c *Constraint) Cost(pods int, weight float64) float64 {
	return float64(pods)*weight + float64(c.MaxSkew-1)
}

// Scale turns the costs of candidates into scores. Its zero value has seen none.
type Scale struct {
	least, most int64
	some        bool
}

// Note takes the cost of a candidate into the scale.
func (s *Scale) Note(cost int64) {
	if !s.some {
		s.least, s.some = cost, true
	}
	s.least, s.most = min(s.least, cost), max(s.most, cost)
}

// Score returns the score of a candidate that was noted, 0 to MaxScore.
func (s *Scale) Score(cost int64) int64 {
	if s.most == 0 {
		return MaxScore
	}
	return MaxScore * (s.most + s.least - cost) / s.most
}
