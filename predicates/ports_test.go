package predicates_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/predicates"
)

// TestInitContainersHoldNoHostPort: of two pods on a node that differ only in whether an init
// container or a container has the host port, one holds it.
func TestInitContainersHoldNoHostPort(t *testing.T) {
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	with := v1.Container{Name: "port", Ports: []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}}
	without := v1.Container{Name: "plain"}
	wants := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "wants"}, Spec: v1.PodSpec{Containers: []v1.Container{with}}}
	for _, c := range []struct {
		on   v1.PodSpec
		fits bool
	}{
		{v1.PodSpec{InitContainers: []v1.Container{with}, Containers: []v1.Container{without}}, true},
		{v1.PodSpec{InitContainers: []v1.Container{without}, Containers: []v1.Container{with}}, false},
	} {
		room := v1.ResourceList{v1.ResourcePods: resource.MustParse("5")}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Capacity: room, Allocatable: room}}
		on := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on"}, Spec: c.on}
		on.Spec.NodeName = node.Name
		fit, err := checker.Fits(nil, []predicates.Node{{Node: node, Pods: []*v1.Pod{on}}}, []*v1.Pod{wants})
		if err != nil {
			t.Fatal(err)
		}
		if got := fit.Passes(0, fit.KindOf(0)); got != c.fits {
			t.Errorf("beside %v: fits is %t, want %t", c.on, got, c.fits)
		}
	}
}
