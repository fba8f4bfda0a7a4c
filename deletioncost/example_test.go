package deletioncost_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/deletioncost"
)

// Four pods in two zones: the second pod of each zone goes before the first of any.
func ExampleDecide() {
	labels := map[string]string{"app": "web"}
	in := &deletioncost.Input{Request: deletioncost.Spread}
	for _, zone := range []string{"a", "b"} {
		in.Nodes = append(in.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: zone, Labels: map[string]string{v1.LabelTopologyZone: zone}}})
		for i := range 2 {
			in.Pods = append(in.Pods, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%s%d", zone, i), Labels: labels},
				Spec: v1.PodSpec{NodeName: zone, TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
				}}},
				Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
			})
		}
	}
	d, err := deletioncost.Decide(in)
	fmt.Println(d.Message(), err)
	for _, w := range d.Writes {
		fmt.Println(w.Pod.Name, w.Cost)
	}
	// Output:
	// scaling down could have led to a skew of 2 over topology.kubernetes.io/zone: 2 deletion costs keep it at 1 or less <nil>
	// web-a1 -1
	// web-b1 -1
}
