package predicates

import (
	"encoding/binary"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// view is a cluster as the PreFilter plugins need to see it for one kind of
// pod, in as few nodes as give the same answers. Nodes of one shape with the
// same concerning pods form a group, shown as one node and a few twins that
// carry the pods of all the others: sums over a domain, least counts over
// hostnames and the number of domains (up to minDomains) come out the same.
type view struct {
	k       *kind
	twins   int // how many twins a group has at most
	groups  []*group
	byKey   map[string]*group
	byState map[*state]*group
	infos   map[*state]*framework.NodeInfo
	key     []byte
	about   map[*resident]bool
}

// group is a number of nodes that are equal to PreFilter.
type group struct {
	shape *shape
	items []item // the pods that concern the kind, on each node
	n     int    // nodes
	node  *v1.Node
	seen  []fwk.NodeInfo // the node and its twins, for n nodes
	seenN int
}

// view builds the view of the whole cluster for a kind.
func (s *Cluster) view(k *kind) *view {
	v := &view{
		k:       k,
		twins:   max(1, k.minDomains),
		byKey:   map[string]*group{},
		byState: map[*state]*group{},
		infos:   map[*state]*framework.NodeInfo{},
		about:   map[*resident]bool{},
	}
	for _, seg := range s.segments {
		v.add(seg.st, seg.n)
	}
	return v
}

// add adds n nodes in a state, or takes them away.
func (v *view) add(st *state, n int) {
	g := v.byState[st]
	if g == nil {
		g = v.group(st)
		v.byState[st] = g
	}
	g.n += n
}

func (v *view) group(st *state) *group {
	var items []item
	v.key = binary.AppendUvarint(v.key[:0], uint64(st.shape.id))
	for _, it := range st.items {
		concerns, known := v.about[it.resident]
		if !known {
			concerns = v.k.concerns(it.resident)
			v.about[it.resident] = concerns
		}
		if concerns {
			items = append(items, it)
			v.key = binary.AppendUvarint(v.key, uint64(it.id))
			v.key = binary.AppendUvarint(v.key, uint64(it.n))
		}
	}
	if g := v.byKey[string(v.key)]; g != nil {
		return g
	}
	g := &group{shape: st.shape, items: items, node: v.named(st.shape.node, len(v.groups), 0)}
	v.byKey[string(v.key)] = g
	v.groups = append(v.groups, g)
	return g
}

// named returns the node object of a group or of a twin of it. If a node
// has a hostname, each gets one of its own.
func (v *view) named(n *v1.Node, group, twin int) *v1.Node {
	if _, ok := n.Labels[v1.LabelHostname]; !ok {
		return n
	}
	return freshNode(n, fmt.Sprintf("~%d~%d", group, twin))
}

// nodes returns the nodes of the view.
func (v *view) nodes() []fwk.NodeInfo {
	var all []fwk.NodeInfo
	for i, g := range v.groups {
		if g.n == 0 {
			continue
		}
		if g.seenN != g.n {
			v.show(i, g)
		}
		all = append(all, g.seen...)
	}
	return all
}

func (v *view) show(i int, g *group) {
	g.seen, g.seenN = g.seen[:0], g.n
	g.seen = append(g.seen, crowd(g.node, g.items, 1))
	others := g.n - 1
	twins := min(others, v.twins)
	for twin := 1; twin <= twins; twin++ {
		times := 1
		if twin == twins {
			times = others - (twins - 1)
		}
		g.seen = append(g.seen, crowd(v.named(g.shape.node, i, twin), g.items, times))
	}
}

// crowd returns a node with the items on it times over, for PreFilter only:
// what the pods request is not counted.
func crowd(n *v1.Node, items []item, times int) *framework.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(n)
	for _, it := range items {
		info.Pods = slices.Grow(info.Pods, it.n*times)
		for range it.n * times {
			info.Pods = append(info.Pods, it.info)
			if it.repels != nil {
				info.PodsWithRequiredAntiAffinity = append(info.PodsWithRequiredAntiAffinity, it.info)
			}
		}
	}
	return info
}

// info returns a node in the given state as Filter is to see it next to the
// nodes of the view. It must not be changed.
func (v *view) info(st *state) *framework.NodeInfo {
	if v.infos[st] == nil {
		v.infos[st] = st.onNode(v.byState[st].node)
	}
	return v.infos[st]
}
