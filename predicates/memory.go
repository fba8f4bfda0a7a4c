package predicates

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// What was found out about objects is kept from Cluster to Cluster, by the objects
// themselves: they must not change.

// hosted is what is known of a node that came with pods.
type hosted struct {
	mark     nodeMark
	pods     []*v1.Pod
	st       *state
	keysRead int // the Checker's keys when the shape was taken
}

// look stands for pods that are equal to the plugins with all of their labels.
type look struct{ podKeys []string }

// Bounds of what a universe remembers, beside what there is at one time.
const (
	maxGonePods   = 10_000
	maxGoneStates = 10_000
	maxGoneRooms  = 1_000
)

// universe returns the one that Clusters of these nodes share with earlier ones.
func (c *Checker) universe(nodes []Node) *universe {
	pods := 0
	for i := range nodes {
		pods += len(nodes[i].Pods)
	}
	u := c.shared
	if u == nil || u.volumes || max(len(u.known), len(u.looks), len(u.elsewhere)) > 2*u.most+maxGonePods {
		u = newUniverse(c)
		c.shared = u
	}
	if max(len(u.states), len(u.nodes)) > 4*len(nodes)+maxGoneStates {
		clear(u.states)
		clear(u.nodes)
	}
	u.most = max(u.most, pods)
	return u
}

// knows reports whether a node came before with the very same pods.
func (u *universe) knows(n Node) bool {
	known, there := u.nodes[n.Node]
	return there && slices.Equal(known.pods, n.Pods)
}

// hosted returns the state of a node with the pods on it.
func (u *universe) hosted(n Node) (*state, error) {
	mark := markNode(n.Node)
	if known, there := u.nodes[n.Node]; there {
		if known.mark != mark {
			return nil, u.checked(fmt.Errorf("the node itself: %w", ErrChangedObject))
		}
		if known.keysRead == u.c.keysRead && u.knows(n) {
			return known.st, nil
		}
	}
	st, err := u.state(n.Node, n.Pods)
	if err == nil {
		u.nodes[n.Node] = hosted{mark, slices.Clone(n.Pods), st, u.c.keysRead}
	}
	return st, err
}

// looksUpVolumes reports whether what a pod means depends on objects of its volumes.
func looksUpVolumes(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return attached(v) || volumeChecked(p, &v) })
}

// look returns what a pod looks like, as it is or as it would be once bound to no
// node; nil for one whose volumes must be looked up.
func (u *universe) look(p *v1.Pod, moved bool) (*look, error) {
	known := u.looks
	if moved {
		known = u.elsewhere
	}
	if l, there, err := known.get(p); err != nil {
		return nil, u.checked(ErrChangedObject)
	} else if there {
		return l, nil
	}
	if looksUpVolumes(p) {
		u.volumes = true
		return nil, nil
	}
	key, err := u.enc.pending(p, nil, moved, u.c)
	if err != nil {
		return nil, err
	}
	l := u.byLook[string(key)]
	if l == nil {
		l = &look{podKeysOf(p)}
		u.byLook[string(key)] = l
	}
	known.put(p, l)
	return l, nil
}

// free returns the pod bound to no node.
func (u *universe) free(p *v1.Pod) *v1.Pod {
	if p.Spec.NodeName == "" {
		return p
	}
	if free, known, err := u.unbound.get(p); known && err == nil {
		return free
	}
	free := *p
	free.Spec.NodeName = ""
	u.unbound.put(p, &free)
	return &free
}

// kinds sorts pods into kinds. Labels count under the keys only that any pod,
// pending or on a node, looks at.
func (s *Cluster) kinds(pods []*v1.Pod, moved bool) ([]Kind, []int, error) {
	u := s.u
	u.most = max(u.most, len(pods))
	keys := sets.New(u.c.rules.podKeys...).Union(s.looksAt)
	looks := make([]*look, len(pods))
	for i, p := range pods {
		if p == nil {
			return nil, nil, fmt.Errorf("pod %d: %w", i, ErrNilObject)
		}
		var err error
		if looks[i], err = u.look(p, moved); err != nil {
			return nil, nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		if looks[i] == nil {
			keys.Insert(podKeysOf(p)...)
			u.c.storage.seen(p)
		} else {
			keys.Insert(looks[i].podKeys...)
		}
	}
	index, byLook := map[string]int{}, map[*look]int{}
	kindOf := make([]int, len(pods))
	var sizes []int
	var kinds []Kind
	for i, p := range pods {
		k, known := byLook[looks[i]]
		if !known || looks[i] == nil {
			key, err := u.enc.pending(p, keys, moved, u.c)
			if err != nil {
				return nil, nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
			}
			if k, known = index[string(key)]; !known {
				k = len(kinds)
				index[string(key)] = k
				if moved {
					p = u.free(p)
				}
				kinds = append(kinds, Kind{Pod: p})
				sizes = append(sizes, 0)
			}
			byLook[looks[i]] = k
		}
		kindOf[i] = k
		sizes[k]++
	}
	for k := range kinds {
		kinds[k].Pods = make([]int, 0, sizes[k])
	}
	for i, k := range kindOf {
		kinds[k].Pods = append(kinds[k].Pods, i)
	}
	return kinds, kindOf, nil
}
