package fake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
)

// BenchmarkLoop is what one loop of a balancer asks of a cloud: sizes and
// templates of all groups, one node more in each, the next event.
func BenchmarkLoop(b *testing.B) {
	for _, groups := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			config := fake.Config{Quotas: []v1alpha1.ScenarioQuota{{Name: "all", Nodes: new(int64(fake.MaxNodes))}}}
			for i := range groups {
				config.Groups = append(config.Groups, fake.Group{
					ID: fmt.Sprintf("group-%04d", i), Size: 5, MaxSize: 1 << 30, BootTime: time.Minute, Template: template("a"),
				})
			}
			clock := clocktesting.NewFakeClock(epoch)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				cloud, err := fake.New(config, clock)
				if err != nil {
					b.Fatal(err)
				}
				for i := range config.Groups {
					id := config.Groups[i].ID
					if _, err := cloud.TargetSize(ctx, id); err != nil {
						b.Fatal(err)
					}
					if _, err := cloud.Template(ctx, id); err != nil {
						b.Fatal(err)
					}
					if err := cloud.IncreaseSize(ctx, id, 1); err != nil {
						b.Fatal(err)
					}
				}
				if _, ok := cloud.NextEvent(); !ok {
					b.Fatal("nothing happens")
				}
			}
		})
	}
}
