package simulate

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// startAt moves all times of the nodes and pods of files so that the run begins now, by default at the
// newest of them: a node that was not ready for an hour then is so for an hour at the start.
func (s *Setup) startAt(now *metav1.Time, at *field.Path) field.ErrorList {
	var newest time.Time
	s.eachTime(func(at *metav1.Time) {
		if at.After(newest) {
			newest = at.Time
		}
	})
	switch {
	case newest.IsZero():
		return nil
	case now == nil:
	case now.Time.Before(newest):
		return field.ErrorList{field.Invalid(at, now.UTC().Format(time.RFC3339), "is before "+newest.UTC().Format(time.RFC3339)+", the newest time of the nodes and pods")}
	default:
		newest = now.Time
	}
	by := epoch.Sub(newest)
	s.eachTime(func(at *metav1.Time) {
		if !at.IsZero() {
			at.Time = at.Add(by)
		}
	})
	for _, p := range s.Pods { // those that are being deleted will be gone in the future
		if at := p.DeletionTimestamp; at != nil {
			at.Time = at.Add(by)
		}
	}
	return nil
}

// eachTime calls f for all times that nodes and pods of files tell.
func (s *Setup) eachTime(f func(*metav1.Time)) {
	ofNode := func(n *v1.Node) {
		f(&n.CreationTimestamp)
		for i := range n.Status.Conditions {
			c := &n.Status.Conditions[i]
			f(&c.LastTransitionTime)
			f(&c.LastHeartbeatTime)
		}
	}
	s.eachNode(ofNode)
	for _, p := range s.Pods {
		f(&p.CreationTimestamp)
		if p.Status.StartTime != nil {
			f(p.Status.StartTime)
		}
	}
	for i := range s.Requests {
		f(&s.Requests[i].Provisioned)
	}
}

// eachNode calls f for all nodes of files.
func (s *Setup) eachNode(f func(*v1.Node)) {
	for _, n := range s.Nodes {
		f(n)
	}
	for i := range s.Cloud.Groups {
		for _, n := range s.Cloud.Groups[i].Nodes {
			f(n)
		}
	}
}
