package simulate

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// Request is a ProvisioningRequest: Cluster Autoscaler looks for room for its pods before they exist.
type Request struct {
	Name, Namespace, Class string
	Pods                   []*v1.Pod   // except for their names
	Provisioned            metav1.Time // when it got room; zero: not yet
}

// bookedFor is how long room is kept for the pods of a ProvisioningRequest, as by Cluster Autoscaler.
const bookedFor = 10 * time.Minute

// request is a Request in a run.
type request struct {
	*autoscaler.Request
	provisioned time.Time // zero: not yet
}

// requestClasses are the classes that Cluster Autoscaler handles by itself.
var requestClasses = []string{autoscaler.CheckCapacityClass, autoscaler.AtomicClass}

func (l *loader) request(object *document.ProvisioningRequest) (r *Request, why string) {
	conditions := object.Status.Conditions
	for _, ended := range []string{"Failed", "BookingExpired", "CapacityRevoked"} {
		if meta.IsStatusConditionTrue(conditions, ended) {
			return nil, "its condition " + ended + " is true"
		}
	}
	r = &Request{Name: object.Name, Namespace: object.Namespace, Class: object.Spec.ProvisioningClassName}
	if !slices.Contains(requestClasses, r.Class) {
		return nil, "its class is " + r.Class
	}
	if c := meta.FindStatusCondition(conditions, "Provisioned"); c != nil && c.Status == metav1.ConditionTrue {
		r.Provisioned = c.LastTransitionTime
	}
	for i := range object.Spec.PodSets {
		set := &object.Spec.PodSets[i]
		found := find[*v1.PodTemplate](l.objects, r.Namespace, set.PodTemplateRef.Name)
		switch {
		case found == nil:
			return nil, "there is no PodTemplate " + set.PodTemplateRef.Name
		case set.Count < 1 || int(set.Count) > MaxPods-len(r.Pods):
			return nil, fmt.Sprintf("spec.podSets[%d].count is %d: it must be between 1 and %d", i, set.Count, MaxPods-len(r.Pods))
		}
		pod := ownPod(&Workload{Name: object.Name, Namespace: r.Namespace, Kind: object.Kind}, &found.Template, object.APIVersion)
		r.Pods = append(r.Pods, slices.Repeat([]*v1.Pod{pod}, int(set.Count))...)
	}
	if len(r.Pods) == 0 {
		return nil, "it has no pods"
	}
	return r, ""
}

// beginRequests has Cluster Autoscaler look for room from now on.
func (s *simulation) beginRequests() {
	for i := range s.setup.Requests {
		r := &s.setup.Requests[i]
		made := autoscaler.NewRequest(r.Namespace+"/"+r.Name, r.Class, r.Pods, s.clock.Now())
		for i, pod := range made.Pods {
			pod.Name = fmt.Sprintf("%s-%d", r.Name, i)
		}
		s.controllers.requests = append(s.controllers.requests, &request{made, r.Provisioned.Time})
	}
}

// Requests implements autoscaler.Requests.
func (m *model) Requests() []*autoscaler.Request {
	var open []*autoscaler.Request
	for _, r := range m.s.controllers.requests {
		if r.provisioned.IsZero() {
			open = append(open, r.Request)
		}
	}
	return open
}

// requested are the pods of the requests that have no room yet.
func (s *simulation) requested() []*pod {
	var out []*pod
	for _, r := range s.model.Requests() {
		for _, object := range r.Pods {
			out = append(out, &pod{object: object})
		}
	}
	return out
}

// Booked implements autoscaler.Requests: the pods of those that have got room lately, and have not all
// been bound.
func (m *model) Booked() []*v1.Pod {
	var booked []*v1.Pod
	for _, r := range m.s.controllers.requests {
		if !r.provisioned.IsZero() && r.provisioned.Add(bookedFor).After(m.s.clock.Now()) && m.s.using(r) < len(r.Pods) {
			booked = append(booked, r.Pods...)
		}
	}
	return booked
}

// using is how many pods that use the room of a request are bound.
func (s *simulation) using(r *request) (n int) {
	for _, p := range s.cluster.pods {
		if name := p.object.Annotations[autoscaler.RequestAnnotation]; name != "" && p.runs() && p.object.Namespace+"/"+name == r.Name {
			n++
		}
	}
	return n
}

// Tried implements autoscaler.Requests.
func (m *model) Tried(tried *autoscaler.Request, provisioned bool) {
	s := m.s
	text, reason := "no room for %s of ProvisioningRequest %s", v1alpha1.PodsNotProvisioned
	if provisioned {
		text, reason = "room for %s of ProvisioningRequest %s, kept for ten minutes", v1alpha1.PodsProvisioned
		for _, r := range s.controllers.requests {
			if r.Request == tried {
				r.provisioned = s.clock.Now()
			}
		}
	}
	row := s.timeline.add(s.elapsed(), v1alpha1.RowPods, text, spelling.Count(len(tried.Pods), "pod"), tried.Name)
	row.Reason, row.Pods = reason, len(tried.Pods)
}

// bookings calls f with the times at which room is not kept any more.
func (s *simulation) bookings(f func(time.Time)) {
	for _, r := range s.controllers.requests {
		if !r.provisioned.IsZero() {
			f(r.provisioned.Add(bookedFor))
		}
	}
}
