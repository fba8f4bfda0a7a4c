package steering

import (
	"maps"
	"slices"
)

// takeLast gives a member the last node of another one where it is asked for more than its share and all sizes are then
// as even as before. Cluster Autoscaler, which balances by itself, orders members of one size in its own way: it would have to ask
// for that node in another loop. Members that were increased already keep what they have got.
func (p *pick) takeLast(id string, increased map[string]bool) {
	s := p.split
	to := slices.IndexFunc(s.members, func(m member) bool {
		return m.Name == id && m.held == "" && m.Size+int64(s.shares[id]) < m.Max
	})
	if to < 0 || s.policy != "" || s.bound {
		return
	}
	size := s.members[to].Size + int64(s.shares[id])
	from := slices.IndexFunc(s.members, func(m member) bool {
		return !increased[m.Name] && s.shares[m.Name] > 0 && m.Size+int64(s.shares[m.Name]) == size+1 && size >= m.Min
	})
	if from < 0 {
		return
	}
	s.shares, s.result = maps.Clone(s.shares), slices.Clone(s.result)
	s.shares[s.members[from].Name]--
	s.result[from].NewSize--
	s.shares[id]++
	s.result[to].NewSize++
	p.Shares = s.shares
}
