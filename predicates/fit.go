package predicates

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
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
	for _, t := range templates { // their pods tell which labels matter
		if _, err := s.template(t); err != nil {
			return nil, err
		}
	}
	f := &Fit{}
	var err error
	if f.kinds, f.kindOf, err = s.kinds(pods, moved); err != nil {
		return nil, err
	}
	kinds := make([]*kind, len(f.kinds))
	for i, k := range f.kinds {
		if kinds[i], err = s.u.kind(k.Pod); err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", k.Pod.Namespace, k.Pod.Name, err)
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
		s.u.c.report(Step{Doing: "matching pods with node groups", Done: matched, Total: len(pods), Of: "pods"})
		matched += len(f.kinds[i].Pods)
		q := s.question(k)
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
	index := map[string]int{}
	for i, t := range templates {
		st, err := s.template(t)
		if err != nil {
			return nil, nil, err
		}
		e := &s.u.enc
		e.body(st)
		e.count(st.shape.id)
		shape, known := index[string(e.key)]
		if !known {
			shape = len(candidates)
			index[string(e.key)] = shape
			candidates = append(candidates, candidate{st, st.onNode(s.object(len(s.nodes), st))})
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

// body encodes a fresh node but for its labels: what it is and what is on it.
func (e *encoder) body(st *state) {
	e.key = e.key[:0]
	e.count(st.shape.body)
	e.count(st.all.AllowedPodNumber)
	e.amounts(&amounts{Resource: *st.all})
	e.count(len(st.items))
	for _, it := range st.items {
		e.count(it.id)
		e.count(it.n)
	}
	for _, at := range st.leftovers {
		e.text(at.driver)
		e.text(at.handle)
	}
}

// question is a kind of pod looking for a fresh node.
type question struct {
	s      *Cluster
	k      *kind
	table  *table         // nil: the plugins are asked about the whole cluster
	around []fwk.NodeInfo // the nodes of the cluster, once they are needed

	keys    []string            // of the labels it looks at
	answers map[string][]Reason // by what it looks at of a fresh node
}

func (s *Cluster) question(k *kind) *question {
	q := &question{s: s, k: k, answers: map[string][]Reason{}}
	q.keys = compacted(slices.Concat(nodeKeysOf(k.info.Pod, false), s.u.c.rules.nodeKeys))
	if k.contested {
		return q
	}
	if q.table = s.table(k, 0, 0); q.table.local { // whatever the cluster is
		q.answers = k.answers
	}
	for _, c := range q.table.counters {
		q.keys = withoutHost(append(q.keys, c.key))
	}
	return q
}

// answer is what ask answers, asked once of nodes the kind cannot tell apart: most kinds look at no label
// at all.
func (q *question) answer(fresh candidate) []Reason {
	if q.table == nil || q.k.picky || q.k.volumes {
		return q.ask(fresh)
	}
	e := &q.s.u.enc
	e.body(fresh.st)
	e.labels(fresh.st.node, q.keys)
	key := string(e.key)
	reasons, known := q.answers[key]
	if !known {
		reasons = q.ask(fresh)
		q.answers[key] = reasons
	}
	return reasons
}

// ask returns why the kind does not fit the node; nil if it fits.
func (q *question) ask(fresh candidate) []Reason {
	c, node, p := q.s.u.c, fresh.info, q.k.info.Pod
	tooMany, over := c.tooManyVolumes(q.k, fresh.st)
	failed := c.begin(p, one(node)).all(node)
	own := slices.DeleteFunc(slices.Clone(failed), func(s *fwk.Status) bool { return stateDependent(s.Plugin()) })
	switch {
	case over:
		return c.inOrder(append(c.explain(own, p, &q.k.asks, node), tooMany))
	case len(own) > 0:
		return c.explain(own, p, &q.k.asks, node)
	case q.table == nil:
		if q.around == nil {
			q.around = q.s.infos()
		}
		failed = c.begin(p, append(q.around[:len(q.around):len(q.around)], node)).all(node)
	case !q.table.local:
		failed = q.table.refusals(fresh.st)
	}
	return c.explain(failed, p, &q.k.asks, node)
}

// refusals says which plugins keep the kind off one more node because of other nodes.
func (t *table) refusals(st *state) (all []*fwk.Status) {
	add := func(plugin, message string) {
		if len(all) == 0 || all[len(all)-1].Plugin() != plugin {
			all = append(all, fwk.NewStatus(fwk.Unschedulable, message).WithPlugin(plugin))
		}
	}
	t.onNew(st, func(at *bucket) {
		for i, c := range t.counters {
			switch {
			case c.role != mustSpread || !t.refuses(at, i):
			case at.class.has[i]:
				add(names.PodTopologySpread, podtopologyspread.ErrReasonConstraintsNotMatch)
			default:
				add(names.PodTopologySpread, podtopologyspread.ErrReasonNodeLabelNotMatch)
			}
		}
		if !t.satisfies(at) {
			add(names.InterPodAffinity, interpodaffinity.ErrReasonAffinityRulesNotMatch)
		}
		for _, by := range []struct {
			role    role
			message string
		}{
			{avoids, interpodaffinity.ErrReasonAntiAffinityRulesNotMatch},
			{repelled, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch},
		} {
			for i, c := range t.counters {
				if c.role == by.role && t.refuses(at, i) {
					add(names.InterPodAffinity, by.message)
				}
			}
		}
	})
	return all
}

// classes numbers the candidates, those alike that differ only in labels that
// decide which of these kinds may run there: beside the body it is the
// domains of pod rules that tell how many of them do.
func (s *Cluster) classes(kinds []*kind, candidates []candidate) []int {
	keys := slices.Clone(s.u.c.rules.nodeKeys)
	for _, k := range kinds {
		if k.binds { // there are as many volumes as there are where the node is
			keys = append(keys, sets.List(s.u.c.storage.nodeKeys)...)
		}
		for _, r := range k.own {
			keys = append(keys, r.key)
		}
	}
	for _, t := range s.terms {
		for i := range t.info.RequiredAntiAffinityTerms {
			keys = append(keys, t.info.RequiredAntiAffinityTerms[i].TopologyKey)
		}
	}
	keys = compacted(withoutHost(keys))
	index := map[string]int{}
	classOf := make([]int, len(candidates))
	for i, c := range candidates {
		e := &s.u.enc
		e.body(c.st)
		e.labels(c.st.node, keys)
		class, known := index[string(e.key)]
		if !known {
			class = len(index)
			index[string(e.key)] = class
		}
		classOf[i] = class
	}
	return classOf
}
