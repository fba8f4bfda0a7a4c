package steering_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/steering"
)

var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// machine is a node with room for one pod.
func machine(zone string) *v1.Node {
	resources := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"),
		v1.ResourcePods: resource.MustParse("110")}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
		Status:     v1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
}

// Six nodes are needed and Cluster Autoscaler asks for all of them in one group. It is granted two,
// comes back for four, and then for two.
func Example() {
	state, err := steering.New("this process", steering.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sizes := map[string]int{"a": 0, "b": 0, "c": 0}
	const pods = 6
	for now, need := start, pods; need > 0; now = now.Add(time.Second) {
		step := func(e steering.Event) steering.Answer {
			answer, _ := state.Step(now, e)
			return answer
		}
		reading := &steering.Cloud{At: now, Groups: map[string]*steering.Group{}}
		question := steering.Question{Nodes: map[string]*v1.Node{}}
		var pending []int
		for i := range need { // those before have room on nodes to come
			question.Pods = append(question.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(pods - need + i))}})
			pending = append(pending, i)
		}
		for zone, size := range sizes {
			reading.Groups[zone] = &steering.Group{
				NodeGroup: cloudprovider.NodeGroup{ID: zone, MaxSize: 10}, Target: size, Revision: state.Revision(zone),
				Template: cloudprovider.Template{Node: machine(zone)},
			}
			question.Nodes[zone] = machine(zone)
			question.Options = append(question.Options, expander.Offer{Group: zone, NodeCount: need, Pods: pending})
		}
		step(steering.LoopBegins{Began: now, Reading: reading})
		answer := step(steering.Asked{Question: question})
		granted := step(steering.Increase{Group: answer.Group, Delta: need})
		step(steering.Order{}) // the journal is saved, so nothing is refused
		sizes[answer.Group] += granted.Nodes
		step(steering.OrderEnded{Group: answer.Group})
		err := step(steering.Answered{Received: true}).Err
		fmt.Printf("%s: %d of %d, error %v\n", answer.Group, granted.Nodes, need, err)
		need -= granted.Nodes
	}
	fmt.Println(sizes)
	// Output:
	// a: 2 of 6, error <nil>
	// b: 2 of 4, error <nil>
	// c: 2 of 2, error <nil>
	// map[a:2 b:2 c:2]
}
