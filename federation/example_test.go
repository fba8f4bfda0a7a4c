package federation_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/podhealth"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// web runs on premise first, and what does not fit there in the cloud.
func web(replicas int32) v1alpha1.FederatedReplicaSetSpec {
	labels := map[string]v1alpha1.LabelValue{"app": "web"}
	weight := v1alpha1.ClusterPreference{Weight: new(int32(1))}
	return v1alpha1.FederatedReplicaSetSpec{
		Replicas: &replicas,
		Selector: v1alpha1.LabelSelector{MatchLabels: labels},
		Template: v1alpha1.PodTemplate{
			Metadata: v1alpha1.PodTemplateMetadata{Labels: labels},
			Spec:     runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"web","image":"web:1","resources":{"requests":{"cpu":"1"}}}]}`)},
		},
		Preferences: &v1alpha1.FederatedPreferences{Rebalance: true, Clusters: map[string]v1alpha1.FederatedPreference{
			"on-premise": {ClusterPreference: weight, Tier: 0},
			"cloud":      {ClusterPreference: weight, Tier: 1},
		}},
	}
}

// Ten replicas are asked for. Four of them have waited for a node for an hour.
func ExampleDecide() {
	spec := web(10)
	_, startupTimeout := federation.Timeouts(&spec)
	waits := podhealth.Counts{Timeout: startupTimeout, Existing: 10, Running: 6, Ready: 6, Late: 4}
	decision, err := federation.Decide(federation.Input{
		Key:  "shop/web",
		Spec: spec,
		Clusters: []federation.Cluster{
			{Name: "cloud"},
			{Name: "on-premise", Local: federation.Local{Exists: true, Replicas: 10, Revision: federation.Revision(&spec), Normal: waits,
				Act: waits}},
		},
		Now: now,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range decision.Events {
		fmt.Println(e.Reason, e.Message)
	}
	for _, c := range decision.Status.Clusters {
		fmt.Println(c.Name, c.Desired, c.Message)
	}
	// Output:
	// FallbackStarted cluster on-premise runs 6 of 10 replicas, some have not started in time
	// Created created in cluster cloud with 4 replicas: its share by weight, and replicas of on-premise have not started
	// Rescaled scaled cluster on-premise from 10 to 8 replicas: it runs all that it is able to
	// cloud 4 its share by weight, 1 of 1 by the entry "cloud"; tier 1 runs 4 replicas: tiers are filled in order
	// on-premise 8 it runs all that it is able to; tier 0 runs 6 replicas: all that it is able to run; it is known to be able to run 6 replicas; 4 replicas have not started in time; 2 replicas wait there to show when there is room
}

// A cluster refuses the object.
func ExampleAnswered() {
	in := federation.Input{Key: "shop/web", Spec: web(3), Clusters: []federation.Cluster{{Name: "on-premise"}}, Now: now}
	decision, err := federation.Decide(in)
	if err != nil {
		fmt.Println(err)
		return
	}
	status, events := federation.Answered(decision.Status, []federation.Answer{{Write: decision.Writes[0], Refused: "exceeded quota"}}, now)
	fmt.Println(status.Clusters[0].Written, events[0].Message)
	// Output: 0 cluster on-premise did not take 3 replicas, 1 time so far: exceeded quota
}

// Two objects with four pods each, and nodes with room for six: the second one gets what the first
// one leaves, and two replicas wait.
func ExampleLedger() {
	node := func(name string, cores int64) federation.Node {
		return federation.Node{Object: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			Free: podfit.Resources{v1.ResourceCPU: 1000 * cores, v1.ResourcePods: 110}}
	}
	rooms := map[string]federation.Room{"on-premise": {Nodes: []federation.Node{node("n-1", 4), node("n-2", 2)}}}
	ledger := &federation.Ledger{}
	for _, key := range []string{"shop/web", "shop/api"} {
		in := federation.Input{Key: key, Spec: web(4), Clusters: []federation.Cluster{{Name: "on-premise"}}, Now: now}
		decision, err := ledger.Decide(in, rooms)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(key, decision.Status.Clusters[0].Written, "unplaced", decision.Status.Unplaced)
	}
	// Output:
	// shop/web 4 unplaced 0
	// shop/api 4 unplaced 2
}

// The annotation that preferences were given by before.
func ExampleParsePreferences() {
	_, err := federation.ParsePreferences(`{"clusters": {"eu-1": {"minReplicas": 3, "maxReplicas": 2}}}`)
	fmt.Println(err)
	// Output: clusters[eu-1].minReplicas: Invalid value: 3: must not be greater than maxReplicas
}
