package predicates

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// What was found out about objects is kept from Cluster to Cluster, by the objects
// themselves: they must not change.

// form stands for pods that are equal to the filters with all of their labels, but for a node that they
// name.
type form struct{ podKeys []string }

// Bounds of what an index remembers, beside what there is at one time.
const (
	maxGonePods   = 10_000
	maxGoneStates = 10_000
)

// index returns the one that Clusters of these nodes share with earlier ones.
func (c *Checker) index(nodes []Node) *index {
	pods := 0
	for i := range nodes {
		pods += len(nodes[i].Pods)
	}
	u := c.shared
	if u == nil || u.volumes || max(len(u.known), len(u.forms)) > 2*u.most+maxGonePods {
		u = newIndex(c, nil)
		c.shared = u
	}
	u.trim(len(nodes))
	u.most = max(u.most, pods)
	return u
}

// trim forgets nodes that have long gone.
func (u *index) trim(nodes int) {
	if len(u.nodes) > 4*nodes+maxGoneStates {
		clear(u.nodes)
	}
}

// looksUpVolumes reports whether what a pod means depends on objects of its volumes.
func looksUpVolumes(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return attached(v) || volumeChecked(p, &v) })
}

// formOf returns what a pod looks like; nil for one whose volumes must be looked up.
func (u *index) formOf(p *v1.Pod) (*form, error) {
	if l, there, err := u.forms.get(p); err != nil {
		return nil, u.checked(ErrChangedObject)
	} else if there {
		return l, nil
	}
	if looksUpVolumes(p) {
		u.volumes = true
		return nil, nil
	}
	key, err := u.enc.pending(p, nil, false, "", u.c)
	if err != nil {
		return nil, err
	}
	l := u.byForm[string(key)]
	if l == nil {
		l = &form{podKeysOf(p, false)}
		u.byForm[string(key)] = l
	}
	u.forms.put(p, l)
	return l, nil
}

// unboundOf returns the pod bound to no node.
func (u *index) unboundOf(p *v1.Pod) *v1.Pod {
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

// kinds sorts pods into kinds; moved pods as if they were bound to no node. Labels count under the keys
// only that any pod, pending or on a node, looks at.
func (s *Cluster) kinds(pods []*v1.Pod, moved bool) ([]Kind, []int, error) {
	u := s.u
	u.most = max(u.most, len(pods))
	keys := sets.New(u.c.rules.podKeys...)
	for _, t := range s.terms {
		keys.Insert(t.looksAt...)
	}
	forms := make([]*form, len(pods))
	for i, p := range pods {
		if p == nil {
			return nil, nil, fmt.Errorf("pod %d: %w", i, ErrNilObject)
		}
		var err error
		if forms[i], err = u.formOf(p); err != nil {
			return nil, nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		if forms[i] == nil {
			keys.Insert(podKeysOf(p, false)...)
			u.c.storage.seen(p)
		} else {
			keys.Insert(forms[i].podKeys...)
		}
	}
	index, byForm := map[string]int{}, map[*form]int{}
	kindOf := make([]int, len(pods))
	var kinds []Kind
	for i, p := range pods {
		node := p.Spec.NodeName
		if moved {
			node = ""
		}
		k, known := byForm[forms[i]]
		if !known || forms[i] == nil || node != "" {
			key, err := u.enc.pending(p, keys, false, node, u.c)
			if err != nil {
				return nil, nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
			}
			if k, known = index[string(key)]; !known {
				k = len(kinds)
				index[string(key)] = k
				if moved {
					p = u.unboundOf(p)
				}
				kinds = append(kinds, Kind{Pod: p})
			}
			if node == "" {
				byForm[forms[i]] = k
			}
		}
		kindOf[i] = k
		kinds[k].Pods = append(kinds[k].Pods, i)
	}
	return kinds, kindOf, nil
}
