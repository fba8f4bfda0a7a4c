package replica_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// Six replicas go to zone a first. Two of them have waited for a node for an hour: they are started
// in zone b, and a probe stays in zone a.
func Example() {
	timer := podhealth.Timer{Now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	created := timer.Now.Add(-time.Hour)
	runs := podhealth.Pod{Created: created, Phase: v1.PodRunning, Ready: true, WasReady: true}
	waits := podhealth.Pod{Created: created, Phase: v1.PodPending}
	timeout, stabilization := 5*time.Minute, 5*time.Minute

	a := &replica.Target{Now: replica.Observe(replica.Health{}, 6, podhealth.Count([]podhealth.Pod{runs, runs, runs, runs, waits, waits},
		timeout, timer.Now), &timer)}
	b := &replica.Target{Now: replica.Observe(replica.Health{}, 0, podhealth.Count(nil, timeout, timer.Now), &timer)}
	replica.Learn([]*replica.Target{a, b}, stabilization, &timer)
	fmt.Printf("a runs %d of %d and is able to run %d\n", a.Now.Running, a.Now.Size, *a.Now.Capacity)

	request := apportion.Request{Replicas: 6, Policy: apportion.Priority, Pending: apportion.Trim,
		Targets: []apportion.Target{{Name: "a"}, {Name: "b"}}}
	a.Limit(&request.Targets[0])
	b.Limit(&request.Targets[1])
	result, err := apportion.Distribute(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, target := range []*replica.Target{a, b} {
		r := result.Targets[i]
		target.Assign(request.Targets[i], r, r, result.Unplaced, 1)
		fmt.Printf("%s is to run %d, %d more wait\n", r.Name, target.Desired-target.Pending, target.Pending)
	}
	// Output:
	// a runs 4 of 6 and is able to run 4
	// a is to run 4, 1 more wait
	// b is to run 2, 0 more wait
}
