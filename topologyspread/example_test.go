package topologyspread_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// Three zones with 1, 1 and 0 matching pods: the next pod goes to the third, and then to any.
func ExampleCounter() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	constraints, err := topologyspread.Hard(pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	zones := topologyspread.NewCounter(&constraints[0])
	for zone, pods := range []int{1, 1, 0} {
		zones.Add(zones.Domain(string(rune('a'+zone))), pods, 1)
	}
	show := func() {
		var allowed [3]bool
		for zone := range allowed {
			allowed[zone] = zones.Allows(zones.Pods(zone))
		}
		fmt.Println(allowed)
	}
	show()
	zones.Place(zones.Domain("c"), 0)
	show()
	// Output:
	// [false false true]
	// [true true true]
}
