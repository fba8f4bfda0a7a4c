package predicates

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Kind is a set of pods that are equal to the scheduler's filters.
type Kind struct {
	// Pod stands for all of them: the first in input order.
	Pod *v1.Pod
	// Pods are their positions in the input, ascending.
	Pods []int
}

// Fit says which kinds of pods pass which templates.
type Fit struct {
	kinds   []Kind
	kindOf  []int
	shapeOf []int      // per template
	classOf []int      // per shape
	reasons [][]Reason // per shape and kind; empty means it fits
}

// Kinds returns the kinds in order of their first pod.
func (f *Fit) Kinds() []Kind { return f.kinds }

// KindOf returns the index in Kinds of the pod at the given position.
func (f *Fit) KindOf(pod int) int { return f.kindOf[pod] }

// ClassOf returns the number of the template's class. Templates of one class may
// differ in which kinds pass them; of those that pass several of them, new nodes
// of each take equally many.
func (f *Fit) ClassOf(template int) int { return f.classOf[f.shapeOf[template]] }

// Passes reports whether pods of the kind fit a fresh node of the template.
func (f *Fit) Passes(template, kind int) bool { return len(f.Reasons(template, kind)) == 0 }

// Reasons says why pods of the kind do not fit the template; nil if they
// fit. Every plugin that rejects is named, in the order of the profile;
// PodTopologySpread and InterPodAffinity, whose answers may change with the pods
// and nodes of the cluster, only where nothing else rejects.
func (f *Fit) Reasons(template, kind int) []Reason {
	return f.reasons[f.shapeOf[template]*len(f.kinds)+kind]
}

// Fits answers which pods pass which template, were one node of the template
// added to the cluster. The node gets a name and a hostname label of its own.
// A pod that a plugin cannot judge does not pass, with the plugin's error as
// the reason.
//
// It returns ErrNilObject for a nil node or pod.
func (c *Checker) Fits(cluster, templates []Node, pods []*v1.Pod) (*Fit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cluster(cluster).fits(templates, pods, false)
}

// FitsElsewhere answers as Fits does of a cluster without nodes, for pods that are
// bound, as if they were bound to no node. The pods of its kinds are bound to none.
func (c *Checker) FitsElsewhere(templates []Node, pods []*v1.Pod) (*Fit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cluster(nil).fits(templates, pods, true)
}

// Fits answers which pods pass which template, as Checker.Fits does, were one
// node of the template added to the Cluster as it is now. The Cluster does not
// change.
func (s *Cluster) Fits(templates []Node, pods []*v1.Pod) (*Fit, error) {
	s.lock()
	defer s.unlock()
	return s.fits(templates, pods, false)
}

func (s *Cluster) fits(templates []Node, pods []*v1.Pod, moved bool) (*Fit, error) {
	if s.err != nil {
		return nil, s.err
	}
	for i, t := range templates {
		if t.Node == nil {
			return nil, fmt.Errorf("template %d: %w", i, ErrNilObject)
		}
		if err := s.meet(t.Pods); err != nil {
			return nil, fmt.Errorf("pods of template %q: %w", t.Node.Name, err)
		}
	}
	f := &Fit{}
	var err error
	if f.kinds, f.kindOf, err = s.kinds(pods, moved); err != nil {
		return nil, err
	}
	kinds := make([]*kind, len(f.kinds))
	for i, k := range f.kinds {
		if kinds[i], err = s.lookUp(k.Pod); err != nil {
			return nil, err
		}
	}
	s.refresh() // once, for all that the kinds look at
	candidates, shapeOf, err := s.candidates(templates)
	if err != nil {
		return nil, err
	}
	f.shapeOf = shapeOf
	f.reasons = make([][]Reason, len(candidates)*len(kinds))
	matched := 0
	for i, k := range kinds {
		if err := s.u.c.interrupted(); err != nil {
			return nil, err
		}
		s.u.c.told(Step{Doing: "matching pods with node groups", Done: matched, Total: len(pods), Of: "pods"})
		matched += len(f.kinds[i].Pods)
		q := question{s: s, k: k}
		for j, fresh := range candidates {
			f.reasons[j*len(kinds)+i] = q.answer(fresh)
		}
	}
	f.classOf = s.classes(kinds, candidates)
	return f, nil
}

// candidates returns one fresh node for each shape of the templates, and the
// shape of each template.
func (s *Cluster) candidates(templates []Node) ([]candidate, []int, error) {
	var candidates []candidate
	shapeOf := make([]int, len(templates))
	index := map[*state]int{}
	for i, t := range templates {
		st, err := s.template(t)
		if err != nil {
			return nil, nil, err
		}
		shape, known := index[st]
		if !known {
			shape = len(candidates)
			index[st] = shape
			fresh := freshNode(t.Node, freshName(t.Node, s.len))
			candidates = append(candidates, candidate{st, st.onNode(s.u.c.storage.dressed(fresh))})
		}
		shapeOf[i] = shape
	}
	return candidates, shapeOf, nil
}

// candidate is a fresh node.
type candidate struct {
	st   *state
	info *framework.NodeInfo
}

// question is a kind of pod looking for a fresh node.
type question struct {
	s      *Cluster
	k      *kind
	around []fwk.NodeInfo // the nodes of the cluster, once they are needed

	keys    []string            // of the labels it looks at
	key     []byte              // reused
	answers map[string][]Reason // by what it looks at of a fresh node
}

// ask returns why the kind does not fit the node; nil if it fits.
func (q *question) ask(fresh candidate) []Reason {
	c, node := q.s.u.c, fresh.info
	tooMany, over := q.s.tooManyVolumes(q.k, fresh.st)
	failed := c.begin(q.k.info.Pod, one(node)).all(node)
	var own []*fwk.Status
	for _, status := range failed {
		if !stateDependent(status.Plugin()) {
			own = append(own, status)
		}
	}
	if len(own) > 0 || over {
		reasons := c.explain(own, q.k.info.Pod, &q.k.asks, node)
		if over {
			reasons = c.inOrder(append(reasons, tooMany))
		}
		return reasons
	}
	if !q.k.wider && !q.k.exact && !q.s.repelledWidely(q.k) {
		return reasonsOf(failed) // only what comes with the node can matter
	}
	if q.around == nil {
		if q.s.needsExact(q.k) {
			q.around = q.s.everyNode()
		} else {
			q.around = q.s.view(q.k).nodes()
		}
	}
	all := append(q.around[:len(q.around):len(q.around)], node)
	return c.explain(c.begin(q.k.info.Pod, all).all(node), q.k.info.Pod, &q.k.asks, node)
}
