package linked

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/deferral"
)

// What the autoscaler accepts although it means nothing is accepted here, too.
func TestAcceptedFlags(t *testing.T) {
	flags := Flags{MemoryRatio: 1.5, Labels: []string{""}, IgnoreLabels: []string{" ", "pool"}}
	got, err := flags.Similarity()
	if err != nil {
		t.Fatal(err)
	}
	if got.MemoryDifferenceRatio.String() != "1" || len(got.Labels) > 0 || !slices.Equal(got.IgnoreLabels, []string{"pool"}) {
		t.Errorf("%+v", got)
	}
}

func TestRatiosAreExact(t *testing.T) {
	got, err := Flags{MemoryRatio: 0.015, AllocatableRatio: 1e-7, FreeRatio: 0}.Similarity()
	if err != nil {
		t.Fatal(err)
	}
	for want, ratio := range map[string]string{
		"0.015": got.MemoryDifferenceRatio.String(), "0.0000001": got.MaxAllocatableDifferenceRatio.String(),
		"0": got.MaxFreeDifferenceRatio.String(),
	} {
		if ratio != want {
			t.Errorf("%s, want %s", ratio, want)
		}
	}
}

func TestRefusedFlags(t *testing.T) {
	for _, test := range []struct {
		flags Flags
		want  string
	}{
		{Flags{AllocatableRatio: -0.1}, `"-0.1" for --max-allocatable-difference-ratio: must be between 0 and 1`},
		{Flags{FreeRatio: math.NaN()}, `"NaN" for --max-free-difference-ratio: must be a decimal number between 0 and 1`},
		{Flags{MemoryRatio: math.Inf(1)}, `"+Inf" for --memory-difference-ratio: must be a decimal number between 0 and 1`},
		{Flags{OwnFlags: OwnFlags{DisabledLabelPacks: []string{"awz"}}}, `"awz" for --disable-label-pack: is no label pack; known are `},
	} {
		options, err := test.flags.Similarity()
		if err == nil {
			_, err = NewSets[*testTemplate, *testGroup](options, (*testTemplate).read, NewJournal(clocktesting.NewFakePassiveClock(start)))
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// 0 is no deferral, and nothing is the default: as in the sidecar and in scenarios.
func TestMaxBalanceDeferralFlag(t *testing.T) {
	for _, test := range []struct {
		args []string
		want time.Duration
		err  string
	}{
		{nil, deferral.Default, ""},
		{[]string{"--max-balance-deferral=0"}, 0, ""},
		{[]string{"--max-balance-deferral=1m"}, time.Minute, ""},
		{[]string{"--max-balance-deferral=-1s"}, 0, `invalid argument "-1s" for --max-balance-deferral: must not be negative; 0 defers nothing`},
	} {
		var own OwnFlags
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		own.Add(set)
		if err := set.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		got, err := own.Deferral()
		if got != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%v: %v, %v", test.args, got, err)
		}
	}
	if got, err := (OwnFlags{}).Deferral(); got != deferral.Default || err != nil {
		t.Errorf("without flags: %v, %v", got, err)
	}
}
