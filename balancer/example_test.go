package balancer_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Six replicas go to spot nodes first. Two of them have waited for a node for an hour.
func ExampleDecide() {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	replicas := int32(6)
	deployment := func(name string) v1alpha1.ScaleTargetReference {
		return v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: name}
	}
	runs := podhealth.Pod{Created: now.Add(-time.Hour), Phase: v1.PodRunning, Ready: true, WasReady: true}
	waits := podhealth.Pod{Created: now.Add(-time.Hour), Phase: v1.PodPending}

	decision, err := balancer.Decide(balancer.Input{
		Key: "shop/web",
		Spec: v1alpha1.BalancerSpec{
			Replicas: &replicas,
			Targets: []v1alpha1.BalancerTarget{
				{Name: "spot", ScaleTargetRef: deployment("web-spot")},
				{Name: "on-demand", ScaleTargetRef: deployment("web")},
			},
			Selector: v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "web"}},
			Policy: v1alpha1.BalancerPolicy{
				PolicyName: v1alpha1.PriorityPolicyName,
				Priorities: &v1alpha1.PriorityPolicy{TargetOrder: []string{"spot", "on-demand"}},
				Fallback:   &v1alpha1.Fallback{StartupTimeout: metav1.Duration{Duration: 5 * time.Minute}},
			},
		},
		Targets: []balancer.TargetObservation{
			{Name: "spot", Replicas: 6, Pods: []podhealth.Pod{runs, runs, runs, runs, waits, waits}},
			{Name: "on-demand"},
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
	// Output:
	// FallbackStarted target spot runs 4 of 6 replicas, some have not started in time
	// Rescaled target on-demand from 0 to 2 replicas: its place in the order, and replicas of spot have not started
}
