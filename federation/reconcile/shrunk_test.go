package reconcile

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/federation"
)

// A smaller number counts until the controllers have said for a while that they have acted on all that
// was written. Controllers that keep silent are not waited for forever.
func TestShrunk(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	type step struct {
		from, to int32         // what is written first, if it is not the same
		unseen   bool          // what was written does not show
		acted    bool          // on what shows
		after    time.Duration // how long after that it is looked at
		want     int32         // 0 for all
	}
	for name, steps := range map[string][]step{
		"more":                      {{from: 5, to: 9, acted: true}},
		"fewer":                     {{from: 9, to: 5, want: 5}, {acted: true, want: 5}, {acted: true, after: lag, want: 5}, {acted: true, after: 1}},
		"more again":                {{from: 9, to: 5, want: 5}, {from: 5, to: 9, want: 5}, {acted: true, want: 5}, {acted: true, after: lag + 1}},
		"fewer, and fewer":          {{from: 9, to: 5, want: 5}, {from: 5, to: 4, want: 4}},
		"fewer, but more than once": {{from: 9, to: 5, want: 5}, {from: 5, to: 9, want: 5}, {from: 9, to: 7, want: 5}},
		"fewer once more":           {{from: 9, to: 5, acted: true, want: 5}, {from: 5, to: 4, acted: true, after: lag, want: 4}, {acted: true, after: lag, want: 4}, {acted: true, after: 1}},
		"on what does not show":     {{from: 9, to: 5, unseen: true, acted: true, want: 5}, {unseen: true, acted: true, after: lag + 1, want: 5}, {acted: true, want: 5}},
		"and then not":              {{from: 9, to: 5, acted: true, want: 5}, {after: lag, want: 5}, {acted: true, after: lag, want: 5}},
		"silence":                   {{from: 9, to: 5, want: 5}, {after: patience, want: 5}, {after: 1}},
	} {
		o, at := &outbox{}, now
		for i, s := range steps {
			if s.from != s.to {
				w := federation.Write{Cluster: "a", From: s.from, To: s.to}
				o.send(shop, letter{write: w, at: at})
				o.arrived(shop, w, "5", "")
			}
			at = at.Add(s.after)
			version := "5"
			if s.unseen {
				version = "4"
			}
			o.over(shop, "a", federation.Local{}, version, at)
			if got := ptr.Deref(o.staying(shop, "a", s.acted, at), 0); got != s.want {
				t.Errorf("%s: step %d: %d stay, want %d", name, i, got, s.want)
			}
		}
	}
	o := &outbox{}
	o.send(shop, letter{write: federation.Write{Cluster: "a", From: 9, To: 5}, at: now})
	o.drop(shop, "a")
	if at := o.expires(shop, now); at.Sub(now) != lag+1 { // then it is looked at again
		t.Errorf("expires at %v", at)
	}
	if at := o.expires(shop, now.Add(patience+1)); !at.IsZero() {
		t.Errorf("expires again at %v", at)
	}
}

// A Deployment has acted when it has passed its number on, and its ReplicaSets have acted.
func TestActedOn(t *testing.T) {
	set := func(size int32, observed int64) *appsv1.ReplicaSet {
		r := &appsv1.ReplicaSet{}
		r.Generation, r.Spec.Replicas, r.Status.ObservedGeneration = 3, &size, observed
		return r
	}
	for name, c := range map[string]struct {
		observed int64
		sets     []*appsv1.ReplicaSet
		want     bool
	}{
		"all have acted":          {2, []*appsv1.ReplicaSet{set(0, 3), set(8, 3)}, true},
		"the Deployment has not":  {1, []*appsv1.ReplicaSet{set(8, 3)}, false},
		"a ReplicaSet has not":    {2, []*appsv1.ReplicaSet{set(0, 2), set(8, 3)}, false},
		"they are as they were":   {2, []*appsv1.ReplicaSet{set(5, 3)}, false},
		"they are not there yet":  {2, nil, false},
		"a rollout is on its way": {2, []*appsv1.ReplicaSet{set(3, 3), set(7, 3)}, false},
	} {
		d := &appsv1.Deployment{}
		d.Generation, d.Spec.Replicas, d.Status.ObservedGeneration = 2, ptr.To[int32](8), c.observed
		if got := actedOn(d, c.sets); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
