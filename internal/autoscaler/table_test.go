package autoscaler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

func three(sizes [3]int, boot time.Duration) []fake.Group {
	return []fake.Group{groupOf("a", sizes[0], 100, boot), groupOf("b", sizes[1], 100, boot), groupOf("c", sizes[2], 100, boot)}
}

// What was seen of a real Cluster Autoscaler, release 1.36, with the three strategies.
func TestTheThreeStrategies(t *testing.T) {
	empty, uneven := three([3]int{}, 500*time.Millisecond), three([3]int{1, 3, 6}, 500*time.Millisecond)
	slow := three([3]int{}, time.Minute)
	late := batch{At: 3 * time.Second}
	nine, sixty, four := late, late, late
	nine.Pods, sixty.Pods = podsOf("web", 9, "3"), podsOf("web", 60, "2")
	four.Pods = podsOf("web", 14, "3") // ten of them find room
	tests := map[string]struct {
		strategy strategy
		groups   []fake.Group
		batch    batch
		want     []int
		twice    int
		plans    int // 0: not stated
	}{
		"9 pods, all to the group asked":  {all, empty, nine, []int{9, 0, 0}, 0, 0},
		"9 pods, silent diversion":        {diversion, empty, nine, []int{9, 3, 3}, 6, 0},
		"9 pods, steering":                {steering, empty, nine, []int{3, 3, 3}, 0, 3},
		"1/3/6, all to the group asked":   {all, uneven, four, []int{5, 3, 6}, 0, 0},
		"1/3/6, silent diversion":         {diversion, uneven, four, []int{5, 4, 6}, 1, 0},
		"1/3/6, steering":                 {steering, uneven, four, []int{4, 4, 6}, 0, 2},
		"60 pods, all to the group asked": {all, slow, sixty, []int{30, 0, 0}, 0, 0},
		"60 pods, silent diversion":       {diversion, slow, sixty, []int{30, 10, 10}, 20, 0},
		"60 pods, steering":               {steering, slow, sixty, []int{10, 10, 10}, 0, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := newTrial(t, test.strategy, fake.Config{Groups: test.groups}, clusterConfig{batches: []batch{test.batch}})
			before := x.SharedNodes()
			needed, err := autoscaler.Needed(x.ca.Checker, before, test.groups[0].Template.Node, test.batch.Pods)
			if err != nil {
				t.Fatal(err)
			}
			got := x.settle(t, 30*time.Minute)
			if !slices.Equal(got.Sizes(), test.want) || got.Ordered()-needed != test.twice || test.plans > 0 && got.Increases != test.plans ||
				got.Pending > 0 {
				t.Errorf("sizes %v, %d ordered twice, %d plans, %d pending; want %v, %d, %d", got.Sizes(), got.Ordered()-needed, got.Increases,
					got.Pending, test.want, test.twice, test.plans)
				x.dump(t)
			}
		})
	}
}
