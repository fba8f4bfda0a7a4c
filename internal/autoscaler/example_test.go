package autoscaler_test

import (
	"context"
	"fmt"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/predicates"
)

// A cloud without a sidecar: of nine pods four have room on nodes that there are, and the others all go to
// the group the expander names.
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
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := podsOf("web", 9, "3")
	for _, p := range pods {
		p.CreationTimestamp.Time = clock.Now()
	}
	loop, err := autoscaler.New(autoscaler.Config{
		Clock: clock, Cloud: cloud, World: &shrinking{cloud: cloud, wants: pods}, Options: autoscaler.Options{Checker: checker},
		Connection: autoscaler.Connection{Provider: cloud, Expander: first},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	clock.Step(10 * time.Second)
	report, err := loop.Loop()
	fmt.Println(report.ScaleUps[0].Grew(), cloud.Target("a"), cloud.Target("b"), err)
	// Output: 5 6 3 <nil>
}
