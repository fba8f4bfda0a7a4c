package autoscaler

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/predicates"
)

// batches is the World of Config.Batches: pods that appear together, and a scheduler that binds them.
type batches struct {
	cloud    Cloud
	coming   []Batch         // by time
	pods     []*pod          // that have appeared, in order
	claims   []claim         // not provisioned yet
	deleting map[string]bool // names of nodes with the taint
	nodes    []*v1.Node      // as last listed, in the order of the cloud

	scheduler *predicates.Scheduler
	tried     func(*Request, bool)
}

// Nodes implements World.
func (w *batches) Nodes() []predicates.Node { return w.withPods(w.nodes) }

// Pending implements World.
func (w *batches) Pending() []*v1.Pod { return objects(w.pending()) }

// Budgets implements World: there are none.
func (*batches) Budgets() []removal.Budget { return nil }

// Evict implements World: only empty nodes are deleted.
func (*batches) Evict(string) string { return "" }

// SetDeleting implements World. It shows when the nodes are listed next, as in a cache.
func (w *batches) SetDeleting(node string, deleting bool) {
	if deleting {
		w.deleting[node] = true
	} else {
		delete(w.deleting, node)
	}
}

// Restarted implements World: a new process takes back the deletions of the last.
func (w *batches) Restarted() {
	clear(w.deleting)
	w.list()
}

// Tried implements Requests.
func (w *batches) Tried(r *Request, provisioned bool) { w.tried(r, provisioned) }

// tried has the pods of a provisioned request appear.
func (a *Autoscaler) tried(r *Request, provisioned bool) {
	if !provisioned {
		a.note(Unprovisioned, "", len(r.Pods), r.Name)
		return
	}
	a.note(Provisioned, "", len(r.Pods), r.Name)
	at := slices.IndexFunc(a.own.claims, func(c claim) bool { return c.Request == r })
	a.appear(r.Pods, a.own.claims[at].life, a.clock.Now())
	a.own.claims = slices.Delete(a.own.claims, at, at+1)
}

// pod is a pod and where it runs.
type pod struct {
	object *v1.Pod // never changed
	node   string  // empty: pending
	ends   time.Time
}

// claim is a ProvisioningRequest and how long its pods live.
type claim struct {
	*Request
	life time.Duration
}

// arrive adds the pods that are due, and removes those whose life is over.
func (a *Autoscaler) arrive(now time.Time) {
	w := a.own
	w.pods = slices.DeleteFunc(w.pods, func(p *pod) bool { return !p.ends.IsZero() && !p.ends.After(now) })
	for len(w.coming) > 0 && !a.start.Add(w.coming[0].At).After(now) {
		batch := w.coming[0]
		w.coming = w.coming[1:]
		if batch.Request != "" {
			w.claims = append(w.claims, claim{NewRequest(batch.Request, AtomicClass, batch.Pods, now), batch.Life})
			continue
		}
		a.appear(batch.Pods, batch.Life, now)
		a.podsAppeared = true
	}
}

// appear adds pods to the world.
func (a *Autoscaler) appear(pods []*v1.Pod, life time.Duration, now time.Time) {
	var ends time.Time
	if life > 0 {
		ends = now.Add(life)
	}
	for _, object := range pods {
		object = object.DeepCopy()
		object.CreationTimestamp = metav1.Time{Time: now}
		a.own.pods = append(a.own.pods, &pod{object: object, ends: ends})
	}
	a.note(Arrived, "", len(pods), "")
}

// list reads the nodes from the API server: those of the cloud, with Cluster Autoscaler's taint.
func (w *batches) list() {
	w.nodes = w.cloud.SharedNodes()
	if len(w.deleting) == 0 {
		return
	}
	for i, node := range w.nodes {
		if w.deleting[node.Name] {
			marked := *node
			marked.Spec.Taints = append(slices.Clip(node.Spec.Taints), v1.Taint{Key: toBeDeleted, Effect: v1.TaintEffectNoSchedule})
			w.nodes[i] = &marked
		}
	}
}

// schedule is the scheduler: it binds what fits on ready nodes. Pods of nodes that are gone become
// pending again.
func (a *Autoscaler) schedule(now time.Time) error {
	w := a.own
	w.list()
	exists := make(map[string]bool, len(w.nodes))
	for _, node := range w.nodes {
		exists[node.Name] = true
	}
	var pending []*pod
	for _, p := range w.pods {
		if p.node != "" && !exists[p.node] {
			anew := *p.object
			anew.CreationTimestamp = metav1.Time{Time: now}
			p.node, p.object = "", &anew
			a.podsAppeared = true
		}
		if p.node == "" {
			pending = append(pending, p)
		}
	}
	if len(pending) == 0 {
		return nil
	}
	var usable []*v1.Node
	for _, node := range w.nodes {
		if ready(node) && !lastChange(node).Add(a.options.BindDelay).After(now) {
			usable = append(usable, node)
		}
	}
	if len(usable) == 0 {
		return nil
	}
	var at []int
	var err error
	if open := w.withPods(usable); a.options.FirstFit {
		at, err = newSnapshot(a.options.Checker, open).place(objects(pending), firstFit)
	} else {
		at, err = w.scheduler.Bind(open, nil, objects(pending))
	}
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	bound := 0
	for i, node := range at {
		if node >= 0 {
			pending[i].node = usable[node].Name
			bound++
		}
	}
	if bound > 0 {
		a.note(Bound, "", bound, "")
	}
	return nil
}

// withPods puts together nodes and the pods bound to them.
func (w *batches) withPods(nodes []*v1.Node) []predicates.Node {
	pods, out := map[string][]*v1.Pod{}, make([]predicates.Node, len(nodes))
	for _, p := range w.pods {
		pods[p.node] = append(pods[p.node], p.object)
	}
	for i, node := range nodes {
		out[i] = predicates.Node{Node: node, Pods: pods[node.Name]}
	}
	return out
}

func (w *batches) pending() []*pod {
	var out []*pod
	for _, p := range w.pods {
		if p.node == "" {
			out = append(out, p)
		}
	}
	return out
}

func objects(pods []*pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		out[i] = p.object
	}
	return out
}

// Requests implements Requests.
func (w *batches) Requests() []*Request {
	var out []*Request
	for _, c := range w.claims {
		out = append(out, c.Request)
	}
	return out
}

// Booked implements Requests: the pods of provisioned ones that do not run yet.
func (w *batches) Booked() []*v1.Pod {
	var out []*v1.Pod
	for _, p := range w.pods {
		if p.node == "" && p.object.Annotations[RequestAnnotation] != "" {
			out = append(out, p.object)
		}
	}
	return out
}
