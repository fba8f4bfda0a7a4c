package predicates

import (
	"cmp"
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// universe holds one object for each shape of node, pod on a node, pod to place,
// and state a node came with. Clusters that follow each other share it, so that
// only what is new is looked at.
type universe struct {
	c         *Checker
	enc       encoder
	key       []byte
	shapes    map[string]*shape
	bodies    map[string]int // what shapes are but for labels, numbered
	residents map[string]*resident
	repels    map[string]*repulsion
	known     byPod[*resident]
	kinds     map[string]*kind
	kindOf    byPod[*kind]
	states    map[string]*state
	nodes     map[*v1.Node]hosted
	looks     byPod[*look] // pods as they are
	elsewhere byPod[*look] // pods as they are once bound to no node
	byLook    map[string]*look
	unbound   byPod[*v1.Pod]
	nodeKeys  []string // sorted
	keysRead  int      // c.keysRead when nodeKeys was taken
	most      int      // pods there were at one time
	// volumes says that some pod or node has any: what they mean changes with the
	// objects that pods look up, and with the pods that are placed.
	volumes bool
}

func newUniverse(c *Checker) *universe {
	return &universe{
		c:         c,
		shapes:    map[string]*shape{},
		bodies:    map[string]int{},
		residents: map[string]*resident{},
		repels:    map[string]*repulsion{},
		known:     byPod[*resident]{},
		kinds:     map[string]*kind{},
		kindOf:    byPod[*kind]{},
		states:    map[string]*state{},
		nodes:     map[*v1.Node]hosted{},
		looks:     byPod[*look]{},
		elsewhere: byPod[*look]{},
		byLook:    map[string]*look{},
		unbound:   byPod[*v1.Pod]{},
		keysRead:  -1,
	}
}

// resident returns the object that stands for a pod on a node.
func (u *universe) resident(p *v1.Pod) (*resident, error) {
	if r, known, err := u.known.get(p); known {
		return r, u.checked(err)
	}
	u.c.storage.seen(p)
	r, err := u.residentWith(p, nil)
	if err == nil {
		u.known.put(p, r)
	}
	return r, err
}

// placed returns the object that stands for a pod of a kind once it is on a node: its own claims
// are but counted there.
func (u *universe) placed(p *v1.Pod) (*resident, error) {
	s := u.c.storage
	own := func(v *v1.Volume) bool { return s.owns(p, v) }
	var rest []v1.Volume
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; !own(v) {
			rest = append(rest, *v)
		}
	}
	if len(rest) == len(p.Spec.Volumes) {
		return u.resident(p)
	}
	stripped := *p
	stripped.Spec.Volumes = rest
	return u.residentWith(&stripped, s.attachmentsOf(p, own).own)
}

// residentWith returns the object that stands for a pod on a node that has volumes of its own
// besides those of its claims.
func (u *universe) residentWith(p *v1.Pod, own map[string]int) (*resident, error) {
	// Terms that cannot be parsed are left out, as the scheduler's cache does.
	info, _ := framework.NewPodInfo(p)
	r := &resident{id: len(u.residents), info: info, need: needOf(info)}
	u.volumes = u.volumes || len(own) > 0 || looksUpVolumes(p)
	key, err := u.enc.resident(p, &r.need, own)
	if err != nil {
		return nil, err
	}
	if same := u.residents[string(key)]; same != nil {
		return same, nil
	}
	r.attaches = u.c.storage.attachmentsOf(p, func(*v1.Volume) bool { return false })
	r.attaches.own = own
	r.looksAt = podKeysOf(p)
	u.residents[string(key)] = r
	if len(info.RequiredAntiAffinityTerms) > 0 {
		if r.repels, err = u.repulsion(p, info.RequiredAntiAffinityTerms); err != nil {
			return nil, err
		}
		u.c.look(residentNodeKeysOf(p))
	}
	return r, nil
}

// repulsion returns the object that stands for a required anti-affinity. Equal
// terms of pods in different namespaces share one: namespaces do not count here.
func (u *universe) repulsion(p *v1.Pod, terms []fwk.AffinityTerm) (*repulsion, error) {
	apart := v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: fwk.GetPodAntiAffinityTerms(p.Spec.Affinity)}
	key, err := apart.Marshal()
	if err != nil {
		return nil, err
	}
	r := u.repels[string(key)]
	if r == nil {
		r = newRepulsion(terms)
		u.repels[string(key)] = r
	}
	return r, nil
}

// kind returns the object that stands for a pod to place.
func (u *universe) kind(p *v1.Pod) (*kind, error) {
	if k, known, err := u.kindOf.get(p); known {
		return k, u.checked(err)
	}
	r, err := u.resident(p)
	if err != nil {
		return nil, err
	}
	placed, err := u.placed(p)
	if err != nil {
		return nil, err
	}
	key, err := u.enc.pending(p, nil, false, u.c)
	if err != nil {
		return nil, err
	}
	key = binary.AppendUvarint(key, uint64(placed.id))
	if same := u.kinds[string(key)]; same != nil {
		if !same.volumes { // placing one may change what the claims of others mean
			u.kindOf.put(p, same)
		}
		return same, nil
	}
	if r.info.Pod != p {
		// The resident stands for pods that are equal on a node; what the pod asks
		// for before it is there may differ.
		info, _ := framework.NewPodInfo(p)
		r = &resident{id: r.id, info: info, need: r.need, repels: r.repels, attaches: r.attaches, looksAt: r.looksAt}
	}
	u.c.look(nodeKeysOf(p))
	k := newKind(r, placed, u.c)
	u.kinds[string(key)] = k
	return k, nil
}

// shape returns the shape of a node under the label keys looked at now.
func (u *universe) shape(n *v1.Node) *shape {
	if u.keysRead != u.c.keysRead {
		u.nodeKeys = slices.Sorted(slices.Values(u.c.nodeKeys.UnsortedList()))
		u.keysRead = u.c.keysRead
	}
	n = u.c.storage.dressed(n)
	bare := framework.NewNodeInfo()
	bare.SetNode(n)
	e := &u.enc
	e.key = binary.AppendUvarint(e.key[:0], uint64(u.keysRead))
	_, hasHost := n.Labels[v1.LabelHostname]
	e.flag(hasHost)
	e.flag(n.Spec.Unschedulable)
	e.amounts(&amounts{cpu: bare.Allocatable.MilliCPU, memory: bare.Allocatable.Memory,
		ephemeral: bare.Allocatable.EphemeralStorage, scalars: bare.Allocatable.ScalarResources})
	e.count(bare.Allocatable.AllowedPodNumber)
	e.taints(n.Spec.Taints)
	for _, f := range n.Status.DeclaredFeatures {
		e.text(f)
	}
	limits := u.c.storage.limits(n)
	e.count(len(n.Status.DeclaredFeatures))
	e.own(limits)
	body, known := u.bodies[string(e.key)]
	if !known {
		body = len(u.bodies)
		u.bodies[string(e.key)] = body
	}
	for i, k := range u.nodeKeys {
		if v, ok := n.Labels[k]; ok {
			e.count(i + 1)
			e.text(v)
		}
	}
	if s := u.shapes[string(e.key)]; s != nil {
		return s
	}
	s := &shape{id: len(u.shapes), body: body, node: n, bare: bare, limits: limits, empty: map[*kind]bool{}}
	u.shapes[string(e.key)] = s
	return s
}

// state returns the state of a node with the given pods.
func (u *universe) state(n *v1.Node, pods []*v1.Pod) (*state, error) {
	rs := make([]*resident, 0, len(pods))
	for _, p := range pods {
		if p == nil {
			return nil, ErrNilObject
		}
		if finished(p) {
			continue
		}
		r, err := u.resident(p)
		if err != nil {
			return nil, err
		}
		rs = append(rs, r)
	}
	slices.SortFunc(rs, func(a, b *resident) int { return cmp.Compare(a.id, b.id) })
	st := &state{shape: u.shape(n), pods: len(rs), leftovers: u.c.storage.leftovers(n, pods)}
	u.volumes = u.volumes || len(st.leftovers) > 0
	u.key = binary.AppendUvarint(u.key[:0], uint64(st.shape.id))
	for _, r := range rs {
		u.key = binary.AppendUvarint(u.key, uint64(r.id))
	}
	for _, at := range st.leftovers {
		u.key = append(append(u.key, at.driver...), 0)
		u.key = append(append(u.key, at.handle...), 0)
	}
	if same := u.states[string(u.key)]; same != nil {
		return same, nil
	}
	for i, r := range rs {
		if i > 0 && rs[i-1] == r {
			st.items[len(st.items)-1].n++
		} else {
			st.items = append(st.items, item{resident: r, n: 1})
			st.looksAt = append(st.looksAt, r.looksAt...)
			if r.repels != nil && !slices.Contains(st.repels, r.repels) {
				st.repels = append(st.repels, r.repels)
			}
		}
		st.used = st.used.plus(&r.need, 1)
	}
	u.states[string(u.key)] = st
	return st, nil
}

// taints encodes the taints that keep pods away.
func (e *encoder) taints(taints []v1.Taint) {
	for i := range taints {
		if t := &taints[i]; t.Effect != v1.TaintEffectPreferNoSchedule {
			e.text(t.Key)
			e.text(t.Value)
			e.text(string(t.Effect))
		}
	}
	e.count(0)
}
