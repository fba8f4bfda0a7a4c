package fake_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

func TestCallsThatFail(t *testing.T) {
	increases := []string{fake.MethodIncreaseSize}
	for _, test := range []struct {
		name  string
		fault v1alpha1.CallFault
		steps []step
	}{
		{"the first two", v1alpha1.CallFault{Methods: increases, First: 2, Error: "internal error"}, []step{
			{0, increase("a", 1), cloudprovider.ErrUnavailable, "1 R 1/1"},
			{0, increase("b", 1), cloudprovider.ErrUnavailable, "1 R 1/1"},
			{0, increase("a", 1), nil, "2 RR 2/2"},
		}},
		{"of one group", v1alpha1.CallFault{Methods: increases, Groups: []string{"a"}, Error: "internal error"}, []step{
			{0, increase("a", 1), cloudprovider.ErrUnavailable, "1 R 1/1"},
			{0, increase("b", 1), nil, "1 R 1/1"},
		}},
		{"for a while", v1alpha1.CallFault{Methods: increases, FaultWindow: during(second, 3*second), Error: "internal error"}, []step{
			{0, increase("a", 1), nil, "2 RR 2/2"},
			{1 * second, increase("a", 1), cloudprovider.ErrUnavailable, "2 RR 2/2"},
			{2 * second, increase("a", 1), cloudprovider.ErrUnavailable, "2 RR 2/2"},
			{3 * second, increase("a", 1), nil, "3 RRR 3/3"},
		}},
		{"after it has grown", v1alpha1.CallFault{Methods: increases, First: 1, Error: "timeout", AfterEffect: true}, []step{
			{0, increase("a", 1), cloudprovider.ErrUnavailable, "2 RR 2/2"},
			{0, increase("a", 1), nil, "3 RRR 3/3"},
		}},
		{"after it was refused: the refusal shows", v1alpha1.CallFault{Methods: increases, Error: "timeout", AfterEffect: true}, []step{
			{0, increase("a", 99), cloudprovider.ErrAboveMax, "1 R 1/1"},
		}},
		{"deletions", v1alpha1.CallFault{Methods: []string{fake.MethodDeleteNodes}, First: 1, Error: "internal error"}, []step{
			{0, remove("a", "a-0001"), cloudprovider.ErrUnavailable, "1 R 1/1"},
			{0, remove("a", "a-0001"), nil, "0  0/0"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := abc(1, 1, 1)
			config.Calls = []v1alpha1.CallFault{test.fault}
			play(t, config, test.steps)
		})
	}
}

func TestEveryMethodCanFail(t *testing.T) {
	config := abc(1, 0, 0)
	config.Calls = []v1alpha1.CallFault{{Error: "the cloud is down"}}
	config.Groups[0].Options = &cloudprovider.GroupOptions{}
	cloud, _ := start(t, config)
	ctx := context.Background()
	node := cloudprovider.FakeNode("fake://a/a-0001", "")
	for name, call := range map[string]func() error{
		fake.MethodNodeGroups:         func() error { _, err := cloud.NodeGroups(ctx); return err },
		fake.MethodNodeGroupForNode:   func() error { _, _, err := cloud.NodeGroupForNode(ctx, node); return err },
		fake.MethodTargetSize:         func() error { _, err := cloud.TargetSize(ctx, "a"); return err },
		fake.MethodIncreaseSize:       func() error { return cloud.IncreaseSize(ctx, "a", 1) },
		fake.MethodDecreaseTargetSize: func() error { return cloud.DecreaseTargetSize(ctx, "a", -1) },
		fake.MethodDeleteNodes:        func() error { return cloud.DeleteNodes(ctx, "a", []*v1.Node{node}) },
		fake.MethodNodes:              func() error { _, err := cloud.Nodes(ctx, "a"); return err },
		fake.MethodTemplate:           func() error { _, err := cloud.Template(ctx, "a"); return err },
		fake.MethodOptions: func() error {
			_, err := cloud.Options(ctx, "a", cloudprovider.GroupOptions{})
			return err
		},
		fake.MethodNodePrice: func() error { _, err := cloud.NodePrice(ctx, node, epoch, epoch); return err },
		fake.MethodPodPrice:  func() error { _, err := cloud.PodPrice(ctx, &v1.Pod{}, epoch, epoch); return err },
		fake.MethodRefresh:   func() error { return cloud.Refresh(ctx) },
		fake.MethodCleanup:   func() error { return cloud.Cleanup(ctx) },
	} {
		err := call()
		if !errors.Is(err, cloudprovider.ErrUnavailable) || !strings.Contains(err.Error(), "the cloud is down") ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// slowCloud is a cloud on the bubble's clock whose increases take a minute.
func slowCloud(t *testing.T, afterEffect bool) *fake.Cloud {
	t.Helper()
	config := abc(1, 0, 0)
	config.Calls = []v1alpha1.CallFault{{Methods: []string{fake.MethodIncreaseSize}, Delay: after(time.Minute), AfterEffect: afterEffect}}
	cloud, err := fake.New(config, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	return cloud
}

func TestSlowCalls(t *testing.T) {
	for _, test := range []struct {
		name        string
		afterEffect bool
		timeout     time.Duration
		err         error
		took        time.Duration
		during      string // half a minute into the call
		after       string
	}{
		{"answered late", false, time.Hour, nil, time.Minute, "1 R 1/1", "2 RR 2/2"},
		{"given up: nothing happened", false, 45 * time.Second, context.DeadlineExceeded, 45 * time.Second, "1 R 1/1", "1 R 1/1"},
		{"acts at once, answered late", true, time.Hour, nil, time.Minute, "2 RR 2/2", "2 RR 2/2"},
		{"given up: it has grown all the same", true, 45 * time.Second, context.DeadlineExceeded, 45 * time.Second, "2 RR 2/2", "2 RR 2/2"},
	} {
		slow := func(limit func(context.Context) (context.Context, context.CancelFunc)) func(*testing.T) {
			return func(t *testing.T) {
				cloud := slowCloud(t, test.afterEffect)
				ctx, cancel := limit(t.Context())
				defer cancel()
				began := time.Now()
				done := make(chan error)
				go func() { done <- cloud.IncreaseSize(ctx, "a", 1) }()
				<-time.After(30 * time.Second)
				if got := show(t, cloud, "a"); got != test.during {
					t.Errorf("while the call is running: %q, want %q", got, test.during)
				}
				if err := <-done; !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if got := show(t, cloud, "a"); got != test.after {
					t.Errorf("afterwards: %q, want %q", got, test.after)
				}
			}
		}
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, slow(func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, test.timeout)
			}))
			synctest.Test(t, slow(func(ctx context.Context) (context.Context, context.CancelFunc) {
				return fake.WithTimeout(ctx, test.timeout), func() {}
			}))
		})
	}
}

func TestSlowCallsOnAVirtualClock(t *testing.T) {
	config := abc(1, 0, 0)
	config.Calls = []v1alpha1.CallFault{{Methods: []string{fake.MethodRefresh}, Delay: after(time.Minute), Error: "too late"}}
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := start(t, config)
		done := make(chan error, 1)
		go func() { done <- cloud.Refresh(context.Background()) }()
		synctest.Wait()
		if !clock.HasWaiters() || len(done) != 0 {
			t.Fatal("the call does not wait for the clock")
		}
		clock.Step(time.Minute)
		if err := <-done; !errors.Is(err, cloudprovider.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
	})
}

func TestFirstMatchingFaultActs(t *testing.T) {
	config := abc(1, 1, 0)
	config.Calls = []v1alpha1.CallFault{
		{Groups: []string{"a"}, First: 1, Error: "first"},
		{Error: "second"},
	}
	cloud, _ := start(t, config)
	for _, want := range []string{"first", "second"} {
		if err := increase("a", 1)(cloud); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestCallsAreLogged(t *testing.T) {
	cloud, clock := start(t, abc(1, 0, 0))
	ctx := context.Background()
	clock.Step(time.Second)
	_ = cloud.IncreaseSize(ctx, "a", 2)
	clock.Step(time.Second)
	_ = cloud.IncreaseSize(ctx, "a", 99)
	_ = remove("a", "a-0001")(cloud)

	calls := cloud.Calls()
	if len(calls) != 3 {
		t.Fatalf("%d calls: %+v", len(calls), calls)
	}
	grow, refused, deletion := calls[0], calls[1], calls[2]
	if grow.Method != fake.MethodIncreaseSize || grow.Group != "a" || grow.Delta != 2 || !grow.At.Equal(epoch.Add(time.Second)) ||
		grow.Error != "" {
		t.Errorf("first call: %+v", grow)
	}
	if want := `node group "a": above the maximum size: 99 more than 3, maximum 10`; refused.Error != want {
		t.Errorf("second call: %+v", refused)
	}
	if len(deletion.Nodes) != 1 || deletion.Nodes[0] != "fake://a/a-0001" {
		t.Errorf("third call: %+v", deletion)
	}
	deletion.Nodes[0] = "changed"
	if again := cloud.Calls(); again[2].Nodes[0] == "changed" {
		t.Error("the log is not a copy")
	}
	cloud.ForgetCalls()
	if left := cloud.Calls(); len(left) != 0 {
		t.Errorf("left after forgetting: %v", left)
	}
}
