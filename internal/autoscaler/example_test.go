package autoscaler_test

import (
	"context"
	"fmt"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

// A cloud without a sidecar: nine pods go to the group the expander names, all of them.
func Example() {
	clock := clocktesting.NewFakeClock(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC))
	cloud, err := fake.New(fake.Config{Groups: []fake.Group{groupOf("a", 1, 20, time.Minute), groupOf("b", 3, 20, time.Minute)}}, clock)
	if err != nil {
		fmt.Println(err)
		return
	}
	first := expander.ChooserFunc(func(_ context.Context, r expander.Question) ([]string, error) {
		return []string{r.Options[0].Group}, nil
	})
	loop, err := autoscaler.New(autoscaler.Config{
		Clock: clock, Cloud: cloud,
		Connect: func(int) (autoscaler.Connection, error) {
			return autoscaler.Connection{Provider: cloud, Expander: first}, nil
		},
		Batches: []autoscaler.Batch{{At: 5 * time.Second, Pods: podsOf("web", 9, "3")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	rest, err := loop.Settle(time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := loop.State()
	fmt.Println(rest, state.Sizes(), state.Increases, err)
	// Output: true [6 3] 1 <nil>
}
