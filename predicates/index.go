package predicates

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// index holds one object for each shape of node, pod on a node, and pod to place, so that only what is
// new is looked at. Clusters that follow each other share one; each Scheduler has its own.
type index struct {
	c   *Checker
	enc encoder
	// podKeys are the labels by which pods differ; nil: all. Where they are known, nodes are scored.
	// They, and the label keys by which nodes differ, only ever get more.
	podKeys  sets.Set[string]
	grown    bool // labels have come, so that what is known of pods is void
	nodeKeys sets.Set[string]
	version  int      // grows with nodeKeys
	sorted   []string // nodeKeys when version was sortedAt
	sortedAt int

	shapes    map[string]*shape
	bodies    map[string]int // what shapes are but for labels, numbered
	boundPods map[string]*boundPod
	terms     map[string]*terms
	known     byPod[*boundPod]
	kinds     map[string]*kind
	kindOf    byPod[*kind]
	nodes     map[stateKey]knownState
	forms     byPod[*form]
	byForm    map[string]*form
	unbound   byPod[*v1.Pod]
	most      int // pods there were at one time
	// volumes says that some pod or node has any: what they mean changes with the
	// objects that pods look up, and with the pods that are placed.
	volumes bool
}

func newIndex(c *Checker, podKeys sets.Set[string]) *index {
	return &index{
		c:         c,
		podKeys:   podKeys,
		nodeKeys:  c.nodeKeys.Clone(),
		sortedAt:  -1,
		shapes:    map[string]*shape{},
		bodies:    map[string]int{},
		boundPods: map[string]*boundPod{},
		terms:     map[string]*terms{},
		known:     byPod[*boundPod]{},
		kinds:     map[string]*kind{},
		kindOf:    byPod[*kind]{},
		nodes:     map[stateKey]knownState{},
		forms:     byPod[*form]{},
		byForm:    map[string]*form{},
		unbound:   byPod[*v1.Pod]{},
	}
}

// scored says that nodes are scored, so that preferences matter too.
func (u *index) scored() bool { return u.podKeys != nil }

// addNodeKeys notes node label keys that pods look at.
func (u *index) addNodeKeys(keys []string) {
	before := u.nodeKeys.Len()
	u.c.storage.watchTopology(keys)
	u.nodeKeys.Insert(keys...)
	u.version += u.nodeKeys.Len() - before
}

// boundPod returns the object that stands for a pod on a node.
func (u *index) boundPod(p *v1.Pod) (*boundPod, error) {
	if r, known, err := u.known.get(p); known {
		return r, u.checked(err)
	}
	u.c.storage.seen(p)
	if u.scored() {
		u.learn(p)
	}
	r, err := u.boundPodWith(p, nil)
	if err == nil {
		u.known.put(p, r)
	}
	return r, err
}

// placed returns the object that stands for a pod of a kind once it is on a node: its own claims
// are but counted there.
func (u *index) placed(p *v1.Pod) (*boundPod, error) {
	s := u.c.storage
	own := func(v *v1.Volume) bool { return s.owns(p, v) }
	stripped := *p
	stripped.Spec.Volumes = nil
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; !own(v) {
			stripped.Spec.Volumes = append(stripped.Spec.Volumes, *v)
		}
	}
	return u.boundPodWith(&stripped, s.attachmentsOf(p, own).own)
}

// boundPodWith returns the object that stands for a pod on a node that has volumes of its own
// besides those of its claims.
func (u *index) boundPodWith(p *v1.Pod, own map[string]int) (*boundPod, error) {
	// Terms that cannot be parsed are left out, as the scheduler's cache does.
	info, _ := framework.NewPodInfo(p)
	r := &boundPod{id: len(u.boundPods), info: info, need: needOf(info)}
	u.volumes = u.volumes || len(own) > 0 || looksUpVolumes(p)
	var err error
	if r.terms, err = u.termsOf(p, info); err != nil {
		return nil, err
	}
	key, err := u.enc.boundPod(p, u.podKeys, r, own)
	if err != nil {
		return nil, err
	}
	if same := u.boundPods[string(key)]; same != nil {
		return same, nil
	}
	r.ports = portsOf(p)
	r.attaches = u.c.storage.attachmentsOf(p, func(*v1.Volume) bool { return false })
	r.attaches.own = own
	u.boundPods[string(key)] = r
	return r, nil
}

// termsOf returns what a pod on a node wants of other pods.
func (u *index) termsOf(p *v1.Pod, info *framework.PodInfo) (*terms, error) {
	a := p.Spec.Affinity
	if a == nil || len(info.RequiredAntiAffinityTerms) == 0 && (!u.scored() || a.PodAffinity == nil && a.PodAntiAffinity == nil) {
		return nil, nil
	}
	wanted := v1.Affinity{PodAntiAffinity: a.PodAntiAffinity}
	if u.scored() {
		wanted.PodAffinity = a.PodAffinity
	}
	data, err := wanted.Marshal()
	if err != nil {
		return nil, err
	}
	key := p.Namespace + "/" + string(data)
	t := u.terms[key]
	if t == nil {
		apart := v1.Pod{Spec: v1.PodSpec{Affinity: &v1.Affinity{PodAntiAffinity: a.PodAntiAffinity}}}
		t = &terms{id: len(u.terms), info: info, looksAt: selectedKeysOf(termsOf(&apart, false))}
		u.terms[key] = t
		u.addNodeKeys(withoutHost(topologyKeysOf(termsOf(&apart, false))))
	}
	return t, nil
}

// kind returns the object that stands for a pod to place.
func (u *index) kind(p *v1.Pod) (*kind, error) {
	if k, known, err := u.kindOf.get(p); known {
		return k, u.checked(err)
	}
	u.c.storage.seen(p)
	if u.scored() {
		u.learn(p)
	}
	var placed *boundPod
	var err error
	volumes := looksUpVolumes(p)
	if volumes {
		if placed, err = u.placed(p); err != nil {
			return nil, err
		}
	}
	key, err := u.enc.pending(p, u.podKeys, true, p.Spec.NodeName, u.c)
	if err != nil {
		return nil, err
	}
	if volumes {
		key = binary.AppendUvarint(key, uint64(placed.id))
	}
	k := u.kinds[string(key)]
	if k == nil {
		text := string(key)
		if !volumes {
			if placed, err = u.boundPodWith(p, nil); err != nil {
				return nil, err
			}
		}
		if !u.scored() {
			u.addNodeKeys(nodeKeysOf(p, false))
		}
		k = u.newKind(p, placed)
		u.kinds[text] = k
	}
	if !k.volumes { // placing one may change what the claims of others mean
		u.kindOf.put(p, k)
	}
	return k, nil
}

// learn notes the labels that the rules of a pod look at, where nodes are scored.
func (u *index) learn(p *v1.Pod) {
	u.addNodeKeys(nodeKeysOf(p, true))
	u.grow(podKeysOf(p, true))
}

// grow adds labels by which pods differ.
func (u *index) grow(keys []string) {
	before := u.podKeys.Len()
	u.podKeys.Insert(keys...)
	u.grown = u.grown || u.podKeys.Len() > before && len(u.boundPods) > 0
}

// shape returns the shape of a node under the label keys looked at now, and the node with the labels of
// storage drivers.
func (u *index) shape(n *v1.Node) (*v1.Node, *shape) {
	if u.sortedAt != u.version {
		u.sorted, u.sortedAt = sets.List(u.nodeKeys), u.version
	}
	n = u.c.storage.withDriverLabels(n)
	e := &u.enc
	e.key = e.key[:0]
	_, hasHost := n.Labels[v1.LabelHostname]
	e.flag(hasHost)
	e.flag(n.Spec.Unschedulable)
	e.taints(n.Spec.Taints, u.scored())
	for _, f := range n.Status.DeclaredFeatures {
		e.text(f)
	}
	e.count(len(n.Status.DeclaredFeatures))
	limits := u.c.storage.limits(n)
	e.own(limits)
	body, known := u.bodies[string(e.key)]
	if !known {
		body = len(u.bodies)
		u.bodies[string(e.key)] = body
	}
	e.count(u.version)
	e.labels(n, u.sorted)
	s := u.shapes[string(e.key)]
	if s == nil {
		s = &shape{id: len(u.shapes), body: body, limits: limits}
		u.shapes[string(e.key)] = s
	}
	return n, s
}

// state returns the state of a node with the given pods; fresh says that it is for copies of the node.
func (u *index) state(n Node, fresh bool) (*state, error) {
	st := &state{}
	object := n.Node
	if fresh {
		st.template, object = n.Node, freshNode(n.Node, freshName(n.Node, 0))
	}
	for _, p := range n.Pods {
		if p == nil {
			return nil, ErrNilObject
		}
		if finished(p) {
			continue
		}
		r, err := u.boundPod(p)
		if err != nil {
			return nil, err
		}
		st.items = append(st.items, item{r, 1})
		st.used = st.used.plus(&r.need, 1)
		st.pods++
	}
	slices.SortFunc(st.items, func(a, b item) int { return cmp.Compare(a.id, b.id) })
	kept := st.items[:0]
	for _, it := range st.items {
		if last := len(kept) - 1; last >= 0 && kept[last].boundPod == it.boundPod {
			kept[last].n++
		} else {
			kept = append(kept, it)
		}
	}
	st.items = kept
	st.node, st.shape = u.shape(object)
	st.all = framework.NewResource(object.Status.Allocatable)
	st.leftovers = u.c.storage.leftovers(object, n.Pods)
	u.volumes = u.volumes || len(st.leftovers) > 0
	return st, nil
}

// stateKey is a node as it is, or as the template of fresh copies.
type stateKey struct {
	node  *v1.Node
	fresh bool
}

// knownState is what is known of a node that came with pods.
type knownState struct {
	mark    nodeMark
	pods    []*v1.Pod
	st      *state
	version int // of the index's shapes
}

// stateOf returns the state of a node with the pods on it, the same one as long as neither changes.
func (u *index) stateOf(n Node, fresh bool) (*state, error) {
	key, mark := stateKey{n.Node, fresh}, markNode(n.Node)
	known, there := u.nodes[key]
	switch {
	case there && known.mark != mark && !fresh:
		return nil, u.checked(fmt.Errorf("the node itself: %w", ErrChangedObject))
	case there && known.mark == mark && known.version == u.version && slices.Equal(known.pods, n.Pods) && (!fresh || !u.volumes):
		return known.st, nil
	}
	st, err := u.state(n, fresh)
	if err == nil {
		u.nodes[key] = knownState{mark, slices.Clone(n.Pods), st, u.version}
	}
	return st, err
}
