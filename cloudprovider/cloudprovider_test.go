package cloudprovider_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	for _, test := range []struct {
		err              error
		refused, mistake bool
	}{
		{err: cloudprovider.ErrNotImplemented, refused: true},
		{err: cloudprovider.ErrNotFound, refused: true, mistake: true},
		{err: cloudprovider.ErrInvalidDelta, refused: true, mistake: true},
		{err: cloudprovider.ErrAboveMax, refused: true, mistake: true},
		{err: cloudprovider.ErrBelowMin, refused: true, mistake: true},
		{err: cloudprovider.ErrNotInGroup, refused: true, mistake: true},
		{err: cloudprovider.ErrOutOfResources, refused: true},
		{err: cloudprovider.ErrQuotaExceeded, refused: true},
		{err: cloudprovider.ErrUnavailable},
		{err: context.DeadlineExceeded},
		{err: errors.New("something else")},
		{err: nil},
	} {
		t.Run(fmt.Sprint(test.err), func(t *testing.T) {
			err := test.err
			if err != nil {
				err = fmt.Errorf("node group %q: %w", "a", err)
			}
			if got := cloudprovider.Refused(err); got != test.refused {
				t.Errorf("Refused is %v", got)
			}
			if got := cloudprovider.OwnMistake(err); got != test.mistake {
				t.Errorf("OwnMistake is %v", got)
			}
		})
	}
}

func TestNamesOfStates(t *testing.T) {
	for value, want := range map[fmt.Stringer]string{
		cloudprovider.InstanceState(0):         "Unspecified",
		cloudprovider.InstanceRunning:          "Running",
		cloudprovider.InstanceCreating:         "Creating",
		cloudprovider.InstanceDeleting:         "Deleting",
		cloudprovider.InstanceState(7):         "InstanceState(7)",
		cloudprovider.OutOfResourcesErrorClass: "OutOfResources",
		cloudprovider.OtherErrorClass:          "Other",
		cloudprovider.ErrorClass(7):            "ErrorClass(7)",
	} {
		if got := value.String(); got != want {
			t.Errorf("%#v is called %q, want %q", value, got, want)
		}
	}
}

func TestPriceOver(t *testing.T) {
	for _, test := range []struct {
		perHour cloudprovider.Price
		over    time.Duration
		want    string
	}{
		{96_000, time.Hour, "0.096000"},
		{96_000, 15 * time.Minute, "0.024000"},
		{1, 30 * time.Minute, "0.000001"},
		{1, 29 * time.Minute, "0.000000"},
		{cloudprovider.PriceUnit * 30, 876_000 * time.Hour, "26280000.000000"},
		{96_000, -time.Hour, "0.000000"},
		{-96_000, time.Hour, "0.000000"},
		{math.MaxInt64, 2 * time.Hour, "9223372036854.775807"},
		{math.MaxInt64, math.MaxInt64, "9223372036854.775807"},
	} {
		if got := test.perHour.Over(test.over).String(); got != test.want {
			t.Errorf("%v an hour over %v is %s, want %s", test.perHour, test.over, got, test.want)
		}
	}
	for price, want := range map[cloudprovider.Price]string{-1_500_000: "-1.500000", math.MinInt64: "-9223372036854.775808", 0: "0.000000"} {
		if got := price.String(); got != want {
			t.Errorf("%d is printed as %s, want %s", int64(price), got, want)
		}
	}
}

func TestPriceScaleIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Int64Range(0, math.MaxInt64).Draw(t, "price")
		num := rapid.Int64Range(0, math.MaxInt64).Draw(t, "num")
		den := rapid.Int64Range(1, math.MaxInt64).Draw(t, "den")
		want := new(big.Int).Mul(big.NewInt(p), big.NewInt(num))
		want.Add(want, big.NewInt(den/2)).Div(want, big.NewInt(den))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := cloudprovider.Price(p).Scale(num, den); int64(got) != want.Int64() {
			t.Fatalf("%d * %d / %d = %d, want %d", p, num, den, got, want)
		}
	})
}

func TestTemplateCopiesShareNothing(t *testing.T) {
	template := cloudprovider.Template{
		Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"k": "v"}}},
		Pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}},
	}
	dup := template.DeepCopy()
	dup.Node.Labels["k"] = "changed"
	dup.Pods[0].Name = "changed"
	dup.Pods = append(dup.Pods, nil)
	if template.Node.Labels["k"] != "v" || template.Pods[0].Name != "agent" || len(template.Pods) != 1 {
		t.Errorf("changing the copy changed the template: %v", template)
	}
	if empty := (cloudprovider.Template{}).DeepCopy(); empty.Node != nil || empty.Pods != nil {
		t.Errorf("the copy of nothing is %v", empty)
	}
}

func TestFakeNodesAreToldApart(t *testing.T) {
	node := cloudprovider.FakeNode("cloud://a/1", cloudprovider.FakeNodeCreateError)
	if node.Name != "cloud://a/1" || node.Spec.ProviderID != "cloud://a/1" {
		t.Errorf("name %q, provider id %q", node.Name, node.Spec.ProviderID)
	}
	if !cloudprovider.IsFakeNode(node) || cloudprovider.IsFakeNode(&v1.Node{}) {
		t.Error("fake and real nodes are mixed up")
	}
}

func ExampleRefused() {
	for _, err := range []error{
		fmt.Errorf("node group %q: %w", "zone-a", cloudprovider.ErrOutOfResources),
		context.DeadlineExceeded,
	} {
		if cloudprovider.Refused(err) {
			fmt.Println("order elsewhere:", err)
		} else {
			fmt.Println("read the target size first:", err)
		}
	}
	// Output:
	// order elsewhere: node group "zone-a": out of resources
	// read the target size first: context deadline exceeded
}

func ExamplePrice_Over() {
	perHour := cloudprovider.PriceUnit / 10
	fmt.Println(perHour.Over(90 * time.Minute))
	// Output: 0.150000
}
