package autoscaler

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/predicates"
)

// The annotations Cluster Autoscaler puts on the pods of a ProvisioningRequest, and the class that
// is atomic.
const (
	RequestAnnotation = "autoscaling.x-k8s.io/consume-provisioning-request"
	ClassAnnotation   = "autoscaling.x-k8s.io/provisioning-class-name"
	AtomicClass       = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
)

// How long a ProvisioningRequest waits after a failure.
const (
	firstRetry = time.Minute
	maxRetry   = 10 * time.Minute
)

// world is the state that outlives a process of Cluster Autoscaler: pods, nodes' taints,
// ProvisioningRequests.
type world struct {
	batches  []Batch // still to come, by time
	pods     []*pod  // that have appeared, in order
	claims   []*claim
	deleting map[string]bool // names of nodes with the taint
	nodes    []*v1.Node      // as last listed, in the order of the cloud
}

// pod is a pod and where it runs.
type pod struct {
	object *v1.Pod // never changed
	kind   string  // equal for pods of one controller that are equal
	node   string  // empty: pending
	ends   time.Time
}

// claim is a ProvisioningRequest.
type claim struct {
	name        string
	pods        []*v1.Pod // as Cluster Autoscaler makes them up
	kinds       []string
	provisioned bool
	failed      time.Time // when it last was not provisioned
	retry       time.Duration
	life        time.Duration
}

// arrive adds the pods that are due, and removes those whose life is over.
func (a *Autoscaler) arrive(now time.Time) error {
	w := &a.world
	w.pods = slices.DeleteFunc(w.pods, func(p *pod) bool { return !p.ends.IsZero() && !p.ends.After(now) })
	for len(w.batches) > 0 && !a.start.Add(w.batches[0].At).After(now) {
		batch := w.batches[0]
		w.batches = w.batches[1:]
		if batch.Request != "" {
			c, err := newClaim(batch, now)
			if err != nil {
				return err
			}
			w.claims = append(w.claims, c)
			continue
		}
		if err := a.appear(batch.Pods, batch.Life, now); err != nil {
			return err
		}
		a.podsAppeared = true
	}
	return nil
}

// appear adds pods to the world.
func (a *Autoscaler) appear(pods []*v1.Pod, life time.Duration, now time.Time) error {
	var ends time.Time
	if life > 0 {
		ends = now.Add(life)
	}
	for _, object := range pods {
		object = object.DeepCopy()
		object.CreationTimestamp = metav1.Time{Time: now}
		kind, err := kindOf(object)
		if err != nil {
			return err
		}
		a.world.pods = append(a.world.pods, &pod{object: object, kind: kind, ends: ends})
	}
	a.note(Arrived, "", len(pods), "")
	return nil
}

// newClaim makes a ProvisioningRequest, which is the controller of its pods.
func newClaim(batch Batch, now time.Time) (*claim, error) {
	c := &claim{name: batch.Request, life: batch.Life}
	controller := true
	for i, object := range batch.Pods {
		object = object.DeepCopy()
		object.Name = fmt.Sprintf("%s-%d", batch.Request, i)
		object.CreationTimestamp = metav1.Time{Time: now}
		object.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "autoscaling.x-k8s.io/v1", Kind: "ProvisioningRequest", Name: batch.Request, UID: types.UID(batch.Request), Controller: &controller,
		}}
		if object.Annotations == nil {
			object.Annotations = map[string]string{}
		}
		object.Annotations[RequestAnnotation], object.Annotations[ClassAnnotation] = batch.Request, AtomicClass
		kind, err := kindOf(object)
		if err != nil {
			return nil, err
		}
		c.pods, c.kinds = append(c.pods, object), append(c.kinds, kind)
	}
	return c, nil
}

// kindOf distinguishes pods as Cluster Autoscaler does; pods without a controller are all
// different.
func kindOf(object *v1.Pod) (string, error) {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return "", nil
	}
	spec, err := object.Spec.Marshal()
	if err != nil {
		return "", fmt.Errorf("pod %s: %w", object.Name, err)
	}
	return fmt.Sprintf("%s %v %s", owner.UID, object.Labels, spec), nil
}

// list reads the nodes from the API server: those of the cloud, with Cluster Autoscaler's taint.
func (w *world) list(cloud Cloud) {
	w.nodes = cloud.SharedNodes()
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
	w := &a.world
	w.list(a.config.Cloud)
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
	order := Emptiest
	if a.options.FirstFit {
		order = FirstFit
	}
	at, err := a.options.Packing.Snapshot(w.withPods(usable)).Place(objects(pending), order)
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
func (w *world) withPods(nodes []*v1.Node) []predicates.Node {
	index := make(map[string]int, len(nodes))
	out := make([]predicates.Node, len(nodes))
	for i, node := range nodes {
		out[i].Node = node
		index[node.Name] = i
	}
	at, counts, bound := make([]int, len(w.pods)), make([]int, len(nodes)), 0
	for k, p := range w.pods {
		at[k] = -1
		if i, ok := index[p.node]; ok && p.node != "" {
			at[k] = i
			counts[i]++
			bound++
		}
	}
	all := make([]*v1.Pod, bound) // one piece of memory for the lists of all nodes
	for i, n := range counts {
		out[i].Pods, all = all[:0:n], all[n:]
	}
	for k, i := range at {
		if i >= 0 {
			out[i].Pods = append(out[i].Pods, w.pods[k].object)
		}
	}
	return out
}

func (w *world) pending() []*pod {
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

// nextClaim is the ProvisioningRequest whose pods this loop injects; nil for none.
func (w *world) nextClaim(now time.Time) *claim {
	for _, c := range w.claims {
		if !c.provisioned && (c.failed.IsZero() || c.failed.Add(c.retry).Before(now)) {
			return c
		}
	}
	return nil
}

// booked are the pods of provisioned requests that do not run yet.
func (w *world) booked() []*v1.Pod {
	var out []*v1.Pod
	for _, p := range w.pods {
		if p.node == "" && p.object.Annotations[RequestAnnotation] != "" {
			out = append(out, p.object)
		}
	}
	return out
}
