package autoscaler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

// In a synctest bubble the deadline is that of the call: the cloud grows and answers too late.
func TestDeadlinesInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, err := fake.New(fake.Config{
			Groups: three([3]int{}, time.Minute),
			Calls:  []v1alpha1.CallFault{{Methods: []string{fake.MethodIncreaseSize}, First: 1, Delay: after(6 * time.Second), AfterEffect: true}},
		}, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		b := &baseline{Cloud: backend, strategy: steering}
		config := sixtyPods()
		config.clock, config.cloud = clock.RealClock{}, backend
		config.connect = func(int) autoscaler.Connection { return autoscaler.Connection{Provider: b, Expander: b} }
		x := &trial{baseline: b, cluster: newCluster(t, config)}
		wantSizes(t, x, x.settle(t, 30*time.Minute), 10, 15, 15)
	})
}
