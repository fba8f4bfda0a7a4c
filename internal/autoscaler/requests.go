package autoscaler

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The annotations Cluster Autoscaler puts on the pods of a ProvisioningRequest, and the classes that it
// handles: one waits for room on nodes that there are, the other orders nodes for all pods or for none.
const (
	RequestAnnotation  = "autoscaling.x-k8s.io/consume-provisioning-request"
	ClassAnnotation    = "autoscaling.x-k8s.io/provisioning-class-name"
	CheckCapacityClass = "check-capacity.autoscaling.x-k8s.io"
	AtomicClass        = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
)

// How long a ProvisioningRequest waits after a failure.
const (
	firstRetry = time.Minute
	maxRetry   = 10 * time.Minute
)

// Request is a ProvisioningRequest that room is looked for.
type Request struct {
	Name  string // unique
	Class string
	Pods  []*v1.Pod // as Cluster Autoscaler makes them up

	failed time.Time // when there last was no room; zero: it has not been tried
	retry  time.Duration
}

// NewRequest makes a ProvisioningRequest of pods, whose controller it is, created now.
func NewRequest(name, class string, pods []*v1.Pod, now time.Time) *Request {
	r := &Request{Name: name, Class: class}
	controller := true
	for i, object := range pods {
		object = object.DeepCopy()
		object.Name = fmt.Sprintf("%s-%d", name, i)
		object.CreationTimestamp = metav1.Time{Time: now}
		object.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "autoscaling.x-k8s.io/v1", Kind: "ProvisioningRequest", Name: name, UID: types.UID(name), Controller: &controller,
		}}
		if object.Annotations == nil {
			object.Annotations = map[string]string{}
		}
		object.Annotations[RequestAnnotation], object.Annotations[ClassAnnotation] = name, class
		r.Pods = append(r.Pods, object)
	}
	return r
}

// dueAt is when the request is tried next.
func (r *Request) dueAt() time.Time {
	if r.failed.IsZero() {
		return time.Time{}
	}
	return r.failed.Add(r.retry)
}

// Requests is implemented by a World that has ProvisioningRequests.
type Requests interface {
	// Requests are those that have no room yet, in the order in which they are tried.
	Requests() []*Request
	// Booked are pods that room is kept for.
	Booked() []*v1.Pod
	// Tried says whether a request has got room. The pods of one that has may appear.
	Tried(r *Request, provisioned bool)
}

// openRequests are the ProvisioningRequests of the world.
func (a *Autoscaler) openRequests() []*Request {
	if w, ok := a.world.(Requests); ok {
		return w.Requests()
	}
	return nil
}

// nextRequest is the ProvisioningRequest whose pods this loop injects; nil for none.
func (a *Autoscaler) nextRequest(now time.Time) *Request {
	open := a.openRequests()
	if i := slices.IndexFunc(open, func(r *Request) bool { return r.dueAt().Before(now) }); i >= 0 {
		return open[i]
	}
	return nil
}

// provision handles a ProvisioningRequest: it needs room for all of its pods, there or, unless it only
// checks for that, ordered now.
func (a *Autoscaler) provision(v *view, pods []*v1.Pod, now time.Time) (scaled bool, err error) {
	name := pods[0].Annotations[RequestAnnotation]
	open := a.openRequests()
	r := open[slices.IndexFunc(open, func(r *Request) bool { return r.Name == name })]
	var left []*v1.Pod
	if err := a.place(v, pods, &left); err != nil {
		return false, worldError{err}
	}
	var ordered []planned
	if len(left) > 0 && r.Class == AtomicClass {
		ordered, _, err = a.scaleUp(v, left, now, true)
	}
	provisioned := len(left) == 0 || len(ordered) > 0
	if !provisioned {
		r.failed = now
		r.retry = max(min(2*r.retry, maxRetry), firstRetry)
	}
	a.world.(Requests).Tried(r, provisioned)
	return len(ordered) > 0, err
}
