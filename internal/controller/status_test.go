package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
)

// Events are recorded as before, and the last hundred are remembered: those that repeat the one before once, and of a
// long text only the beginning.
func TestDecisionsAreRemembered(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(now)
	recorder := events.NewFakeRecorder(1000)
	d := &decided{clock: clock}
	r := remembered{recorder, d, clientgoscheme.Scheme}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for i := range 250 {
		clock.SetTime(now.Add(time.Duration(i) * time.Second))
		r.Eventf(pod, nil, v1.EventTypeNormal, "Rescaled", "Balance", "step %d", i/2)
	}
	r.Eventf(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, nil, v1.EventTypeWarning, "Lost", "Probe", "%s", strings.Repeat("ü", 3000))
	if n := len(recorder.Events); n != 251 {
		t.Errorf("%d events were recorded, want 251", n)
	}
	got := d.newest()
	if len(got) != maxDecisions {
		t.Fatalf("%d decisions, want %d", len(got), maxDecisions)
	}
	if lost := got[0]; lost.Object != "Node n" || !lost.Warning || len(lost.Reason) > maxReason || len(lost.Reason) < maxReason-2 {
		t.Errorf("the newest is %+v", lost)
	}
	for i, one := range got[1:] {
		want := Decision{now.Add(time.Duration(249-2*i) * time.Second), "Rescaled", "Pod shop/web", fmt.Sprintf("step %d", 124-i), false}
		if one != want {
			t.Errorf("decision %d is %+v, want %+v", i, one, want)
		}
	}
}
