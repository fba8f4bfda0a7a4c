package linked

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

const (
	flagMaxBalanceDeferral = "max-balance-deferral"
	flagDisableLabelPack   = "disable-label-pack"
	flagIgnoreLabel        = "balancing-ignore-label"
	flagLabel              = "balancing-label"
)

// Flags are the values of the flags that say how evenkeel balances: the autoscaler's own, and those
// of OwnFlags.
type Flags struct {
	IgnoreLabels, Labels                     []string
	MemoryRatio, AllocatableRatio, FreeRatio float64
	OwnFlags
}

// OwnFlags are the flags the autoscaler does not have.
type OwnFlags struct {
	// MaxBalanceDeferral is how long a node that may be removed is kept at most because removing it
	// would make its set uneven. Nil is deferral.Default; 0 keeps no node.
	MaxBalanceDeferral *time.Duration
	// DisabledLabelPacks are the names of label packs that do not apply.
	DisabledLabelPacks []string
}

// Add adds the flags.
func (o *OwnFlags) Add(flags *pflag.FlagSet) {
	o.MaxBalanceDeferral = flags.Duration(flagMaxBalanceDeferral, deferral.Default,
		"How long a node that may be removed is kept at most because removing it would make similar node groups uneven. 0 keeps none.")
	flags.StringArrayVar(&o.DisabledLabelPacks, flagDisableLabelPack, nil,
		"A label pack that does not apply when node groups are compared. Can be used multiple times.")
}

// Deferral is how long a node is kept at most. A flag that cannot be used is refused with an error
// that names it.
func (o OwnFlags) Deferral() (time.Duration, error) {
	limit, err := deferral.Limit(o.MaxBalanceDeferral)
	if err != nil {
		return 0, fmt.Errorf("invalid argument %q for --%s: %w", *o.MaxBalanceDeferral, flagMaxBalanceDeferral, err)
	}
	return limit, nil
}

// Similarity is what says which node groups are similar, as the index takes it. A flag that cannot
// be used is refused with an error that names it.
func (f Flags) Similarity() (nodegroupset.Options, error) {
	if len(f.Labels) > 0 && len(f.IgnoreLabels) > 0 {
		klog.Warning("--balancing-ignore-label has no effect beside --balancing-label, which decides alone")
	}
	out := nodegroupset.Options{
		IgnoreLabels: named(flagIgnoreLabel, f.IgnoreLabels), Labels: named(flagLabel, f.Labels),
		DisabledPacks: f.DisabledLabelPacks,
	}
	for _, ratio := range []struct {
		flag  string
		value float64
		into  **nodegroupset.Ratio
	}{
		{"memory-difference-ratio", f.MemoryRatio, &out.MemoryDifferenceRatio},
		{"max-allocatable-difference-ratio", f.AllocatableRatio, &out.MaxAllocatableDifferenceRatio},
		{"max-free-difference-ratio", f.FreeRatio, &out.MaxFreeDifferenceRatio},
	} {
		// The shortest decimal that reads as the same number is what was typed.
		typed := strconv.FormatFloat(ratio.value, 'g', -1, 64)
		if ratio.value > 1 && !math.IsInf(ratio.value, 0) {
			klog.InfoS("A ratio above 1 counts as 1: no amount differs from a larger one by more than all of it", "flag", ratio.flag, "value", typed)
			typed = "1"
		}
		parsed, err := nodegroupset.ParseRatio(typed)
		if err != nil {
			var invalid *apportion.InvalidError
			if errors.As(err, &invalid) {
				err = errors.New(invalid.Reason)
			}
			return nodegroupset.Options{}, fmt.Errorf("invalid argument %q for --%s: %w", typed, ratio.flag, err)
		}
		*ratio.into = &parsed
	}
	return out, nil
}

// named leaves out labels without a name, which the autoscaler accepts and no node has.
func named(flag string, labels []string) []string {
	out := slices.DeleteFunc(slices.Clone(labels), func(label string) bool { return strings.TrimSpace(label) == "" })
	if len(out) < len(labels) {
		klog.InfoS("A label without a name is left out", "flag", flag)
	}
	return out
}

// namingTheFlag turns the index's refusal of an option into one of the flag.
func namingTheFlag(err error) error {
	var invalid *apportion.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	option, _, _ := strings.Cut(invalid.Path, "[")
	flag := map[string]string{"balancingIgnoreLabels": flagIgnoreLabel, "balancingLabels": flagLabel, "disabledPacks": flagDisableLabelPack}[option]
	return fmt.Errorf("invalid argument %q for --%s: %s", fmt.Sprint(invalid.Value), flag, invalid.Reason)
}
