package simulate

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

// cluster is what an API server would hold: nodes, and pods on them or waiting.
type cluster struct {
	nodes  []*node // those of no group first, then by group and age
	byName map[string]*node
	pods   []*pod // in order of arrival

	history *history // is told what becomes of pods
	aside   setAside

	view    []predicates.Node // of nodes, nil when something changed
	pending []*pod            // nil when something changed
}

type node struct {
	object  *v1.Node
	group   string // empty: of no group
	daemons []*v1.Pod
	ready   bool // takes pods
	// downSince is when it stopped being ready; zero while it is not down.
	downSince time.Time
	// leaving nodes are on their way out by scale-down; unneeded ones may follow.
	leaving, unneeded bool
}

type pod struct {
	object   *v1.Pod
	workload int   // index in Setup.Workloads, or fromFile
	node     *node // nil: pending
	life     *podLife
	// why and reason are set for a pod that no node is ordered for.
	why    scaleup.Why
	reason string
}

const fromFile = -1

func newCluster(h *history) *cluster { return &cluster{byName: map[string]*node{}, history: h} }

// add takes in a pod, which may be bound already.
func (c *cluster) add(p *pod) {
	c.pods = append(c.pods, p)
	c.history.arrived(p)
	c.aside.sort(p)
}

func (c *cluster) changed() { c.view, c.pending = nil, nil }

// waiting returns the pods without a node, in order of arrival.
func (c *cluster) waiting() []*pod {
	if c.pending == nil {
		c.pending = make([]*pod, 0, len(c.pods))
		for _, p := range c.pods {
			if p.node == nil {
				c.pending = append(c.pending, p)
			}
		}
	}
	return c.pending
}

// seen returns the nodes as the scheduler and the pipeline see them, in the
// order of c.nodes, each with the pods bound to it.
func (c *cluster) seen() []predicates.Node {
	if c.view != nil {
		return c.view
	}
	position := make(map[*node]int, len(c.nodes))
	c.view = make([]predicates.Node, len(c.nodes))
	for i, n := range c.nodes {
		position[n] = i
		c.view[i] = predicates.Node{Node: n.object, Pods: append([]*v1.Pod(nil), n.daemons...)}
	}
	for _, p := range c.pods {
		if p.node != nil {
			at := &c.view[position[p.node]]
			at.Pods = append(at.Pods, p.object)
		}
	}
	return c.view
}

// bind puts a pod on a node. The object is replaced, not changed: others may
// still look at it.
func (c *cluster) bind(p *pod, n *node) {
	object := *p.object
	object.Spec.NodeName = n.object.Name
	p.object, p.node = &object, n
	c.history.bound(p)
	c.changed()
}

// evict makes a bound pod pending again.
func (c *cluster) evict(p *pod) {
	object := *p.object
	object.Spec.NodeName = ""
	c.history.unbound(p)
	p.object, p.node = &object, nil
	c.changed()
}

// evictFrom makes all pods of a node pending and returns how many there were.
func (c *cluster) evictFrom(n *node) int {
	evicted := 0
	for _, p := range c.pods {
		if p.node == n {
			c.evict(p)
			evicted++
		}
	}
	return evicted
}

// scale brings a workload to a number of replicas: new pods get the next names,
// and of those there are, pending ones go first, then the youngest. It returns
// how many were added or, below zero, removed.
func (c *cluster) scale(index int, w *Workload, replicas int, lastName *int) int {
	var own []*pod
	for _, p := range c.pods {
		if p.workload == index {
			own = append(own, p)
		}
	}
	change := replicas - len(own)
	for range max(0, change) {
		*lastName++
		object := *w.Pod
		object.Name = fmt.Sprintf("%s-%d", w.Name, *lastName)
		w.withClaims(&object)
		c.add(&pod{object: &object, workload: index})
	}
	if doomed := max(0, -change); len(w.Claims) > 0 { // of a StatefulSet the last go, and their names come back
		c.remove(setOf(own[len(own)-doomed:]))
		*lastName -= doomed
	} else {
		c.remove(lastToStay(own, doomed))
	}
	c.changed()
	return change
}

func setOf(pods []*pod) map[*pod]bool {
	set := make(map[*pod]bool, len(pods))
	for _, p := range pods {
		set[p] = true
	}
	return set
}

// lastToStay picks n pods to remove.
func lastToStay(own []*pod, n int) map[*pod]bool {
	doomed := make(map[*pod]bool, n)
	for _, pending := range []bool{true, false} {
		for i := len(own) - 1; i >= 0 && len(doomed) < n; i-- {
			if (own[i].node == nil) == pending {
				doomed[own[i]] = true
			}
		}
	}
	return doomed
}

func (c *cluster) remove(doomed map[*pod]bool) {
	if len(doomed) == 0 {
		return
	}
	kept := c.pods[:0]
	for _, p := range c.pods {
		if !doomed[p] {
			kept = append(kept, p)
			continue
		}
		c.history.left(p)
	}
	clear(c.pods[len(kept):])
	c.pods = kept
}
